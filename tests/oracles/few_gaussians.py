"""Three to some ten messages of normal noise in double precision, with relative accuracy.

The target holds 1, everybody else 0, and ``W = exp(Z/sigma - 1/(2 sigma^2))`` is the ratio of a
message (``oracles.gaussian``). One message is added at a time to the function

    g_m(K) = E[(W_1 + ... + W_m - K)_+],   g_{m+1}(K) = E[g_m(K - W)],   g_m(K) = m - K for K <= 0,

whose logarithm is kept as a spline in log(1 + K/w), w the median of W. Every term is positive, so
that a g_m of 1e-250 is as accurate as one of 0.1. There is no grid of losses, no FFT and no
sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.special import erfcx, log_ndtr, ndtr

Array = NDArray[np.float64]

RECURSION = 1e-10
"""Relative error; more strikes and nodes change less than 1e-11 (``test_continuous_oracles``)."""

_REACH = 12.0
"""Smaller ratios than at Z = -12 are left out, where g_m is least: a share of 2e-33."""


def divergence(
    sigma: float, users: int, epsilons: Sequence[float], *, strikes: int = 400, nodes: int = 10
) -> list[float]:
    """``E[(mean of W_1 … W_n - e^epsilon)_+]`` at each epsilon, of one n >= 1.

    Args:
        sigma: standard deviation of the noise.
        users: number of messages n.
        epsilons: nats, any real numbers.
        strikes: knots of the splines.
        nodes: of Gauss's rule, on each piece of the integral over a message.
    """
    asked = users * np.exp(np.asarray(epsilons, dtype=np.float64))
    median = math.exp(-0.5 / sigma**2)
    axis = np.linspace(0.0, math.log1p(float(asked.max()) / median), strikes + 1)
    knots = median * np.expm1(axis[1:])

    def log_g(strike: Array) -> Array:
        return _log_call(sigma, strike)

    for messages in range(1, users):
        at = asked if messages == users - 1 else knots
        values = _added(sigma, messages, log_g, at, nodes)
        if at is asked:
            return [float(value) for value in np.exp(values) / users]
        log_g = _interpolated(axis, np.append(math.log(messages + 1.0), values), median)
    return [float(value) for value in np.exp(log_g(asked))]


def divergence_reversed(sigma: float, users: int, epsilon: float) -> float:
    """``E[(1 - e^epsilon mean of W_1 … W_n)_+]``, with an absolute error of RECURSION e^epsilon.

    A put, as its call (the divergence at -epsilon) and the mean.
    """
    (mirrored,) = divergence(sigma, users, [-epsilon])
    return math.exp(epsilon) * mirrored - math.expm1(epsilon)


def _interpolated(axis: Array, logs: Array, unit: float) -> Callable[[Array], Array]:
    """The function of the strike whose values are given at ``log(1 + K/unit)``."""
    spline = make_interp_spline(axis, logs, k=7)
    return lambda strike: np.asarray(spline(np.log1p(strike / unit)))


def _log_call(sigma: float, strike: Array) -> Array:
    """log g_1, for strikes > 0."""
    z = sigma * np.log(strike) + 0.5 / sigma  # there W = K
    shifted = z - 1.0 / sigma
    tail = shifted > 0.0
    logs = np.empty_like(strike)
    logs[~tail] = np.log(ndtr(-shifted[~tail]) - strike[~tail] * ndtr(-z[~tail]))
    # both terms are small and nearly equal: K phi(z) = phi(shifted), times Mills' ratios
    mills = erfcx(shifted[tail] / math.sqrt(2.0)) - erfcx(z[tail] / math.sqrt(2.0))
    logs[tail] = np.log(0.5 * mills) - 0.5 * shifted[tail] ** 2
    return logs


def _added(
    sigma: float, messages: int, log_g: Callable[[Array], Array], strikes: Array, nodes: int
) -> Array:
    """``log g_{m+1}`` at the strikes from ``log_g = log g_m``."""
    turn = sigma * np.log(strikes) + 0.5 / sigma  # there W = K
    # W > K: what is above K, and the other m messages
    above = np.logaddexp(_log_call(sigma, strikes), math.log(messages) + log_ndtr(-turn))
    # W < K, by the distance of Z from the turn: as K - W falls to nothing pieces are halved
    unit, weight = np.polynomial.legendre.leggauss(nodes)
    step = min(1.0, sigma)
    far = max(float(turn.max()) + _REACH, 2.0 * step)
    halvings = math.ceil(math.log2(float(strikes.max())) + 0.73 / sigma**2) + 8  # to w/100
    halved = step * 0.5 ** np.arange(max(halvings, 8.0), -1.0, -1.0)
    edges = np.concatenate([[0.0], halved, np.arange(2.0 * step, far + step, step)])
    half = 0.5 * np.diff(edges)
    distance = ((edges[:-1] + half)[:, None] + half[:, None] * unit).ravel()
    logs = np.log((half[:, None] * weight).ravel() / math.sqrt(2.0 * math.pi))
    share = -np.expm1(-distance / sigma)  # (K - W)/K
    below = np.full_like(strikes, -math.inf)
    for i, (strike, place) in enumerate(zip(strikes.tolist(), turn.tolist(), strict=True)):
        z = place - distance
        kept = z > -_REACH
        if np.any(kept):
            terms = logs[kept] - 0.5 * z[kept] ** 2 + log_g(strike * share[kept])
            top = terms.max()
            below[i] = top + math.log(np.exp(terms - top).sum())
    return np.logaddexp(above, below)
