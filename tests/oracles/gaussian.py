"""Normal noise: one message in closed form and two by quadrature, in 50 digits.

The target holds 1 (P) or 0 (Q), everybody else 0. Relative to Q the density of P is the mean of the
ratios ``W = exp((2y - 1)/(2 sigma^2))`` with ``y ~ N(0, sigma^2)``, in terms of a standard normal Z
``W = exp(Z/sigma - 1/(2 sigma^2))``: lognormal with mean 1. So the divergence of P from Q is
``E[(mean W - alpha)_+]`` and that of Q from P ``E[(1 - alpha mean W)_+]``. Nothing here reads the
package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from .precision import MP, Real, exact

QUADRATURE = 1e-10
"""Relative error of two messages; see ``test_continuous_oracles``."""

_REACH = 9
"""Normal mass further out than this many deviations is 1e-19."""

# -------------------------------------------------------------------------------------- one message


def mechanism(sigma: float, epsilon: float) -> Real:
    """Divergence of N(1, sigma^2) from N(0, sigma^2) at e^epsilon, as textbooks write it."""
    s, e = exact(sigma), exact(epsilon)
    half = 1 / (2 * s)
    return MP.ncdf(half - e * s) - MP.exp(e) * MP.ncdf(-half - e * s)


def place(sigma: Real, strike: Real) -> Real:
    """The z at which W passes the strike > 0."""
    return sigma * MP.log(strike) + 1 / (2 * sigma)


def call(sigma: Real, strike: Real) -> Real:
    """``E[(W - strike)_+]``."""
    if strike <= 0:
        return 1 - strike
    z = place(sigma, strike)
    return MP.ncdf(1 / sigma - z) - strike * MP.ncdf(-z)


def put(sigma: Real, strike: Real) -> Real:
    """``E[(strike - W)_+]``."""
    if strike <= 0:
        return exact(0)
    z = place(sigma, strike)
    return strike * MP.ncdf(z) - MP.ncdf(z - 1 / sigma)


# ------------------------------------------------------------------------------------- two messages


def _two_above(sigma: Real, strike: Real, nodes: int) -> Real:
    """``E[(W_1 + W_2 - 2 strike)_+]``, both halves ``W_1 < W_2`` and ``W_2 < W_1`` alike.

    If the smaller one is below the strike the larger one is above ``2 strike - W_1``, so its
    expectation is a call; else it is all of what is above W_1. Both are smooth in the smaller one.
    """

    def below(z: Real) -> Real:
        return call(sigma, 2 * strike - _ratio(sigma, z))

    def above(z: Real) -> Real:
        return MP.ncdf(1 / sigma - z) + (_ratio(sigma, z) - 2 * strike) * MP.ncdf(-z)

    turn = place(sigma, strike)
    last = max(turn, 1 / sigma, 0) + _REACH
    low = _normal_integral(sigma, below, min(turn, 0) - _REACH, turn, nodes)
    return 2 * (low + _normal_integral(sigma, above, turn, last, nodes))


def _two_below(sigma: Real, strike: Real, nodes: int) -> Real:
    """``E[(2 strike - W_1 - W_2)_+]``; the larger one is between W_1 and ``2 strike - W_1``."""

    def between(z: Real) -> Real:
        rest = 2 * strike - _ratio(sigma, z)
        return put(sigma, rest) - rest * MP.ncdf(z) + MP.ncdf(z - 1 / sigma)

    turn = place(sigma, strike)
    return 2 * _normal_integral(sigma, between, min(turn, 0) - _REACH, turn, nodes)


def _ratio(sigma: Real, z: Real) -> Real:
    return MP.exp(z / sigma - 1 / (2 * sigma**2))


def _normal_integral(
    sigma: Real, function: Callable[[Real], Real], low: Real, high: Real, nodes: int
) -> Real:
    """``E[function(Z); low < Z < high]`` by Gauss's rule on panels.

    Over a panel W grows by a factor of e^2 at most, and the integrand, which changes like the
    normal density and a tail of it, by e^16 or so.
    """
    points, weights = _gauss(nodes)
    areas, left = [], low
    while left < high:
        right = min(left + min(2 * sigma, 2, 8 / max(abs(left), 1)), high)
        half, centre = (right - left) / 2, (right + left) / 2
        for x, weight in zip(points, weights, strict=True):
            z = centre + half * x
            areas.append(half * weight * MP.npdf(z) * function(z))
        left = right
    return MP.fsum(areas)


@lru_cache(maxsize=4)
def _gauss(nodes: int) -> tuple[list[Real], list[Real]]:
    """Gauss's rule to all digits: the roots in doubles, then Newton's method."""
    points, weights = [], []
    for start in np.polynomial.legendre.leggauss(nodes)[0].tolist():
        x = exact(start)
        for _ in range(2):  # 16 digits, 32, 64
            slope = nodes * (MP.legendre(nodes - 1, x) - x * MP.legendre(nodes, x)) / (1 - x**2)
            x -= MP.legendre(nodes, x) / slope
        slope = nodes * MP.legendre(nodes - 1, x) / (1 - x**2)
        points.append(x)
        weights.append(2 / ((1 - x**2) * slope**2))
    return points, weights


# ---------------------------------------------------------------------------------- the divergence


@lru_cache(maxsize=256)
def above(sigma: float, users: int, strike: Real, nodes: int = 12) -> Real:
    """``E[(mean of W_1 … W_n - strike)_+]`` for n = 1 or 2 and strike > 0."""
    if users not in (1, 2):
        raise ValueError(f"users must be 1 or 2, got {users}")
    s, k = exact(sigma), exact(strike)
    return call(s, k) if users == 1 else _two_above(s, k, nodes) / 2


@lru_cache(maxsize=256)
def below(sigma: float, users: int, strike: Real, nodes: int = 12) -> Real:
    """``E[(strike - mean of W_1 … W_n)_+]`` for n = 1 or 2."""
    if users not in (1, 2):
        raise ValueError(f"users must be 1 or 2, got {users}")
    s, k = exact(sigma), exact(strike)
    if k <= 0:
        return exact(0)
    return put(s, k) if users == 1 else _two_below(s, k, nodes) / 2


def example(sigma: float, users: int, epsilon: float, fraction: float | Real = 1) -> Real:
    """Divergence of ``(1 - f) Q + f P`` from Q: the target takes part with probability f."""
    f = exact(fraction)
    return f * above(sigma, users, 1 + MP.expm1(exact(epsilon)) / f)


def example_reversed(sigma: float, users: int, epsilon: float, fraction: float | Real = 1) -> Real:
    """Divergence of Q from ``(1 - f) Q + f P``."""
    f, e = exact(fraction), exact(epsilon)
    return MP.exp(e) * f * below(sigma, users, 1 + MP.expm1(-e) / f)


# ------------------------------------------------------------------------------------- the blanket


def blanket_excess(sigma: float, alpha: float, t: float) -> float:
    """``E[(l - t)_+]`` of the blanket pair of inputs 0 and 1; l is 0 at the blank. In doubles."""

    def mass(mean: float, low: float, high: float) -> float:
        return float(ndtr((high - mean) / sigma) - ndtr((low - mean) / sigma))

    # y < 1/2: blanket N(1), l = e^((1 - 2y)/(2 sigma^2)) - alpha, decreasing
    level = alpha + t
    end = min(0.5 - sigma**2 * math.log(level), 0.5) if level > 0.0 else 0.5
    total = mass(0.0, -math.inf, end) - level * mass(1.0, -math.inf, end)
    # y > 1/2: blanket N(0), l = 1 - alpha e^((2y - 1)/(2 sigma^2)), decreasing
    if 1.0 - t > alpha:
        end = 0.5 + sigma**2 * math.log((1.0 - t) / alpha)
        total += (1.0 - t) * mass(0.0, 0.5, end) - alpha * mass(1.0, 0.5, end)
    return total + max(-t, 0.0) * (1.0 - 2.0 * float(ndtr(-0.5 / sigma)))
