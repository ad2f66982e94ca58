"""Every published bound side by side with the certified bracket, for one protocol.

Bounds that are about one round are extended by named theorems, and the rows say so: to sampled
users by ``epsilon -> log(1 + g (e^epsilon - 1))``, ``delta -> g delta`` (g = users/population), to
many rounds by the composition theorem of Kairouz, Oh and Viswanath, with the best split of delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import epsilon as certified_epsilon
from shuffle_accountant.baselines import (
    blanket_bennett,
    blanket_hoeffding,
    clones_closed_form,
    erlingsson,
    girgis,
    rdp,
    specialised_clones,
    strong_clones_closed_form,
    strong_composition,
)
from shuffle_accountant.baselines.base import OutsideValidityError, require
from shuffle_accountant.randomizers.general import GeneralRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["CERTIFIED", "ComparisonRow", "compare"]

CERTIFIED = "certified"
"""Name of the rows that are this package's own brackets."""

# Epsilon of one round at delta.
Curve = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One bound's answer.

    Attributes:
        name: of the bound; "certified" for this package's bracket.
        form: which of the bound's forms, in a few words; the reduction for a bracket; may be empty.
        via: the theorems that extend a bound of one round to the protocol; may be empty.
        epsilon: nats, the upper end for a bracket; None if the bound does not apply.
        lower: lower end, for a bracket only.
        condition: why the bound does not apply; None if it does.
        sound: whether the bound holds for all it accepts.
        source: authors, year, theorem; for a bracket the reduction.
    """

    name: str
    form: str = ""
    via: tuple[str, ...] = ()
    epsilon: float | None = None
    lower: float | None = None
    condition: str | None = None
    sound: bool
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protocol:
    eps0: float
    users: int
    rounds: int
    delta: float
    population: int | None
    categories: int | None
    tolerance: float

    def round(self, reduction: str = "auto") -> ShuffleRound:
        randomizer = (
            GeneralRandomizer(self.eps0)
            if self.categories is None
            else RandomizedResponse(categories=self.categories, eps0=self.eps0)
        )
        return ShuffleRound(
            randomizer, users=self.users, population=self.population, reduction=reduction
        )

    @property
    def fraction(self) -> float:
        return self.users / (self.population or self.users)


def compare(
    *,
    eps0: float,
    users: int,
    delta: float,
    rounds: int = 1,
    population: int | None = None,
    categories: int | None = None,
    tolerance: float = 1e-3,
) -> list[ComparisonRow]:
    """Epsilon of one protocol by this package and by every published bound.

    Args:
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in each round, >= 1.
        delta: of all rounds together, in (0, 1).
        rounds: number of rounds, >= 0.
        population: if given, the users of each round are drawn from this many.
        categories: if given, the randomizer is randomized response over this many values;
            otherwise any.
        tolerance: relative width of the certified bracket, > 0.

    Returns:
        The certified bracket first, then one row for each bound.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    users = validate.integer(minimum=1, users=users)
    if population is not None:
        population = validate.integer(minimum=users, population=population)
    if categories is not None:
        categories = validate.integer(minimum=2, categories=categories)
    protocol = _Protocol(
        eps0=validate.finite_nonnegative(eps0=eps0),
        users=users,
        rounds=validate.integer(minimum=0, maximum=strong_composition.MOST_ROUNDS, rounds=rounds),
        delta=validate.open_unit(delta=delta),
        population=population,
        categories=categories,
        tolerance=validate.positive(tolerance=tolerance),
    )
    return [*_certified(protocol), *_composed(protocol), *_of_one_round(protocol)]


def _certified(protocol: _Protocol) -> Iterator[ComparisonRow]:
    reductions = ["auto"] if protocol.categories is None else ["auto", "clones"]
    for reduction in reductions:
        found = certified_epsilon(
            protocol.round(reduction),
            delta=protocol.delta,
            rounds=protocol.rounds,
            tolerance=protocol.tolerance,
        )
        yield ComparisonRow(
            name=CERTIFIED,
            form=found.reduction,
            epsilon=found.upper,
            lower=found.lower,
            sound=True,
            source="this package",
        )


