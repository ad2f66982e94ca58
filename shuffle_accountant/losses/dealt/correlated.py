"""The loss of a deal whose steps release correlated noise: the mean of dependent ratios.

*A tree*, all nodes of which are released: the logarithm of a bin's ratio is a sum of independent
normal values, one for each node above the bin. With W the ratio of a node, lognormal of mean one,
the sum over the node's bins is ``W`` times the sum over its children's: one-dimensional, node by
node. It is affine in every W and in every node's sum given all else, so that mean-preserving
spreads of them bound it from above in convex order (PESSIMISTIC), and conditional means from below.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.settings import CORRELATED
from shuffle_accountant.losses.steps.gaussian import GaussianRatio, gaussian_profile
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.numerics.rounding import Bound, outwards, roundings
from shuffle_accountant.sums.chain_below import chain_below
from shuffle_accountant.sums.chain_law import ChainSum, chain_sum, ring_sum
from shuffle_accountant.sums.doubling import SumLaw, add, coarser, power, pruned
from shuffle_accountant.sums.pair_law import pair_sum

Block = tuple[int, float, float, float]
"""Bins in a block at most, and of its chain the variance, the correlation of neighbours in [0, 1)
and the variance of the independent part."""


@dataclass(frozen=True)
class Dependent(RatioSource):
    """Likelihood ratios of the bins of a deal, dependent, each lognormal of mean one.

    Attributes:
        variance: of the logarithm of one ratio, > 0: the squared norm of what a record contributes
            to all outputs, over that of the noise.
        order: whether they are asked about in the order (Q, P), in which other bounds may hold.
    """

    variance: float
    order: bool

    @property
    def deviation(self) -> float:
        """Standard deviation of a ratio."""
        return math.sqrt(math.expm1(min(self.variance, 600.0)))

    @abstractmethod
    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Bound of the distribution of the sum over all bins; arguments as in `RatioSource`."""

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Not defined: ratios depend on one another, and only their sum is used."""
        raise NotImplementedError("ratios of correlated steps have no law of their own")

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha`` if the bin of a record is revealed: the Gaussian mechanism's."""
        # a smaller deviation reveals more
        away = -roundings(8) if side is Bound.PESSIMISTIC else roundings(8)
        return gaussian_profile((1.0 + away) / math.sqrt(self.variance), epsilon, side)


@dataclass(frozen=True)
class CorrelatedLoss(MeanRatioLoss):
    """Privacy loss of the pair whose ratio is the mean of dependent ratios."""

    source: Dependent

    @property
    def reversed(self) -> CorrelatedLoss:
        """The loss of the exchanged pair."""
        source = replace(self.source, order=not self.source.order)
        return replace(self, source=source, swapped=not self.swapped)

    def _pointed_out(self, epsilon: float, side: Bound) -> float:
        """The trivial bound: that of `MeanRatioLoss` needs independent ratios."""
        return 1.0 if side is Bound.PESSIMISTIC else 0.0


@dataclass(frozen=True)
class ChainRatios(Dependent):
    """Ratios of a chain of bins, or of a ring, from above.

    Covariances are ``common theta^d`` at a distance of d bins, plus ``own`` on the diagonal; those
    of a ring of b bins ``common (theta^d + theta^(b - d)) / (1 + theta^b)``.

    Attributes:
        common: variance of the chain.
        theta: correlation of neighbours, in [0, 1).
        own: variance of the independent part.
        epsilon: nats about which bounds are tight.
        ring: whether the last bin is next to the first.
    """

    common: float
    theta: float
    own: float
    epsilon: float
    ring: bool = False

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """An upper bound in convex order."""
        assert side is Bound.PESSIMISTIC, "chains have upper ends only"
        small = self.order and self.epsilon > CORRELATED.large
        found = _chain(
            *(self.ring, users, self.common, self.theta, self.own, self.epsilon, tail, small)
        )
        factor = 1.0 if self.order else found.raised
        return replace(
            found.law,
            value=found.law.value * factor,
            moved=found.law.moved + roundings(2),
            lost_gain=found.law.lost_gain * factor * (1.0 + roundings(2)),
            reach=found.law.reach * factor,
        )


