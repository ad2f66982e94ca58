"""Questions to published bounds: a protocol, a delta, and the numbers that bounds need.

Every published bound, a module or an object, has the interface of `PublishedBound`; all arguments
are keyword-only, except for a round or curve. A module registers its bounds at its end. There are
`ProtocolBound` for bounds that say themselves how rounds compose, and
`shuffle_accountant.baselines.closed_forms.OneRoundBound` for those about one round.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.registry import Registry
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound


class OutsideValidityError(ValueError):
    """A bound was asked for outside the range of its theorem.

    Attributes:
        condition: the condition that is not met, as ``valid`` returns it.
    """

    def __init__(self, name: str, condition: str) -> None:
        super().__init__(f"{name} is valid for {condition}")
        self.condition = condition


def require(name: str, condition: str | None) -> None:
    """Raise `OutsideValidityError` if there is a condition that is not met."""
    if condition is not None:
        raise OutsideValidityError(name, condition)


def check_protocol(*, eps0: float, users: int) -> tuple[float, int]:
    """The two numbers that all bounds of one round take, checked."""
    eps0 = validate.finite_nonnegative(eps0=eps0)
    # counts are exact in double precision up to it
    return eps0, validate.integer(minimum=1, maximum=2**53, users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKind:
    """Equal shuffled rounds of a finite eps0, and how many of them there are."""

    round: ShuffleRound
    count: int

    @property
    def eps0(self) -> float:
        """Local privacy parameter, nats, finite."""
        return self.round.randomizer.eps0

    @property
    def users(self) -> int:
        """Messages in each round."""
        return self.round.plain_users

    @property
    def categories(self) -> int | None:
        """Number of values of k-ary randomized response; None for any other randomizer."""
        mixture = self.round.randomizer.mixture
        return None if mixture is None else mixture.categories

    @property
    def fraction(self) -> float:
        """Share of the population that takes part in a round."""
        return self.users / (self.round.population or self.users)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Epsilon of all rounds of a protocol together at delta, in (0, 1)."""

    protocol: Protocol
    delta: float

    @property
    def shuffled(self) -> list[tuple[ShuffleRound, int]]:
        """The shuffled rounds among the rounds, with their counts."""
        return [(one, count) for one, count in self.protocol if isinstance(one, ShuffleRound)]

    def only_shuffled(self, name: str) -> list[tuple[ShuffleRound, int]]:
        """All rounds, for a bound that is about shuffled ones.

        Raises:
            OutsideValidityError: a round of another kind, or of another adjacency.
        """
        kinds = self.shuffled
        if len(kinds) < len(self.protocol.distinct):
            require(name, "shuffled rounds alone")
        if any(one.adjacency is not Adjacency.REPLACE_ONE for one, _ in kinds):
            require(name, f"neighbours that {Adjacency.REPLACE_ONE.value}")
        if not all(one.plain for one, _ in kinds):
            require(name, "one randomizer, a fixed number of users, and nobody who colludes")
        return kinds

    def one_kind(self, name: str, *, interactive: bool = False) -> OneKind:
        """The rounds, for a bound that is about equal rounds of a randomizer with a finite eps0.

        Args:
            name: of the bound.
            interactive: whether the bound holds for randomizers that look at earlier messages.

        Raises:
            OutsideValidityError: the rounds are not of that kind.
        """
        kinds = self.only_shuffled(name)
        if len(kinds) != 1:
            require(name, f"rounds of one kind, got {len(kinds)}")
        ((one, count),) = kinds
        randomizer = one.randomizer
        if randomizer.interactive and not interactive:
            require(name, "a randomizer that is not interactive")
        if randomizer.eps0 == float("inf"):
            require(name, "a finite eps0, got inf")
        return OneKind(round=one, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer of a bound for one protocol: an epsilon, or the condition that is not met.

    Attributes:
        form: which of the bound's forms, in a few words; may be empty.
        via: the theorems that extend a bound of one round to the protocol; may be empty.
        epsilon: nats; None if the bound does not apply.
        condition: why the bound does not apply; None if it does.
    """

    form: str = ""
    via: tuple[str, ...] = ()
    epsilon: float | None = None
    condition: str | None = None

    @classmethod
    def of(
        cls, epsilon: Callable[[], float], *, form: str = "", via: tuple[str, ...] = ()
    ) -> Answer:
        """The answer with this epsilon, or with the condition of the theorem that is not met."""
        try:
            return cls(form=form, via=via, epsilon=epsilon())
        except OutsideValidityError as refused:
            return cls(form=form, via=via, condition=refused.condition)


@dataclass(frozen=True, kw_only=True)
class PublishedBound(ABC):
    """A bound of the literature.

    Attributes:
        name: what the literature calls it, and its module here.
        source: authors, year and number of the theorem.
        sound: whether the bound holds for everything that it accepts. What is not sound is here to
            be compared with, and its docstring says why.
        about: what it is a bound for, in a few words.
        valid: given the arguments of ``epsilon``, None if the bound applies, else the condition of
            its theorem that is not met, in one line with the value. It raises for what is no
            setting at all (a negative number of users), as every function here does.
        epsilon: the bound, nats, finite, >= 0; raises `OutsideValidityError` outside its range.
        delta: the same bound the other way round, where the paper gives a curve.
        rank: place in tables; those without one come last.
    """

    name: str
    source: str
    sound: bool
    about: str
    valid: Callable[..., str | None]
    epsilon: Callable[..., float]
    delta: Callable[..., float] | None = None
    rank: float = 1000.0

    @abstractmethod
    def answers(self, question: Question) -> Iterator[Answer]:
        """The bound's answers for the protocol, one for each of its forms.

        Nothing at all for a protocol that it is not meant for.
        """


@dataclass(frozen=True, kw_only=True)
class ProtocolBound(PublishedBound):
    """A bound whose theorem covers the composition of rounds.

    Attributes:
        forms: for each form, epsilon of a question.
    """

    forms: Mapping[str, Callable[[Question], float]]

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer for each form; no rounds cost nothing."""
        for form, epsilon in self.forms.items():
            if len(question.protocol):
                yield Answer.of(partial(epsilon, question), form=form)
            else:
                yield Answer(form=form, epsilon=0.0)


BOUNDS: Registry[PublishedBound] = Registry(__package__ or "")
"""All bounds, in the order of tables."""


def register(kind: Callable[..., PublishedBound], bound: Any, **details: Any) -> None:
    """Register what has the interface of `PublishedBound` as a bound of a kind.

    Args:
        kind: class of the bound.
        bound: a module's ``__name__``, or an object; wrong calls of a module are explained.
        details: further arguments of the class.
    """
    own = sys.modules[bound] if isinstance(bound, str) else bound
    shared = {name: getattr(own, name) for name in ("name", "source", "sound", "valid", "epsilon")}
    BOUNDS.register(kind(**shared, delta=getattr(own, "delta", None), **details))
    if isinstance(bound, str):
        explain_calls(bound)
