"""Ratios of the Gaussian example: a target at 1 among decoys at 0.

With noise of deviation sigma, a message ``y = sigma z`` has the ratio ``W = e^(z / sigma - 1 / (2
sigma^2))``, z standard normal under Q and around ``1 / sigma`` under P: a lognormal law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.losses.steps.mean_ratio import MOST_CELLS, RatioSource
from shuffle_accountant.numerics.binomial import gauss_legendre
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    lowered,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.doubling import SumLaw

LEAST_SIGMA = 0.05
"""With less noise than this, ratios leave the range of doubles."""

# Largest width of cells, in normal scores.
_WIDEST = 0.05
# Nodes of the quadrature in a cell. A rule of m nodes is off by (z w)^(2m) (m!)^4 / ((2m + 1)
# (2m)!^3) on a cell of width w at score z: at most 1e-18.
_NODES = 8


@dataclass(frozen=True)
class GaussianRatio(RatioSource):
    """Distribution of the likelihood ratio of one message with Gaussian noise: lognormal.

    Attributes:
        sigma: standard deviation of the noise.
    """

    sigma: float

    @property
    def deviation(self) -> float:
        """Standard deviation of W, ``sqrt(e^(1/sigma^2) - 1)``."""
        inverse = 1.0 / self.sigma
        return math.sqrt(math.expm1(min(inverse * inverse, LIMITS.largest_log)))

    @property
    def complete(self) -> bool:
        """Cells hold all but the tails, of P and of Q."""
        return True

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Cells of equal width in z; see `losses.steps.mean_ratio.RatioSource`."""
        edges = self._edges(users, min(width, _WIDEST), 0.25 * tail)
        if edges.size < 2:
            return SumLaw(np.zeros(0), np.zeros(0), 1, 1.0, 1.0, 0.0, 0.0)
        nodes, weights = gauss_legendre(_NODES)
        run = np.diff(edges)[:, None]
        score = edges[:-1, None] + run * nodes
        density = np.exp(-0.5 * score**2) * (weights * run) / math.sqrt(2.0 * math.pi)
        density = rounded(density, score**2 + ELEMENTARY)
        mass = density.sum(axis=1)
        # relative errors are those of exponents, of products, and of a sum; they count for each of
        # all users
        error = sequential_sum(score[:, 0] ** 2 + score[:, -1] ** 2 + _NODES, own=ELEMENTARY + 8)
        exponent = max(abs(self._log_ratio(edges[[0, -1]])))
        moved = sequential_sum(8.0 * float(exponent) + 2 * _NODES, own=2 * ELEMENTARY + 16)
        mean = np.sum(density / mass[:, None] * self._ratio(score), axis=1)
        low, high, shift = float(edges[0]), float(edges[-1]), 1.0 / self.sigma
        lost_gain = _below(low - shift) + _below(shift - high)
        lost = _below(low) + _below(-high)
        if side is Bound.OPTIMISTIC:
            return SumLaw(mean, lowered(mass, error), 1, lost_gain, lost, moved, mean[-1])
        value = self._ratio(edges)
        gap = np.diff(value)  # 0 where ratios of neighbours are the same double
        share = np.divide(mean - value[:-1], gap, out=np.zeros(gap.size), where=gap > 0.0)
        share = np.clip(share, 0.0, 1.0)
        mass = raised(mass, error)
        split = np.append(mass * (1.0 - share), 0.0)
        split[1:] += mass * share
        return SumLaw(value, split, 1, lost_gain, lost, moved, value[-1])

    def _log_ratio(self, score: Array) -> Array:
        return np.asarray((score - 0.5 / self.sigma) / self.sigma)

    def _ratio(self, score: Array) -> Array:
        logs = self._log_ratio(score)
        return rounded(np.exp(logs), ELEMENTARY + 4.0 * np.abs(logs))

    def _edges(self, users: int, width: float, tail: float) -> Array:
        """Edges of the cells, in normal scores; empty if no score is left.

        They hold all messages under Q, and the target's under P, but for the tail.
        """
        from scipy.special import ndtri_exp

        shift = 1.0 / self.sigma
        everyone = -float(ndtri_exp(math.log(tail) - math.log(users)))
        target = -float(ndtri_exp(math.log(tail)))
        centre, reach = 0.5 * shift, LIMITS.largest_log * self.sigma
        low = max(-everyone, centre - reach, -LIMITS.farthest_score)
        high = min(max(everyone, shift + target), centre + reach, LIMITS.farthest_score)
        if not low < high:
            return np.zeros(0)
        return np.linspace(low, high, min(math.ceil((high - low) / width) + 8, MOST_CELLS) + 1)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha`` of one message, in either order: the Gaussian mechanism's."""
        return gaussian_profile(self.sigma, epsilon, side)

    def below(self, log_ratio: float) -> float:
        """Upper bound of the Q-probability of ratios with no larger logarithm."""
        return _below(self.sigma * log_ratio + 0.5 / self.sigma)

    def told_apart(self, epsilon: float, users: int) -> float:
        """``P(e) - alpha Q(e)`` for the event e that some message has a score above t, best t."""
        from scipy.special import log_ndtr, ndtr

        shift = 1.0 / self.sigma
        t = shift + np.linspace(-10.0, 3.0, 53)
        log_cost = epsilon + math.log(users) + log_ndtr(-t)
        gain = ndtr(shift - t) - np.exp(np.minimum(log_cost, 1.0))
        return max(float(gain.max()) - 1e-12, 0.0)  # far more than these functions are off


