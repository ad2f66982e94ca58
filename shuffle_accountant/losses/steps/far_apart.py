"""The mean of Gaussian likelihood ratios when there is hardly any noise.

With deviation sigma below 1/20 the ratios ``e^(z/sigma - 1/(2 sigma^2))`` leave the range of
doubles, but one of them is all that counts: under P the target's outweighs the sum of all others,
under Q the largest does. Both have normal laws in logarithm, so the loss is bounded cell by cell
in the normal score. The mean is ``1 - g + (g/n) (X_1 + … + X_n)``; see `losses.steps.mean_ratio`.
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
from shuffle_accountant.losses.steps.gaussian import LEAST_SIGMA, GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import MOST_CELLS, MeanRatioLoss
from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import LIMITS, Array, Bound, roundings


def gaussian_mean_loss(sigma: float, users: int, fraction: float = 1.0) -> PrivacyLoss:
    """The loss of the mean of ratios of normal densities a distance 1 apart.

    Args:
        sigma: deviation of the noise, > 0.
        users: number of ratios.
        fraction: probability that the target takes part, in (0, 1].
    """
    if sigma < LEAST_SIGMA:
        return FarApartLoss(sigma, users, fraction)
    return MeanRatioLoss(GaussianRatio(sigma), users, fraction)


@dataclass(frozen=True)
class FarApartLoss(OrderedLoss):
    """Privacy loss of the pair whose ratio is the mean of widely different ratios.

    Attributes:
        sigma: deviation of the noise, in (0, 1/20).
        users: number of ratios.
        fraction: probability that the target takes part, in (0, 1].
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
    score = np.linspace(-reach, reach, MOST_CELLS + 1)
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

    The sum is of mean n, and so is at most n over the tail but for that probability; and with the
    same probability none of its terms is larger than the one at the score the tail allows.
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
    score = np.linspace(bottom, top, MOST_CELLS + 1)
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
