"""Many messages of normal noise, far in the tail: bounds of the divergence by elementary means.

The sum S of n lognormal ratios W of mean 1 (``oracles.gaussian``) exceeds ``n + e``, e > 0, far in
the tail because one of them does. All below is closed forms in the normal distribution function,
true for every choice of the parameters b, theta and lambda; those are tried on grids. Round-off is
n times 1e-15 in the logarithm, the bounds are a few percent apart at least. Nothing here reads the
package.

Lower bound: the events "W_i > b, all others <= b" are disjoint, and by Jensen's inequality the
others, given that, count as their mean mu:

    E[(S - n - e)_+] >= n P(W <= b)^(n-1) E[(W - (n + e - (n - 1) mu))_+ ; W > b].

Upper bound: either no message is above b, or some W_i is; then with R the sum of the others

    (S - n - e)_+ <= (W_i - 1 - (1 - theta) e)_+ + (R - (n - 1) - theta e)_+ ,

R is independent of W_i, and the expectation of its part is bounded in the same way with the excess
``theta e`` (a message more makes it no smaller, again by Jensen); at last by half of the deviation.
Messages below b are Chernoff's business.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

Array = NDArray[np.float64]

_RATES = np.geomspace(0.1, 200.0, 60)
_TOP = 37.0
"""Normal variables are followed to here, where their tails are 1e-299."""


def bounds(sigma: float, users: int, epsilon: float) -> tuple[float, float]:
    """Around the larger one of the divergences of "the target holds 1" from 0 and the reverse.

    Args:
        sigma: standard deviation of the noise.
        users: number of messages n >= 2.
        epsilon: > 0, nats.
    """
    excess = users * math.expm1(epsilon)
    forth = max(
        _one_jump(sigma, users, excess, share * excess) for share in np.linspace(0.02, 0.98, 49)
    )
    above = min(
        _excess(sigma, users, excess, theta, jumps, depth=6)
        for theta in (0.01, 0.03, 0.1, 0.2)
        for jumps in (1.5, 3.0, 6.0)
    )
    return forth / users, max(above / users, _reversed(sigma, users, epsilon))


def _one_jump(sigma: float, users: int, excess: float, b: float) -> float:
    """The lower bound of ``E[(S - n - e)_+]``."""
    z = _place(sigma, b)
    others = (users - 1) * ndtr(z - 1.0 / sigma) / ndtr(z)
    none = math.exp((users - 1) * log_ndtr(z))
    return float(users * none * _call(sigma, users + excess - others, b))


def _excess(
    sigma: float, users: int, excess: float, theta: float, jumps: float, depth: int
) -> float:
    """The upper bound of ``E[(S - n - e)_+]`` with ``b = e/jumps`` at each depth."""
    b = excess / jumps
    if depth == 0 or b < 1.0:
        return 0.5 * math.sqrt(users * math.expm1(1.0 / sigma**2))
    none = _below(sigma, users, excess, b)
    jump = _call(sigma, 1.0 + (1.0 - theta) * excess, b)
    rest = _excess(sigma, users, theta * excess, theta, jumps, depth - 1)
    return none + users * (jump + float(ndtr(-_place(sigma, b))) * rest)


def _below(sigma: float, users: int, excess: float, b: float) -> float:
    """``E[(S - n - e)_+; all W_i <= b]``, from ``x_+ <= e^(lambda x)/(e lambda)``."""
    rates = _RATES / b
    means = generating(sigma, rates, _place(sigma, b))
    logs = users * np.log(means) - rates * (users + excess) - np.log(rates) - 1.0
    return math.exp(min(float(logs.min()), 700.0))


def _reversed(sigma: float, users: int, epsilon: float) -> float:
    """Above ``E[(1 - alpha mean W)_+]``, in the same way."""
    rates = np.geomspace(0.001, 1000.0, 100) * math.exp(max(epsilon - 0.5 / sigma**2, 0.0))
    means = generating(sigma, -rates, math.inf)
    logs = users * (rates * math.exp(-epsilon) + np.log(means))
    return math.exp(epsilon - 1.0 + float((logs - np.log(rates * users)).min()))


def generating(sigma: float, rates: Array, last: float) -> Array:
    """At least ``E[e^(rate W); Z <= last]``: on cells of W the chord is above the exponential."""
    top = min(last, _TOP)
    if last > top and rates.max() > 0.0:
        raise ValueError(f"the tail beyond {_TOP} deviations is out of reach, got {last}")
    z = np.linspace(-_TOP, top, math.ceil(25.0 * (top + _TOP) / min(sigma, 1.0)))
    ends = np.append(0.0, np.exp(z / sigma - 0.5 / sigma**2))
    mass, mean = _cells(z), _cells(z - 1.0 / sigma)
    right = np.clip((mean - ends[:-1] * mass) / np.diff(ends), 0.0, mass)
    weights = np.append(mass - right, 0.0) + np.append(0.0, right)
    beyond = ndtr(-top) if last > top else 0.0
    return np.asarray(np.exp(rates[:, None] * ends) @ weights + beyond)


def _cells(z: Array) -> Array:
    """Normal masses left of the first z and between neighbours, accurate in both tails."""
    inner = np.where(z[:-1] > 0.0, ndtr(-z[:-1]) - ndtr(-z[1:]), ndtr(z[1:]) - ndtr(z[:-1]))
    return np.append(ndtr(z[0]), inner)


def _place(sigma: float, strike: float) -> float:
    """The z at which W passes the strike."""
    return sigma * math.log(strike) + 0.5 / sigma


def _call(sigma: float, strike: float, b: float) -> float:
    """``E[(W - strike)_+; W > b]``, b > 0."""
    z = _place(sigma, max(strike, b))
    return float(ndtr(1.0 / sigma - z) - strike * ndtr(-z))
