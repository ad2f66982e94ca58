"""Closed forms of one round in eps0, the number n of users and delta. Upper bounds, replacement.

With ``E = e^eps0``:

*erlingsson*, Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta 2019, "Amplification by
shuffling: from local to central differential privacy via anonymity", for eps0 <= 1/2, n >= 1000 and
delta < 1/100, also for sequences of randomizers that look at the messages before them:

    epsilon = 12 eps0 sqrt(log(1/delta) / n).

*clones_closed_form*, Feldman, McMillan and Talwar 2021, "Hiding among the clones", Theorem 3.1, in
the form that its authors' code evaluates, which is a little above that of the text; it also holds
for sequences of randomizers that look at the messages before them:

    a = 8 sqrt(E log(4/delta) / n),   c = 8 E / n,
    epsilon = log(1 + (1 - 1/E) / (1 + 1/(E (1 + a + c))) (a + c)).

*strong_clones_closed_form*, Feldman, McMillan and Talwar 2022, "Stronger privacy amplification by
shuffling", with ``r = 1/(E + 1)``. The paper's erratum concerns its mixtures with a third
component; for one randomizer common to all users of the round the bound stands, see
`shuffle_accountant.reductions.clones`:

    epsilon = log(1 + (E - 1)/(E + 1) (sqrt(32 log(4/delta) / (r (n - 1))) + 4 / (r (n - 1)))).

*Extended to a protocol*: to sampled users by ``epsilon -> log(1 + g (e^epsilon - 1))``, ``delta ->
g delta`` (g = users/population), to many rounds by the composition theorem of Kairouz, Oh and
Viswanath, with the best split of delta. A row of the comparison names the theorems it rests on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines.question import (
    Answer,
    OneKind,
    OutsideValidityError,
    PublishedBound,
    Question,
    check_protocol,
    register,
    require,
)
from shuffle_accountant.baselines.strong_composition import split_epsilon
from shuffle_accountant.facades import explain_calls

__all__ = [
    "ClosedForm",
    "OneRoundBound",
    "clones_closed_form",
    "erlingsson",
    "sampled",
    "strong_clones_closed_form",
]

# Epsilon of one round at delta.
Curve = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class OneRoundBound(PublishedBound):
    """A bound of one round from eps0, the number of users, and perhaps the number of values.

    ``valid`` and ``epsilon`` take ``eps0``, ``users`` and ``delta``.

    Attributes:
        interactive: whether it holds for randomizers that look at earlier messages.
        response: whether they also take ``categories``, for k-ary randomized response.
        response_alone: whether it says nothing about other randomizers.
    """

    interactive: bool = False
    response: bool = False
    response_alone: bool = False

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer: the bound of one round, extended to sampled and composed rounds."""
        if not len(question.protocol):
            if not self.response_alone:
                yield Answer(epsilon=0.0, form="any randomizer" if self.response else "")
            return
        try:
            kind = question.one_kind(self.name, interactive=self.interactive)
        except OutsideValidityError as refused:
            if not self.response_alone:
                yield Answer(condition=refused.condition)
            return
        if self.response_alone and kind.categories is None:
            return
        form = "any randomizer" if kind.categories is None else f"k = {kind.categories}"
        via = ("sampling",) * (kind.fraction < 1.0) + ("strong composition",) * (kind.count > 1)
        extended = partial(self._extended, kind, question.delta)
        yield Answer.of(extended, form=form if self.response else "", via=via)

    def _extended(self, kind: OneKind, delta: float) -> float:
        """The bound of one round, sampled and composed."""
        if not self.sound and kind.count > 1:
            require(self.name, f"one round (it is no bound to compose), got {kind.count}")
        arguments: dict[str, Any] = {"eps0": kind.eps0, "users": kind.users}
        arguments |= {"categories": kind.categories} if self.response else {}

        def curve(delta: float) -> float:
            require(self.name, self.valid(**arguments, delta=delta))
            return float(self.epsilon(**arguments, delta=delta))

        return split_epsilon(sampled(curve, kind.fraction), rounds=kind.count, delta=delta)


def sampled(curve: Curve, fraction: float) -> Curve:
    """The curve of a round whose users are that fraction of a population, drawn anew.

    Args:
        curve: epsilon (nats) of the round at delta, if the target takes part.
        fraction: in (0, 1].
    """
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


