"""Lower bounds of the loss of shuffled batches, from the antipodal pair of datasets.

The target holds +1 (or, zeroed out, 0) and every other record -1, in the same direction, in every
batch. Outputs, moved by +1, are ``(1/T) sum_j N(2 e_j, sigma^2 I)`` against ``(1/T) sum_j N(e_j,
sigma^2 I)`` (Chua et al. 2024): one of T normal values has another mean. The best test at alpha
adds up ``r_2 - alpha r_1`` over all values, ``r_m`` the likelihood ratio of a normal law around m
to the one around 0. Here that sum is computed step by step, in cells, for a few alpha: a statistic
of the outputs whose laws under both hypotheses are exact sums, so that the pair of them is a
post-processing of the outputs and bounds the divergence for *every* alpha from below. So does the
largest value, compared with a threshold. The profile is the largest of all these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import below_chords, polygon_atoms, whole_losses
from shuffle_accountant.losses.base import CellEdges, Effort, OrderedLoss, divergence_of
from shuffle_accountant.losses.settings import ANTIPODAL
from shuffle_accountant.losses.steps.gaussian import gaussian_profile, profile_end
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.hockey_stick import difference_of
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.statistic import Hypotheses, power_of

__all__ = ["AntipodalLoss"]


@dataclass(frozen=True)
class AntipodalLoss(OrderedLoss):
    """Lower bounds of the privacy loss of ``steps`` batches with noise of deviation ``sigma``."""

    sigma: float
    steps: int

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats: that of ``(1/T) sum (r_2 - r_1)``, or of one value."""
        square = 1.0 / self.sigma**2
        if square > 100.0:
            return 1.0 / self.sigma
        sizes = math.exp(4.0 * square) - 2.0 * math.exp(2.0 * square) + math.exp(square)
        return min(math.log1p(math.sqrt(sizes / self.steps)), 1.0 / self.sigma)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Lower bound of ``H_alpha(P‖Q)``; PESSIMISTIC is the Gaussian mechanism's profile."""
        if side is Bound.PESSIMISTIC:
            return gaussian_profile(self.sigma, epsilon, side)
        if epsilon == math.inf:
            return 0.0
        return divergence_of(self._below(effort), epsilon)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair whose profile is below all bounds.

        Raises:
            ValueError: for PESSIMISTIC.
        """
        if side is Bound.PESSIMISTIC:
            raise ValueError("internal error: the antipodal pair is bounded from below only")
        atoms = self._below(effort)
        edges(float(np.max(np.abs(atoms.loss), initial=0.0)))
        return atoms

    def _below(self, effort: Effort) -> PldAtoms:
        atoms = _atoms(self.sigma, self.steps, effort.kept_tail)
        if not self.swapped:
            return atoms
        size = float(np.max(np.abs(atoms.loss), initial=0.0))
        error = roundings(ELEMENTARY + 4 + 2.0 * size) + atoms.loss_error
        mass = atoms.mass * rounded(np.exp(-atoms.loss), ELEMENTARY + 2) * (1.0 - error)
        return replace(atoms, mass=mass, loss=-atoms.loss)


@lru_cache(maxsize=16)
def _atoms(sigma: float, steps: int, tail: float) -> PldAtoms:
    """Atoms of the pair whose profile is a polygon below the largest of all statistics'."""
    deviation = AntipodalLoss(sigma, steps).deviation
    end = min(profile_end(sigma, tail), LIMITS.largest_log)
    loss = _points(min(deviation, 0.1 * end), end)
    low, high = _by_largest(sigma, steps, loss)
    if sigma >= ANTIPODAL.least_sigma:
        tilt = deviation  # logarithm of an alpha, nats
        while tilt < end:
            letters = _letters(sigma, tilt, tail)
            found = power_of(letters, steps, width=ANTIPODAL.width, tail=1e-2 * tail)
            below, above = _profile(found, loss)
            low, high = np.maximum(low, below), np.maximum(high, above)
            tilt *= 2.0
    place = np.concatenate([[-1.0], np.expm1(loss[1:])])
    low[-1] = 0.0  # nothing is claimed beyond
    value = below_chords(place, low, high, loss)
    return polygon_atoms(place, value, loss, 0.0, Bound.OPTIMISTIC)


