"""Counts that hide a k-RR message when the adversary knows which *others* answered at random.

Theorem 15 of 'Numerical Accounting in the Shuffle Model', with the counts taken jointly, for users
who may have probabilities of their own to answer at random: their random answers are uniform over
the k values whatever these are, so only their number J, a sum of binomial ones, depends on them.
Given J, the number of random answers that show one of the target's two values is binomial; with C
such messages in all, the target's included, the first value's count is binomial, with the gap

    C / (C + M (J + 1)),   M = 2 gamma / (k (1 - gamma)),

gamma the target's own. The divergence falls in J (one answer more can be added afterwards). The
pair's z is the mean of C signs times the gap; the mean falls in convex order as C grows and the gap
grows, so a block of C takes the one from one end and the other from the other end. Given C, the
divergence is convex in J, so a block of J may be replaced by its mean (OPTIMISTIC) or by its ends
with the same mean (PESSIMISTIC): second order in its width. Masses and means of blocks are sums
over much smaller ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.counts import CountBlocks, bulk, tail_differences
from shuffle_accountant.losses.decoy_counts import (
    Decoys,
    average,
    count_law,
    joined,
    one_gap,
)
from shuffle_accountant.losses.settings import MIXED_RESPONSES
from shuffle_accountant.losses.two_letters.atoms import BinaryBlocks
from shuffle_accountant.numerics.binomial import log_pmf, log_pmf_error
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Array, Bound, outwards, roundings, sequential_sum


@dataclass(frozen=True)
class NumberOfMixedResponses:
    """Distribution of the counts that hide a k-RR message among groups of users.

    Attributes:
        categories: k >= 2.
        gamma: probability of the target to answer at random, in [0, 1).
        truthful: ``1 - gamma``.
        eps0: the target's local privacy parameter, nats.
        others: the groups, with their own probabilities to answer at random.
    """

    categories: int
    gamma: float
    truthful: float
    eps0: float
    others: tuple[Decoys, ...]

    @property
    def largest(self) -> float:
        """Upper bound of the losses, nats: the target's eps0."""
        return self.eps0

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats, at the expected counts."""
        decoys = average(self.others)
        count = 1.0 + 2.0 * decoys / self.categories
        return min(self.eps0, 2.0 * math.sqrt(count) / (count + self._m * (decoys + 1.0)))

    @property
    def _m(self) -> float:
        return 2.0 * self.gamma / (self.categories * self.truthful)

    @property
    def _log_m(self) -> float:
        """``log M = log 2 - log(e^eps0 - 1)``, where M itself is too small for a double too."""
        if self.eps0 < 700.0:
            return math.log(self._m) if self.gamma > 0.0 else -math.inf
        return math.log(2.0) - self.eps0

    def blocks(self, side: Bound, effort: Effort) -> BinaryBlocks:
        """Blocks of (J, C); the target's own message may add one to C."""
        return _blocks(self, side, effort.tail, effort.resolution)

    def width(self, tail: float, resolution: float) -> float:
        """Relative width of blocks of J that costs about the resolution.

        One of w in ``C + M (J + 1)`` moves a tail's exponent z^2/2 by at most z^4 w^2 / 24.
        """
        messages = average(self.others) + 1.0
        size = self._m * messages
        share = size / (size + 1.0 + 2.0 * messages / self.categories)
        exponent = min(-math.log(tail), 700.0)
        width = math.sqrt(12.0 * resolution / exponent) / max(share, 1e-290)
        return min(width, math.sqrt(resolution))


@lru_cache(maxsize=8)
def _blocks(
    source: NumberOfMixedResponses, side: Bound, tail: float, resolution: float
) -> BinaryBlocks:
    """The blocks, remembered: one epsilon or delta needs the same ones many times."""
    moved = tuple(group.moved(side) for group in source.others)
    share = 0.2 * tail
    every = count_law(moved, side, tail=share, resolution=0.0)
    if source.categories == 2:
        # every random answer is one of the target's two values
        log_rest = source._log_m + math.log(source.truthful)
        return one_gap(joined(every, side, resolution), side, source.truthful, log_rest)
    while True:
        numbers = joined(
            every,
            side,
            resolution,
            MIXED_RESPONSES.share if every.low.size > MIXED_RESPONSES.few else 0.0,
        )
        number = numbers.low if side is Bound.PESSIMISTIC else numbers.high
        edges = _edges(number, source.categories, share, resolution)
        if number.size * edges.size <= 120_000:  # what can be added up in some tenths of a second
            break
        resolution = max(1.5 * resolution, 1e-6)
    return _several_values(source, numbers, number, edges, side, tail, resolution)