@dataclass(frozen=True)
class ClosedForm:
    """A bound of one round that is a formula, see `PublishedBound` for the other attributes.

    Attributes:
        condition: given eps0, users and delta, the condition that is not met, or None.
        formula: epsilon (nats), given the same where the condition is met.
    """

    name: str
    source: str
    condition: Callable[[float, int, float], str | None]
    formula: Callable[[float, int, float], float]
    sound: bool = True

    def valid(self, *, eps0: float, users: int, delta: float) -> str | None:
        """The first condition of the theorem that is not met, or None.

        Args:
            eps0: local privacy parameter, nats, finite, >= 0.
            users: messages in the round, >= 1.
            delta: in (0, 1).
        """
        eps0, users = check_protocol(eps0=eps0, users=users)
        return self.condition(eps0, users, validate.open_unit(delta=delta))

    def epsilon(self, *, eps0: float, users: int, delta: float) -> float:
        """Epsilon (nats) of one round.

        Args:
            eps0: local privacy parameter, nats, finite, >= 0.
            users: messages in the round, >= 1.
            delta: in (0, 1).
        """
        require(self.name, self.valid(eps0=eps0, users=users, delta=delta))
        eps0, users = check_protocol(eps0=eps0, users=users)
        return self.formula(eps0, users, validate.open_unit(delta=delta))


def _outside_erlingsson(eps0: float, users: int, delta: float) -> str | None:
    if eps0 > 0.5:
        return f"eps0 <= 0.5, got {eps0:g}"
    if users < 1000:
        return f"users >= 1000, got {users}"
    return None if delta < 0.01 else f"delta < 0.01, got {delta:g}"


def _erlingsson(eps0: float, users: int, delta: float) -> float:
    return 12.0 * eps0 * math.sqrt(-math.log(delta) / users)


def _outside_clones(eps0: float, users: int, delta: float) -> str | None:
    most = math.log(users / (16.0 * _log_inverse(delta)))
    if eps0 > most:
        return f"eps0 <= log(users / (16 log(4/delta))) = {most:.4g}, got {eps0:g}"
    return None


def _clones(eps0: float, users: int, delta: float) -> float:
    size = math.exp(eps0)
    deviation = 8.0 * math.sqrt(size * _log_inverse(delta) / users) + 8.0 * size / users
    gap = -math.expm1(-eps0) / (1.0 + 1.0 / (size * (1.0 + deviation)))
    return math.log1p(gap * deviation)


def _outside_strong(eps0: float, users: int, delta: float) -> str | None:
    # in logarithms, because e^eps0 may overflow
    log_least = math.log(8.0 * _log_inverse(delta)) + eps0 + math.log1p(math.exp(-eps0))
    if math.log(users) <= log_least:
        least = f"{math.exp(log_least):.4g}" if log_least < 700.0 else "1e304"
        return f"users > 8 (e^eps0 + 1) log(4/delta) = {least}, got {users}"
    return None


def _strong(eps0: float, users: int, delta: float) -> float:
    clones = (users - 1.0) / (math.exp(eps0) + 1.0)
    deviation = math.sqrt(32.0 * _log_inverse(delta) / clones) + 4.0 / clones
    return math.log1p(math.tanh(0.5 * eps0) * deviation)


def _log_inverse(delta: float) -> float:
    """``log(4/delta)``; the quotient may overflow."""
    return math.log(4.0) - math.log(delta)


_AUTHORS = "Feldman, McMillan and Talwar"
erlingsson = ClosedForm("erlingsson", "Erlingsson et al. 2019", _outside_erlingsson, _erlingsson)
clones_closed_form = ClosedForm(
    "clones_closed_form", f"{_AUTHORS} 2021, Theorem 3.1", _outside_clones, _clones
)
strong_clones_closed_form = ClosedForm(
    "strong_clones_closed_form", f"{_AUTHORS} 2022, closed form", _outside_strong, _strong
)
register(OneRoundBound, strong_clones_closed_form, about="one round of one randomizer", rank=40)
for _rank, _form in ((50, clones_closed_form), (80, erlingsson)):
    register(OneRoundBound, _form, about="one round, interactive too", interactive=True, rank=_rank)

explain_calls(__name__)
