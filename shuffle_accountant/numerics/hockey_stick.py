"""Differences of two nonnegative numbers, and of a likelihood ratio x and alpha, with their errors.

A hockey-stick divergence is a sum of ``(x - alpha)_+`` over Q, or of ``(1 - alpha x)_+`` for the
exchanged pair, ``alpha = e^epsilon``. Where both terms of such a difference nearly cancel, which
they do near the largest loss, its relative error has no bound. What has one is the absolute error:
that of x times what multiplies it, and that of alpha. All losses take their differences from here,
together with the bound of the absolute error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import ELEMENTARY, UNIT_ROUNDOFF, Array, roundings

LARGEST_EXPONENT = 700.0
"""Above this epsilon (nats) alpha is not a double; no finite ratio here is as large."""

# Above this epsilon no ratio near 1 has a positive ``1 - alpha x``.
_NEAR_ZERO = 2.0
# Ratios are cut off at this many times 1/alpha: ``1 - alpha x`` is far below 0 there, and a double.
_CAP = 1e6


class Difference(NamedTuple):
    """Computed differences and bounds on their absolute errors, shape (m,) each."""

    value: Array
    error: Array

    def positive(self, *, upper: bool) -> Array:
        """Upper or lower bounds of the positive parts of the true differences, shape (m,)."""
        # the sum itself is rounded once
        outer = self.error + (2.0 * UNIT_ROUNDOFF) * (np.abs(self.value) + self.error)
        return np.asarray(np.maximum(self.value + outer if upper else self.value - outer, 0.0))


def difference_of(first: Array, second: Array, error: Array | float) -> Difference:
    """``first - second`` of numbers >= 0, shape (m,) each, with relative errors up to ``error``."""
    # the subtraction rounds once more, relative to the result
    return Difference(first - second, (first + second) * (error + roundings(2.0)))


@dataclass(frozen=True, eq=False)
class Ratios:
    """Likelihood ratios ``x = P/Q >= 0``, known by their values and by how far they are from 1.

    Near 1 the gain ``x - 1`` has more digits than the value, near 0 the value has more.

    Attributes:
        value: the ratios, shape (m,); each is 0 or above ``e^-690``.
        gain: ``x - 1``, shape (m,).
        value_error: bound on the relative errors of the values.
        gain_error: bounds on the absolute errors of the gains, shape (m,).
    """

    value: Array
    gain: Array
    value_error: float
    gain_error: Array

    @classmethod
    def of(cls, value: Array, error: float) -> Ratios:
        """Ratios given by their values alone, with relative errors of at most ``error``."""
        gain = value - 1.0
        return cls(value, gain, error, error * value + roundings(1.0) * np.abs(gain))

    def above(self, epsilon: float) -> Difference:
        """``x - alpha``, shape (m,), for epsilon >= 0; no positive part where alpha overflows."""
        if epsilon > LARGEST_EXPONENT:
            return Difference(np.full_like(self.value, -1.0), np.zeros_like(self.value))
        growth = rounded(math.expm1(epsilon), ELEMENTARY)
        size = np.abs(self.gain) + growth
        return Difference(self.gain - growth, self.gain_error + roundings(ELEMENTARY + 2.0) * size)

    def below(self, epsilon: float) -> Difference:
        """``1 - alpha x``, shape (m,), for epsilon >= 0; what is below -1e6 is cut off there.

        Where alpha overflows, only x = 0 has a positive part.
        """
        if epsilon > LARGEST_EXPONENT:
            return Difference(np.where(self.value == 0.0, 1.0, -1.0), np.zeros_like(self.value))
        alpha = rounded(math.exp(epsilon), ELEMENTARY)
        # alpha and the product round
        own = roundings(ELEMENTARY + 2.0)
        product = alpha * np.minimum(self.value, _CAP / alpha)
        value, error = 1.0 - product, product * (self.value_error + own) + roundings(1.0)
        if epsilon < _NEAR_ZERO:
            near = self.gain > -0.5
            growth = rounded(math.expm1(epsilon), ELEMENTARY)
            cost = alpha * self.gain
            size = growth + np.abs(cost)
            value = np.where(near, -growth - cost, value)
            error = np.where(near, alpha * (1.0 + own) * self.gain_error + 2.0 * own * size, error)
        return Difference(value, error)


def unsampled(epsilon: Array, rate: float) -> Array:
    """``log(1 + (e^epsilon - 1) / rate)``: the epsilon of what is sampled at a rate in (0, 1].

    It is off by at most 20 roundings of itself.

    Args:
        epsilon: nats; a negative one is above ``log(1 - rate)``.
        rate: probability of taking part.
    """
    near, log_rate = np.minimum(epsilon, 30.0), math.log(rate)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = np.log1p(np.expm1(near) / rate)
        apart = np.log(np.expm1(near)) - log_rate  # of a quotient beyond the largest double
    found = np.where(np.isposinf(found), apart, found)
    rest = np.log1p(-(1.0 - rate) * np.exp(-np.maximum(epsilon, 30.0)))
    return np.asarray(np.where(epsilon > 30.0, epsilon + rest - log_rate, found))
