"""The flags that say what happens, as one object, and the rounds they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, get_type_hints

import shuffle_accountant as sa
from shuffle_accountant.cli.options import (
    Categories,
    Eps0,
    Interactive,
    Population,
    Reduction,
    Rounds,
    Tolerance,
    Users,
    Variant,
)

if TYPE_CHECKING:
    from shuffle_accountant import FourierAccountant
    from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["Protocol", "of_protocol"]

P = ParamSpec("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """What happens, as typed, in the order of the JSON object; each field is a flag."""

    eps0: Eps0
    users: Users
    rounds: Rounds = 1
    population: Population = None
    categories: Categories = None
    reduction: Reduction = "auto"
    variant: Variant = None
    interactive: Interactive = False
    tolerance: Tolerance = 1e-3

    def accountant(self) -> FourierAccountant:
        """An accountant that has recorded the rounds."""
        one = sa.ShuffleRound(
            self.randomizer(),
            users=self.users,
            population=self.population,
            reduction=self.reduction,
            variant=self.variant,
        )
        return sa.FourierAccountant(tolerance=self.tolerance).compose(one, count=self.rounds)

    def randomizer(self) -> LocalRandomizer:
        """Randomized response if its number of values is given, else any ε0-LDP randomizer."""
        if self.categories is None:
            return sa.GeneralRandomizer(self.eps0, interactive=self.interactive)
        if self.interactive:
            raise ValueError("interactive is for any randomizer; it cannot go with categories")
        return sa.RandomizedResponse(categories=self.categories, eps0=self.eps0)


def of_protocol(command: Callable[Concatenate[Protocol, P], None]) -> Callable[..., None]:
    """A command whose flags are those of the protocol, its first argument, and then its own."""
    hints = get_type_hints(Protocol, include_extras=True)
    flags = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(Protocol)
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        protocol = Protocol(**{flag.name: given.pop(flag.name) for flag in flags})
        command(protocol, **given)  # type: ignore[call-arg]

    # what the parser reads
    run.__signature__ = inspect.Signature([*flags, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {flag.name: flag.annotation for flag in [*flags, *own]}
    return run
