"""Profiles of a target among draws of its own null law, from the counts of its bag one by one.

Of K = k draws let L = l be of the last letter; of the other M = k - l let a be of the second one,
binomial with the odds ``1/E``, ``E = e^eps0``. The target's ratio is 1 + g with

    g(a) = (a (E - 1) - (M - a) (1 - 1/E) - l) / k,

so, with the probabilities f of a, ``x = alpha - 1`` and ``y = 1 - 1/alpha``

    H_alpha(P‖Q) = sum over g > x of f (g - x),
    H_alpha(Q‖P) = alpha times the sum over -g > y of f (-g - y).

Two sums between any two of the alpha answer for all of them. What is counted:

* the counts a that are left out: at most a probability tau under the decoys' law on either side
  (Chernoff), and g < E, so ``tau E`` of the first divergence and tau of the second;
* rounding: f is off relatively, and g is moved outwards by what it is off before it is compared;
* the sums: of positive terms, then subtracted.
"""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.decoys.counts import bulk
from shuffle_accountant.numerics.binomial import RUN, pmf_runs
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    Array,
    exponential,
    outwards,
    roundings,
    sequential_sum,
)

__all__ = ["BagCounts", "chances"]

# Largest number of counts that are listed at once.
_AT_ONCE = 1 << 18
# Least probability that is left out on either side.
_RAREST = 1e-290
# The letters' chances are off by some roundings, not by one.
_OFF = 4.0


def chances(eps0: float) -> tuple[float, float]:
    """Probabilities ``1/(1 + E)`` and ``E/(1 + E)`` of the two letters, ``E = e^eps0``."""
    small = math.exp(-eps0)
    return small / (1.0 + small), 1.0 / (1.0 + small)


class BagCounts:
    """Sums over the counts a of the second letter in a window that suits every number M of letters.

    Args:
        eps0: nats, in (0, 300].
        most: largest number of letters in a bag.
        tail: part of either divergence that may be left out.
    """

    def __init__(self, eps0: float, most: int, tail: float) -> None:
        self.eps0 = eps0
        s, t = chances(eps0)
        self.left_out = max(0.25 * tail * math.exp(-eps0), _RAREST)
        low, high = bulk(most, s, t, self.left_out)
        # Chernoff's bound at one distance from the mean falls with the number of letters
        self._below, self._above = most * s - low, high - most * s

    @property
    def width(self) -> int:
        """Number of counts a that are listed for each M."""
        return -(-(math.ceil(self._below + self._above) + 5) // RUN) * RUN

    def profiles(
        self, points: Array, count: Array, weight: Array, last: float, side: Bound
    ) -> Array:
        """Bounds of both divergences of the mixture, shape (2, points).

        Args:
            points: ``log(alpha) >= 0``, ascending, nats.
            count: values of K, shape (rows,).
            weight: their probabilities together with that of L, shape (rows,).
            last: the number L.
            side: which side of the truth.
        """
        upper = side is Bound.PESSIMISTIC
        x, y = np.expm1(points), -np.expm1(-points)
        ahead, behind = np.zeros((2, points.size + 1)), np.zeros((2, points.size + 1))
        step = max(_AT_ONCE // self.width, 1)
        relative, terms = 0.0, 0
        for start in range(0, count.size, step):
            some = slice(start, start + step)
            a, mass, error = self._law(np.maximum(count[some] - last, 0.0))
            mass *= weight[some, None]
            k = count[some, None]
            m = np.maximum(k - last, 0.0)
            gain = a * (math.expm1(self.eps0) / k)
            gain += (m - a) * (math.expm1(-self.eps0) / k) - last / k
            size = np.abs(gain) + 2.0
            gain = disturbed(gain, roundings(32) * size)
            for sums, edges, sign in ((ahead, x, 1.0), (behind, y, -1.0)):
                moved = roundings(64) * size
                value = sign * gain + (moved if upper else -moved)
                there = (value > 0.0) & (mass > 0.0)
                value, part = value[there], mass[there]
                cell = np.searchsorted(edges, value)  # number of alpha it counts for
                for total, own in zip(sums, (part, part * value), strict=True):
                    total += np.bincount(cell, own, points.size + 1)
            relative = max(relative, error)
            terms += a.size
        slack = sequential_sum(float(terms), own=32.0)
        found = []
        for sums, edges in ((ahead, x), (behind, y)):
            total, moment = (np.cumsum(row[::-1])[::-1][1:] for row in sums)
            total, moment = rounded(total, -terms), rounded(moment, terms)
            wrong = slack * (np.abs(moment) + edges * total)
            value = moment - edges * total + (wrong if upper else -wrong)
            found.append(outwards(np.maximum(value, 0.0), relative, upper=upper))
        found[1] *= np.exp(points)
        if upper:
            growth = math.exp(self.eps0)
            lost = 2.01 * self.left_out  # far more than what underflows, besides
            found[0] += lost * growth
            found[1] += lost * np.exp(points)
        return np.stack(found)

    def _law(self, m: Array) -> tuple[Array, Array, float]:
        """Counts a for each number M of letters, their probabilities, and the relative error.

        The arrays have shape (rows, width).
        """
        s, t = chances(self.eps0)
        start = np.maximum(np.floor(m * s - self._below) - 1.0, 0.0)
        first = start[:, None] + RUN * np.arange(float(self.width // RUN))
        law, error = pmf_runs(first, m[:, None], s, t, RUN)
        a = first[:, :, None] + np.arange(float(RUN))
        shape = m.size, self.width
        return a.reshape(shape), law.reshape(shape), exponential(_OFF * float(error.max()))