def _row(
    bound: Any, epsilon: Callable[[], float], *, form: str = "", via: tuple[str, ...] = ()
) -> ComparisonRow:
    """The bound's answer, or why it does not apply."""
    value, condition = None, None
    try:
        value = epsilon()
    except OutsideValidityError as refused:
        condition = refused.condition
    return ComparisonRow(
        name=bound.name,
        form=form,
        via=via,
        epsilon=value,
        condition=condition,
        sound=bound.sound,
        source=bound.source,
    )


def _composed(protocol: _Protocol) -> Iterator[ComparisonRow]:
    """Bounds that say themselves how they compose."""
    one, rounds, delta = protocol.round(), protocol.rounds, protocol.delta
    yield _row(
        rdp,
        lambda: rdp.epsilon(one, rounds=rounds, delta=delta),
        form="same pair",
    )
    yield _row(
        rdp,
        lambda: rdp.epsilon_as_published(one, rounds=rounds, delta=delta),
        form="same pair, overstated as published",
    )
    yield _row(
        girgis,
        lambda: girgis.epsilon(
            eps0=protocol.eps0,
            users=protocol.users,
            population=protocol.population,
            rounds=rounds,
            delta=delta,
        ),
    )
    yield _row(
        strong_composition,
        lambda: _many_rounds(lambda delta: certified_epsilon(one, delta=delta), protocol),
        form="certified curve of one round",
    )


def _of_one_round(protocol: _Protocol) -> Iterator[ComparisonRow]:
    """Bounds of one round without sampling, extended to the protocol."""
    eps0, users, categories = protocol.eps0, protocol.users, protocol.categories
    closed: dict[str, Any] = {"eps0": eps0, "users": users}
    blanket = closed | {"categories": categories}
    kind = "any randomizer" if categories is None else f"k = {categories}"
    bounds: list[tuple[Any, dict[str, Any], str]] = [
        (strong_clones_closed_form, closed, ""),
        (clones_closed_form, closed, ""),
        (blanket_bennett, blanket, kind),
        (blanket_hoeffding, blanket, kind),
        (erlingsson, closed, ""),
    ]
    via = ("sampling",) * (protocol.fraction < 1.0) + ("strong composition",) * (
        protocol.rounds > 1
    )
    if categories is not None:
        bounds.append((specialised_clones, blanket, kind))
    for bound, arguments, form in bounds:
        yield _row(
            bound,
            lambda bound=bound, arguments=arguments: _extended(bound, arguments, protocol),  # type: ignore[misc]
            form=form,
            via=via,
        )


def _extended(bound: Any, arguments: dict[str, Any], protocol: _Protocol) -> float:
    """The bound of one round, sampled and composed."""
    if not bound.sound and protocol.rounds > 1:
        require(bound.name, f"one round (it is no bound to compose), got {protocol.rounds}")
    return _many_rounds(_sampled(_curve(bound, arguments), protocol.fraction), protocol)


def _curve(bound: Any, arguments: dict[str, Any]) -> Curve:
    """The bound's epsilon of one round without sampling."""

    def epsilon(delta: float) -> float:
        require(bound.name, bound.valid(**arguments, delta=delta))
        return float(bound.epsilon(**arguments, delta=delta))

    return epsilon


def _sampled(curve: Curve, fraction: float) -> Curve:
    """Amplification by sampling that fraction of the users."""
    if fraction == 1.0:
        return curve

    def epsilon(delta: float) -> float:
        if delta >= fraction:
            return 0.0  # who was not drawn loses nothing
        inner = curve(delta / fraction)
        if inner < 30.0:
            return math.log1p(fraction * math.expm1(inner))
        return inner + math.log(fraction + (1.0 - fraction) * math.exp(-inner))

    return epsilon


def _many_rounds(curve: Curve, protocol: _Protocol) -> float:
    """Composition of one round's curve."""
    if protocol.rounds == 0:
        return 0.0
    return strong_composition.split_epsilon(curve, rounds=protocol.rounds, delta=protocol.delta)
