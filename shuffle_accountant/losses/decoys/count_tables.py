"""Certified probabilities of counts, from their ratios.

Weights start at 1 at the mode and go outwards by multiplying ratios, each of which is a short
formula; what is cut off is bounded by a geometric series. No special functions are needed, and
relative errors are known for each count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Array, pairwise_sum, product, roundings
from shuffle_accountant.randomizers.count_laws import CountLaw

# Counts less likely than this, relative to the mode, are cut off and bounded by a series.
_LEAST = 1e-60
# Largest number of counts listed on either side of the mode; more are refused.
_MOST_COUNTS = 2**22


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
    """The probabilities of all counts of a distribution that are not cut off.

    Raises:
        ValueError: too many counts matter.
    """
    mode = law.centre
    up, above = _upwards(law, mode)
    down, below = _downwards(law, mode)
    first = mode - down.size
    steps = np.abs(np.arange(down.size + up.size, dtype=np.float64) - down.size)
    own = law.roundings + 1.0  # of a ratio, and of the multiplication or division by it
    weights = rounded(np.concatenate([down[::-1], up]), own * steps)
    error = roundings(own * steps)
    total = rounded(float(np.sum(weights)), 4)
    # A thousandth more: four million counts are rounded by less than 1e-8, and a tail that ends
    # there falls by a factor of 1 - 1e-5 or less at each count, so its series is off by less too.
    cut = 1.001 * (above + below) / total
    # the total's own error: that of its terms, of the sum, and what is cut off
    off = float(np.sum(weights * error)) / total * 2.0 + pairwise_sum(own=4) + cut
    probabilities = weights / total
    return CountTable(first, probabilities, product(error, off), cut)


def _upwards(law: CountLaw, mode: int) -> tuple[Array, float]:
    """Weights of the mode and of counts above it, and a bound on the rest's, up to rounding."""
    weights: list[Array] = [np.ones(1)]
    size, last = 256, 1.0
    start = mode + 1
    while start <= law.most and last >= _LEAST:
        stop = int(min(start + size, law.most + 1))
        counts = np.arange(start, stop, dtype=np.float64)
        block = np.asarray(last * np.cumprod(1.0 / law.ratios(counts)), np.float64)
        kept = int(np.searchsorted(-block, -_LEAST)) + 1  # the first one below is kept too
        weights.append(block[:kept])
        last, start, size = float(weights[-1][-1]), start + min(kept, block.size), 2 * size
        _check(start - mode)
    if start > law.most:
        return np.concatenate(weights), 0.0
    ratio = law.rising(start - 1.0)
    return np.concatenate(weights), last * ratio / (1.0 - ratio)


def _downwards(law: CountLaw, mode: int) -> tuple[Array, float]:
    """Weights of counts below the mode, going down, and a bound on the rest's, up to rounding."""
    weights: list[Array] = [np.empty(0)]
    size, last = 256, 1.0
    start = mode  # the ratio at c leads to c - 1
    while start > 0 and last >= _LEAST:
        counts = np.arange(start, max(start - size, 0), -1, dtype=np.float64)
        block = np.asarray(last * np.cumprod(law.ratios(counts)), np.float64)
        kept = int(np.searchsorted(-block, -_LEAST)) + 1
        weights.append(block[:kept])
        last, start, size = float(weights[-1][-1]), start - min(kept, block.size), 2 * size
        _check(mode - start)
    if start == 0:
        return np.concatenate(weights), 0.0
    ratio = law.falling(float(start))
    return np.concatenate(weights), last * ratio / (1.0 - ratio)


def _check(count: int) -> None:
    if count > _MOST_COUNTS:
        raise ValueError(
            f"dummies must have at most {_MOST_COUNTS} counts that matter on either side of the "
            "most likely one, got more"
        )
