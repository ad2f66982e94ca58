"""Conversion of Rényi divergences to (epsilon, delta), by Canonne, Kamath and Steinke.

A pair whose Rényi divergence of order lambda is rho is (epsilon, delta)-private with

    delta = e^((lambda - 1)(rho - epsilon)) / (lambda - 1) (1 - 1/lambda)^lambda

(2020, "The discrete Gaussian for differential privacy", Proposition 12), at every epsilon and for
every order. Orders are given by ``t = lambda - 1 > 0`` and divergences by the log moment
``K(t) = log E_P[(P/Q)^t] = t rho``, which is convex in t; so is log delta, and epsilon is
quasi-convex: each falls, then rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

__all__ = ["best_delta", "best_epsilon", "epsilon_of"]

LogMoment = Callable[[float], float]

# Excess orders t = order - 1 that are tried first, eight per decade.
_LADDER = np.logspace(-8.0, 14.0, 22 * 8 + 1)
# Rises in a row after which the search over orders ends: rounding makes no more than one or two.
_RISES = 6


def epsilon_of(log_moment: float, t: float, delta: float) -> float:
    """Epsilon at delta from one order; may be negative."""
    return (log_moment - math.log(delta) + _log_factor(t)) / t


def _log_delta_of(log_moment: float, t: float, epsilon: float) -> float:
    return log_moment - t * epsilon + _log_factor(t)


def _log_factor(t: float) -> float:
    """Log of ``(1 - 1/lambda)^lambda / (lambda - 1)`` at lambda = 1 + t."""
    return -t * math.log1p(1.0 / t) - math.log1p(t)


def best_epsilon(log_moment: LogMoment, delta: float) -> float:
    """Smallest epsilon >= 0 over all real orders > 1; inf if no log moment is finite."""
    return max(_least(lambda t: epsilon_of(log_moment(t), t, delta)), 0.0)


def best_delta(log_moment: LogMoment, epsilon: float) -> float:
    """Smallest delta <= 1 over all real orders > 1."""
    return math.exp(min(_least(lambda t: _log_delta_of(log_moment(t), t, epsilon)), 0.0))


def _least(function: Callable[[float], float]) -> float:
    """Minimum over t > 0 of a quasi-convex function; inf on the right is allowed."""
    from scipy.optimize import minimize_scalar

    best, place, rises = math.inf, 0, 0
    for i, t in enumerate(_LADDER.tolist()):
        value = function(t)
        if value < best:
            best, place, rises = value, i, 0
        elif best < math.inf:
            rises += 1
            if rises >= _RISES:
                break
    if best == math.inf:
        return best
    ends = _LADDER[max(place - 1, 0)], _LADDER[min(place + 1, _LADDER.size - 1)]

    def near(log_t: float) -> float:
        # the search wants finite numbers
        return min(max(function(math.exp(log_t)), -1e300), 1e300)

    found = minimize_scalar(
        near,
        bounds=(math.log(ends[0]), math.log(ends[1])),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return min(best, float(found.fun))
