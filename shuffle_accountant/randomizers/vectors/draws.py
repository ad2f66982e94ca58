"""Random draws for vectors: coins of exact probability and normal numbers in 32-bit floats.

Box and Muller 1958: with E exponential and an angle t uniform, sqrt(2E) cos t and sqrt(2E) sin t
are independent and normal. NumPy's functions do that for many numbers at a time. Each pair takes 32
random bits for E and 32 for t; where these bits are too coarse for E, far in the tail, more follow.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["fill_normal", "flips", "safe_probability"]

# Grid step of `Generator.random`, which draws uniformly from its multiples in [0, 1).
_STEP = 2.0**-53


# Number of pairs per block: few calls, and the block stays in a core's cache.
_PAIRS = 2**16
# Below this share of the range, 32 bits tell E less finely than a 32-bit float does.
_COARSE = 2**20


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


def fill_normal(out: NDArray[np.float32], rng: np.random.Generator) -> None:
    """Fill an array with independent standard normal numbers, up to rounding.

    Args:
        out: contiguous, 32-bit floats; overwritten.
        rng: source of randomness.
    """
    flat = out.reshape(-1)
    for start in range(0, flat.size, 2 * _PAIRS):
        part = flat[start : start + 2 * _PAIRS]
        pairs = -(-part.size // 2)
        bits = rng.integers(2**64, size=pairs, dtype=np.uint64).view(np.uint32)
        radius = _exponential(bits[::2], rng).astype(np.float32)
        radius *= np.float32(2.0)
        np.sqrt(radius, out=radius)
        angle = bits[1::2].astype(np.float32)
        angle *= np.float32(2.0 * np.pi / 2.0**32)
        across, along = part[:pairs], part[pairs:]  # one less along, if the number is odd
        np.cos(angle, out=across)
        across *= radius
        np.sin(angle[: along.size], out=along)
        along *= radius[: along.size]


def _exponential(bits: NDArray[np.uint32], rng: np.random.Generator) -> NDArray[np.float64]:
    """Exponential numbers of mean 1: -log U, where the bits are the first 32 of U."""
    uniform = bits + 0.5
    coarse = np.flatnonzero(uniform < _COARSE)
    # 1 minus it is never 0
    uniform[coarse] = bits[coarse] + (1.0 - rng.random(coarse.size))
    uniform *= 2.0**-32
    np.log(uniform, out=uniform)
    exponential: NDArray[np.float64] = np.negative(uniform, out=uniform)
    return exponential
