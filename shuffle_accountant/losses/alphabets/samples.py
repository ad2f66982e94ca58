"""Numbers of messages of one round, and ranges of them that share a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.alphabets.shared_profile import ranges_of
from shuffle_accountant.losses.base import Effort

__all__ = ["COARSEST", "NumberRange", "Sample", "SampleSource", "number_ranges", "told_apart"]

COARSEST = 0.05
"""Up to this resolution what is rare is tabulated more coarsely."""

# As many times coarser as this power of its weight is smaller: it may matter more than it weighs.
_RARE = 0.25


@dataclass(frozen=True)
class Sample:
    """Messages in one number.

    Attributes:
        weight: probability of that number, rounded in the direction.
        users: the number; 0 tells nothing.
        fraction: chance that the target's is one of them, rounded in the direction; at most 1.
    """

    weight: float
    users: int
    fraction: float


class SampleSource(Protocol):
    """What the numbers of messages are."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    @property
    def expected(self) -> float:
        """Expected number of messages."""

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        """Samples whose mixture bounds the true one, and the probability of what is left out."""


@dataclass(frozen=True)
class NumberRange:
    """Numbers of messages that share a table.

    Attributes:
        least: the fewest.
        most: the most.
        spread: how many times coarser than usual what is tabulated may be: it is rare.
    """

    least: int
    most: int
    spread: float

    def __contains__(self, users: int) -> bool:
        return self.least <= users <= self.most


@lru_cache(maxsize=16)
def number_ranges(source: SampleSource, effort: Effort) -> tuple[NumberRange, ...]:
    """Ranges of numbers of messages, of both sides so that both share all."""
    every = [one for side in Bound for one in source.samples(side, effort)[0] if one.users]
    numbers = [one.users for one in every]
    found = []
    for least, most in ranges_of(min(numbers), max(numbers), source.expected):
        weights = [one.weight for one in every if least <= one.users <= most]
        if weights:
            # of two sides
            weight = max(0.5 * math.fsum(weights), 1e-300)
            coarsest = COARSEST / effort.resolution
            found.append(NumberRange(least, most, max(min(weight**-_RARE, coarsest), 1.0)))
    return tuple(found)


@lru_cache(maxsize=16)
def told_apart(source: SampleSource, effort: Effort) -> bool:
    """Whether every number of messages between the fewest and the most has samples of its own."""
    samples, _ = source.samples(Bound.OPTIMISTIC, effort)
    numbers = {sample.users for sample in samples if sample.users}
    return len(numbers) == max(numbers, default=0) - min(numbers, default=1) + 1
