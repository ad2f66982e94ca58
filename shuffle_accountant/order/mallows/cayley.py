"""The Mallows law of Cayley's distance: how many transpositions sort the permutation."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray
from shuffle_accountant.order.mallows.base import Mallows

__all__ = ["MallowsCayley"]


class MallowsCayley(Mallows):
    """Mass proportional to ``exp(theta * cycles)``: Ewens' law with parameter e^theta.

    A uniform listing of the entries is cut into cycles; with i entries still to come, the cycle
    closes with probability ``1 / (1 + i e^-theta)`` (Feller's coupling), independently. O(n).
    """

    distance: ClassVar[str] = "cayley"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser: of the product over i < n of 1 + i e^-theta."""
        return float(np.log1p(self._weights()).sum())

    def mean_distance(self) -> float:
        """Expected length less the number of cycles."""
        weights = self._weights()
        return float((weights / (1.0 + weights)).sum())

    def var_distance(self) -> float:
        """Variance of the number of cycles."""
        weights = self._weights()
        return float((weights / (1.0 + weights) ** 2).sum())

    @property
    def nearly_uniform(self) -> bool:
        """Whether a new cycle is begun less often than one in four times until the first n/4."""
        return self.theta < math.log(self.n / 4.0) if self.n > 4 else self.theta == 0.0

    def _weights(self) -> Array:
        """``i e^-theta`` for i = 0, ..., n-1."""
        return np.arange(float(self.n)) * math.exp(-self.theta)

    def _draw(self, rng: np.random.Generator) -> IntArray:
        listing = rng.permutation(self.n)
        closes = rng.random(self.n) * (1.0 + self._weights()[::-1]) < 1.0
        closes[-1] = True
        # each entry leads to the one after it, the last of a cycle to the cycle's first
        place = np.arange(self.n)
        begins = np.concatenate([[True], closes[:-1]])
        first = np.maximum.accumulate(np.where(begins, place, 0))
        out = np.empty(self.n, dtype=np.int64)
        out[listing] = listing[np.where(closes, first, np.minimum(place + 1, self.n - 1))]
        return out
