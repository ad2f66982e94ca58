"""What a sum of n values says when one of them, nobody knows which, has one of two other laws.

A *statistic* of n observations is computed step by step: each observation is put into one of
finitely many letters, with a number; partial results are added, two by two, and the sum is put into
one of the cells chosen for that step, again with a number. What comes out in the end is a function
of the observations, and its laws under both hypotheses follow from the letters' by sums of products
of positive numbers. The numbers and the cells only decide how much it says; whatever they are, the
pair of its laws is a post-processing of the observations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.doubling import SumLaw, sum_cells
from shuffle_accountant.lattice.pairs import pair_sums
from shuffle_accountant.numerics.rounding import Array, product, roundings

__all__ = ["Hypotheses", "power_of"]


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Laws of a partial result of ``count`` observations.

    Attributes:
        value: a number for each outcome, ascending, shape (m,).
        null: probabilities when all observations have the common law.
        first: the same when one of them, uniformly chosen, has the first other law.
        second: the same for the second other law.
        count: number of observations.
        error: bound on the relative error of every probability.
    """

    value: Array
    null: Array
    first: Array
    second: Array
    count: int
    error: float

    @property
    def _law(self) -> SumLaw:
        reach = float(np.max(np.abs(self.value)))
        return SumLaw(self.value, self.null, self.count, 0.0, 0.0, 0.0, reach)

    def add(self, other: Hypotheses, width: float) -> Hypotheses:
        """The sum of two independent results, in cells of that many normal scores."""
        edges = sum_cells(self._law, other._law, width=width)
        u, v = self.value, other.value
        null, moment, error = pair_sums(u, self.null, v, other.null, edges)
        count = self.count + other.count
        laws = []
        for mine, others in ((self.first, other.first), (self.second, other.second)):
            with_mine, _, error_here = pair_sums(u, mine, v, other.null, edges)
            if self is other:  # the other half holds it just as often
                laws.append(with_mine)
            else:
                with_other, _, error_here = pair_sums(u, self.null, v, others, edges)
                laws.append((self.count * with_mine + other.count * with_other) / count)
            error = max(error, error_here)
        inside = np.divide(moment, null, out=np.zeros_like(null), where=null > 0.0)
        held = null > 0.0
        total = product(self.error, other.error, error, roundings(8))
        # numbers must ascend; equal ones would do
        value = np.maximum.accumulate(edges + inside)[held]
        return Hypotheses(value, null[held], laws[0][held], laws[1][held], count, total)

    def pruned(self, users: int, tail: float) -> Hypotheses:
        """Without outcomes at both ends that matter for none of the laws of ``users``."""
        weight = self.null * (users / self.count) + self.first + self.second
        keep = np.minimum(np.cumsum(weight), np.cumsum(weight[::-1])[::-1]) > tail
        if keep.all() or not keep.any():
            return self
        return replace(
            self,
            value=self.value[keep],
            null=self.null[keep],
            first=self.first[keep],
            second=self.second[keep],
        )


def power_of(one: Hypotheses, count: int, *, width: float, tail: float) -> Hypotheses:
    """The result of ``count`` observations.

    Args:
        one: that of one observation.
        count: number of observations, >= 1.
        width: of cells, in normal scores.
        tail: probability that each step may drop.
    """
    base, total, left = one, None, count
    while True:
        if left & 1:
            total = base if total is None else base.add(total, width).pruned(count, tail)
        left >>= 1
        if left == 0:
            assert total is not None
            return total
        base = base.add(base, width).pruned(count, tail)
