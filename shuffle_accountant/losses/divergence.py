"""The hockey-stick divergence of one pair of letters at one alpha.

Exactly over all multisets of messages where these are few, by transforms over the users where they
are not, and by sums of positive numbers where the letters are too uneven for transforms.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from shuffle_accountant.binomial import UNIT_ROUNDOFF
from shuffle_accountant.lattice.excess import Summand, expected_excess
from shuffle_accountant.lattice.grid import Array, Direction
from shuffle_accountant.lattice.heavy import heavy_excess
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.letters import LetterPair, largest_multisets, multisets

__all__ = ["LARGEST_EPSILON", "Divergence"]

# Up to so many multisets of all messages the profile is a plain sum.
_EXACT = 1 << 18
# So many multisets of a few messages make the values dense enough to be merged on a lattice.
_DENSE = 1 << 14
# A letter that outweighs all others this many times is clipped; the upper side counts the rest of
# it in full, which is too much by about the inverse.
_LINEAR = 1e4
# More than what numbers below the smallest normal double can lose.
_UNDERFLOW = 1e-305
# A tilt that multiplies the variance by this much has met a heavy tail.
_UNEVEN = 100.0
# Rounding may change the variance of a sum by this times the resolution; the lower side of a
# profile multiplies the width of its points.
_ROUNDING = 0.4
# Beyond this loss e^epsilon overflows; the profile there is bounded by its value here.
LARGEST_EPSILON = 700.0


class Divergence:
    """``H_alpha`` of one pair of letters."""

    def __init__(self, pair: LetterPair, users: int, epsilon: float) -> None:
        self.pair, self.users = pair, users
        self.excess = math.expm1(min(epsilon, LARGEST_EPSILON))
        self.exposed = pair.exposure(math.inf if epsilon == math.inf else self.excess)
        self.trivial = epsilon >= pair.largest or pair.decoyed[2].size == 0
        self.letters: Letters | None = None
        if not self.trivial:
            r0, r1, q = pair.decoyed
            value = self._value(r0, r1)
            top = float(value.max())
            # sums with a letter this high are all but linear in it
            high = _LINEAR * users * (1.0 + self.excess)
            # no sum with a letter this low is positive, so how low it is does not matter
            low = -2.0 * users * max(min(top, high), 0.0)
            clipped = np.clip(value, low, max(high, 0.0)) if top > 0.0 else value
            self.clipped = bool(np.any(clipped != value))
            self.lost = float(np.sum(q * np.maximum(value - clipped, 0.0)))
            self.letters = Letters(clipped, q, users)

    def _value(self, s0: Array, s1: Array) -> Array:
        """``s0 - alpha s1`` without cancellation for small losses."""
        return (s0 - s1) - self.excess * s1

    @cached_property
    def theta(self) -> float:
        """The tilt."""
        assert self.letters is not None
        return saddle(self.letters)

    @cached_property
    def chernoff(self) -> float:
        """Upper bound from the moment generating function alone: cheap, a few times too large."""
        if self.trivial or self.letters is None:
            return self.exposed
        if math.isinf(self.theta):
            return self.exposed + self.lost + max(float(self.letters.value.max()), 0.0)
        exponent = self.users * self.letters.cumulants(self.theta)[0]
        if exponent > LARGEST_EPSILON:
            return 1.0
        excess = math.exp(exponent) * 1.001 / (math.e * self.theta * self.users)
        return self.exposed + self.lost + excess + _UNDERFLOW

    @property
    def _uneven(self) -> bool:
        """Whether the tilted law has far values besides its bulk: no lattice suits both."""
        assert self.letters is not None
        spread = self.letters.cumulants(self.theta)[2]
        return self.clipped or spread > _UNEVEN * self.letters.cumulants(0.0)[2]

    def bound(self, direction: Direction, effort: Effort) -> float:
        """The divergence, bounded in the given direction."""
        sign = 1.0 if direction is Direction.UPPER else -1.0
        exposed = self.exposed * (1.0 + sign * 64 * UNIT_ROUNDOFF)
        if self.trivial or self.letters is None:
            return min(exposed, 1.0)
        if math.isinf(self.theta):
            rounding = max(float(self.letters.value.max()), 0.0)
            return min(exposed + (rounding if direction is Direction.UPPER else 0.0), 1.0)
        size = largest_multisets(self.letters.mass.size, self.users, _EXACT)
        if size == self.users:
            return min(exposed + self._enumerated(direction) / self.users, 1.0)
        if self.chernoff <= 2.0 * _UNDERFLOW:  # nothing is left to be found
            return self.chernoff if direction is Direction.UPPER else exposed
        if self._uneven:
            found = heavy_excess(
                self.letters, direction, resolution=effort.resolution, tail=effort.tail
            )
        else:
            found = self._transformed(direction, effort)
        if direction is Direction.UPPER:
            # E(sum)_+ is at most that with clipped letters plus what was clipped off
            found = found * (1.0 + 8 * UNIT_ROUNDOFF) + self.users * self.lost
            return min(exposed + found / self.users + _UNDERFLOW, self.chernoff, 1.0)
        return min(exposed + found / self.users, 1.0)

    def _enumerated(self, direction: Direction) -> float:
        """The plain sum over all multisets of messages."""
        table = multisets(self.pair, self.users)
        value = self._value(table.s0, table.s1)
        # sums of n ratios, and their difference
        size = table.s0 + (1.0 + self.excess) * table.s1
        error = UNIT_ROUNDOFF * (2.0 * self.users + 16.0) * size
        if direction is Direction.UPPER:
            total = float(np.sum(table.mass * np.maximum(value + error, 0.0)))
            return total * (1.0 + table.slack + 64 * UNIT_ROUNDOFF) + self.users * _UNDERFLOW
        total = float(np.sum(table.mass * np.maximum(value - error, 0.0)))
        return max(total * (1.0 - table.slack - 64 * UNIT_ROUNDOFF), 0.0)

    def _transformed(self, direction: Direction, effort: Effort) -> float:
        assert self.letters is not None
        if self.clipped:
            one = Summand(self.letters.value, self.letters.mass, 1, self.users, UNIT_ROUNDOFF)
            return expected_excess(
                self.letters,
                [one],
                self.theta,
                direction,
                variance=_ROUNDING * effort.resolution,
            )
        group = largest_multisets(self.letters.mass.size, max(self.users // 64, 1), _DENSE)
        summands = []
        for size, count in ((group, self.users // group), (self.users % group, 1)):
            if size:
                table = multisets(self.pair, size)
                value = self._value(table.s0, table.s1)
                summands.append(Summand(value, table.mass, size, count, drift=table.slack))
        return expected_excess(
            self.letters, summands, self.theta, direction, variance=_ROUNDING * effort.resolution
        )
