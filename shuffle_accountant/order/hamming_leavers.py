"""Leavers under the Mallows distribution of the Hamming distance: exact, at any size.

Per moved point the distribution has a factor e^-theta; write it as 1 = e^-theta + (1 - e^-theta)
for every fixed point, and a permutation is one that has some of its fixed points *marked*, at
``lambda = e^theta - 1`` each. With s of the m slots of one side marked and j values crossing over
from the other side, what is left is counted by a binomial coefficient; so

    Pr[j] = A_l(j) A_(n-l)(j) / (C(n, l) A_n(0)),
    A_m(j) = sum over s = 0 … m - j of lambda^s / s! C(m - s, j).

All terms are positive: nothing cancels. ``sum_j A_m(j) y^j`` is a polynomial with log-concave
coefficients, shifted by one, and such shifts keep log-concavity (Brenti 1989; Johnson and
Goldschmidt 2006); so A_m and Pr are log-concave in j, and tails are below geometric series.

The theorem A.4 of Meehan et al. is the same sum by the number of moved points, with errors in
print: see `shuffle_accountant.order.leavers`; and its statement has a binomial factor too many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import Array, roundings
from shuffle_accountant.order.leavers import first_descent, window


def hamming_tail(n: int, size: int, theta: float, leavers: int) -> tuple[float, float]:
    """Chance of at least ``leavers`` leavers of a set of slots; see `kendall_leavers.end_tail`."""
    sides = [_Side(size, theta), _Side(n - size, theta)]
    top = min(size, n - size)

    def ratio(j: int) -> float:
        return sides[0].ratio(j) * sides[1].ratio(j)

    def ratios(first: int, last: int) -> Array:
        return sides[0].ratios(first, last) * sides[1].ratios(first, last)

    anchor = first_descent(ratio, leavers, top)
    _, weights = window(ratios, anchor, leavers, top)
    everyone, any_set = _Side(n, theta).log(0), _Side(n, 0.0).log(size)
    parts = [*(side.log(anchor) for side in sides), (-everyone[0], everyone[1])]
    parts.append((-any_set[0], any_set[1]))
    value = math.fsum([*(part for part, _ in parts), math.log(float(weights.sum()))])
    # a ratio is off by its seed and by every step of the recurrence, a weight by all its ratios
    longest = max(side.longest for side in sides)
    relative = 2.0 * weights.size * roundings(8) * (longest + weights.size)
    return value, math.fsum(error for _, error in parts) + relative


@dataclass(slots=True)
class _Side:
    """The sequence A_m(0), …, A_m(m) of the m slots of one side.

    ``longest`` are the terms of the longest sum over s so far.
    """

    m: int
    theta: float
    longest: int = 1

    @property
    def rate(self) -> float:
        """The lambda of the module's formula."""
        return math.expm1(self.theta)

    def ratio(self, j: int) -> float:
        """A_m(j + 1) / A_m(j), from the two sums."""
        if j >= self.m:
            return 0.0
        here, above = self._mode(j), self._mode(j + 1)
        link = (self.m - above - j) / (j + 1.0)
        if above <= here:
            link /= float(np.prod(self._steps(j, above, here)))
        else:
            link *= float(np.prod(self._steps(j, here, above)))
        return link * self._sum(j + 1, above) / self._sum(j, here)

    def ratios(self, first: int, last: int) -> Array:
        """A_m(j + 1) / A_m(j) for j = first … last - 1, by a recurrence that adds positive terms.

        ``(m - j + 1) A(j - 1) = (lambda - m + 2 j) A(j) + (j + 1) A(j + 1)``: A is a Laguerre
        polynomial. Where the middle factor is positive it is run downwards, elsewhere upwards; so
        no step enlarges the relative error of the step before.
        """
        m, rate = self.m, self.rate
        found = np.empty(last - first)
        turn = min(max(math.ceil((m - rate) / 2.0), first), last) if rate < m else first
        if turn < last:
            r = self.ratio(last - 1)
            found[last - 1 - first] = r
            for j in range(last - 1, turn, -1):
                r = (m - j + 1) / (rate - m + 2 * j + (j + 1) * r)
                found[j - 1 - first] = r
        if turn > first:
            r = self.ratio(first)
            found[0] = r
            for j in range(first + 1, turn):
                r = ((m - j + 1) / r + (m - 2 * j - rate)) / (j + 1)
                found[j - first] = r
        return found

    def log(self, j: int) -> tuple[float, float]:
        """``(log A_m(j), error)``, the error an absolute bound."""
        from scipy.special import gammaln

        s = self._mode(j)
        terms = gammaln([self.m - s + 1.0, s + 1.0, j + 1.0, self.m - s - j + 1.0])
        power = s * (self.theta + math.log(-math.expm1(-self.theta))) if s else 0.0
        value = power + float(terms[0] - terms[1:].sum()) + math.log(self._sum(j, s))
        error = roundings(16) * (abs(power) + float(np.abs(terms).sum()) + self.longest)
        return value, error

    def _mode(self, j: int) -> int:
        """The s of the largest term of A_m(j): where ``lambda (m - j - s) = (s + 1)(m - s)``."""
        if self.rate == 0.0 or j >= self.m:
            return 0
        linear = self.m - 1.0 + self.rate
        constant = self.rate / linear * (self.m - j) - self.m / linear
        root = 2.0 * constant / (1.0 + math.sqrt(max(1.0 - 4.0 * constant / linear, 0.0)))
        return min(max(math.ceil(root), 0), self.m - j)

    def _sum(self, j: int, mode: int) -> float:
        """A_m(j) over its term at the mode."""
        _, weights = window(
            lambda first, last: self._steps(j, first, last), mode, 0, self.m - j if self.rate else 0
        )
        self.longest = max(self.longest, weights.size)
        return float(weights.sum())

    def _steps(self, j: int, first: int, last: int) -> Array:
        """Ratios of consecutive terms of A_m(j), s = first … last - 1."""
        s = np.arange(first, last, dtype=float)
        return np.asarray(self.rate / (s + 1.0) * ((self.m - s - j) / (self.m - s)))
