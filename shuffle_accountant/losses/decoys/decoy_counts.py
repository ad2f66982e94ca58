"""Number of other users who send a decoy, where not all have the same chance to.

The number is a sum of binomial ones, one for each group. Its law is listed on a lattice: the
groups' laws in cells of one width, which is a single count unless there are many thousands of
likely ones, and their convolution, a sum of positive terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.decoys.counts import CountBlocks, bulk, tail_differences
from shuffle_accountant.numerics.binomial import log_pmf, log_pmf_error
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.limits import LIMITS
from shuffle_accountant.numerics.rounding import Array, outwards, roundings, sequential_sum

# Largest number of cells of all groups together.
_CELLS = 4096
# Relative error of the chance of a group, which is a ratio of sums of probabilities.
_ERROR = roundings(64)


@dataclass(frozen=True)
class Decoys:
    """Group of users who all have one chance to be a decoy.

    Attributes:
        users: number of users in the group.
        chance: probability that one of them is a draw of the decoys' distribution, in [0, 1], good
            to 64 roundings.
        idle: ``1 - chance``.
    """

    users: int
    chance: float
    idle: float

    def moved(self, side: Bound) -> Decoys:
        """The group with a chance that is certainly no larger (PESSIMISTIC), or no smaller."""
        if side is Bound.PESSIMISTIC:
            return replace(
                self, chance=self.chance * (1.0 - _ERROR), idle=self.idle + self.chance * _ERROR
            )
        chance = min(self.chance * (1.0 + _ERROR), 1.0)
        return replace(self, chance=chance, idle=max(self.idle - chance * _ERROR, 0.0))


def average(groups: tuple[Decoys, ...]) -> float:
    """Expected number of decoys."""
    return sum(group.users * group.chance for group in groups)


@lru_cache(maxsize=64)
def count_law(
    groups: tuple[Decoys, ...], side: Bound, *, tail: float, resolution: float
) -> CountBlocks:
    """Distribution of the number of decoys, in blocks.

    Args:
        groups: groups of users with a chance of their own to be a decoy.
        side: which way the weights are rounded.
        tail: probability that may be left out; it is `CountBlocks.missing` on either side.
        resolution: a block may be as wide as this fraction of its counts.
    """
    random = [group for group in groups if group.users > 0 and group.chance > 0.0]
    certain = sum(group.users for group in random if group.idle == 0.0)
    random = [group for group in random if group.idle > 0.0]
    share = 0.5 * tail / max(len(random), 1)
    bulks = [bulk(group.users, group.chance, group.idle, share) for group in random]
    width = max(-(-sum(high - low + 1 for low, high in bulks) // _CELLS), 1)
    weight, first, round_off = np.ones(1), certain, 0.0
    for group, (low, high) in zip(random, bulks, strict=True):
        mass, error = _cells(group, low, high, width)
        mass = np.maximum(mass + error if side is Bound.PESSIMISTIC else mass - error, 0.0)
        terms = min(weight.size, mass.size)
        weight = outwards(
            rounded(np.convolve(weight, mass), terms),
            sequential_sum(terms, own=2),
            upper=side is Bound.PESSIMISTIC,
        )
        first += low
        round_off += float(error.sum()) + sequential_sum(mass.size)
    lowest = first + width * np.arange(weight.size, dtype=np.float64)
    blocks = CountBlocks(
        weight=weight,
        low=lowest,
        high=np.minimum(lowest + len(random) * (width - 1), sum(group.users for group in groups)),
        missing=tail + LIMITS.underflow if random else 0.0,
        round_off=round_off,
    )
    return joined(blocks, side, resolution)


def _cells(group: Decoys, low: int, high: int, width: int) -> tuple[Array, Array]:
    """Probabilities of cells of a width from ``low`` on, and bounds on their errors."""
    n = float(group.users)
    if width == 1:
        counts = np.arange(low, high + 1, dtype=np.float64)
        logs = log_pmf(counts, n, group.chance, group.idle)
        mass = rounded(np.exp(logs), 15)
        own = roundings(16) + np.expm1(log_pmf_error(counts, n, group.chance, logs))
        return mass, mass * own
    edges = np.append(np.arange(low, high + 1, width, dtype=np.float64), high + 1.0)
    return tail_differences(edges, n, group.chance, group.idle)


def joined(blocks: CountBlocks, side: Bound, resolution: float, share: float = 0.0) -> CountBlocks:
    """Neighbouring blocks as one where both are within the resolution.

    Args:
        blocks: the law.
        side: which way the weights are rounded.
        resolution: relative width of the likeliest blocks.
        share: the others are wider by this power of how much less likely they are.
    """
    size = blocks.low.size
    if resolution <= 0.0 or size == 1:
        return blocks
    starts = starts_of(blocks, resolution, share)
    if starts.size == size:
        return blocks
    weight = rounded(np.add.reduceat(blocks.weight, starts), size - 1)
    error = sequential_sum(size)
    return CountBlocks(
        weight=outwards(weight, error, upper=side is Bound.PESSIMISTIC),
        low=blocks.low[starts],
        high=np.append(blocks.high[starts[1:] - 1], blocks.high[-1]),
        missing=blocks.missing,
        round_off=blocks.round_off + error,
    )


def starts_of(
    blocks: CountBlocks, resolution: float, share: float, *, spare: float = 0.0
) -> NDArray[np.intp]:
    """Indices of the blocks at which wider blocks begin.

    To spend a given number of blocks where they count most, a width grows like a root of one over
    the density.

    Args:
        blocks: the law.
        resolution: relative width of the likeliest blocks.
        share: the others are wider by this power of how much less likely they are.
        spare: number of counts that every block is wider by.
    """
    place = np.log1p(blocks.low) / np.log1p(resolution)
    if share > 0.0:
        width = (blocks.weight.max() / np.maximum(blocks.weight, 1e-12 * blocks.weight.max())) ** (
            share
        )
        width = width[:-1] + spare / (resolution * (blocks.low[1:] + 1.0))
        place = np.append(0.0, np.cumsum(np.diff(place) / width))
    return np.flatnonzero(np.diff(np.floor(place), prepend=-np.inf))
