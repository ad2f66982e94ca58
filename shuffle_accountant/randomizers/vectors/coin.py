"""Coins whose probability is exactly a double, rounded to the side that is more private."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["flips", "safe_probability"]

# Grid step of `Generator.random`, which draws uniformly from its multiples in [0, 1).
_STEP = 2.0**-53


def safe_probability(log_odds: float) -> float:
    """The largest probability p, up to round-off, with ``p/(1 - p) <= e^log_odds`` for certain.

    It is a multiple of 2^-53, so that 1 - p is exact and a coin with exactly this chance exists.
    The true odds are never above those asked for; they are below by a relative 1e-12 or 2^-53/(1 -
    p), whichever is more. Beyond log-odds of 36.7 it is 1 - 2^-53.

    Args:
        log_odds: natural logarithm of the largest odds allowed, finite, with its own rounding of at
            most a few units in the last place.
    """
    # exp turns an absolute error of |log_odds| * 2^-52 into a relative one; 2^-50 per unit and 8
    # more units cover that, the two further operations and the caller's own rounding.
    margin = (abs(log_odds) + 8.0) * 2.0**-50
    against = (1.0 + margin) / (1.0 + math.exp(min(log_odds, 700.0)))
    return 1.0 - min(1.0, max(1.0, math.ceil(against / _STEP)) * _STEP)


def flips(rng: np.random.Generator, probability: float, count: int) -> NDArray[np.bool_]:
    """Independent coins, shape (count,); each is True with exactly ``probability``.

    Args:
        rng: source of randomness.
        probability: a multiple of 2^-53 in [0, 1].
        count: number of coins.
    """
    return rng.random(count) < probability