def _several_values(
    source: NumberOfMixedResponses,
    numbers: CountBlocks,
    number: Array,
    edges: Array,
    side: Bound,
    tail: float,
    resolution: float,
) -> BinaryBlocks:
    """Blocks of J (with the value that stands for each) and of C."""
    upper = side is Bound.PESSIMISTIC
    weight, error = _shown(number, source.categories, edges)
    weight = numbers.weight[:, None] * np.maximum(weight + error if upper else weight - error, 0.0)
    decoys, weight = _gathered(number, weight, source.width(tail, resolution), side)
    # that the target's own message is one of its two values, or is none
    chance = source.truthful + source.gamma * (2.0 / source.categories)
    rest = source.gamma * ((source.categories - 2) / source.categories)
    messages, parts = decoys + 1.0, []
    for mine, own in ((1.0, chance), (0.0, rest)):
        low, high = edges[:-1] + mine, edges[1:] + (mine - 1.0)
        count, scale = (low, high) if upper else (high, low)
        scale = np.minimum(scale, messages)
        # nothing is asked of blocks without messages, whose size may be too small to divide by
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            size = scale + source._m * messages
            gap = np.where(scale > 0.0, scale / size, 0.0)
            log_rest = source._log_m + np.log(messages / size)
        parts.append((own * weight, np.broadcast_to(count, gap.shape), gap, log_rest))
    mass, count, gap, log_rest = (
        np.concatenate([column.ravel() for column in columns])
        for columns in zip(*parts, strict=True)
    )
    mass = outwards(rounded(mass, 4), roundings(8), upper=upper)
    silent = (count == 0.0) | (gap == 0.0)
    heard = ~silent & (mass > 0.1 * tail / mass.size)
    return BinaryBlocks(
        weight=mass[heard],
        count=count[heard],
        gap=gap[heard],
        log_rest=log_rest[heard],
        silent=float(mass[silent].sum()),
        missing=numbers.missing + 0.5 * tail,
        round_off=numbers.round_off + float((numbers.weight * error.sum(axis=1)).sum()),
    )


def _gathered(number: Array, weight: Array, width: float, side: Bound) -> tuple[Array, Array]:
    """Blocks of J of a relative width: values that stand for J and masses, shape (values, C)."""
    place = np.floor(np.log1p(number) / math.log1p(width))
    starts = np.flatnonzero(np.diff(place, prepend=-np.inf))
    if starts.size == number.size:
        return np.broadcast_to(number[:, None], weight.shape), weight
    upper = side is Bound.PESSIMISTIC
    noise = sequential_sum(number.size, own=4)
    low = number[starts][:, None]
    high = np.append(number[starts[1:] - 1], number[-1])[:, None]
    mass = rounded(np.add.reduceat(weight, starts), number.size)
    mass = outwards(mass, noise, upper=upper)
    moment = np.add.reduceat(
        weight * (number - np.repeat(low[:, 0], np.diff(starts, append=number.size)))[:, None],
        starts,
    )
    moment = rounded(moment, 3 * number.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(mass > 0.0, moment / mass, 0.0)
    # fewer decoys hide less
    mean = np.clip(mean * (1.0 - 4.0 * noise if upper else 1.0 + 4.0 * noise), 0.0, high - low)
    if not upper:
        return low + mean, mass
    share = mean / np.maximum(high - low, 1.0)
    values = np.concatenate([low + 0.0 * mean, high + 0.0 * mean])
    return values, np.concatenate([mass * (1.0 - share), mass * share])


def _edges(number: Array, categories: int, tail: float, resolution: float) -> Array:
    """Edges of blocks of C for all J; beyond them is at most the tail on either side."""
    rate, idle = 2.0 / categories, (categories - 2) / categories
    first = bulk(int(number[0]), rate, idle, tail)[0] if number[0] > 0.0 else 0
    last = bulk(int(number[-1]), rate, idle, tail)[1] if number[-1] > 0.0 else 0
    if last - first < MIXED_RESPONSES.few:
        return np.arange(first, last + 2, dtype=np.float64)
    # a normal law is close enough to say which counts are rare
    mean = 0.5 * (float(number[0]) + float(number[-1])) * rate
    goal = math.sqrt(2.0 * MIXED_RESPONSES.share * min(-math.log(tail), 700.0))
    reach = max(mean - first, last - mean, 1.0)
    places = np.geomspace(first + 1.0, last + 2.0, 1024) - 1.0  # interpolated in between
    away = np.minimum(np.abs(places - mean) / reach, 1.0)
    width = np.maximum(resolution * (places + 1.0) * np.exp(0.5 * (goal * away) ** 2), 1.0)
    step = 0.5 * (1.0 / width[1:] + 1.0 / width[:-1]) * np.diff(places)
    index = np.append(0.0, np.cumsum(step))
    edges = np.floor(np.interp(np.arange(math.ceil(index[-1]) + 1), index, places))
    return np.unique(
        np.concatenate([[first], edges[(edges > first) & (edges <= last)], [last + 1]])
    )


def _shown(number: Array, categories: int, edges: Array) -> tuple[Array, Array]:
    """Probabilities of the blocks of C (columns) given J (rows), and bounds on their errors."""
    n, rate, idle = number[:, None], 2.0 / categories, (categories - 2) / categories
    if edges[-1] - edges[0] > edges.size - 1:
        return tail_differences(np.broadcast_to(edges, (n.size, edges.size)), n, rate, idle)
    counts = edges[:-1]
    logs = log_pmf(np.minimum(counts, n), n, rate, idle)
    mass = np.where(counts <= n, np.exp(logs), 0.0)
    error = mass * np.expm1(log_pmf_error(counts, n, rate, logs))
    return mass, error
