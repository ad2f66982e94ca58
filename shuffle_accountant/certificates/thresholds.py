"""Sampled reports whose counts are released from a threshold on: the profile, for all numbers.

Of the users who hold a value, m besides the target, each reports with probability p, and the count
c is released where it is at least K. With the target ``c ~ Bin(m + 1, p)``, without it Bin(m, p):
the ratio of a count is ``(m + 1)(1 - p)/(m + 1 - c)``, which rises with c. So for α >= 1

    H(α)  = P(c >= a) - α Q(c >= a),    a >= K the least count of a ratio above α,
    H'(α) = Q(c < b) - α P(c < b),      b >= K the least count of a ratio above 1/α, or nothing,

and any other a or b gives no more. The supremum over all m is at most the largest of those up to a
last m, and of the one at that m without a threshold: of more users, one further report is a
randomized function of the count, and so is dropping small counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, fmpq

from shuffle_accountant.certificates.balls import Effort, between_zero_and, ceiling
from shuffle_accountant.certificates.work import Work, ball_bytes, price, spend

# Largest number of others that is followed: this multiple of K/p, at most the second number.
_REACH, _MOST_OTHERS = 4, 3000
# Counts up to this multiple of K and this many more are followed one by one.
_COUNTS, _MORE = 8, 400
# Units of work: of one count of one number of others, and of one number of others at one α.
_EACH_COUNT, _EACH_PLACE = 6.0, 40.0
# Bits of the share of a row at which the ratio passes α.
_BITS = 128


@dataclass(frozen=True)
class Thresholded:
    """The count of one value, with the target against without.

    Attributes:
        probability: p, with which a user reports, a fraction in (0, 1).
        threshold: K, the least count that is released, >= 1.
        exchanged: whether the divergences are ``H'``, of the other order, in place of ``H``.
    """

    probability: Fraction
    threshold: int
    exchanged: bool = False

    def definite(self, effort: Effort) -> bool:
        """False: numbers beyond the last one are bounded."""
        return False

    @property
    def _last(self) -> int:
        reach = math.ceil(_REACH * self.threshold / self.probability)
        return max(min(reach, _MOST_OTHERS), self.threshold)

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        rows, counts = self._last + 2.0, float(_COUNTS * self.threshold + _MORE)
        each = _EACH_COUNT * min(counts, rows) + _EACH_PLACE * count
        memory = 6.0 * counts * ball_bytes(effort.precision)
        return Work(price(effort.precision) * rows * each, memory)

    @property
    def _silent(self) -> arb:
        """The probability of no report."""
        silent = 1 - self.probability
        return arb(fmpq(silent.numerator, silent.denominator))

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Upper bounds of the divergence at each α >= 1."""
        spend(self.work(len(alphas), effort).units)
        silent, exchanged = self._silent, self.exchanged
        # the least count of a ratio above α, or above 1/α, as a share of m + 1
        shares = [1 - (silent * alpha if exchanged else silent / alpha) for alpha in alphas]
        ends = [(-ceiling(-share, _BITS), ceiling(share, _BITS)) for share in shares]
        found = [arb(0)] * len(alphas)
        last = self._last
        rows = self._rows()
        without = next(rows)
        for others in range(last + 1):
            with_target = next(rows)
            least = [self.threshold] if others >= self.threshold - 1 else []
            if others == last:
                least.append(0)  # for all larger numbers
            for threshold in least:
                for i, (alpha, (low, high)) in enumerate(zip(alphas, ends, strict=True)):
                    # the count at which the ratio passes α is one of these, rounded or not
                    places = {
                        ((others + 1) * end >> _BITS) + j for end in (low, high) for j in (0, 1)
                    }
                    for place in {max(place, threshold) for place in places}:
                        p, q = with_target.at(place), without.at(place)
                        # below the place, from the tails
                        one = alpha * p - q - (alpha - 1) if exchanged else p - alpha * q
                        found[i] = found[i].max(one)
            without = with_target
        return found

    def _rows(self) -> Iterator[_Tails]:
        """Tails of Bin(m, p), from m = 0 on."""
        silent, report = self._silent, 1 - self._silent
        size = min(_COUNTS * self.threshold + _MORE, self._last + 3)
        masses, beyond = [arb(1)], arb(0)
        while True:
            tails = [beyond]
            for mass in reversed(masses):
                tails.append(tails[-1] + mass)
            yield _Tails(tails[::-1], beyond)
            moved = [silent * masses[0]]
            moved += [silent * b + report * a for a, b in pairwise(masses)]
            top = report * masses[-1]
            if len(masses) < size:
                moved.append(top)
            else:
                beyond = beyond + top
            masses = moved


@dataclass(frozen=True)
class _Tails:
    """``P(c >= a)`` of one row, for a from 0 to the last count that is followed, and beyond it."""

    each: list[arb]
    beyond: arb

    def at(self, place: int) -> arb:
        """``P(c >= place)``."""
        if place < len(self.each):
            return self.each[place]
        return between_zero_and(self.beyond)
