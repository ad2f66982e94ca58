"""The tilt under which a sum of i.i.d. values concentrates where it turns positive."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, pairwise_sum

__all__ = ["Letters", "saddle"]

# Least tilt, in inverse standard deviations of the sum: mass outside a window is harmless then.
_LEAST_TILT = 0.2


@dataclass(frozen=True, eq=False)
class Letters:
    """Distribution of one value X and the number of copies in the sum.

    Attributes:
        value: values of X, shape (m,).
        mass: their probabilities, shape (m,), sum 1.
        count: number n of copies in the whole sum.
    """

    value: Array
    mass: Array
    count: int

    def cumulants(self, theta: float) -> tuple[float, float, float]:
        """Log-moment generating function of one X at theta, and two derivatives."""
        exponent = theta * self.value
        top = float(exponent.max())
        growth = self.mass * np.expm1(np.minimum(exponent, 1.0))
        change = float(growth.sum())
        if top < 1.0 and change > -0.5:
            # log(1 + sum p (e^(theta x) - 1)): near 0 the sum would lose the digits that count
            value = math.log1p(change)
            weight = self.mass + growth
        else:
            weight = self.mass * np.exp(exponent - top)
            value = top + math.log(float(weight.sum()))
        total = float(weight.sum())
        mean = float(np.sum(weight * self.value)) / total
        variance = float(np.sum(weight * (self.value - mean) ** 2)) / total
        return value, mean, variance

    def log_mgf_bound(self, theta: float) -> float:
        """Upper bound of the log-moment generating function of one X at theta."""
        value = self.cumulants(theta)[0]
        exponent = theta * self.value
        top = float(exponent.max())
        if top < 1.0:
            size = float(np.sum(self.mass * np.abs(np.expm1(exponent))))
        else:
            weight = self.mass * np.exp(exponent - top)
            size = abs(top) + float(np.sum(weight * (top - exponent)) / np.sum(weight)) + 1.0
        # masses are off by 16 roundings, exponentials by the size of their arguments
        return value + pairwise_sum(own=16 + 2 * ELEMENTARY) * (size + abs(value))


def saddle(letters: Letters) -> float:
    """A tilt at which the sum has mean about 0, or a fifth of its deviation if 0 is no help.

    Returns:
        The tilt, > 0; ``inf`` when no X is positive, or X is a constant.
    """
    top = float(letters.value.max())
    if top <= 0.0:
        return math.inf
    _, mean, variance = letters.cumulants(0.0)
    if variance == 0.0:  # a constant, positive by rounding only
        return math.inf
    deviation = math.sqrt(letters.count * variance)
    # the cap keeps a tilt for sums of which only the largest value is positive
    cap = 600.0 / top
    theta = _tilt_to(letters, 0.0, -mean / variance, cap) if mean < 0.0 else 0.0
    if theta < _LEAST_TILT / deviation:
        # a heavy tail may take over before the tilt is that large
        least = _LEAST_TILT * deviation / letters.count
        found = max(_tilt_to(letters, least, theta, cap), 1e-2 * _LEAST_TILT / deviation)
        theta = min(max(theta, min(found, _LEAST_TILT / deviation)), cap)
    return theta


def _tilt_to(letters: Letters, goal: float, guess: float, cap: float) -> float:
    """The tilt at which one X has the given mean, to a few per mille; at most the cap."""
    low, high = 0.0, min(max(guess, 1e-9 * cap), cap)
    while high < cap and letters.cumulants(high)[1] < goal:
        low, high = high, min(2.0 * high, cap)
    theta = high
    for _ in range(60):
        _, mean, variance = letters.cumulants(theta)
        low, high = (theta, high) if mean < goal else (low, theta)
        step = (mean - goal) / variance if variance > 0.0 else 0.0
        theta = theta - step if low < theta - step < high else 0.5 * (low + high)
        if high - low <= 1e-3 * high or abs(step) <= 1e-3 * theta:
            break
    return min(theta, cap)
