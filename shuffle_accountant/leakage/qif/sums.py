"""Sums of smooth functions over many integers from their values at a few."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.limits import LIMITS
from shuffle_accountant.numerics.rounding import Array

Integers = NDArray[np.int64]


def sum_over_integers(
    function: Callable[[Integers], Array], first: int, last: int, *, tolerance: float
) -> float:
    """``function(first) + function(first + 1) + … + function(last)``.

    The function is sampled near the Chebyshev points of the range, more of them each time, until a
    polynomial with a third fewer coefficients than samples passes within the tolerance of all of
    them; the polynomial is summed. A function that is not smooth is summed as it is.

    Args:
        function: takes distinct integers in ascending order, shape (m,); returns its values.
        last: last integer; the sum is 0 if it is below ``first``.
        tolerance: absolute, of one value, >= some multiple of the function's rounding error.
    """
    if last < first:
        return 0.0
    middle, half = 0.5 * (first + last), 0.5 * max(last - first, 1)
    for size in (96, 192, 384):
        if last - first < 2 * size:
            break
        points = middle + half * np.cos(math.pi * (np.arange(size) + 0.5) / size)
        # near the ends points may share an integer, and one of them is left
        sampled = np.unique(np.rint(points).astype(np.int64))
        fit = _Fit(_scaled(sampled, middle, half), function(sampled), tolerance)
        if fit.close:
            starts = range(first, last + 1, LIMITS.at_once)
            chunks = (np.arange(start, min(start + LIMITS.at_once, last + 1)) for start in starts)
            return math.fsum(fit.sum_at(_scaled(chunk, middle, half)) for chunk in chunks)
    return math.fsum(function(np.arange(first, last + 1)))


def _scaled(integers: Integers, middle: float, half: float) -> Array:
    return np.asarray((integers - middle) / half, dtype=np.float64)


class _Fit:
    """Least-squares polynomial through samples, of the lowest degree that comes close.

    Its basis is orthogonal on the samples (Forsythe 1957): monic polynomials with the recurrence
    ``p_(j+1) = (x - a_j) p_j - b_j p_(j-1)``. Near Chebyshev points it is stable.
    """

    def __init__(self, points: Array, values: Array, tolerance: float) -> None:
        self._steps: list[tuple[float, float, float]] = []  # a_j, b_j and the coefficient of p_j
        current, before = np.ones_like(points), np.zeros_like(points)
        norm_before, rest = 1.0, np.array(values)
        for degree in range(2 * points.size // 3):
            square = current * current
            norm = float(square.sum())
            coefficient = float((current * rest).sum()) / norm
            centre = float((points * square).sum()) / norm
            back = norm / norm_before if degree else 0.0
            self._steps.append((centre, back, coefficient))
            rest -= coefficient * current
            if np.max(np.abs(rest)) <= tolerance:
                break
            current, before = (points - centre) * current - back * before, current
            norm_before = norm
        self.close = bool(np.max(np.abs(rest)) <= tolerance)

    def sum_at(self, points: Array) -> float:
        """Sum of the polynomial's values."""
        current, before = np.ones_like(points), np.zeros_like(points)
        parts = []
        for centre, back, coefficient in self._steps:
            parts.append(coefficient * float(current.sum()))
            current, before = (points - centre) * current - back * before, current
        return math.fsum(parts)
