"""The Mallows law of Kendall's distance: pairs of entries in the wrong order."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray
from shuffle_accountant.order.mallows.base import Mallows
from shuffle_accountant.order.mallows.decode import decode

__all__ = ["MallowsKendall"]

# B_2k / (2k)!, for k = 1, ..., 12: x/(e^x - 1) is 1 - x/2 + the sum of these times x^2k.
# At x <= 1 terms fall by (2 pi)², so twelve leave less than 1e-19.
_BERNOULLI = np.array(
    [
        (1 / 6) / math.factorial(2),
        (-1 / 30) / math.factorial(4),
        (1 / 42) / math.factorial(6),
        (-1 / 30) / math.factorial(8),
        (5 / 66) / math.factorial(10),
        (-691 / 2730) / math.factorial(12),
        (7 / 6) / math.factorial(14),
        (-3617 / 510) / math.factorial(16),
        (43867 / 798) / math.factorial(18),
        (-174611 / 330) / math.factorial(20),
        (854513 / 138) / math.factorial(22),
        (-236364091 / 2730) / math.factorial(24),
    ]
)


class MallowsKendall(Mallows):
    """Mass proportional to ``exp(-theta * inversions)``; entries move about ``1/theta`` places.

    The numbers of smaller entries behind each entry are independent and (truncated) geometric:
    inserted one after the other they give the permutation, in O(n log n).
    """

    distance: ClassVar[str] = "kendall"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser: of the product over i <= n of (1-q^i)/(1-q)."""
        theta, i = self._concentration, np.arange(1.0, self.n + 1.0)
        if theta == 0.0:
            return math.lgamma(self.n + 1.0)
        if theta == math.inf:
            return 0.0
        if theta < 1.0:
            return float(np.log(np.expm1(-theta * i) / math.expm1(-theta)).sum())
        return float((np.log1p(-np.exp(-theta * i)) - math.log1p(-math.exp(-theta))).sum())

    def mean_distance(self) -> float:
        """Expected number of inversions."""
        theta = self._concentration
        if theta == 0.0:
            return self.n * (self.n - 1) / 4.0
        if theta == math.inf:
            return 0.0
        i = np.arange(1.0, self.n + 1.0)
        x = theta * i
        near = x <= 1.0
        out = np.empty(self.n)
        # 1/(e^x - 1) is 1/x - 1/2 + rest(x), and 1/theta cancels from the differences
        at = _odd(np.array([theta]))[0] if theta <= 1.0 else 0.0
        out[near] = (i[near] - 1.0) / 2.0 + at - i[near] * _odd(x[near])
        once = _one_over_expm1(np.array([theta]))[0]
        out[~near] = once - i[~near] * _one_over_expm1(x[~near])
        return float(out.sum())

    def var_distance(self) -> float:
        """Variance of the number of inversions."""
        theta = self._concentration
        if theta == 0.0:
            return self.n * (self.n - 1) * (2 * self.n + 5) / 72.0
        if theta == math.inf:
            return 0.0
        i = np.arange(1.0, self.n + 1.0)
        x = theta * i
        near = x <= 1.0
        out = np.empty(self.n)
        # e^x/(e^x - 1)² is 1/x² - 1/12 + rest(x), and 1/theta² cancels from the differences
        at = _even(np.array([theta]))[0] if theta <= 1.0 else 0.0
        out[near] = (i[near] ** 2 - 1.0) / 12.0 + at - i[near] ** 2 * _even(x[near])
        once = _one_over_expm1(np.array([theta]))[0]
        far = _one_over_expm1(x[~near])
        out[~near] = once * (1.0 + once) - i[~near] ** 2 * far * (1.0 + far)
        return float(out.sum())

    @property
    def nearly_uniform(self) -> bool:
        """Whether entries move by more than a quarter of the length: ``1/theta > n/4``."""
        return self.theta * self.n < 4.0

    def _draw(self, rng: np.random.Generator) -> IntArray:
        theta = self._concentration
        choices = np.arange(self.n, 0, -1)
        # the inverse of P(c < k) = (1 - q^k) / (1 - q^choices)
        codes = rng.random(self.n)
        codes *= np.expm1(-theta * choices)
        np.log1p(codes, out=codes)
        codes /= -theta
        return decode(np.minimum(codes.astype(np.int64), choices - 1))


def _one_over_expm1(x: Array) -> Array:
    # as e^-x / (1 - e^-x), which does not overflow
    return np.asarray(np.exp(-x) / -np.expm1(-x))


def _odd(x: Array) -> Array:
    """1/(e^x - 1) - 1/x + 1/2 for 0 < x <= 1."""
    return np.asarray(np.polynomial.polynomial.polyval(x * x, _BERNOULLI) * x)


def _even(x: Array) -> Array:
    """e^x/(e^x - 1)² - 1/x² + 1/12 for 0 < x <= 1: the derivative of `_odd`, subtracted."""
    terms = _BERNOULLI * -(2.0 * np.arange(1, _BERNOULLI.size + 1) - 1.0)
    return np.asarray(np.polynomial.polynomial.polyval(x * x, terms[1:]) * x * x)
