"""Laws of the sums of K i.i.d. values for many K at once, at about one addition each."""

from __future__ import annotations

from collections.abc import Callable

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
        self._laws: dict[int, SumLaw] = {1: one(width, 0.25 * tail / users)}

    def law(self, count: int) -> SumLaw:
        """The law of the sum of ``count`` copies by way of powers of two, which all counts share.

        Kept for further counts; ``count`` is a number from `rounded_counts`.
        """
        if count not in self._laws:
            first = 1 << ((count - 1).bit_length() - 1)
            a, b = self.law(first), self.law(count - first)
            self._laws[count] = add(
                a, b, self.side, width=self.width, budget=self.budget, users=self.users
            )
        return self._laws[count]
