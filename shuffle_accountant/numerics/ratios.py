"""Log-ratios of probabilities, rounded up."""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, raised, roundings


def log_ratio_above(p0: Array, p1: Array) -> Array:
    """Upper bound of ``log(p0/p1)`` where it is positive, else 0; ``inf`` where only p1 is 0."""
    found = np.where((p0 > 0.0) & (p1 == 0.0), math.inf, 0.0)
    more = (p0 > p1) & (p1 > 0.0)
    high, low = p0[more], p1[more]
    with np.errstate(over="ignore"):
        gain = (high - low) / low
    # the quotient is off by two roundings, which the logarithm does not magnify; a difference of
    # logarithms, for quotients that overflow, is above 700 and its terms below 750, so that each
    # is off by little more than its function's share of the result
    value = rounded(
        np.where(np.isinf(gain), np.log(high) - np.log(low), np.log1p(gain)), 2 * ELEMENTARY
    )
    found[more] = raised(value, roundings(2 * ELEMENTARY + 4))
    return np.asarray(found)
