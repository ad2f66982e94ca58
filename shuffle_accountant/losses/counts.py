"""Number of informative decoys: the distribution of C ~ Bin(n - 1, rate), in blocks.

Revealing one more decoy is a post-processing, so the divergence given C = c falls as c grows. A
block of counts may therefore be replaced by its smallest (PESSIMISTIC) or its largest (OPTIMISTIC)
member. This is what makes the cost flat in the number of users.

Certified probabilities of counts, from their ratios.

Weights start at 1 at the mode and go outwards by multiplying ratios, each of which is a short
formula; what is cut off is bounded by a geometric series. No special functions are needed, and
relative errors are known for each count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.settings import COUNTS
from shuffle_accountant.numerics.binomial import (
    CHANCE,
    log_pmf,
    log_pmf_error,
    log_upper_tail,
    tail_ratio_error,
)
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    pairwise_sum,
    product,
    roundings,
    sequential_sum,
)
from shuffle_accountant.randomizers.count_laws import CountLaw


@dataclass(frozen=True, eq=False)
class CountTable:
    """Probabilities of the counts ``first``, ``first + 1`` and so on.

    Attributes:
        first: the smallest count.
        probabilities: of the counts, shape (m,).
        error: bounds on their relative errors, shape (m,).
        cut: upper bound on the probability of all other counts.
    """

    first: int
    probabilities: Array
    error: Array
    cut: float

    @property
    def counts(self) -> Array:
        """The counts, shape (m,)."""
        return self.first + np.arange(self.probabilities.size, dtype=np.float64)


@lru_cache(maxsize=32)
def count_table(law: CountLaw) -> CountTable:
    """The probabilities of all counts that are not cut off; `ValueError` if too many matter."""
    up, above = _away(law, 1)
    down, below = _away(law, -1)
    first = law.centre - down.size
    steps = np.abs(np.arange(-down.size, up.size + 1, dtype=np.float64))
    own = law.roundings + 1.0  # of a ratio, and of the multiplication or division by it
    weights = rounded(np.concatenate([down[::-1], [1.0], up]), own * steps)
    error = roundings(own * steps)
    total = rounded(float(np.sum(weights)), 4)
    # A thousandth more: four million counts are rounded by less than 1e-8, and a tail that ends
    # there falls by a factor of 1 - 1e-5 or less at each count, so its series is off by less too.
    cut = 1.001 * (above + below) / total
    # the total's own error: that of its terms, of the sum, and what is cut off
    off = float(np.sum(weights * error)) / total * 2.0 + pairwise_sum(own=4) + cut
    probabilities = weights / total
    return CountTable(first, probabilities, product(error, off), cut)


def _away(law: CountLaw, step: int) -> tuple[Array, float]:
    """Weights of counts above (step 1) or below the mode (-1), whose own is 1; and of the rest.

    The last is a bound; all are up to rounding.
    """
    weights: list[Array] = [np.empty(0)]
    end, size, last, start = (law.most if step > 0 else 0), 256, 1.0, law.centre
    while start != end and last >= COUNTS.least:
        listed = np.arange(int(min(size, abs(end - start))), dtype=np.float64)
        # the ratio at c leads from c to c - 1
        ratios = 1.0 / law.ratios(start + 1.0 + listed) if step > 0 else law.ratios(start - listed)
        block = np.asarray(last * np.cumprod(ratios), np.float64)
        # the first one below is kept
        block = block[: int(np.searchsorted(-block, -COUNTS.least)) + 1]
        weights.append(block)
        last, start, size = float(block[-1]), start + step * block.size, 2 * size
        if abs(start - law.centre) > COUNTS.most_listed:
            raise ValueError(
                f"dummies must have at most {COUNTS.most_listed} counts that matter on either side "
                "of the most likely one, got more"
            )
    if start == end:
        return np.concatenate(weights), 0.0
    ratio = law.rising(float(start)) if step > 0 else law.falling(float(start))
    return np.concatenate(weights), last * ratio / (1.0 - ratio)


@dataclass(frozen=True, eq=False)
class CountBlocks:
    """Blocks of counts of informative decoys.

    Attributes:
        weight: probability of each block, rounded in its direction, shape (m,).
        low: smallest count of each block, shape (m,), increasing.
        high: largest count of each block, shape (m,).
        missing: probability (a bound) of the counts in no block.
        round_off: probability added (PESSIMISTIC) or removed (OPTIMISTIC) for rounding, in total.
    """

    weight: Array
    low: Array
    high: Array
    missing: float
    round_off: float


@lru_cache(maxsize=512)
def count_blocks(
    trials: int, rate: float, idle: float, side: Bound, *, tail: float, resolution: float
) -> CountBlocks:
    """Blocks of the counts C ~ Bin(trials, rate), with their probabilities.

    Args:
        trials: number of decoys, >= 0.
        rate: probability that a decoy is informative.
        idle: ``1 - rate``, given separately so that no digits are lost.
        side: which way the weights are rounded; for PESSIMISTIC, counts above the last block join
            it, because they are more private than its members.
        tail: probability that may be left out on either side.
        resolution: a block may be as wide as this fraction of its counts.
    """
    if trials * rate * idle == 0.0:
        certain = np.full(1, float(trials) if idle == 0.0 else 0.0)
        return CountBlocks(np.ones(1), certain, certain, 0.0, 0.0)
    low, high = bulk(trials, rate, idle, tail)
    edges = _edges(low, high, resolution)
    weight, error = block_masses(edges, trials, rate, idle)
    missing = tail if low > 0 else 0.0
    if side is Bound.PESSIMISTIC:
        if high < trials:
            weight[-1] += tail
        weight = weight + error
    else:
        missing += tail if high < trials else 0.0
        weight = np.maximum(weight - error, 0.0)
    return CountBlocks(weight, edges[:-1], edges[1:] - 1.0, missing, float(error.sum()))


def bulk(trials: int, rate: float, idle: float, tail: float) -> tuple[int, int]:
    """Counts [low, high] with probability at most ``tail`` below and above (Chernoff)."""
    n, mean = float(trials), trials * rate
    goal = -math.log(tail) + 1.0  # the 1 covers the rounding of the exponent

    def exponent(count: float) -> float:
        """Chernoff's exponent: P(C <= count) or P(C >= count) is at most exp(-exponent)."""
        return _deviance(count, mean) + _deviance(n - count, n * idle)

    def search(near: int, far: int) -> int:
        """The first count, walking outwards, whose tail is provably small enough."""
        if exponent(float(far)) < goal:
            return far
        while abs(far - near) > 1:
            middle = (near + far) // 2
            if exponent(float(middle)) < goal:
                near = middle
            else:
                far = middle
        return far

    centre = min(int(mean), trials)
    below = search(centre, 0)
    low = below + 1 if exponent(float(below)) >= goal else 0
    return low, search(centre, trials)


