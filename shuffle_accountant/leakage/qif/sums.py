"""Sums of smooth functions over many integers from their values at a few."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["sum_over_integers"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_SIZES = (96, 192, 384)
_CHUNK = 1 << 16


def sum_over_integers(
    function: Callable[[Integers], Array], first: int, last: int, *, tolerance: float
) -> float:
    """``function(first) + function(first + 1) + … + function(last)``.

    The function is sampled near the Chebyshev points of the range, more of them each time, until a
    polynomial with a third fewer coefficients than samples passes within the tolerance of all of
    them; the polynomial is summed. A function that is not smooth is summed as it is.

    Args:
        function: takes distinct integers in ascending order, shape (m,); returns its values.
        first: first integer.
        last: last integer; the sum is 0 if it is below ``first``.
        tolerance: absolute, of one value, >= some multiple of the function's rounding error.
    """
    if last < first:
        return 0.0
    middle, half = 0.5 * (first + last), 0.5 * max(last - first, 1)
    for size in _SIZES:
        if last - first < 2 * size:
            break
        points = np.cos(math.pi * (np.arange(size) + 0.5) / size)
        # near the ends points may share an integer, and one of them is left
        sampled = np.unique(np.rint(middle + half * points).astype(np.int64))
        degree = 2 * sampled.size // 3
        powers = np.polynomial.chebyshev.chebvander((sampled - middle) / half, degree)
        values = function(sampled)
        coefficients = np.asarray(np.linalg.lstsq(powers, values, rcond=None)[0], dtype=np.float64)
        if np.max(np.abs(powers @ coefficients - values)) <= tolerance:
            return _sum_of_series(coefficients, first, last, middle, half)
    return math.fsum(function(np.arange(first, last + 1)))


def _sum_of_series(coefficients: Array, first: int, last: int, middle: float, half: float) -> float:
    """A Chebyshev series in ``(m - middle)/half``, summed over the integers m."""
    parts = []
    for start in range(first, last + 1, _CHUNK):
        integers = np.arange(start, min(start + _CHUNK, last + 1))
        values = np.polynomial.chebyshev.chebval((integers - middle) / half, coefficients)
        parts.append(math.fsum(values))
    return math.fsum(parts)
