"""Laws of the sums of K i.i.d. values for many K at once, at about one addition each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.doubling import SumLaw, add
from shuffle_accountant.sums.settings import DOUBLING


def rounded_counts(first: int, last: int) -> list[int]:
    """Numbers from ``first`` to ``last`` of at most ``DOUBLING.bits`` significant binary digits."""
    counts, count = [], rounded_count(first)
    while count <= last:
        counts.append(count)
        count += 1 << max(count.bit_length() - DOUBLING.bits, 0)
    return counts


def rounded_count(count: int) -> int:
    """A number rounded down to ``DOUBLING.bits`` significant binary digits."""
    shift = max(count.bit_length() - DOUBLING.bits, 0)
    return count >> shift << shift


class SumFamily:
    """Bounds of the laws of sums of K copies of one value, for different K.

    Args:
        one: makes the law of one copy, from a width and a tail.
        side: PESSIMISTIC is above the true laws in convex order, OPTIMISTIC below them.
        width: width of cells, in normal scores.
        tail: gain or probability that each sum may leave out.
        users: no sum has more values.
    """

    def __init__(
        self,
        one: Callable[[float, float], SumLaw],
        side: Bound,
        *,
        width: float,
        tail: float,
        users: int,
    ) -> None:
        self.side, self.width, self.users = side, width, users
        # each of the sums adds at most two for every binary digit
        self.budget = tail / (4 * users.bit_length() + 8)
        self._fine: dict[int, SumLaw] = {1: one(width, 0.25 * tail / users)}
        self._wide: dict[int, SumLaw] = {}

    def law(self, count: int) -> SumLaw:
        """The law of the sum of ``count`` copies, a number from `rounded_counts`.

        The part of it in its last binary digits is added in cells twice as wide: that error counts
        once, and those of all other additions add up.
        """
        shift = max(count.bit_length() - DOUBLING.bits, 0)
        last = count % (1 << (shift + (DOUBLING.bits + 1) // 2))
        if last in (0, count):
            return self._summed(count)
        return self._add(self._widened(count - last), self._widened(last), 2.0)

    def _summed(self, count: int) -> SumLaw:
        """The law of ``count`` copies by way of powers of two, kept: all counts share these."""
        if count not in self._fine:
            first = 1 << ((count - 1).bit_length() - 1)
            self._fine[count] = self._add(self._summed(first), self._summed(count - first))
        return self._fine[count]

    def _widened(self, count: int) -> SumLaw:
        """The law of ``count`` copies in cells twice as wide, kept."""
        if count not in self._wide:
            nothing = SumLaw(np.zeros(1), np.ones(1), 0, 0.0, 0.0, 0.0, 0.0)
            self._wide[count] = self._add(nothing, self._summed(count), 2.0)
        return self._wide[count]

    def _add(self, a: SumLaw, b: SumLaw, wider: float = 1.0) -> SumLaw:
        width = wider * self.width
        return add(a, b, self.side, width=width, budget=self.budget, users=self.users)