def _deviance(x: float, mean: float) -> float:
    """``x log(x/mean) + mean - x`` for one pair of numbers, fast; off by a few u |x - mean|."""
    if x == 0.0:
        return mean
    shift = mean - x
    return shift - x * math.log1p(shift / x) if shift > -0.5 * x else shift + x * math.log(x / mean)


def _edges(low: int, high: int, resolution: float) -> Array:
    """Block edges low = e_0 < e_1 < … = high + 1, blocks of at least one count."""
    blocks = (
        math.ceil(math.log((high + 2) / (low + 1)) / math.log1p(resolution)) if resolution else 0
    )
    if resolution == 0.0 or blocks > high - low:
        return np.arange(low, high + 2, dtype=float)
    edges = np.floor(np.geomspace(low + 1.0, high + 2.0, blocks + 1)) - 1.0
    edges[0], edges[-1] = low, high + 1.0
    return np.unique(edges)


def block_masses(edges: Array, n: int, rate: float, idle: float) -> tuple[Array, Array]:
    """Probabilities of the counts of Bin(n, rate) between edges, and bounds on their errors.

    Those of up to `COUNTS.added` counts are added up; else tails are subtracted.
    """
    if edges[-1] - edges[0] > COUNTS.added:
        return tail_differences(edges, float(n), rate, idle)
    counts = np.arange(edges[0], edges[-1])
    logs = log_pmf(counts, float(n), rate, idle)
    mass = np.exp(logs)
    slack = mass * np.expm1(log_pmf_error(counts, float(n), rate, logs))
    starts, added = (edges[:-1] - edges[0]).astype(np.intp), np.diff(edges) + ELEMENTARY
    weight = rounded(np.add.reduceat(mass, starts), added)
    return weight, np.add.reduceat(slack, starts) + sequential_sum(added, own=1) * weight


def tail_differences(
    edges: Array, n: Array | float, rate: float, idle: float
) -> tuple[Array, Array]:
    """Probabilities of the counts of Bin(n, rate) between edges, and bounds on their errors.

    Tails are taken on the small side of the mean. Broadcasts over the number of trials; the edges
    run along the last axis.
    """
    edges, n = np.broadcast_arrays(edges, np.asarray(n, dtype=np.float64))
    above = edges >= n * rate
    upper, lower = np.zeros(edges.shape), np.zeros(edges.shape)
    up, down = above & (edges <= n), ~above & (edges > 0)
    upper[up] = np.exp(log_upper_tail(edges[up], n[up], rate, idle))
    # P(C < edge) = P(n - C >= n - edge + 1)
    lower[down] = np.exp(log_upper_tail((n - edges + 1.0)[down], n[down], idle, rate))
    first, last = (..., slice(None, -1)), (..., slice(1, None))
    astride = ~above[first] & above[last]
    mass = np.where(above[first], upper[first] - upper[last], lower[last] - lower[first])
    whole = disturbed(1.0 - lower[first] - upper[last], lambda: roundings(2))
    mass = np.where(astride, whole, mass)
    # the pmf's error bound (with an exponent of at most 1000) and the tail ratio's
    distance = np.abs(edges - n * rate) + np.sqrt(n * rate)
    relative = product(roundings(6000.0 + 4.0 * (CHANCE + 1.0) * distance), tail_ratio_error())
    size, relative = np.maximum(upper, lower), np.maximum(relative[first], relative[last])
    # a cell astride the mean is what two tails leave of one
    error = relative * np.where(astride, 1.0, size[first] + size[last])
    return np.maximum(mass, 0.0), error