def _points(deviation: float, end: float) -> Array:
    """Losses, their distances a share of themselves and the deviation; mirror images, and -inf."""
    last = math.log1p(end / deviation)
    number = np.linspace(0.0, last, math.ceil(last / ANTIPODAL.growth) + 1)
    return whole_losses(deviation * np.expm1(number))


def _letters(sigma: float, tilt: float, tail: float) -> Hypotheses:
    """Distributions of ``r_2 - alpha r_1`` of one value, in cells, under the hypotheses."""
    from scipy.special import ndtri_exp

    reach = -float(ndtri_exp(math.log(0.1 * tail)))
    last = LIMITS.farthest_score
    low, high = -min(reach, last), min(2.0 / sigma + reach, last)
    inner = np.linspace(low, high, math.ceil((high - low) / ANTIPODAL.width) + 1)
    edges = np.concatenate([[-math.inf], inner, [math.inf]])
    null, second, first = (normal_cells(edges - mean / sigma) for mean in (0.0, 1.0, 2.0))
    # whatever the numbers are; sums of these are doubles
    with np.errstate(over="ignore"):
        farthest = math.exp(LIMITS.largest_log)
        value = np.clip((first - math.exp(tilt) * second) / null, -farthest, farthest)
    order = np.argsort(value)
    return Hypotheses(value[order], null[order], first[order], second[order], 1, budget().normal)


def _profile(found: Hypotheses, loss: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of the statistic's profile, above ``(1 - alpha)_+``."""
    p, q = found.first, found.second
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p + q > 0.0, np.log(p) - np.log(q), -math.inf)
    # logarithms are above -745; their difference, and a loss beside it, round once more
    close = 2.0 * 745.0 * roundings(ELEMENTARY + 1)
    ratio = disturbed(ratio, 0.5 * close)
    order = np.argsort(ratio)
    ratio, p, q = ratio[order], p[order], q[order]
    above_p, above_q = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (p, q))
    below_p, below_q = (np.append(0.0, np.cumsum(x)) for x in (p, q))
    at = np.searchsorted(ratio, loss, side="right")
    alpha = np.exp(loss)
    right = loss >= 0.0
    plus = rounded(np.where(right, above_p[at], alpha * below_q[at]), p.size)
    minus = rounded(np.where(right, alpha * above_q[at], below_p[at]), -p.size)
    error = found.error + sequential_sum(p.size + 16)
    # relative to the computed numbers an error may be larger than relative to the true ones
    terms = difference_of(plus, minus, error / max(1.0 - error, 1e-300))
    # outcomes whose ratio is so close to alpha that rounding decides where they count
    near = (np.searchsorted(ratio, loss + sign * close) for sign in (-1.0, 1.0))
    first, last = (below_p[places] for places in near)
    # one more outcome: that something was dropped
    missing = np.where(right, 1.0, alpha) * found.lost + close * (last - first)
    return terms.positive(upper=False), terms.positive(upper=True) + missing


def _by_largest(sigma: float, steps: int, loss: Array) -> tuple[Array, Array]:
    """Lower and upper bounds of the best test of the largest value against a threshold.

    At each loss the best of many thresholds counts.
    """
    from scipy.special import log_ndtr

    score = np.arange(-10.0, 2.0 / sigma + 12.0, 2.0 * ANTIPODAL.width)
    others = (steps - 1) * log_ndtr(score)
    alpha = np.exp(loss)
    right = loss >= 0.0
    laws = [others + log_ndtr(score - mean / sigma) for mean in (2.0, 1.0)]
    # P and Q of the event: the largest value is above the threshold, or (Q, P) below it
    p, q = (np.where(right, -np.expm1(law)[:, None], np.exp(law)[:, None]) for law in laws)
    plus, minus = np.where(right, p, alpha * q), np.where(right, alpha * q, p)
    terms = difference_of(plus, minus, budget().normal)
    low, high = (np.max(terms.positive(upper=upper), axis=0) for upper in (False, True))
    return low, high
