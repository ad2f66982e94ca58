"""Bounds of the sum of the likelihood ratios of a tree's leaves, all nodes of which are released.

The logarithm of a bin's ratio is a sum of independent normal values, one for each node of
a binary tree above the bin. With W the ratio of a node, lognormal of mean one, the sum over the
node's bins is ``W`` times the sum over its children's: one-dimensional, node by node. It is affine
in every W and in every node's sum given all else, so that mean-preserving spreads of them bound it
from above in convex order (PESSIMISTIC), and conditional means from below (OPTIMISTIC).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.losses.steps.gaussian import GaussianRatio
from shuffle_accountant.numerics.rounding import Bound, outwards, roundings
from shuffle_accountant.sums.doubling import SumLaw, add, coarser, pruned

# Width of the cells of one node's ratio, in normal scores of it: a hundredth of the variance's part
# that such cells add.
_FACTOR = 0.08


def tree_sum(height: int, step: float, side: Bound, *, width: float, tail: float) -> SumLaw:
    """Bound of the law of the sum over all leaves of their likelihood ratios under Q.

    Args:
        height: of the complete binary tree, >= 0: it has ``2**height`` leaves.
        step: variance of the logarithm of one node's ratio, > 0.
        side: PESSIMISTIC is above the true law in convex order, OPTIMISTIC below it.
        width: width of cells, in normal scores.
        tail: probability and gain that may be left out in all.
    """
    leaves, one = 1 << height, np.ones(1)
    budget = 0.125 * tail / leaves
    law = SumLaw(one, one, 1, 0.0, 0.0, 0.0, 1.0)
    for level in range(height + 1):  # of a node, from the leaves to the root
        if level:
            law = add(law, law, side, width=width, budget=budget, users=leaves)
        law = pruned(_times(law, step, side, width, budget, leaves), budget, leaves)
    return law


def _times(
    law: SumLaw, variance: float, side: Bound, width: float, tail: float, users: int
) -> SumLaw:
    """The law of a sum times an independent lognormal ratio whose logarithm has this variance."""
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
