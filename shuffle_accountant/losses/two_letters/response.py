"""Counts that hide a k-RR message when the adversary knows which *others* were random.

Theorem 15 of 'Numerical Accounting in the Shuffle Model', with the counts taken jointly. A user
answers at random over the k values with probability gamma. Of the messages that are left after the
adversary has removed those of truthful others, C show one of the target's two values and O another
one, and given both the first value's count is binomial, with

    gap = C / G,   G = (1 + M) C + M O,   M = 2 gamma / (k (1 - gamma)),

because a left message is as likely ``1 - gamma + gamma/k`` as ``gamma/k`` under the two datasets
if it shows one of the two values, and ``gamma/k`` under both otherwise.

Counts are blocked in two ways. Given O, the pair's z is the mean of C signs times ``C / G``; the
mean falls in convex order as C grows and the factor grows, so a block of C takes the one from one
end and the other from the other end. Given C, the divergence is convex in O, so a block of O may be
replaced by its mean (OPTIMISTIC) or by its ends with the same mean (PESSIMISTIC): second order in
its width.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.decoys.counts import (
    CountBlocks,
    bulk,
    count_blocks,
    tail_differences,
)
from shuffle_accountant.losses.two_letters.listing import BinaryBlocks
from shuffle_accountant.numerics.binomial import RUN, log_pmf, log_pmf_error, pmf_runs
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    exponential,
    outwards,
    pairwise_sum,
    roundings,
    sequential_sum,
)

__all__ = ["NumberOfResponses"]

# Least expected number of messages with one of the target's two values for which tables are used:
# fewer have no smooth distribution.
_SMOOTH = 50.0
# From this width on, a block of O ends where the next one begins, which widens it little.
_SHARED_ENDS = 4
# Blocks of O are added up count by count if there are at most the first number of counts for each
# edge, and at most the second number of counts in all distributions; else tails are subtracted.
_ADD_UP_TO, _MOST_ADDED = 32, 1 << 20


@dataclass(frozen=True)
class NumberOfResponses:
    """Distribution of the counts that hide a k-RR message from the weak adversary, k >= 3.

    Attributes:
        categories: k.
        gamma: probability to answer at random, in (0, 1).
        truthful: ``1 - gamma``.
        decoys: number of other users, n - 1 >= 0.
        eps0: local privacy parameter, nats.
    """

    categories: int
    gamma: float
    truthful: float
    decoys: int
    eps0: float

    @property
    def largest(self) -> float:
        """Upper bound of the losses, nats: eps0."""
        return self.eps0

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats: 2 sqrt(C) / G at the expected counts."""
        count = 1.0 + self.decoys * self.pair_rate
        size = (1.0 + self._m) * count + self._m * self.decoys * self.other_rate
        return min(self.eps0, 2.0 * math.sqrt(count) / size)

    @property
    def _m(self) -> float:
        return 2.0 * self.gamma / (self.categories * self.truthful)

    @property
    def _log_m(self) -> float:
        """``log M = log 2 - log(e^eps0 - 1)``, where M itself is too small for a double too."""
        if self.eps0 < 700.0:
            return math.log(self._m)
        return math.log(2.0) - self.eps0

    @property
    def pair_rate(self) -> float:
        """Probability that a decoy shows one of the target's two values at random."""
        return 2.0 * self.gamma / self.categories

    @property
    def other_rate(self) -> float:
        """Probability that a decoy shows any other value at random."""
        return self.gamma * ((self.categories - 2) / self.categories)

    def blocks(self, side: Bound, effort: Effort) -> BinaryBlocks:
        """Blocks of (C, O); the target's own message adds one to C or to O."""
        return _blocks(self, side, effort.tail, effort.resolution, effort.rounds)

    @property
    def table(self) -> Hashable:
        """Key of the table of the profile of a message's letters."""
        return self._letters.table

    def tabled(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms | None:
        """Atoms from the profile of one message; its table serves other numbers of users too."""
        if self.decoys * self.pair_rate < _SMOOTH:
            return None
        if effort.shared:
            return self._letters.shared_atoms(side, edges, effort)
        return self._letters.atoms(side, edges, effort)

    @cached_property
    def _letters(self) -> BlanketLoss:
        """The same loss, of a target among messages and blanks."""
        single = self.gamma / self.categories
        other = self.gamma * ((self.categories - 2) / self.categories)
        keep = self.truthful + single
        letters = LetterPair(
            np.array([keep, single, other, 0.0]),
            np.array([single, keep, other, 0.0]),
            np.array([single, single, other, self.truthful]),
            self.eps0,
        )
        return BlanketLoss((letters,), self.decoys + 1, self.deviation, self.largest)

    def part(
        self, blocks: CountBlocks, others: _Others, side: Bound, *, mine: float, chance: float
    ) -> tuple[Array, Array, Array, Array]:
        """Weight, count, gap and log of the rest of blocks: the target adds ``mine`` to C."""
        low, high = blocks.low[:, None] + mine, blocks.high[:, None] + mine
        other = others.count + (1.0 - mine)
        # the mean of the signs from one end of the block, the factor C / G from the other
        count, scale = (low, high) if side is Bound.PESSIMISTIC else (high, low)
        size = (1.0 + self._m) * scale + self._m * other
        gap = scale / size
        with np.errstate(over="ignore"):  # where the size is close to 0
            ratio = (scale + other) / size
        apart = np.log(scale + other) - np.log(size)
        log_rest = self._log_m + np.where(ratio < math.inf, np.log(ratio), apart)
        weight = chance * blocks.weight[:, None] * others.weight
        return (
            weight.ravel(),
            np.broadcast_to(count, gap.shape).ravel(),
            gap.ravel(),
            log_rest.ravel(),
        )

    def others(
        self, blocks: CountBlocks, side: Bound, tail: float, resolution: float, rounds: float
    ) -> _Others:
        """Distribution of the other values' count O among the decoys, given each block of C."""
        # fewer others are worse; more decoys on the pair leave fewer for them
        trials = self.decoys - (blocks.high if side is Bound.PESSIMISTIC else blocks.low)
        rate = self.other_rate / (self.truthful + self.other_rate)
        idle = self.truthful / (self.truthful + self.other_rate)
        most, least = int(trials.max()), int(trials.min())
        first, last = bulk(least, rate, idle, tail)[0], bulk(most, rate, idle, tail)[1]
        width = self._width(blocks, tail, resolution, rounds)
        edges = np.append(np.arange(first, last + 1, width, dtype=np.float64), last + 1.0)
        return _binned(trials[:, None], rate, idle, edges, side, 2.0 * tail)

    def _width(self, blocks: CountBlocks, tail: float, resolution: float, rounds: float) -> int:
        """Width of blocks of O that costs about the resolution.

        A block of relative width w in G changes the exponent z^2/2 of a tail by z^4 w^2 / 24 at
        most. Of T rounds that share an exponent E, each has z^2 = 2 E / T, and a normal law around
        that: the mean of z^4 is (2 E / T)^2 + 12 E / T but for what does not depend on E.
        """
        centre = float(np.sum(blocks.weight * blocks.low)) / max(float(blocks.weight.sum()), 1e-300)
        size = (1.0 + self._m) * (centre + 1.0) + self._m * self.decoys * self.other_rate
        exponent = min(-math.log(tail), 700.0)
        exponent = exponent / rounds + 3.0 * (1.0 - 1.0 / rounds)
        width = size / max(self._m, 1e-290) * math.sqrt(12.0 * resolution / exponent)
        # losses near the largest depend on the logarithm of C + O
        heard = centre + self.decoys * self.other_rate
        return max(int(min(width, math.sqrt(resolution) * heard)), 1)


@lru_cache(maxsize=512)
def _blocks(
    source: NumberOfResponses, side: Bound, tail: float, resolution: float, rounds: float
) -> BinaryBlocks:
    """The blocks, remembered: one epsilon or delta needs the same ones many times."""
    share = 0.2 * tail
    pair_idle = source.truthful + source.other_rate
    blocks = count_blocks(
        source.decoys, source.pair_rate, pair_idle, side, tail=share, resolution=resolution
    )
    others = source.others(blocks, side, share, resolution, rounds)
    parts = [
        source.part(blocks, others, side, mine=1.0, chance=source.truthful + source.pair_rate),
        source.part(blocks, others, side, mine=0.0, chance=source.other_rate),
    ]
    weight, count, gap, log_rest = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    slack = pairwise_sum()
    weight = outwards(rounded(weight, 3), slack, upper=side is Bound.PESSIMISTIC)
    heard = (count > 0) & (weight > 0.1 * tail / weight.size)
    silent = float(weight[count == 0].sum())
    # what is too unlikely to matter, and counts above the last block, which joined it
    rare = 0.1 * tail + share
    return BinaryBlocks(
        weight=weight[heard],
        count=count[heard],
        gap=gap[heard],
        log_rest=log_rest[heard],
        silent=silent,
        missing=blocks.missing + others.missing + rare,
        round_off=blocks.round_off + others.round_off + slack,
    )


@dataclass(frozen=True, eq=False)
class _Others:
    """Distribution of O given each block of C: values that stand for O, and their weights.

    Attributes:
        count: values of O (not always integers), shape (values,) or (blocks, values).
        weight: conditional probabilities, rounded in the direction, shape (blocks, values).
        missing: bound on the conditional probability that is left out.
        round_off: bound on what rounding added or removed.
    """

    count: Array
    weight: Array
    missing: float
    round_off: float


def _binned(
    n: Array, rate: float, idle: float, edges: Array, side: Bound, missing: float
) -> _Others:
    """Distribution Bin(n, rate) of O in blocks between edges, for each n (shape (numbers, 1))."""
    upper = side is Bound.PESSIMISTIC
    low, high = edges[:-1], edges[1:] - 1.0
    if bool(np.all(low == high)):
        mass, error = _each(edges, n, rate, idle)
    else:
        mass, error = _masses(edges, n, rate, idle)
    weight = mass + error if upper else np.maximum(mass - error, 0.0)
    round_off = float(error.sum(axis=1).max())
    if bool(np.all(low == high)):
        return _Others(np.broadcast_to(low, mass.shape), weight, missing, round_off)
    # sum over o >= j of (o - n rate) f(o) = j (1 - rate) f(j)
    inside = np.minimum(edges, n)
    log_f = log_pmf(inside, n, rate, idle)
    moment = np.where(edges <= n, edges * idle * np.exp(log_f), 0.0)
    wrong = moment * exponential(log_pmf_error(inside, n, rate, log_f), own=4)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (moment[:, :-1] - moment[:, 1:]) / mass
        doubt = (wrong[:, :-1] + wrong[:, 1:] + np.abs(shift) * error) / mass
        doubt += roundings(8) * n
        mean = rounded(n * rate, 4) + shift + (-doubt if upper else doubt)
    mean = np.clip(np.where(np.isfinite(mean), mean, low if upper else high), low, high)
    if not upper:
        return _Others(mean, weight, missing, round_off)
    if float(edges[1] - edges[0]) >= _SHARED_ENDS:
        high = edges[1:]  # which is the next block's low
    share = (mean - low) / np.maximum(high - low, 1.0)
    below, above = weight * (1.0 - share), weight * share
    if float(edges[1] - edges[0]) < _SHARED_ENDS:
        values = np.broadcast_to(np.concatenate([low, high]), (mean.shape[0], 2 * low.size))
        return _Others(values, np.concatenate([below, above], axis=1), missing, round_off)
    split = np.pad(below, ((0, 0), (0, 1))) + np.pad(above, ((0, 0), (1, 0)))
    values = np.broadcast_to(edges, split.shape)
    return _Others(values, split, missing, round_off)


def _masses(edges: Array, n: Array, rate: float, idle: float) -> tuple[Array, Array]:
    """Probabilities of the counts between evenly spaced edges, and bounds on their errors."""
    width = int(edges[1] - edges[0])
    counted = float(edges[-1] - edges[0])
    if counted > _ADD_UP_TO * edges.size or n.size * counted > _MOST_ADDED:
        return tail_differences(edges, n, rate, idle)
    each, off = _each(edges, n, rate, idle)
    starts = (edges[:-1] - edges[0]).astype(np.intp)
    mass, error = (np.add.reduceat(terms, starts, axis=1) for terms in (each, off))
    mass = rounded(mass, width)
    return mass, error + sequential_sum(width, own=ELEMENTARY) * mass


def _each(edges: Array, n: Array, rate: float, idle: float) -> tuple[Array, Array]:
    """Probabilities of all counts from the first to the last edge, and bounds on their errors."""
    size = int(edges[-1] - edges[0])
    first = edges[0] + RUN * np.arange(-(-size // RUN), dtype=np.float64)
    law, moved = pmf_runs(first, n, rate, idle)
    off = law * exponential(moved)[..., None]
    mass, error = (terms.reshape(n.size, -1)[:, :size] for terms in (law, off))
    return mass, error
