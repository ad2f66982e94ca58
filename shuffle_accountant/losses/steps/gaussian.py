"""Ratios of the Gaussian example: a target at 1 among decoys at 0.

With noise of deviation sigma, a message ``y = sigma z`` has the ratio ``W = e^(z / sigma - 1 / (2
sigma^2))``, z standard normal under Q and around ``1 / sigma`` under P: a lognormal law. The mean
of n of them, ``1 - g + (g/n) (W_1 + … + W_n)``, is that of `losses.steps.mean_ratio`.

With sigma below 1/20 ratios leave the range of doubles, but one of them is all that counts: under
P the target's outweighs the sum of all others, under Q the largest does. Both have normal laws in
logarithm, so the loss is bounded cell by cell in the normal score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import (
    CellEdges,
    Effort,
    OrderedLoss,
    PrivacyLoss,
    divergence_of,
)
from shuffle_accountant.losses.settings import GAUSSIAN, MEAN_RATIO
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.numerics.binomial import gauss_legendre
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.probabilities import normal_cells
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


@dataclass(frozen=True)
class GaussianRatio(RatioSource):
    """Distribution of the likelihood ratio of one message with noise of deviation ``sigma``."""

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
        edges = self._edges(users, min(width, GAUSSIAN.widest), 0.25 * tail)
        if edges.size < 2:
            return SumLaw(np.zeros(0), np.zeros(0), 1, 1.0, 1.0, 0.0, 0.0)
        nodes, weights = gauss_legendre(GAUSSIAN.nodes)
        run = np.diff(edges)[:, None]
        score = edges[:-1, None] + run * nodes
        density = np.exp(-0.5 * score**2) * (weights * run) / math.sqrt(2.0 * math.pi)
        density = rounded(density, score**2 + ELEMENTARY)
        mass = density.sum(axis=1)
        # relative errors are those of exponents, of products, and of a sum; they count for each of
        # all users
        error = sequential_sum(
            score[:, 0] ** 2 + score[:, -1] ** 2 + GAUSSIAN.nodes, own=ELEMENTARY + 8
        )
        exponent = max(abs(self._log_ratio(edges[[0, -1]])))
        moved = sequential_sum(8.0 * float(exponent) + 2 * GAUSSIAN.nodes, own=2 * ELEMENTARY + 16)
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
        return np.linspace(
            low, high, min(math.ceil((high - low) / width) + 8, MEAN_RATIO.most_cells) + 1
        )

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha`` of one message, in either order: the Gaussian mechanism's."""
        return gaussian_profile(self.sigma, epsilon, side)

    def below(self, log_ratio: float) -> float:
        """Upper bound of the Q-probability of ratios with no larger logarithm."""
        return _below(self.sigma * log_ratio + 0.5 / self.sigma)


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


def gaussian_mean_loss(sigma: float, users: int, fraction: float = 1.0) -> PrivacyLoss:
    """The loss of the mean of ratios of normal densities a distance 1 apart.

    Args:
        sigma: deviation of the noise, > 0.
        users: number of ratios.
        fraction: probability that the target takes part, in (0, 1].
    """
    if sigma < GAUSSIAN.least_sigma:
        return FarApartLoss(sigma, users, fraction)
    return MeanRatioLoss(GaussianRatio(sigma), users, fraction)


