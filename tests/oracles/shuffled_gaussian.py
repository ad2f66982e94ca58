"""One Gaussian message with mean 0 or 1 among n-1 with mean 0, in double precision.

Relative to n messages of mean 0 the density of the shuffled messages is the mean of the n ratios
W = exp((2y - 1)/(2 sigma^2)), y ~ N(0, sigma^2): lognormal with mean 1 and log-variance
1/sigma^2. So the divergence of "mean 1" from "mean 0" is E[mean W - alpha]_+, and the other way
round E[1 - alpha mean W]_+.

The sum over the users is done one message at a time on the function

    g_m(K) = E[W_1 + ... + W_m - K]_+ ,   g_1 the lognormal call price,
    g_{m+1}(K) = E[g_m(K - W)],           g_m(K) = m - K  for K <= 0,

kept as a Chebyshev series in K. There is no grid of losses, no FFT and no sampling.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import ndtr

Array = NDArray[np.float64]

REACH = 12.0
"""Normal variables are cut here; P(|Z| > 12) < 4e-33."""


def calls(strikes: Array, sigma: float) -> Array:
    """E[W - K]_+ for each strike K, any sign (Black and Scholes with volatility 1/sigma)."""
    safe = np.maximum(strikes, 1e-300)
    above = sigma * (0.5 / sigma**2 - np.log(safe))
    price = ndtr(above) - safe * ndtr(above - 1 / sigma)
    return np.where(strikes > 0, price, 1.0 - strikes)


def alone(sigma: float, epsilon: float, rounds: int = 1) -> float:
    """n = 1: the Gaussian mechanism of sensitivity 1, ``rounds`` times, in closed form.

    Independent rounds are one of noise sigma/sqrt(rounds). The same in both directions.
    """
    s = sigma / rounds**0.5
    return float(ndtr(0.5 / s - epsilon * s) - np.exp(epsilon) * ndtr(-0.5 / s - epsilon * s))


def two(sigma: float, epsilon: float) -> tuple[float, float]:
    """n = 2 in both directions, by adaptive quadrature over the first message.

    Given the first ratio w the expectation over the second one is a call price (with strike
    2 alpha - w), or a put price (with strike 2/alpha - w; zero if that is negative).

    Returns:
        ``(E[mean W - alpha]_+, E[1 - alpha mean W]_+)``.
    """
    alpha = np.exp(epsilon)

    def expected(price: Callable[[Array], Array], strike: float) -> float:
        def integrand(z: float) -> float:
            w = np.exp(z / sigma - 0.5 / sigma**2)
            return float(np.exp(-z * z / 2) * price(np.asarray(strike - w)))

        middle = min(sigma * np.log(strike) + 0.5 / sigma, REACH)  # there w = strike
        pieces = [(-REACH, middle), (middle, REACH)]
        areas = [quad(integrand, *piece, epsabs=1e-13, epsrel=1e-11)[0] for piece in pieces]
        return float(sum(areas) / np.sqrt(2 * np.pi))

    def puts(strikes: Array) -> Array:
        return np.where(strikes > 0, calls(strikes, sigma) - 1.0 + strikes, 0.0)

    forth = expected(lambda strikes: calls(strikes, sigma), 2 * alpha) / 2
    return forth, float(alpha * expected(puts, 2 / alpha) / 2)


def shuffled(
    sigma: float, epsilon: float, users: int, *, degree: int = 120, nodes: int = 80
) -> tuple[float, float]:
    """Any small n in both directions; absolute error about 1e-12 for sigma near 2.

    Args:
        sigma: standard deviation of the noise.
        epsilon: any real number.
        users: number of messages n.
        degree: degree of the Chebyshev series; compare two of them for an error estimate.
        nodes: Gauss-Legendre nodes over each message.

    Returns:
        ``(E[mean W - alpha]_+, E[1 - alpha mean W]_+)``; the second is a put, by parity
        ``1 - alpha + alpha E[mean W - 1/alpha]_+``.
    """
    alpha = np.exp(epsilon)
    forth, back = (
        _call(sigma, users, users * strike, degree, nodes) / users for strike in (alpha, 1 / alpha)
    )
    return float(forth), float(1 - alpha + alpha * back)


def _call(sigma: float, users: int, strike: float, degree: int, nodes: int) -> float:
    """g_n at one strike > 0."""
    places = chebyshev.chebpts1(degree + 1)
    points = (places + 1) * strike / 2
    # Chebyshev polynomials are orthogonal on these points: values to coefficients
    transform = chebyshev.chebvander(places, degree).T * (2 / (degree + 1))
    transform[0] /= 2
    unit, weight = np.polynomial.legendre.leggauss(nodes)
    values = calls(points, sigma)
    for messages in range(1, users):
        last = messages == users - 1
        at = np.array([strike]) if last else points
        series = transform @ values
        crossing = sigma * np.log(at) + 0.5 / sigma  # the z at which W = K
        top = np.clip(crossing, -REACH, REACH)
        half = (top + REACH)[:, None] / 2
        z = -REACH + half * (unit + 1)
        left = np.clip(at[:, None] - np.exp(z / sigma - 0.5 / sigma**2), 0.0, strike)
        inner = chebyshev.chebval(2 * left / strike - 1, series)
        density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        below = (half * weight * density * inner).sum(axis=1)
        # where W > K: E[(m - K + W); W > K]
        above = (messages - at) * ndtr(-crossing) + ndtr(1 / sigma - crossing)
        values = below + above
    return float(values[0]) if users > 1 else float(calls(np.array([strike]), sigma)[0])
