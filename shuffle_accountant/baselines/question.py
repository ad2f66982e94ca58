"""Questions to published bounds: a protocol, a delta, and the numbers that bounds need.

The interface of every published bound, module or object, and checks they share.

* ``name``: what the literature calls it; ``source``: authors, year and number of the theorem.
* ``sound``: whether the bound holds for everything that it accepts. What is not sound is here to be
  compared with, and its docstring says why.
* ``valid(...)``: given the arguments of ``epsilon``, None if the bound applies, else the condition
  of its theorem that is not met, in one line with the value. It raises for what is no setting at
  all (a negative number of users), as every function here does.
* ``epsilon(...)``: the bound, nats, finite, >= 0; outside its range of validity it raises
  `OutsideValidityError`, a `ValueError`, with that line. It never returns NaN.
* ``delta(...)``: the same bound the other way round, where the paper gives a curve.

All arguments are keyword-only, except for the round (or curve) that `rdp` and `strong_composition`
are about. At its end the module registers all of that as one object
(`shuffle_accountant.baselines.registry`), with how it extends to sampled and composed rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["OneKind", "OutsideValidityError", "Question", "check_protocol", "require"]

# Largest number of users: counts are exact in double precision up to it.
_MOST_USERS = 2**53


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
    return eps0, validate.integer(minimum=1, maximum=_MOST_USERS, users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneKind:
    """Equal shuffled rounds, by the parameters that closed forms take.

    Attributes:
        round: each round.
        count: how many of them.
        eps0: local privacy parameter, nats, finite.
        users: messages in each round.
        population: users that those of each round are drawn from; None if all take part.
        categories: number of values of k-ary randomized response; None for any other randomizer.
    """

    round: ShuffleRound
    count: int
    eps0: float
    users: int
    population: int | None
    categories: int | None

    @property
    def fraction(self) -> float:
        """Share of the population that takes part in a round."""
        return self.users / (self.population or self.users)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Epsilon of a protocol at delta.

    Attributes:
        protocol: the rounds.
        delta: of all rounds together, in (0, 1).
    """

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
        mixture = randomizer.mixture
        return OneKind(
            round=one,
            count=count,
            eps0=randomizer.eps0,
            users=one.plain_users,
            population=one.population,
            categories=None if mixture is None else mixture.categories,
        )
