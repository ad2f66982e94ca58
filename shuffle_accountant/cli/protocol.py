"""The flags that say what happens, as objects, and the randomizer and rounds they stand for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer

import shuffle_accountant as sa
from shuffle_accountant import validation as validate
from shuffle_accountant.cli.options import (
    Buckets,
    Categories,
    Colluding,
    Delta0,
    Dimension,
    Eps0,
    Interactive,
    NoiseMultiplier,
    Others,
    Parameter,
    Participation,
    Population,
    Radius,
    Randomizer,
    Reduction,
    Rounds,
    Sigma,
    Size,
    Tolerance,
    Users,
    Variant,
)
from shuffle_accountant.cli.parsing import count
from shuffle_accountant.randomizers.registry import named, parameters_of, randomizer_kind
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import attendance

if TYPE_CHECKING:
    from shuffle_accountant import FourierAccountant, ShuffleRound
    from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["NamedRandomizer", "Protocol", "with_flags_of"]

P = ParamSpec("P")
Flags = TypeVar("Flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRandomizer:
    """A randomizer by name, with the parameters that few randomizers have; each field is a flag."""

    randomizer: Randomizer = None
    sigma: Sigma = None
    buckets: Buckets = None
    size: Size = None
    dimension: Dimension = None
    radius: Radius = None
    delta0: Delta0 = None
    noise_multiplier: NoiseMultiplier = None
    parameter: Parameter = None

    def given(self) -> dict[str, Any]:
        """The randomizer's kind and its parameters, as far as they were typed."""
        every = {field.name: getattr(self, field.name) for field in fields(NamedRandomizer)}
        if every["randomizer"] is not None:
            every["randomizer"] = randomizer_kind(every["randomizer"])
        every |= dict(map(_parameter, every.pop("parameter") or ()))
        return {name: value for name, value in every.items() if value is not None}

    def maker(self, *, categories: int | None, interactive: bool) -> Callable[..., LocalRandomizer]:
        """Constructor of the randomizer, called with ``eps0=`` if it takes that.

        Without a name it is randomized response if its number of values is given, else any
        ε0-LDP randomizer.
        """
        parameters = self.given()
        name = parameters.pop("randomizer", None)
        if name is None:
            name = "general" if categories is None else "randomized-response"
            if interactive and categories is not None:
                raise ValueError("interactive is for any randomizer; it cannot go with categories")
        if categories is not None:
            parameters["categories"] = categories
        if interactive:
            parameters["interactive"] = True
        return partial(named, name, **parameters)

    def takes_eps0(self) -> bool:
        """Whether ε0 is a parameter of the randomizer."""
        return self.randomizer is None or "eps0" in parameters_of(self.randomizer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol(NamedRandomizer):
    """The rounds as typed, fields in the order of the JSON object; each field is a flag."""

    eps0: Eps0 = None
    users: Users
    rounds: Rounds = 1
    population: Population = None
    categories: Categories = None
    reduction: Reduction = "auto"
    variant: Variant = None
    others: Others = None
    colluding: Colluding = 0
    participation: Participation = None
    interactive: Interactive = False
    tolerance: Tolerance = 1e-3

    def question(self) -> dict[str, Any]:
        """The flags as they were typed, those of a named randomizer only if given."""
        every = asdict(self)
        for field in fields(NamedRandomizer):
            del every[field.name]
        # crowds as they are in books are shown as they always were
        for name in ("others", "colluding", "participation"):
            if not every[name]:
                del every[name]
        return every | self.given()

    def one_round(self) -> ShuffleRound:
        """One of the rounds."""
        make = self.maker(categories=self.categories, interactive=self.interactive)
        users = attendance(self.users, participation=self.participation)
        groups = map(_group, self.others or ())
        return sa.ShuffleRound(
            make() if self.eps0 is None else make(eps0=self.eps0),
            users=users,
            others={make(eps0=eps0): count for eps0, count in groups},
            colluding=self.colluding,
            population=self.population,
            reduction=self.reduction,
            variant=self.variant,
        )

    def accountant(self) -> FourierAccountant:
        """An accountant that has recorded the rounds."""
        rounds = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=self.rounds)
        accountant = sa.FourierAccountant(tolerance=self.tolerance)
        return accountant.compose(self.one_round(), count=rounds)


def _parameter(typed: str) -> tuple[str, Any]:
    """``NAME=VALUE`` as a name and a value."""
    name, equals, value = typed.partition("=")
    if not equals:
        raise ValueError(f"--parameter must be NAME=VALUE, such as step=0.5, got {typed!r:.60}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _group(typed: str) -> tuple[float, int]:
    """``EPS0:USERS`` as numbers."""
    try:
        eps0, users = typed.split(":")
        return float(eps0), count(users)
    except (ValueError, typer.BadParameter):
        raise ValueError(
            f"others must be EPS0:USERS, such as 1.5:2000, got {typed!r:.60}"
        ) from None


def with_flags_of(
    kind: type[Flags],
) -> Callable[[Callable[Concatenate[Flags, P], None]], Callable[..., None]]:
    """Makes a command whose flags are the fields of a class, its first argument, and its own."""
    hints = get_type_hints(kind, include_extras=True)
    flags = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)  # type: ignore[arg-type]
    ]

    def decorate(command: Callable[Concatenate[Flags, P], None]) -> Callable[..., None]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            command(kind(**{flag.name: given.pop(flag.name) for flag in flags}), **given)  # type: ignore[call-arg]

        # what the parser reads; in the help, what few need comes last
        rare = {field.name for field in fields(NamedRandomizer)}
        every = sorted([*flags, *own], key=lambda flag: flag.name in rare)
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        run.__annotations__ = {flag.name: flag.annotation for flag in every}
        return run

    return decorate
