"""The Gaussian mechanism that a round is no worse than, up to an additive delta.

*Lemma.* If the larger of both orders' profiles of a round is at most that of N(mu, 1) against N(0,
1) plus d at every ``alpha >= 1``, then it is in both orders at every ``alpha >= 0``, and the round
is a Gaussian mechanism of that mu but for an event of probability d. A round is then a kernel of a
Brownian motion's increment of length mu^2, so that rounds chosen adaptively whose mu^2 and d sum to
no more than B and D reveal no more than N(sqrt(B), 1) against N(0, 1), plus D.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.steps.gaussian import gaussian_profile
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.base import Round, certified_at

__all__ = ["epsilon_of_mu", "gaussian_cost", "largest_mu", "worst_gap"]

# Distance of the epsilons at which profiles are compared: in mu, and relative to themselves.
_STEP, _GROWTH = 0.06, 0.015
_MOST_POINTS = 2000
# Relative accuracy of mu, and what its profile's terms are lowered by, relative to them: far more
# than normal distribution functions are off.
_ACCURACY, _SLACK = 1e-5, 1e-12
# A largest mu: rounds beyond it have no budget of any use.
_LARGEST = 100.0


@lru_cache(maxsize=1 << 16)
def profile_above(one: Round, epsilon: float) -> float:
    """Upper end of delta of one round, the larger of both orders."""
    one.reduced()  # refuses rounds that share what is drawn once
    return certified_at([(one, 1)], 1e-3, epsilon=epsilon)[0].upper


@lru_cache(maxsize=256)
def _points(one: Round, least: float) -> tuple[Array, Array]:
    """Epsilons from 0 on with upper ends of delta, until one is no more than ``least``."""
    first = profile_above(one, 0.0)
    start = max(_mu_of(first), 1e-9)
    epsilons, deltas = [0.0], [first]
    while deltas[-1] > least and len(epsilons) < _MOST_POINTS:
        epsilons.append(epsilons[-1] + max(_STEP * start, _GROWTH * epsilons[-1]))
        deltas.append(min(profile_above(one, epsilons[-1]), deltas[-1]))
    return np.asarray(epsilons), np.asarray(deltas)


def _mu_of(distance: float) -> float:
    """The mu of a total variation distance."""
    from scipy.special import ndtri

    return 2.0 * float(ndtri(0.5 + 0.5 * min(distance, 1.0 - 1e-12)))


def worst_gap(epsilons: Array, deltas: Array, mu: float) -> float:
    """Upper bound of ``h(alpha) - H_alpha(mu)`` for all ``alpha >= 1``.

    Between two points h is below its chord, and the Gaussian profile above both tangents; beyond
    the last, h is no more than there.

    Args:
        epsilons: ascending from 0, shape (m,).
        deltas: upper ends of h there, shape (m,).
        mu: of the Gaussian mechanism, > 0.
    """
    from scipy.special import log_ndtr

    alpha = np.exp(epsilons)
    first = np.exp(log_ndtr(0.5 * mu - epsilons / mu))
    tail = np.exp(log_ndtr(-0.5 * mu - epsilons / mu))
    # a score's rounding moves a tail by the square of the score
    slack = _SLACK * (1.0 + (0.5 * mu + epsilons / mu) ** 2)
    value = np.maximum(first * (1.0 - slack) - alpha * tail * (1.0 + slack), 0.0)
    steep, flat = -tail * (1.0 + slack), -tail * (1.0 - slack)
    run = np.diff(alpha)
    # a chord less the larger of two tangents is largest where those meet, or at an end
    meet = value[1:] - flat[1:] * run - value[:-1]
    bend = (steep[:-1] - flat[1:]) * run
    share = np.clip(np.divide(meet, bend, out=np.full(run.size, 0.5), where=bend < 0.0), 0.0, 1.0)
    chord = deltas[:-1] + share * (deltas[1:] - deltas[:-1])
    left, right = value[:-1] + steep[:-1] * share * run, value[1:] - flat[1:] * (1.0 - share) * run
    # of the place where they meet, and of the lines
    rounding = 1e-13 * (deltas[:-1] + value[:-1] + np.abs(steep[:-1]) * run)
    between = chord - np.maximum(left, right) + rounding
    beyond = float(deltas[-1])  # where the Gaussian profile may be anything above 0
    return max(float(np.max(deltas - value)), float(np.max(between, initial=0.0)), beyond, 0.0)


@lru_cache(maxsize=1024)
def gaussian_cost(one: Round, slack: float) -> tuple[float, float]:
    """The mu of a round up to an additive delta of at most ``slack``, and that delta.

    Args:
        one: the round.
        slack: in (0, 1).

    Returns:
        ``(mu, delta)``; mu is infinite if there is none up to 100.
    """
    epsilons, deltas = _points(one, 0.5 * slack)
    if deltas[-1] > slack:
        return math.inf, 0.0
    if deltas[0] <= slack:
        return 0.0, float(deltas[0])
    low = _mu_of(float(deltas[0]) - slack)
    high = max(low, 1e-12)
    while worst_gap(epsilons, deltas, high) > slack:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf, 0.0
    while high - low > _ACCURACY * high:
        middle = 0.5 * (low + high)
        if worst_gap(epsilons, deltas, middle) > slack:
            low = middle
        else:
            high = middle
    return high, worst_gap(epsilons, deltas, high)


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose profile is certified to be at most delta at epsilon; 0 if none is."""
    low, high = 0.0, 1.0
    while gaussian_profile(1.0 / high, epsilon, Bound.PESSIMISTIC) <= delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if gaussian_profile(1.0 / middle, epsilon, Bound.PESSIMISTIC) <= delta:
            low = middle
        else:
            high = middle
        if high < 1e-12:
            return 0.0
    return low


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The least epsilon, rounded up, at which the profile of a mu is at most delta."""
    if mu == 0.0 or gaussian_profile(1.0 / mu, 0.0, Bound.PESSIMISTIC) <= delta:
        return 0.0
    low, high = 0.0, mu
    while gaussian_profile(1.0 / mu, high, Bound.PESSIMISTIC) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        if gaussian_profile(1.0 / mu, middle, Bound.PESSIMISTIC) > delta:
            low = middle
        else:
            high = middle
    return high
