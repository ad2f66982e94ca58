"""A statistic of n observations, and its laws where a random one of these has another law.

A *statistic* of n observations is computed step by step: each observation is put into one of
finitely many outcomes, with a number; partial results are added, two by two, and the sum is put
into one of the cells chosen for that step, again with a number. What comes out in the end is a
function of the observations, and its laws under both hypotheses follow from the outcomes' by sums
of products of positive numbers. The numbers and the cells only decide how much it says; whatever
they are, the pair of its laws is a post-processing of the observations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    Array,
    pairwise_sum,
    product,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.doubling import SumLaw, near_scores, single_width, sum_cells
from shuffle_accountant.sums.pairs import marked_sums


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Distributions of a partial result of ``count`` observations under all hypotheses.

    Attributes:
        value: a number for each outcome, ascending, shape (m,).
        null: probabilities when all observations have the common law.
        first: probabilities when one of them, uniformly chosen, has the first other law.
        second: probabilities when one has the second other law.
        count: number of observations.
        error: bound on the relative error of every probability.
        lost: bound on the probability, under any of the three, that some part of a sum of all
            observations is an outcome that was dropped.
    """

    value: Array
    null: Array
    first: Array
    second: Array
    count: int
    error: float
    lost: float = 0.0

    @property
    def _law(self) -> SumLaw:
        reach = float(np.max(np.abs(self.value)))
        return SumLaw(self.value, self.null, self.count, 0.0, 0.0, 0.0, reach)

    def add(self, other: Hypotheses, width: float) -> Hypotheses:
        """The sum of two independent results, in cells of ``width`` normal scores."""
        edges = sum_cells(self._law, other._law, width=width)
        count = self.count + other.count
        mine = self._shares(count)
        others = mine if self is other else other._shares(count)
        sums, error = marked_sums(self.value, mine, other.value, others, edges)
        held = sums[0] > 0.0
        null, moment, first, second = sums[:, held]
        total = product(self.error, other.error, error, roundings(8))
        # two equal halves share their dropped outcomes: `lost` counts these over the whole sum
        lost = self.lost if self is other else self.lost + other.lost
        lost += float(sums[2:, ~held].sum())
        value = np.maximum.accumulate(edges[held] + moment / null)
        return Hypotheses(value, null, first, second, count, total, lost)

    def _shares(self, count: int) -> Array:
        """Masses of all laws, the others' times the chance that this part has the observation."""
        part = self.count / count
        return np.array([self.null, part * self.first, part * self.second])

    def coarser(self, width: float) -> Hypotheses:
        """The result with outcomes merged whose normal scores lie in one cell of this width."""
        starts, terms = near_scores(self.null, width)
        null, first, second, moment = (
            rounded(np.add.reduceat(x, starts), terms)
            for x in (self.null, self.first, self.second, self.null * self.value)
        )
        value = np.divide(moment, null, out=self.value[starts], where=null > 0.0)
        # numbers must ascend, and only decide how much is said
        value, error = np.maximum.accumulate(value), product(self.error, sequential_sum(terms))
        return Hypotheses(value, null, first, second, self.count, error, self.lost)

    def pruned(self, users: int, tail: float) -> Hypotheses:
        """The result without outcomes at either end of weight at most ``tail`` among ``users``."""
        weight = self.null * (users / self.count) + self.first + self.second
        keep = np.minimum(np.cumsum(weight), np.cumsum(weight[::-1])[::-1]) > tail
        if keep.all() or not keep.any():
            return self
        dropped = rounded(float(weight[~keep].sum()), 64)
        return replace(
            self,
            value=self.value[keep],
            null=self.null[keep],
            first=self.first[keep],
            second=self.second[keep],
            lost=self.lost + raised(dropped, self.error + pairwise_sum(own=8)),
        )


def power_of(one: Hypotheses, count: int, *, width: float, tail: float) -> Hypotheses:
    """The distributions of the statistic of ``count >= 1`` observations, each with those of one.

    Cells are ``width`` normal scores wide, and each step may drop a probability of ``tail``.
    """
    law = one
    for digit in bin(count)[3:]:
        law = law.add(law, width).pruned(count, tail)
        if digit == "1":
            single = one.coarser(single_width(width, law.count + 1))
            law = single.add(law, width).pruned(count, tail)
    return law
