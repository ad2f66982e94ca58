"""The Mallows law of Hamming's distance: how many entries are not in their own place."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar

import numpy as np

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray
from shuffle_accountant.order.mallows.base import Mallows

__all__ = ["MallowsHamming"]


class MallowsHamming(Mallows):
    """Mass proportional to ``exp(-theta * entries moved)``, sampled in O(n) without derangements.

    Write the factor e^-theta of a moved entry as q, and the factor 1 of a fixed one as q + (1-q).
    Expanded, that is a mixture: pin f entries, permute the others uniformly (which may fix some
    more). f is Poisson with mean ``e^theta - 1``, given that it is at most n, and the pinned
    entries are any f.
    """

    distance: ClassVar[str] = "hamming"

    def log_psi(self) -> float:
        """Natural logarithm of the normaliser."""
        from scipy.special import gammaincc

        theta, n = self._concentration, self.n
        if theta == 0.0:
            return math.lgamma(n + 1.0)
        if theta == math.inf:
            return 0.0
        if self._log_mean < math.log(n):  # the Poisson law reaches less than n half of the time
            mean = math.expm1(theta)
            return math.lgamma(n + 1.0) - theta * n + mean + math.log(float(gammaincc(n + 1, mean)))
        _, relative = self._free
        # masses relative to that of all entries pinned, which is (1-q)^n
        # (round-off may not take the normaliser below the identity's one)
        return max(n * math.log1p(-math.exp(-theta)) + math.log(float(relative.sum())), 0.0)

    def mean_distance(self) -> float:
        """Expected number of entries moved: one less than are permuted, if any are."""
        free, mass = self._law
        return float((np.maximum(free - 1, 0) * mass).sum())

    def var_distance(self) -> float:
        """Variance of the number of entries moved."""
        free, mass = self._law
        moved = np.maximum(free - 1, 0)
        mean = float((moved * mass).sum())
        # a uniform permutation of two or more has one fixed entry on average, with variance one
        return float(((moved - mean) ** 2 * mass).sum() + mass[free >= 2].sum())

    @property
    def nearly_uniform(self) -> bool:
        """Whether less than a quarter of the entries stay: about e^theta of them do."""
        return self.theta < math.log(self.n / 4.0) if self.n > 4 else self.theta == 0.0

    def _draw(self, rng: np.random.Generator) -> IntArray:
        free, mass = self._law
        # inversion by hand: it draws one number, whatever the length of the law
        place = int(np.searchsorted(np.cumsum(mass), rng.random(), side="right"))
        count = int(free[min(place, free.size - 1)])
        movers = rng.permutation(self.n)[:count]
        out = np.arange(self.n)
        moved = np.zeros(self.n, dtype=bool)
        moved[movers] = True
        out[moved] = movers  # a uniform choice, in an order that is uniform too
        return out

    @property
    def _log_mean(self) -> float:
        """Logarithm of ``e^theta - 1``."""
        return self._concentration + math.log(-math.expm1(-self._concentration))

    @cached_property
    def _free(self) -> tuple[IntArray, Array]:
        """Numbers of entries that are not pinned, ascending, and masses relative to the largest.

        Beyond 40 plus ten standard deviations a Poisson law has less than 1e-18 of its mass.
        """
        if self._concentration == 0.0:
            return np.array([self.n]), np.array([1.0])
        if self._concentration == math.inf:
            return np.array([0]), np.array([1.0])
        log_mean, n = self._log_mean, self.n
        mode = n if log_mean >= math.log(n) else int(math.exp(log_mean))
        reach = 40 + int(10.0 * math.sqrt(mode))
        above = np.arange(mode + 1, min(n, mode + reach) + 1)
        below = np.arange(mode, max(0, mode - reach), -1)
        up = np.cumsum(log_mean - np.log(above))  # P(f) / P(f-1) = mean / f
        down = np.cumsum(np.log(below) - log_mean)
        pinned = np.concatenate([above[::-1], [mode], below - 1])
        return n - pinned, np.exp(np.concatenate([up[::-1], [0.0], down]))

    @property
    def _law(self) -> tuple[IntArray, Array]:
        free, relative = self._free
        return free, relative / relative.sum()
