"""Flags that several commands share, and the randomizer and the rounds that they stand for."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar, get_type_hints

import typer

import shuffle_accountant as sa
from shuffle_accountant import validation as validate
from shuffle_accountant.cli.parsing import count, flag, one_of
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.registry import SHORT, named, parameters_of, randomizer_kind
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import REDUCTIONS, VARIANTS, attendance

if TYPE_CHECKING:
    from shuffle_accountant.accountant import FourierAccountant
    from shuffle_accountant.rounds.shuffle import ShuffleRound

# Names that help and completion show: those of this package.
NAMES = sorted(LocalRandomizer.kinds)

Eps0 = Annotated[float | None, flag("ε0 of the local randomizer, >= 0.")]
Users = Annotated[int, flag("Users who send a message in each round, >= 1.")]
Rounds = Annotated[int, flag("Number of rounds, >= 0.")]
FromFile = Annotated[
    Path | None, flag("JSON of Protocol.to_dict, for any other rounds than by flags.")
]
Population = Annotated[
    int | None, flag("Draw the users of each round from this many, without replacement.")
]
Colluding = Annotated[int, flag("How many of all users work with the observer.")]
Participation = Annotated[
    float | None,
    flag(
        "Probability, in (0, 1], that each of the users takes part in a round: only if "
        "attendance is secret; otherwise give the fewest who will send as --users."
    ),
]
MinUsers = Annotated[
    int | None, flag("The fewest of the users who will send; by default all of them do.")
]
Categories = Annotated[
    int | None,
    flag("Number of values, >= 2; the randomizer is randomized response unless it is named."),
]
Reduction = Annotated[
    str,
    one_of(
        REDUCTIONS, "Theorem behind the upper end; auto takes the one with the smallest. One of"
    ),
]
Variant = Annotated[
    str | None, one_of(VARIANTS, "Form of the strong reduction, by default the first; one of")
]
Interactive = Annotated[
    bool, flag("A user's randomizer may depend on earlier messages.", "--interactive")
]
Tolerance = Annotated[float, flag("Relative distance of the two ends of ε to aim for.")]
Exposure = Annotated[
    float, flag("Probability, in [0, 1), that a message is recognised as its sender's.")
]
Delta = Annotated[float, flag("δ, in (0, 1).")]
AsJson = Annotated[bool, flag("Print one JSON object.", "--json")]


def picture(of: str) -> Any:
    """The option of a file to draw into."""
    return flag(f"Also draw {of} into this file (.png, .pdf, .svg).")


P = ParamSpec("P")
Flags = TypeVar("Flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRandomizer:
    """A randomizer by name, with the parameters that few randomizers have; each field is a flag."""

    randomizer: Annotated[
        str | None,
        one_of(
            NAMES,
            "Local randomizer; by default the worst of all that have this ε0. Your own: "
            "package.module:Class. Short names: "
            f"{', '.join(SHORT)}. One of",
        ),
    ] = None
    sigma: Annotated[float | None, flag("Standard deviation, for gaussian.")] = None
    buckets: Annotated[int | None, flag("Buckets of hashes, for local-hashing.")] = None
    size: Annotated[int | None, flag("Categories in a message, for subset-selection.")] = None
    dimension: Annotated[int | None, flag("Length of vectors, for privunit and others.")] = None
    radius: Annotated[float | None, flag("Radius of the ball of vectors.")] = None
    delta0: Annotated[
        float | None, flag("Probability with which ε0 may fail, for approximate.")
    ] = None
    noise_multiplier: Annotated[
        float | None, flag("Noise per coordinate over the largest norm, for gaussian-vectors.")
    ] = None
    parameter: Annotated[
        list[str] | None,
        flag(
            "Any other parameter of the randomizer, its value in JSON; may be repeated.",
            metavar="NAME=VALUE",
        ),
    ] = None

    def given(self) -> dict[str, Any]:
        """The randomizer's kind and its parameters, as far as they were typed."""
        every = {field.name: getattr(self, field.name) for field in fields(NamedRandomizer)}
        if self.randomizer is not None:
            every["randomizer"] = randomizer_kind(self.randomizer)
        every |= dict(map(_parameter, every.pop("parameter") or ()))
        return {name: value for name, value in every.items() if value is not None}

    def own(self) -> dict[str, Any]:
        """The flags of the command itself."""
        of_few = {field.name for field in fields(NamedRandomizer)}
        return {name: value for name, value in asdict(self).items() if name not in of_few}

    def maker(self, *, categories: int | None, interactive: bool) -> Callable[..., LocalRandomizer]:
        """Constructor of the randomizer, called with ``eps0=`` if it takes that.

        Without a name it is randomized response of the categories, if given, else any ε0-LDP one.
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
    users: Annotated[int | None, flag("Users who send a message in each round, >= 1.")] = None
    rounds: Rounds = 1
    population: Population = None
    categories: Categories = None
    reduction: Reduction = "auto"
    variant: Variant = None
    others: Annotated[
        list[str] | None,
        flag(
            "Further users with another ε0 of the same randomizer; may be repeated.",
            metavar="EPS0:USERS",
        ),
    ] = None
    colluding: Colluding = 0
    participation: Participation = None
    messages_per_user: Annotated[
        int, flag("Number of messages that every user sends in a round, >= 1.")
    ] = 1
    exposure: Exposure = 0.0
    interactive: Interactive = False
    protocol: FromFile = None
    tolerance: Tolerance = 1e-3

    def question(self) -> dict[str, Any]:
        """The flags as they were typed, those of a named randomizer only if given."""
        if self.protocol is not None:
            return {"protocol": self.composed().to_dict(), "tolerance": self.tolerance}
        every = self.own()
        del every["protocol"]
        # crowds as they are in books are shown as they always were
        for name in ("others", "colluding", "participation", "exposure"):
            if not every[name]:
                del every[name]
        if self.messages_per_user == 1:
            del every["messages_per_user"]
        return every | self.given()

    def one_round(self) -> ShuffleRound:
        """One of the rounds that flags describe."""
        if self.users is None:
            raise ValueError("users or protocol must be given")
        make = self.maker(categories=self.categories, interactive=self.interactive)
        return sa.ShuffleRound(
            make() if self.eps0 is None else make(eps0=self.eps0),
            users=attendance(self.users, participation=self.participation),
            others={make(eps0=eps0): count for eps0, count in map(_group, self.others or ())},
            colluding=self.colluding,
            messages_per_user=self.messages_per_user,
            shuffler=sa.Shuffler(exposure=self.exposure) if self.exposure != 0.0 else None,
            population=self.population,
            reduction=self.reduction,
            variant=self.variant,
        )

    def composed(self, *, rounds: int | None = None) -> sa.Protocol:
        """All rounds: those of the file, or as many as the flag says or is given here."""
        if self.protocol is None:
            count = self.rounds if rounds is None else rounds
            count = validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=count)
            return sa.Protocol([(self.one_round(), count)])
        free = {"protocol", "tolerance"}
        for one in fields(self):
            if one.name not in free and getattr(self, one.name) != one.default:
                name = one.name.replace("_", "-")
                raise ValueError(f"protocol must be left out with {name}: the file says it")
        try:
            text = self.protocol.read_text(encoding="utf-8")
            held = json.loads(text, object_pairs_hook=validate.json_object)
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            path = f"{str(self.protocol)!r:.80}"
            raise ValueError(f"protocol must be JSON in {path}: {why:.120}") from None
        return sa.Protocol.from_dict(held)

    def accountant(self) -> FourierAccountant:
        """An accountant that has recorded the rounds."""
        return sa.FourierAccountant(tolerance=self.tolerance).compose(self.composed())


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
    typed = inspect.signature(kind).parameters.values()
    flags = [one.replace(annotation=hints[one.name]) for one in typed]

    def decorate(command: Callable[Concatenate[Flags, P], None]) -> Callable[..., None]:
        _, *parameters = inspect.signature(command, eval_str=True).parameters.values()
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]

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