@lru_cache(maxsize=16)
def _chain(
    ring: bool,
    bins: int,
    common: float,
    theta: float,
    own: float,
    epsilon: float,
    tail: float,
    small: bool,
) -> ChainSum:
    bound = ring_sum if ring else chain_sum
    return bound(bins, common, theta, own, tail=tail, epsilon=epsilon, small=small)


@dataclass(frozen=True)
class PairRatios(Dependent):
    """Ratios of a line of bins, neighbours of which share one normal value each.

    Attributes:
        first: deviation of the part that a bin shares with the one before, > 0.
        second: deviation of the part that it shares with the next one, > 0.
        last: deviation of the last bin's part that it shares with none, at most ``second``.
    """

    first: float
    second: float
    last: float

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Both bounds are exact but for nodes and cells."""
        parts = (self.first, self.second, self.last)
        rough = _rough_of_pairs(users, *map(_few_digits, parts), _delta_of(tail))
        return _pairs(users, *parts, side, self.order, tail, *rough)


@lru_cache(maxsize=16)
def _pairs(
    bins: int,
    first: float,
    second: float,
    last: float,
    side: Bound,
    order: bool,
    tail: float,
    epsilon: float,
    other: float,
) -> SumLaw:
    def line(count: int) -> SumLaw:
        share = tail * count / bins
        return pair_sum(
            *(count, first, second, last, side),
            powers=order,
            tail=share,
            epsilon=epsilon,
            spare=max(epsilon - other, 0.0) if order else 0.0,
            among=bins,
        )

    if side is Bound.PESSIMISTIC or bins <= CORRELATED.most_of_line:
        return line(bins)
    # blocks of bins that share nothing with one another reveal less, and hardly so
    count = bins // CORRELATED.most_of_line
    size = bins // count
    law = power(line(size), count, side, width=CORRELATED.loose, tail=0.25 * tail)
    rest = bins - count * size
    if rest == 0:
        return law
    return add(law, line(rest), side, width=CORRELATED.loose, budget=0.1 * tail, users=bins)


@dataclass(frozen=True)
class TreeRatios(Dependent):
    """Ratios of the leaves of a complete binary tree whose nodes are all released.

    Attributes:
        step: variance that one node's noise adds to the logarithm of the ratios below it.
    """

    step: float

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Both bounds are exact but for cells."""
        return tree_sum(users.bit_length() - 1, self.step, side, width=width, tail=tail)


@dataclass(frozen=True)
class ChainsBelow(Dependent):
    """Ratios from below: independent blocks of bins, a chain in each, that reveal less.

    Attributes:
        scales: factors in (0, 1] of the first bins' logarithms; further bins' ratios are 1.
        ways: blocks that are below; the way that reveals most at the delta asked for is taken.
    """

    scales: tuple[float, ...]
    ways: tuple[Block, ...]

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """A lower bound in the order's convex order."""
        assert side is Bound.OPTIMISTIC, "these chains have lower ends only"
        way = self.ways[0]
        if len(self.ways) > 1:
            delta = _delta_of(tail)
            way = max(self.ways, key=lambda one: _looked_at(one, len(self.scales), delta))
        return _of_blocks(self, way, users, tail)


def _delta_of(tail: float) -> float:
    """About the delta that is asked for, from what may be left out."""
    return min(max(CORRELATED.of_tail * tail, CORRELATED.least_look), CORRELATED.usual)


