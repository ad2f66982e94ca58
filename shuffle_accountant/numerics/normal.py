"""Standard normal probabilities, and the privacy loss between two normal distributions."""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.rounding import Array

# Shifts below this are as good as none but for what is proportional to them.
_SMALL = 1e-5


def normal_cells(edges: Array) -> Array:
    """Standard normal probabilities between edges, with relative accuracy in both tails.

    `Budget.normal` bounds their relative error where cells are not narrower than a thousandth.

    Args:
        edges: ascending, shape (m + 1,).
    """
    from scipy.special import ndtr

    right = edges[:-1] > 0.0
    upper = ndtr(-edges[:-1]) - ndtr(-edges[1:])
    lower = ndtr(edges[1:]) - ndtr(edges[:-1])
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
