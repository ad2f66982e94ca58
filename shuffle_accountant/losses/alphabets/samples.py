"""Numbers of messages of one round, and ranges of them that share a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Array

__all__ = [
    "COARSEST",
    "NumberRange",
    "Sample",
    "SampleSource",
    "every_sample",
    "number_ranges",
    "ranges_by_share",
    "told_apart",
]

COARSEST = 0.05
"""Largest resolution of the tables of rare numbers of messages."""

# Rare numbers of messages are tabulated more coarsely, by one over this power of their share.
_RARE = 0.3
# Numbers of messages within this ratio share the tables of one round: the range of a sum grows with
# the root of it.
_RATIO = 2.0


@dataclass(frozen=True)
class Sample:
    """One number of messages, its probability, and the target's chance to be among them.

    Attributes:
        weight: probability of that number, rounded in the direction.
        users: the number of messages; with 0 nothing is revealed.
        fraction: chance that the target's is one of them, rounded in the direction; at most 1.
    """

    weight: float
    users: int
    fraction: float


class SampleSource(Protocol):
    """Distribution of the number of messages."""

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
        spread: how many times coarser than usual the table may be, because these numbers are rare.
    """

    least: int
    most: int
    spread: float

    def __contains__(self, users: int) -> bool:
        return self.least <= users <= self.most


@lru_cache(maxsize=16)
def number_ranges(source: SampleSource, effort: Effort) -> tuple[NumberRange, ...]:
    """Ranges of numbers of messages, of both sides so that both share all."""
    every = every_sample(source, effort)
    weights = np.array([one.weight for one in every])
    return ranges_by_share(every, weights, source.expected, effort)


def every_sample(source: SampleSource, effort: Effort) -> list[Sample]:
    """Samples of both sides, with a message at least."""
    return [one for side in Bound for one in source.samples(side, effort)[0] if one.users]


def ranges_by_share(
    samples: list[Sample], share: Array, usual: float, effort: Effort
) -> tuple[NumberRange, ...]:
    """Ranges of numbers of messages, coarser where less of the whole is theirs.

    Args:
        samples: with a message at least.
        share: of the whole, for each of them, up to a factor.
        usual: the number that matters most.
        effort: requested accuracy of the whole mixture.
    """
    users = np.array([one.users for one in samples])
    coarsest, found = COARSEST / effort.resolution, []
    for least, most in ranges_of(int(users.min()), int(users.max()), usual):
        there = (least <= users) & (users <= most)
        if there.any():
            part = max(float(share[there].sum() / share.sum()), 1e-300)
            found.append(NumberRange(least, most, max(min(part**-_RARE, coarsest), 1.0)))
    return tuple(found)


def ranges_of(least: int, most: int, usual: float) -> list[tuple[int, int]]:
    """Ranges of about one ratio that hold all numbers of messages, one of them around the usual.

    Args:
        least: the fewest messages, >= 1.
        most: the most.
        usual: the likeliest number.
    """
    step = math.log(_RATIO)
    low, high = (math.floor(math.log(end / usual) / step) for end in (least, most))
    cuts = (usual * _RATIO ** (k + 0.5) for k in range(low - 1, high + 2))
    firsts = sorted({least, *(math.ceil(cut) for cut in cuts if least < cut <= most)})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), most], strict=True))


@lru_cache(maxsize=16)
def told_apart(source: SampleSource, effort: Effort) -> bool:
    """Whether every number of messages between the fewest and the most has samples of its own."""
    samples, _ = source.samples(Bound.OPTIMISTIC, effort)
    numbers = {sample.users for sample in samples if sample.users}
    return len(numbers) == max(numbers, default=0) - min(numbers, default=1) + 1