@lru_cache(maxsize=64)
def _looked_at(way: Block, bins: int, delta: float) -> float:
    """Approximation of epsilon of as many blocks as there are in a number of bins."""
    size = min(way[0], bins)
    return rough_epsilon(size, *way[1:], chains=max(bins // size, 1), delta=delta)


@lru_cache(maxsize=16)
def _of_blocks(source: ChainsBelow, way: Block, bins: int, tail: float) -> SumLaw:
    """Law of the sum of independent blocks of bins, of which only the last one is scaled."""
    scales, (block, common, theta, own) = np.asarray(source.scales), way
    # as few as there can be, and of about equal size
    size = math.ceil(scales.size / math.ceil(scales.size / block))
    whole, rest = divmod(scales.size - size, size)

    others = [(count, part) for count, part in ((whole, size), (1, rest)) if count and part]
    law, *found = chain_below(
        *(scales[scales.size - size :], common, theta, own),
        powers=source.order,
        tail=tail / (8.0 * (whole + 2)),
        # what a block has beyond many times its mean comes from few bins: cells may be wide
        far=min(CORRELATED.far * bins, CORRELATED.far_of_block * size),
        whole=tuple(part for _, part in others),
    )
    for (count, _), one in zip(others, found, strict=True):
        one = power(one, count, Bound.OPTIMISTIC, width=CORRELATED.loose, tail=0.25 * tail)
        law = add(law, one, Bound.OPTIMISTIC, width=CORRELATED.loose, budget=0.1 * tail, users=bins)
    return _with_ones(law, bins - scales.size)


def _with_ones(law: SumLaw, count: int) -> SumLaw:
    """The law with as many further ratios that are all 1."""
    if count == 0:
        return law
    return replace(law, value=law.value + count, count=law.count + count, reach=law.reach + count)


@dataclass(frozen=True)
class UnknownRatios(Dependent):
    """Ratios of which nothing is known from below: their mean is taken to be 1."""

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """The mean alone, a lower bound in convex order."""
        assert side is Bound.OPTIMISTIC, "nothing is known from above"
        return SumLaw(np.full(1, float(users)), np.ones(1), users, 0.0, 0.0, 0.0, float(users))


def rough_epsilon(
    bins: int,
    common: float,
    theta: float,
    own: float,
    *,
    chains: int = 1,
    delta: float = CORRELATED.usual,
) -> float:
    """Approximation of epsilon for one chain of bins, or for independent ones."""
    coarse, tail = CORRELATED.coarse * max(bins / CORRELATED.few, 1.0), 1e-4 * delta
    look = chain_sum(bins, common, theta, own, tail=tail, epsilon=1.0, coarser=coarse)
    law = power(look.law, chains, Bound.PESSIMISTIC, width=CORRELATED.loose, tail=tail)
    return _epsilon_of(law, bins * chains, delta)


@lru_cache(maxsize=64)
def _rough_of_pairs(
    bins: int, first: float, second: float, last: float, delta: float
) -> tuple[float, float]:
    """Approximations of epsilon in both orders for two bands."""

    def rough(epsilon: float, swapped: bool) -> float:
        law = pair_sum(
            *(bins, first, second, last, Bound.PESSIMISTIC),
            powers=swapped,
            tail=1e-4 * delta,
            epsilon=epsilon,
            coarser=CORRELATED.coarse_pairs,
        )
        return _epsilon_of(law, bins, delta, swapped)

    # as if the mean ratio were normal, if that is less than a nat
    variance = math.expm1(first * first + second * second) + 2.0 * math.expm1(first * second)
    start = math.log1p(math.sqrt(-2.0 * math.log(delta) * variance / bins))
    epsilon = rough(rough(min(start, 1.0), False), False)
    return epsilon, rough(epsilon, True)


def _few_digits(value: float) -> float:
    """The value in six digits: both sides' roundings of one value look at the same law."""
    return float(f"{value:.6g}")


def _epsilon_of(law: SumLaw, bins: int, delta: float, swapped: bool = False) -> float:
    """Epsilon of that delta in the order (P, Q), or (Q, P), if the ratios' sum has this law."""
    mean = law.value / bins
    loss = np.log(np.maximum(mean, 1e-300))
    if swapped:
        loss, mean = -loss, np.ones(mean.size)
    low, high = 0.0, float(loss.max())
    for _ in range(40):
        middle = 0.5 * (low + high)
        gain = -np.expm1(np.minimum(middle - loss, 0.0)) * mean
        above = float(law.mass @ gain) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


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
    other = source.ratios(side, users=users, width=CORRELATED.factor, tail=tail)
    if law.value.size > 1:
        other = coarser(other, CORRELATED.factor, side)
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
