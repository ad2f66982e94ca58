"""Likelihood ratios between ``e^-eps0`` and ``e^eps0``: pure and Laplace steps.

Both laws are closed under the exchange of P and Q, so one profile serves both orders.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.losses.counts import bulk
from shuffle_accountant.losses.settings import MEAN_RATIO, STEPS
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.numerics.binomial import log_pmf, log_pmf_error
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    NORMAL,
    SMALLEST,
    Array,
    Bound,
    exponential,
    outwards,
    pairwise_sum,
    roundings,
)
from shuffle_accountant.sums.doubling import SumLaw


def check_range(loss: float, passes: int) -> None:
    """Refuse products of ratios beyond the range of doubles, with a `ValueError`."""
    if loss * passes > STEPS.largest_loss:
        raise ValueError(
            f"passes times the largest loss of a step must be at most {STEPS.largest_loss:g} nats, "
            f"got {passes} times {loss!r}"
        )


@dataclass(frozen=True)
class TwoValuedRatio(RatioSource):
    """Distribution of the ratio of randomized response, ``e^eps0`` or ``e^-eps0``, or of a product.

    Attributes:
        eps0: nats, in (0, 500].
        passes: number of independent ratios that are multiplied.

    Raises:
        ValueError: the losses of all passes add up to more than 500.
    """

    eps0: float
    passes: int = 1

    def __post_init__(self) -> None:
        check_range(self.eps0, self.passes)

    @property
    def deviation(self) -> float:
        """Standard deviation: the second moment of one is ``e^eps0 - 1 + e^-eps0``."""
        second = 4.0 * math.sinh(0.5 * self.eps0) ** 2  # without the square of the mean
        return math.sqrt(math.expm1(min(self.passes * math.log1p(second), 700.0)))

    @property
    def largest(self) -> float:
        """Largest log-ratio, nats: ``passes eps0``, where all answers are truthful."""
        return self.eps0 * self.passes * (1.0 + roundings(2))

    @property
    def _chances(self) -> tuple[float, float]:
        """Q-probabilities of the larger and of the smaller value of one ratio."""
        falling = math.exp(-self.eps0)
        return falling / (1.0 + falling), 1.0 / (1.0 + falling)

    def _binomial(self, side: Bound, trials: int, low: int, high: int) -> tuple[Array, Array]:
        """Numbers low … high of larger values among that many ratios, and their Q-masses."""
        above, below = self._chances
        count = np.arange(low, high + 1, dtype=np.float64)
        logs = log_pmf(count, float(trials), above, below)
        error = exponential(log_pmf_error(count, float(trials), above, logs), own=4)
        mass = rounded(np.exp(logs), ELEMENTARY)
        if side is Bound.PESSIMISTIC:
            return count, mass * (1.0 + error) + 2.0 * SMALLEST
        # ratios multiply what subnormal numbers are off by
        return count, np.where(mass >= NORMAL, mass * np.maximum(1.0 - error, 0.0), 0.0)

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the product of all passes: every value it has, without cells."""
        count, mass = self._binomial(side, self.passes, 0, self.passes)
        value = np.exp(self.eps0 * (2.0 * count - self.passes))
        value = disturbed(value, lambda: roundings(ELEMENTARY + self.largest) * value)
        moved = roundings(8.0 + 4.0 * self.largest)
        return SumLaw(value, mass, 1, 0.0, 0.0, moved, float(value[-1]))

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the sum of ratios: binomial, and without cells, if there is one pass."""
        if self.passes > 1:
            return super().sums(side, users=users, width=width, tail=tail)
        low, high = 0, users
        if users > 4096:
            # one ratio of another law, that of the target under P, moves the count by one at most
            low, high = bulk(users, *self._chances, 0.25 * tail)
            low, high = max(low - 1, 0), min(high + 1, users)
        count, mass = self._binomial(side, users, low, high)
        top, bottom = math.exp(self.eps0), math.exp(-self.eps0)
        lost = tail if low > 0 or high < users else 0.0
        moved = roundings(8.0 + 4.0 * self.eps0)
        value = count * top + (users - count) * bottom
        value = disturbed(value, lambda: roundings(ELEMENTARY + self.eps0) * value)
        return SumLaw(value, mass, users, lost, lost, moved, users * top)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """``(e^eps0 - e^epsilon)_+ / (e^eps0 + 1)`` for one ratio; both orders are the same."""
        if epsilon >= self.largest:
            return 0.0
        _, below = self._chances
        if self.passes == 1:
            return _below_largest(self.eps0, -math.expm1(epsilon - self.eps0) * below, side)
        count, mass = self._binomial(side, self.passes, 0, self.passes)
        loss = self.eps0 * (2.0 * count - self.passes)  # of truths under P, which are as likely
        upper = side is Bound.PESSIMISTIC
        moved = roundings(4) * self.largest
        gain = rounded(loss, 2) + (moved if upper else -moved) - epsilon
        # P-masses are Q-masses of the mirrored counts
        total = rounded(float(np.sum(mass[::-1] * -np.expm1(-np.maximum(gain, 0.0)))), 8)
        return min(outwards(total, pairwise_sum(own=8), upper=upper), 1.0)


@dataclass(frozen=True)
class LaplaceRatio(RatioSource):
    """Distribution of the ratio of Laplace noise of scale ``1/eps0`` around 1 to that around 0.

    The logarithm is ``-eps0`` for outputs below 0 and ``eps0``, at most 500, for those above 1;
    between them its density under Q is ``(1/4) e^(-(eps0 + u)/2)`` at u.
    """

    eps0: float

    @property
    def deviation(self) -> float:
        """Standard deviation, from the second moment ``(2 e^eps0 + e^(-2 eps0)) / 3``."""
        e = self.eps0
        return math.sqrt((2.0 * math.expm1(e) + math.expm1(-2.0 * e)) / 3.0)

    @property
    def largest(self) -> float:
        """Largest log-ratio, nats: eps0 itself."""
        return self.eps0

    def cells(self, width: float) -> tuple[Array, Array, Array]:
        """``(edges, q, p)``: edges of cells of the logarithm, and the cells' masses."""
        count = min(math.ceil((3.0 + 2.0 * self.eps0) / width) + 8, MEAN_RATIO.most_cells)
        edges = np.linspace(-self.eps0, self.eps0, count + 1)
        grown = np.expm1(0.5 * np.diff(edges))
        grown = disturbed(grown, lambda: _cell_error() * grown)
        q = 0.5 * grown * np.exp(-0.5 * (edges[1:] + self.eps0))
        p = 0.5 * grown * np.exp(0.5 * (edges[:-1] - self.eps0))
        return edges, q, p

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Cells of equal width in the logarithm, and the two ends."""
        edges, q, p = self.cells(width)
        bottom, top = math.exp(-self.eps0), math.exp(self.eps0)
        moved, error = roundings(16.0 + 8.0 * self.eps0), _cell_error()
        highest = disturbed(0.5 * bottom, lambda: 0.5 * error * bottom)
        if side is Bound.OPTIMISTIC:
            value, mass = p / q, q * (1.0 - error)
            value = np.concatenate([[bottom], value, [top]])
            mass = np.concatenate([[0.5], mass, [highest * (1.0 - error)]])
        else:
            value, mean = np.exp(edges), p / q
            share = np.clip((mean - value[:-1]) / np.diff(value), 0.0, 1.0)
            mass = np.append(q * (1.0 - share), 0.0)
            mass[1:] += q * share
            mass[0] += 0.5
            mass[-1] += highest
            mass *= 1.0 + error
        return SumLaw(value, mass, 1, 0.0, 0.0, moved, top)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """``1 - e^((epsilon - eps0)/2)`` below eps0."""
        if epsilon >= self.eps0:
            return 0.0
        return _below_largest(self.eps0, -math.expm1(0.5 * (epsilon - self.eps0)), side)


def _cell_error() -> float:
    """Relative error of cells' masses: differences of exponentials of a few operations each."""
    return roundings(32)


def _below_largest(eps0: float, value: float, side: Bound) -> float:
    """A probability that is 0 at the largest loss, whose rounding it has, moved in the direction.

    The value may be negative: losses between eps0 and what its rounding allows are asked about too.
    """
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    value = disturbed(value, lambda: roundings(12) * (abs(value) + eps0))
    return min(max(value + sign * roundings(16) * (abs(value) + eps0), 0.0), 1.0)
