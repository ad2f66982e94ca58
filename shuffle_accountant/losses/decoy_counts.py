"""Numbers of other users who send a decoy, and of those who are clones of a binary target.

*Decoys.* The number is a sum of binomial ones, one for each group. Its law is listed on a lattice:
the groups' laws in cells of one width, which is a single count unless there are many thousands of
likely ones, and their convolution, a sum of positive terms.

*Clones of a binary target*, whose decoys are its clones, or blank. The target sends letter 0 with
probability ``u`` (dataset X) or ``v`` (dataset X'), letter 1 otherwise, ``u + v = 1`` and ``u/v =
e^eps0``; a decoy sends each letter with probability rate/2 and the blank else. So ``m = C + 1``
with C ~ Bin(n - 1, rate) under both datasets, and the gap is ``u - v = tanh(eps0 / 2)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.counts import CountBlocks, block_masses, bulk, count_blocks
from shuffle_accountant.losses.settings import COMBINED
from shuffle_accountant.losses.two_letters.atoms import BinaryBlocks
from shuffle_accountant.losses.two_letters.clone_table import clone_table, tabled_atoms
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Bound,
    log_ratio_above,
    outwards,
    roundings,
    sequential_sum,
)


@dataclass(frozen=True)
class NumberOfClones:
    """One binary target among ``decoys`` decoys.

    Attributes:
        gap: ``u - v``, in [0, 1], good to a few units in its last place.
        log_rest: logarithm of ``1 - gap``, which may be too small for a double.
        largest: ``log(u/v)``, rounded up where it is rounded, nats; ``inf`` if the target never
            lies. No loss is larger.
        decoys: number of decoys, n - 1 >= 0.
        rate: probability that a decoy is not blank.
        idle: ``1 - rate``.
    """

    gap: float
    log_rest: float
    largest: float
    decoys: int
    rate: float
    idle: float

    @classmethod
    def from_eps0(cls, eps0: float, *, decoys: int, rate: float, idle: float) -> Self:
        """The clones of a target that has ``u/v = e^eps0``, eps0 in [0, inf]."""
        log_rest = math.log(2.0) - eps0 - math.log1p(math.exp(-eps0))
        return cls(math.tanh(0.5 * eps0), log_rest, eps0, decoys, rate, idle)

    @classmethod
    def from_chances(cls, u: float, v: float, *, decoys: int, rate: float, idle: float) -> Self:
        """The clones of a target that sends its two letters in the ratio u : v, u >= v >= 0, u > 0.

        Here u and v need not add up to 1.
        """
        largest = log_ratio_above(np.array([u]), np.array([v]))
        log_rest = math.log(2.0) + math.log(v) - math.log(u + v) if v > 0.0 else -math.inf
        return cls((u - v) / (u + v), log_rest, float(largest[0]), decoys, rate, idle)

    @property
    def deviation(self) -> float:
        """``2 gap / sqrt(expected m)``, but not more than the largest loss."""
        return min(self.largest, 2.0 * self.gap / math.sqrt(1.0 + self.decoys * self.rate))

    def blocks(self, side: Bound, effort: Effort) -> BinaryBlocks:
        """Blocks of m; PESSIMISTIC takes each block's smallest count, OPTIMISTIC its largest."""
        found = count_blocks(
            *(self.decoys, self.rate, self.idle, side),
            tail=effort.tail,
            resolution=effort.resolution,
        )
        return one_gap(found, side, self.gap, self.log_rest)

    def tabled(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms | None:
        """The atoms from a table that almost all clones share; None if blocks are as good."""
        if self.gap == 0.0 or self.largest == math.inf:
            return None
        # a lower bound's cells are finer; both sides share one table
        step = float(edges(0.0)[1]) * (1 if side is Bound.PESSIMISTIC else SUBCELLS)
        table = clone_table(step, self.gap, effort.resolution, effort.tail)
        if table is None:
            return None
        return tabled_atoms(
            table, side, self.decoys, self.rate, self.idle, gap=self.gap, log_rest=self.log_rest
        )


def one_gap(decoys: CountBlocks, side: Bound, gap: float, log_rest: float) -> BinaryBlocks:
    """Blocks of the target's message and its decoys, all of which carry one of its letters.

    PESSIMISTIC takes each block's smallest count, OPTIMISTIC its largest.
    """
    count = (decoys.low if side is Bound.PESSIMISTIC else decoys.high) + 1.0
    gaps, log_rests = np.full(count.size, gap), np.full(count.size, log_rest)
    return BinaryBlocks(
        decoys.weight, count, gaps, log_rests, 0.0, decoys.missing, decoys.round_off
    )


@dataclass(frozen=True)
class Decoys:
    """Group of users who all have one chance to be a decoy.

    Attributes:
        users: their number.
        chance: probability that one of them is a decoy, in [0, 1], good to 64 roundings.
        idle: ``1 - chance``.
    """

    users: int
    chance: float
    idle: float

    def moved(self, side: Bound) -> Decoys:
        """The group with a chance that is certainly no larger (PESSIMISTIC), or no smaller."""
        error = roundings(64)  # of a ratio of sums of probabilities
        if side is Bound.PESSIMISTIC:
            return replace(
                self, chance=self.chance * (1.0 - error), idle=self.idle + self.chance * error
            )
        chance = min(self.chance * (1.0 + error), 1.0)
        return replace(self, chance=chance, idle=max(self.idle - chance * error, 0.0))


def average(groups: tuple[Decoys, ...]) -> float:
    """Expected number of decoys."""
    return sum(group.users * group.chance for group in groups)


@lru_cache(maxsize=64)
def count_law(
    groups: tuple[Decoys, ...], side: Bound, *, tail: float, resolution: float
) -> CountBlocks:
    """Distribution of the number of decoys, in blocks, with weights rounded to the side.

    A tail may be left out: it is `CountBlocks.missing` on either side. Blocks are as in `joined`.
    """
    random = [group for group in groups if group.users > 0 and group.chance > 0.0]
    certain = sum(group.users for group in random if group.idle == 0.0)
    random = [group for group in random if group.idle > 0.0]
    share = 0.5 * tail / max(len(random), 1)
    bulks = [bulk(group.users, group.chance, group.idle, share) for group in random]
    width = max(-(-sum(high - low + 1 for low, high in bulks) // COMBINED.most_cells), 1)
    weight, first, round_off = np.ones(1), certain, 0.0
    for group, (low, high) in zip(random, bulks, strict=True):
        edges = np.append(np.arange(low, high + 1, width, dtype=np.float64), high + 1.0)
        mass, error = block_masses(edges, group.users, group.chance, group.idle)
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


def joined(blocks: CountBlocks, side: Bound, resolution: float, share: float = 0.0) -> CountBlocks:
    """Neighbouring blocks as one where both are within the resolution; see `starts_of`."""
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
        width = np.maximum(blocks.weight / blocks.weight.max(), 1e-12) ** -share
        width = width[:-1] + spare / (resolution * (blocks.low[1:] + 1.0))
        place = np.append(0.0, np.cumsum(np.diff(place) / width))
    return np.flatnonzero(np.diff(np.floor(place), prepend=-np.inf))
