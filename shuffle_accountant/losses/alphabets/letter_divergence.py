"""The hockey-stick divergence of one pair of letters at one alpha.

What few laws cannot answer (see `shuffle_accountant.losses.alphabets.anchored_profile`), one alpha
at a time: exactly over all multisets of messages where these are few; what letters give away that
come alone, which is all there is for alpha to infinity; and letters of which some are so far above
the others that no tilt reaches them and the bulk. The last is needed for Gaussian noise with sigma
= 1 among a thousand users, one round, where the anchored laws' brackets stay wide: the near letters
by a law of their own (`shuffle_accountant.lattice.far_letters`), else sums of positive numbers
(`shuffle_accountant.lattice.heavy_tails`).

Rounding. ``x -> E(sum of n copies)_+`` grows with every letter's value, so each value
``(p0 - alpha p1)/q`` is replaced by a bound of it in the direction asked for. Values are divided by
the largest of them; a value below ``-2n`` times the largest makes every sum negative, so how far
below does not matter. Nothing can overflow, and no comparison decides on a rounded value.

Rare letters. Let H be letters with positive values, A the sum with these counted as 0, and B the
sum of theirs alone. Then ``(A + B)_+ = A_+ + (B - (A)_-)_+``, which is between ``A_+ + [one letter
of H, all others light] (B - (A)_-)_+`` and ``A_+ + B``. With g the letters' ``p0 - alpha p1``, Q
their mass and m the mean of the light letters' negative parts, the divergence lies between

    E(A_+)/n + (1 - Q)^(n-1) sum_H (g - q (n-1) m / (1 - Q))_+   and   E(A_+)/n + sum_H g.

m is at most alpha times the light letters' p1. Both ends meet for values far above all others, and
for letters that decoys never send (q = 0).
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.far_letters import far_positive_part
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.heavy_tails import heavy_positive_part
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.losses.alphabets.letters import (
    LetterPair,
    gains,
    largest_multisets,
    multisets,
    times_alpha_less_one,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    exponential,
    lowered,
    outwards,
    pairwise_sum,
    product,
    raised,
    roundings,
    underflow,
)

__all__ = ["LARGEST_EPSILON", "LetterDivergence"]

# Up to so many multisets of all messages the profile is a plain sum.
_EXACT = 1 << 18
# A letter that outweighs all others this many times is counted as if it came alone, which is off by
# about the inverse.
_LINEAR = 1e4
# More than what numbers below the smallest normal double can lose.
_UNDERFLOW = 1e-305
# A part this much smaller than what the answer may be off by is not looked into.
_SMALL = 1e-3
# Rounding may change the variance of a sum by this times the resolution; the lower side of a
# profile multiplies the width of its points.
_ROUNDING = 0.4
# Gathering values in cells may change it by this times the resolution: ends differ by less.
_GATHERING = 40.0
# Beyond this loss e^epsilon overflows; the profile there is bounded by its value here.
LARGEST_EPSILON = 700.0


class LetterDivergence:
    """Bound of ``H_alpha``, alpha = e^epsilon, of one pair of letters among ``users`` messages."""

    def __init__(self, pair: LetterPair, users: int, epsilon: float, side: Bound) -> None:
        self.pair, self.users, self.epsilon, self.side = pair, users, epsilon, side
        self.exposed = self.rest = self.top = 0.0
        self.letters: Letters | None = None
        self.few = False
        if epsilon >= pair.largest and pair.largest < math.inf:  # which is rounded up
            return
        r0, r1, q = pair.decoyed
        value = gains(r0, r1, epsilon, side)
        self.few = largest_multisets(q.size, users, _EXACT) == users
        # sums with a letter this high are all but linear in it
        high = _LINEAR * users * (1.0 + float(times_alpha_less_one(np.ones(1), epsilon)[0]))
        heavy = value > (math.inf if self.few else high)
        light = np.where(heavy, 0.0, value)
        self.exposed = self._exposed(value, r1, q, heavy)
        #: largest possible value of what the light letters add: each on its own
        self.rest = float(np.sum(q * np.maximum(light, 0.0)))
        self.top = float(light.max(initial=0.0))
        if self.top > 0.0:
            lowest = -2.0 * users * self.top
            self.letters = Letters(np.maximum(light, lowest) / self.top, q, users)

    def _exposed(self, value: Array, r1: Array, q: Array, heavy: NDArray[np.bool_]) -> float:
        """Bound of what letters that come alone add; see the module's text."""
        p0, p1, scarce = self.pair.scarce
        gain = np.append(gains(p0, p1, self.epsilon, self.side), (q * value)[heavy])
        mass = np.append(scarce, q[heavy])
        rare = gain > 0.0
        if self.side is Bound.PESSIMISTIC:
            return raised(float(np.sum(gain[rare])), pairwise_sum())
        others = self.users - 1
        total = raised(float(np.sum(mass)), pairwise_sum())
        if others * total >= 1.0:
            return 0.0
        left = gain[rare]
        share = others * float(np.sum((r1 * q)[~heavy])) / (1.0 - total)
        if share > 0.0:
            with np.errstate(divide="ignore", over="ignore"):
                # the logarithms are off by far less than 1e-9
                log_cost = math.log(share) + min(self.epsilon, 1e6) + 1e-9
                left = left - np.exp(np.log(mass[rare]) + log_cost)
        exponent = others * math.log1p(-total)
        moved = roundings(ELEMENTARY + 2) * (abs(exponent) + others * total)
        alone = lowered(math.exp(exponent), exponential(moved, own=64))
        return lowered(float(np.sum(np.maximum(left, 0.0))) * alone, pairwise_sum(own=2))

    @cached_property
    def theta(self) -> float:
        """The tilt."""
        assert self.letters is not None
        return saddle(self.letters)

    @cached_property
    def chernoff(self) -> float:
        """Upper bound from the moment generating function alone: cheap, a few times too large."""
        alone = raised(self.exposed + self.rest, pairwise_sum(own=2)) + self._missed
        if self.letters is None or self.few or math.isinf(self.theta):
            return alone  # plain sums need no tilt
        exponent = self.users * self.letters.log_mgf_bound(self.theta)
        if exponent > 1.0:
            return alone
        expected = math.exp(exponent) * 1.001 / (math.e * self.theta * self.users)
        return min(alone, self.exposed + self.top * (expected + 1e-320) + self._missed + _UNDERFLOW)

    @cached_property
    def _missed(self) -> float:
        """Bound of what sums add that hold a letter too scarce to be followed, taken as 0."""
        return self.users * float(np.sum(self.pair.scarce[2])) * self.rest

    def bound(self, effort: Effort) -> float:
        """The divergence, bounded in the direction."""
        upper = self.side is Bound.PESSIMISTIC
        if self.letters is None:
            return min(self.exposed, 1.0)
        if self.rest <= _SMALL * effort.resolution * self.exposed or math.isinf(self.theta):
            return min(self.chernoff if upper else self._constant(), 1.0)
        if not self.few and self.chernoff - self.exposed <= max(effort.tail, 2.0 * _UNDERFLOW):
            return self.chernoff if upper else min(self.exposed, 1.0)  # what may be cut off
        found = self._enumerated() if self.few else self.top * self._summed(effort)
        found = outwards(found / self.users, roundings(8), upper=upper)
        if upper:
            return min(self.exposed + found + self._missed + _UNDERFLOW, self.chernoff, 1.0)
        return min(lowered(self.exposed + found, roundings(2)), 1.0)

    def _constant(self) -> float:
        """Lower bound where all letters have one value, so that nothing is to be averaged."""
        assert self.letters is not None
        same = float(np.ptp(self.letters.value)) == 0.0
        return self.exposed + (lowered(self.rest, pairwise_sum(own=2)) if same else 0.0)

    def _enumerated(self) -> float:
        """The plain sum over all multisets of messages."""
        table = multisets(self.pair, self.users)
        value = gains(table.s0, table.s1, self.epsilon, self.side, self.users)
        mass, slack = table.mass, table.slack
        positive = np.maximum(value, 0.0)
        total = float(np.sum(mass * positive))
        lost = float(np.sum(positive * underflow(1)))
        error = product(slack, pairwise_sum(own=2))
        if self.side is Bound.PESSIMISTIC:
            return raised(total + lost, error)
        return max(lowered(total - lost, error), 0.0)

    def _summed(self, effort: Effort) -> float:
        """By a law of the near letters, or by sums of positive numbers if that is too wide."""
        assert self.letters is not None
        found = far_positive_part(
            self.letters,
            self.side,
            slack=multisets(self.pair, 1).slack,
            variance=_ROUNDING * effort.resolution,
        )
        if found is not None:
            return found
        return heavy_positive_part(
            self.letters,
            self.side,
            resolution=_GATHERING * effort.resolution,
            tail=effort.tail / self.top,
        )
