"""The loss of a deal whose steps release correlated noise: the mean of dependent ratios."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.dealt.chain_law import ChainSum, chain_sum
from shuffle_accountant.losses.dealt.tree_law import tree_sum
from shuffle_accountant.losses.steps.gaussian import gaussian_profile
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.numerics.rounding import roundings
from shuffle_accountant.sums.doubling import SumLaw

# Width of cells of lower ends that are not exact, in normal scores: covariances decide there.
_LOOSE = 0.02


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
    """Ratios with covariances ``common theta^|i - j|``, plus ``own`` on the diagonal, from above.

    Attributes:
        common: variance of the chain.
        theta: correlation of neighbours, in [0, 1).
        own: variance of the independent part.
        epsilon: nats about which bounds are tight.
    """

    common: float
    theta: float
    own: float
    epsilon: float

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """An upper bound in convex order."""
        assert side is Bound.PESSIMISTIC, "chains have upper ends only"
        found = _chain(users, self.common, self.theta, self.own, self.epsilon, tail)
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
    bins: int, common: float, theta: float, own: float, epsilon: float, tail: float
) -> ChainSum:
    return chain_sum(bins, common, theta, own, tail=tail, epsilon=epsilon)


@dataclass(frozen=True)
class TreeRatios(Dependent):
    """Ratios of the leaves of a complete binary tree whose nodes are all released.

    Attributes:
        step: variance that one node's noise adds to the logarithm of the ratios below it.
    """

    step: float

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Both bounds are exact but for cells."""
        height = users.bit_length() - 1

        def level(start: int, stop: int) -> float:
            return self.step * (height - ((stop - start).bit_length() - 1) + 1)

        return tree_sum(users, level, side, width=width, tail=tail)


@dataclass(frozen=True)
class BandedRatios(Dependent):
    """Ratios of a banded encoder's columns, from below: by a tree of smaller covariances.

    Attributes:
        coefficients: of the encoder's columns, >= 0, shape (p,), p <= bins if epochs > 1.
        epochs: how often the deal is gone through.
        precision: one over the variance of the noise.
    """

    coefficients: tuple[float, ...]
    epochs: int
    precision: float

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """A lower bound in convex order: covariances of a tree that are nowhere larger."""
        assert side is Bound.OPTIMISTIC, "trees of banded encoders have lower ends only"
        return _banded(self.coefficients, self.epochs, self.precision, users, tail)


@lru_cache(maxsize=16)
def _banded(
    coefficients: tuple[float, ...], epochs: int, precision: float, bins: int, tail: float
) -> SumLaw:
    c = np.asarray(coefficients)
    bands, again = c.size, epochs - 1
    # sums of the products of c and of itself d later, of the first terms: of what the last bins see
    first = [np.append(0.0, np.cumsum(c[: bands - d] * c[d:])) for d in range(bands)]

    def shared(distance: int, terms: int) -> float:
        if distance >= bands:
            return 0.0
        return float(first[distance][min(terms, bands - distance)])

    @cache
    def least(size: int, rows: int) -> float:
        """Smallest covariance among bins ``… - size`` to the one that sees this many rows."""
        found = math.inf
        for d in range(min(size, bins)):
            one = again * shared(d, bands) + shared(d, rows)
            if again and d:
                one += max(again - 1, 0) * shared(bins - d, bands) + shared(bins - d, rows + d)
            found = min(found, one)
            if d >= bands and not again:
                break
        return found * precision * (1.0 - roundings(4.0 * bands + 16.0))

    def level(start: int, stop: int) -> float:
        return least(stop - start, min(bins - stop + 1, bands))

    return tree_sum(bins, level, Bound.OPTIMISTIC, width=_LOOSE, tail=tail)


@dataclass(frozen=True)
class UnknownRatios(Dependent):
    """Ratios of which nothing is known from below: their mean is taken to be 1."""

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """The mean alone, a lower bound in convex order."""
        assert side is Bound.OPTIMISTIC, "nothing is known from above"
        return SumLaw(np.full(1, float(users)), np.ones(1), users, 0.0, 0.0, 0.0, float(users))
