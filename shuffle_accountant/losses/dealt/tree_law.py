"""The sum of correlated likelihood ratios whose covariances are those of a tree.

The logarithm of a bin's ratio is a sum of independent normal values, one for each node of a binary
tree above the bin. With W the ratio of a node, lognormal of mean one, the sum over the node's bins
is ``W`` times the sum over its children's: one-dimensional, node by node. It is affine in every W
and in every node's sum given all else, so that mean-preserving spreads of them bound it from above
in convex order (PESSIMISTIC), and conditional means from below (OPTIMISTIC).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.numerics.rounding import outwards, roundings
from shuffle_accountant.sums.doubling import SumLaw, add, coarser, pruned

# Width of the cells of one node's ratio, in normal scores of it: a hundredth of the variance's part
# that such cells add.
_FACTOR = 0.08

Level = Callable[[int, int], float]
"""Covariance that bins ``start … stop - 1`` have at least in common, from start and stop."""


def tree_sum(bins: int, level: Level, side: Bound, *, width: float, tail: float) -> SumLaw:
    """Bound of the law of the sum over all bins of their likelihood ratios under Q.

    Args:
        bins: their number, >= 1.
        level: covariances, nowhere smaller for a part of a range of bins.
        side: PESSIMISTIC is above the true law in convex order, OPTIMISTIC below it.
        width: width of cells, in normal scores.
        tail: probability and gain that may be left out in all.
    """
    budget = 0.25 * tail / (2.0 * bins)
    known: dict[tuple[float, ...], SumLaw] = {}

    def node(start: int, stop: int) -> tuple[SumLaw, tuple[float, ...]]:
        """Law of the sum without the factors above the node, and what it depends on."""
        if stop - start == 1:
            one = np.ones(1)
            return SumLaw(one, one, 1, 0.0, 0.0, 0.0, 1.0), ()
        middle = start + (stop - start + 1) // 2
        own = level(start, stop)
        parts = [factored(start, middle, own), factored(middle, stop, own)]
        key = parts[0][1] + (-1.0,) + parts[1][1]
        if key not in known:
            known[key] = add(parts[0][0], parts[1][0], side, width=width, budget=budget, users=bins)
        return known[key], key

    def factored(start: int, stop: int, above: float) -> tuple[SumLaw, tuple[float, ...]]:
        """Law of the sum with the node's own factor, and what it depends on."""
        law, key = node(start, stop)
        variance = max(level(start, stop) - above, 0.0)
        key = (*key, variance, float(stop - start))
        if key not in known:
            known[key] = pruned(_times(law, variance, side, width, budget, bins), budget, bins)
        return known[key], key

    return factored(0, bins, 0.0)[0]


def _times(
    law: SumLaw, variance: float, side: Bound, width: float, tail: float, users: int
) -> SumLaw:
    """The law of a sum times an independent lognormal ratio whose logarithm has this variance."""
    if variance == 0.0:
        return law
    # the square of what is left of the root and the quotient is on the side's side of the variance
    away = -roundings(8) if side is Bound.PESSIMISTIC else roundings(8)
    source = GaussianRatio((1.0 + away) / math.sqrt(variance))
    other = source.ratios(side, users=users, width=_FACTOR, tail=tail)
    if law.value.size > 1:
        other = coarser(other, _FACTOR, side)
    value = np.multiply.outer(law.value, other.value).ravel()
    mass = np.multiply.outer(law.mass, other.mass).ravel()
    order = np.argsort(value, kind="stable")
    found = SumLaw(
        value=value[order],
        mass=outwards(mass[order], roundings(2), upper=side is Bound.PESSIMISTIC),
        count=law.count,
        lost_gain=law.lost_gain + other.lost_gain,
        lost=law.lost + other.lost,
        moved=law.moved + other.moved + roundings(4),
        reach=law.reach * other.reach,
    )
    return replace(coarser(found, width, side), cells=None)
