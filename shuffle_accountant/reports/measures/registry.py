"""Measures as objects: a report goes through all that are registered.

The modules of this package register theirs when the registry is first read; so may anybody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.registry import Registry
from shuffle_accountant.reports.rows import ReportRow
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

if TYPE_CHECKING:
    from shuffle_accountant.order import DSigmaShuffler


ALL_ROUNDS = "all rounds"
"""Scope of what is measured of all rounds together."""

NEIGHBOURS = "knows all others' values; tells two apart"
"""Adversary of differential privacy: knowledge and goal."""

UP = 1.0 + 2e-15
"""Factor that raises an upper bound by more than a few roundings can lower it."""


@dataclass(frozen=True)
class Subject:
    """Subject of a report: recorded rounds, delta, and the shuffler of the order, if any.

    Attributes:
        accountant: has recorded the rounds.
        delta: privacy parameter of all rounds, in (0, 1).
        order: the shuffler of the order in the place of the uniform one, or None.
    """

    accountant: FourierAccountant
    delta: float
    order: DSigmaShuffler | None = None

    @cached_property
    def protocol(self) -> Protocol:
        """The rounds."""
        return Protocol(self.accountant.rounds)

    @cached_property
    def shuffled(self) -> list[tuple[ShuffleRound, int]]:
        """The shuffled rounds among them, with their counts."""
        return [(one, count) for one, count in self.protocol if isinstance(one, ShuffleRound)]

    @property
    def all_shuffled(self) -> bool:
        """Whether all rounds are shuffled rounds."""
        return len(self.shuffled) == len(self.accountant.rounds)

    @property
    def uniform(self) -> bool:
        """Whether the messages are shuffled uniformly."""
        return self.order is None or self.order.alpha == 0.0

    @property
    def adjacency(self) -> str | None:
        """Adjacency of all rounds, in a word; None if there are no rounds."""
        adjacency = self.protocol.adjacency
        return None if adjacency is None else adjacency.value

    @property
    def local_epsilon(self) -> float:
        """Epsilon of all rounds without any shuffling, nats; inf where it is not known."""
        if not self.all_shuffled:
            return math.inf
        if any(one.randomizer.delta0 > 0.0 for one, _ in self.shuffled):
            return math.inf
        return math.fsum(count * one.randomizer.eps0 for one, count in self.shuffled)

    @cached_property
    def epsilon(self) -> Bracket:
        """Certified epsilon of all rounds at delta."""
        return self.accountant.epsilon(delta=self.delta)


class Stage(IntEnum):
    """Position in a report of the rows about all rounds: before or after those of each round."""

    TOGETHER = 1
    """Before the rows about each round."""

    SUMS = 2
    """After them: sums over rounds of what each may tell."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure of all rounds together: a function that makes its rows.

    Attributes:
        name: name of the measure.
        rows: the rows for a subject; none if there is nothing to say.
        rank: place among the measures of its stage; those without one come last.
        stage: where the rows stand.
        uniform: whether it is about messages that are shuffled uniformly; it is left out where a
            shuffler of the order with alpha > 0 takes that place.
    """

    name: str
    rows: Callable[[Subject], Iterable[ReportRow]]
    rank: float = 1000.0
    stage: Stage = Stage.TOGETHER
    uniform: bool = True


@dataclass(frozen=True, kw_only=True)
class RoundMeasure:
    """A measure of one round, given that the target takes part: a function that makes its rows.

    Attributes:
        name: name of the measure.
        rows: the rows for a round and the text that says which rounds it stands for.
        rank: place among the measures of a round; those without one come last.
    """

    name: str
    rows: Callable[[ShuffleRound, str], Iterable[ReportRow]]
    rank: float = 1000.0


MEASURES: Registry[Measure | RoundMeasure] = Registry(__package__ or "")
"""All measures, in the order of a report."""


def largest_entropy(randomizer: LocalRandomizer) -> float | None:
    """Largest entropy of the input, nats; None if its number of values is not known."""
    return None if randomizer.values is None else math.log(randomizer.values)