@dataclass(frozen=True)
class FarApartLoss(OrderedLoss):
    """Privacy loss of the pair whose ratio is the mean of widely different ratios.

    Parameters are those of `gaussian_mean_loss`, with sigma below 1/20.
    """

    sigma: float
    users: int
    fraction: float = 1.0

    @property
    def deviation(self) -> float:
        """Rough size of the loss, nats."""
        return 0.5 / self.sigma**2

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "sum"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0: a sum over the cells."""
        return divergence_of(_atoms(self, side, effort.kept_tail), epsilon)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """One atom for each cell of the normal score."""
        atoms = _atoms(self, side, effort.kept_tail)
        edges(float(np.max(np.abs(atoms.loss))))  # whether a grid of these losses is allowed
        return atoms


@lru_cache(maxsize=16)
def _atoms(loss: FarApartLoss, side: Bound, tail: float) -> PldAtoms:
    logs, mass, lost = _backward(loss, side, tail) if loss.swapped else _forward(loss, side, tail)
    upper = side is Bound.PESSIMISTIC
    # what a logarithm is the difference of: those of the ratio's two terms, and of the mean
    size, error = float(np.max(np.abs(logs))) + 1.0 / loss.sigma**2, _mass_error()
    logs = disturbed(logs, 0.5 * roundings(64) * size)
    return PldAtoms(
        side=side,
        mass=mass * (1.0 + error if upper else 1.0 - error),
        loss=logs,
        infinite=lost if upper else 0.0,
        truncated=lost,
        round_off=error,
        loss_error=roundings(64) * size,
    )


def _mass_error() -> float:
    """Bound on the relative error of normal probabilities, their powers and differences."""
    return 100.0 * budget().normal


def _forward(loss: FarApartLoss, side: Bound, tail: float) -> tuple[Array, Array, float]:
    """Log-ratios under P, their masses, and the mass lost: cells of the target's normal score."""
    from scipy.special import ndtri_exp

    reach = -float(ndtri_exp(math.log(0.25 * tail)))
    score = np.linspace(-reach, reach, MEAN_RATIO.most_cells + 1)
    mass = normal_cells(score)
    target = score / loss.sigma + 0.5 / loss.sigma**2  # the logarithm under P
    # half a tail of scores beyond the reach, a tail of what the others exceed, and their rounding
    lost = 3.0 * tail
    total = math.log(loss.users / loss.fraction)
    idle = 1.0 - loss.fraction  # in which case the target takes no part: one atom more
    nothing = math.log(idle) if idle > 0.0 else -math.inf
    mass = loss.fraction * mass
    if side is Bound.PESSIMISTIC:
        others = _others(loss, tail)
        logs = np.logaddexp(target[1:], others) - total
        rest = others - total
    else:
        logs, rest = np.logaddexp(target[:-1] - total, nothing), nothing
    if idle > 0.0:
        logs, mass = np.append(rest, logs), np.append(idle, mass)
    return logs, mass, lost


def _others(loss: FarApartLoss, tail: float) -> float:
    """Logarithm of what ``n/g - n + (sum of ratios under Q)`` exceeds with the tail's probability.

    The sum, of mean n, is at most n over the tail but for that probability; and with the same
    probability none of its terms is larger than the one at the score the tail allows.
    """
    from scipy.special import ndtri_exp

    by_mean = math.log(loss.users) - math.log(tail)
    highest = -float(ndtri_exp(math.log(tail) - math.log(loss.users)))
    each = highest / loss.sigma - 0.5 / loss.sigma**2
    most = min(by_mean, each + math.log(loss.users))
    idle = loss.users * (1.0 / loss.fraction - 1.0)
    return float(np.logaddexp(most, math.log(idle))) if idle > 0.0 else most


def _backward(loss: FarApartLoss, side: Bound, tail: float) -> tuple[Array, Array, float]:
    """Losses of (Q, P) under Q, their masses, and the mass lost: from the largest ratio.

    A loss is minus the logarithm of the mean ratio.
    """
    from scipy.special import log_ndtr, ndtri_exp

    n = loss.users
    # the largest of n scores is below with probability Phi^n, above with n Phi(-) at most
    top = min(-float(ndtri_exp(math.log(0.25 * tail) - math.log(n))), LIMITS.farthest_score)
    bottom = max(float(ndtri_exp(math.log(0.25 * tail) / n)), -LIMITS.farthest_score)
    score = np.linspace(bottom, top, MEAN_RATIO.most_cells + 1)
    logs = log_ndtr(score)
    mass = np.exp(n * logs[1:]) * -np.expm1(np.minimum(n * (logs[:-1] - logs[1:]), 0.0))
    mass = disturbed(mass, lambda: budget().normal * mass)
    ratio = score / loss.sigma - 0.5 / loss.sigma**2
    outside = math.exp(n * float(log_ndtr(bottom))) + n * math.exp(float(log_ndtr(-top)))
    outside = disturbed(outside, lambda: budget().normal * outside)
    idle = 1.0 - loss.fraction
    nothing = math.log(idle) if idle > 0.0 else -math.inf
    if side is Bound.PESSIMISTIC:  # the mean is no less than the largest ratio's part of it
        mean = np.logaddexp(ratio[:-1] + math.log(loss.fraction / n), nothing)
    else:
        mean = np.logaddexp(ratio[1:] + math.log(loss.fraction), nothing)
    return -mean, mass, outside * (1.0 + _mass_error())