def gaussian_profile(sigma: float, epsilon: float, side: Bound) -> float:
    """Bound of ``Phi(1/(2 sigma) - sigma epsilon) - e^epsilon Phi(-1/(2 sigma) - sigma epsilon)``.

    The hockey-stick divergence of N(1, sigma^2) and N(0, sigma^2), in either order, with relative
    accuracy down to 1e-300.
    """
    if epsilon == math.inf:
        return 0.0
    return float(gaussian_profiles(sigma, np.full(1, epsilon), side)[0])


def gaussian_profiles(sigma: float, epsilon: Array, side: Bound) -> Array:
    """`gaussian_profile` at many epsilons, finite, shape (m,)."""
    from scipy.special import log_ndtr

    upper = side is Bound.PESSIMISTIC
    shift = 1.0 / sigma
    with np.errstate(over="ignore"):
        place = epsilon / shift
    first = log_ndtr(0.5 * shift - place)
    small = first < -700.0
    epsilon, place = np.where(small, 0.0, epsilon), np.where(small, 0.0, place)
    first = np.where(small, 0.0, first)
    second = epsilon + log_ndtr(-0.5 * shift - place)
    # the logarithms are good to a few units in their last place, and so are their arguments, of
    # size p at most: they move a logarithm by (1 + p) p of these units, and the sum is above p^2/2
    slack = roundings(128) * (1.0 + np.abs(first) + np.abs(second) + 2.0 * epsilon)
    first = disturbed(first, 0.5 * slack)
    slack = slack if upper else -slack
    part = np.minimum(-np.expm1(np.minimum(second - first - slack, 0.0)), 1.0)
    found = np.minimum(np.exp(first + slack) * part, 1.0)
    # small ones are no more than e^-700
    return np.where(small, 1e-304 if upper else 0.0, found)


def profile_end(sigma: float, least: float) -> float:
    """Epsilon at which `gaussian_profile` falls below ``least``, nats, to about a millionth."""
    low, high = 0.0, 1.0 / sigma
    while gaussian_profile(sigma, high, Bound.PESSIMISTIC) > least:
        low, high = high, 1.5 * high
    for _ in range(20):
        middle = 0.5 * (low + high)
        above = gaussian_profile(sigma, middle, Bound.PESSIMISTIC) > least
        low, high = (middle, high) if above else (low, middle)
    return high


def _below(score: float) -> float:
    """Bound of the standard normal probability of scores below this one, <= 1."""
    from scipy.special import ndtr

    return min(float(ndtr(score)) * (1.0 + 1e-9), 1.0)
