"""Poisson and standard normal probabilities with their errors, and the loss of two normal laws."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.binomial import deviance, stirling_error
from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.rounding import Array

# Shifts below this are as good as none but for what is proportional to them.
_SMALL = 1e-5


class Side(enum.Enum):
    """Direction of a tail: the counts above or below a threshold."""

    ABOVE = "above"
    BELOW = "below"


def log_pmf(counts: Array, mean: float | Array) -> Array:
    """Log-probabilities of counts under Poisson laws, in the saddle-point form (C. Loader, 2000).

    The form with a log-gamma loses nine digits at a mean of a million; here the exponent is made of
    terms of one sign.

    Args:
        counts: integers >= 0, as floats.
        mean: means >= 0; broadcasts with ``counts``. A positive count of mean 0 gives -inf.
    """
    counts, mean = np.broadcast_arrays(counts, np.asarray(mean, dtype=np.float64))
    inside = (counts > 0) & (mean > 0)
    some = np.where(inside, counts, 1.0)
    with np.errstate(over="ignore"):  # of a mean so small that its positive counts do not count
        body = -stirling_error(some) - deviance(some, np.where(inside, mean, 1.0))
    body -= 0.5 * np.log(2.0 * math.pi * some)
    return np.asarray(np.where(inside, body, np.where(counts == 0, -mean, -np.inf)))


@dataclass(frozen=True, slots=True)
class Window:
    """The probabilities of a Poisson distribution on a window that holds nearly all of it.

    Attributes:
        mean: mean of the distribution, > 0.
        first: the count of the first entry.
        masses: probabilities of the counts ``first``, ``first + 1``, …
        above: ``P(X > first + i)``, each summed from its small end.
        below: ``P(X < first + i)``, likewise.
    """

    mean: float
    first: int
    masses: Array
    above: Array
    below: Array

    def tail(self, thresholds: NDArray[np.int64], side: Side) -> Array:
        """``P(X > m)`` or ``P(X < m)`` for each threshold m, shape of ``thresholds``."""
        place = thresholds - self.first
        inside = np.clip(place, 0, self.masses.size - 1)
        if side is Side.ABOVE:
            tails = np.where(place < 0, 1.0, self.above[inside])
            return np.where(place >= self.masses.size, 0.0, tails)
        tails = np.where(place < 0, 0.0, self.below[inside])
        return np.where(place >= self.masses.size, 1.0, tails)


def window(mean: float) -> Window:
    """The window of a Poisson distribution up to ``15 sqrt(mean) + 75`` from its mean > 0.

    By Bernstein's inequality less than e^-112 lies outside on each side, so that even a trillion
    bins leave less than 1e-36.
    """
    reach = 15.0 * math.sqrt(mean) + 75.0
    first = max(math.floor(mean - reach), 0)
    counts = np.arange(first, math.ceil(mean + reach) + 1, dtype=np.float64)
    masses = np.exp(log_pmf(counts, mean))
    above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    below = np.append(0.0, np.cumsum(masses[:-1]))
    return Window(mean, first, masses, above, below)


def normal_cells(edges: Array) -> Array:
    """Standard normal probabilities between edges, with relative accuracy in both tails.

    `Budget.normal` bounds their relative error where cells are not narrower than a thousandth.

    Args:
        edges: ascending along the last axis, shape (..., m + 1).
    """
    from scipy.special import ndtr

    start, stop = edges[..., :-1], edges[..., 1:]
    right = start > 0.0
    upper = ndtr(-start) - ndtr(-stop)
    lower = ndtr(stop) - ndtr(start)
    cells = np.asarray(np.where(right, upper, lower), dtype=np.float64)
    return disturbed(cells, lambda: budget().normal * cells)


def normal_excess(z: Array) -> Array:
    """Approximation of ``E (Z - z)_+``, Z standard normal, with relative accuracy up to z = 37."""
    from scipy.special import erfcx

    size = np.abs(z)
    mills = math.sqrt(0.5 * math.pi) * erfcx(size / math.sqrt(2.0))
    tail = np.exp(-0.5 * size**2) / math.sqrt(2.0 * math.pi) * np.maximum(1.0 - size * mills, 0.0)
    return np.asarray(tail + np.maximum(-z, 0.0))


def about_epsilon(deviation: float, delta: float) -> tuple[float, float]:
    """Approximate epsilon of two normal distributions of variance 1, and the slope of log(delta).

    With R the Mills ratio and ``t = epsilon/d - d/2``,
    ``delta = phi(t) (R(t) - R(t + d))`` (Balle and Wang 2018, Theorem 8).

    Args:
        deviation: distance d of their means, and the loss's standard deviation, in (0, 50].
        delta: in (0, 1).

    Returns:
        Epsilon >= 0, and the derivative of log(delta), < 0.
    """
    from scipy.special import erfcx

    def mills(t: float) -> float:
        return math.sqrt(0.5 * math.pi) * float(erfcx(t / math.sqrt(2.0)))

    def log_delta(t: float) -> float:
        near = mills(t)
        gap = near - mills(t + deviation)
        if deviation < _SMALL:
            gap = deviation * (1.0 - t * near)
        return -0.5 * t * t - 0.5 * math.log(2.0 * math.pi) + math.log(max(gap, 1e-320))

    least = -0.5 * deviation
    low, high = least, math.sqrt(-2.0 * math.log(delta)) + 1.0
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_delta(middle) > math.log(delta) else (low, middle)
    step = 1e-2
    slope = (log_delta(low + step) - log_delta(low)) / (step * deviation)
    return deviation * (low - least), slope
