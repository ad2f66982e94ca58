"""Questions to published bounds: a protocol, a delta, and the numbers that bounds need."""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines.base import require
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["OneKind", "Question"]


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
