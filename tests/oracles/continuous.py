"""Targets with real messages: normal and Laplace noise, one or two messages, in closed form or by
quadrature of the density lemma.

By that lemma the divergence is ``E[((1/n) sum l(Y_i))_+]`` for i.i.d. messages of the decoys, so
two messages are one integral over the first of a function of the second that is known in closed
form (normal) or is itself one integral (Laplace). Nothing here reads the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

from .precision import MP, exact

QUADRATURE = 1e-9
"""Relative error of what is integrated here; quad is asked for 1e-12 on each smooth piece."""

# Normal mass further out than this many deviations is 1e-88.
_FAR = 20.0


def _integral(function: Callable[[float], float], points: Iterable[float]) -> float:
    """Integral from the first to the last of the points, smooth between neighbours."""
    places = sorted(set(points))
    # the function spans many orders of magnitude: each piece is cut further
    found = [
        quad(function, a, b, epsabs=0.0, epsrel=1e-12, limit=200)[0]
        for left, right in pairwise(places)
        for a, b in pairwise(np.linspace(left, right, 9).tolist())
    ]
    return math.fsum(found)


# Normal noise: W = p1/p0 = exp((2y - 1)/(2 sigma^2)) with y ~ N(0, sigma^2)


def gaussian_mechanism(sigma: float, epsilon: float) -> float:
    """Divergence of N(1, sigma^2) from N(0, sigma^2) at e^epsilon, 50 digits inside."""
    s, e = exact(sigma), exact(epsilon)
    half = 1 / (2 * s)
    return float(MP.ncdf(half - e * s) - MP.exp(e) * MP.ncdf(-half - e * s))


def _call(sigma: float, strike: float) -> float:
    """``E[(W - strike)_+]``."""
    if strike <= 0.0:
        return 1.0 - strike
    y = 0.5 + sigma**2 * math.log(strike)
    return float(ndtr((1.0 - y) / sigma) - strike * ndtr(-y / sigma))


def _put(sigma: float, strike: float) -> float:
    """``E[(strike - W)_+]``."""
    if strike <= 0.0:
        return 0.0
    y = 0.5 + sigma**2 * math.log(strike)
    return float(strike * ndtr(y / sigma) - ndtr((y - 1.0) / sigma))


def gaussian_above(sigma: float, users: int, strike: float) -> float:
    """``E[(mean of W_1 … W_n - strike)_+]`` for strike > 0: the profile of (P, Q) at the strike."""
    return _gaussian(_call, sigma, users, strike)


def gaussian_below(sigma: float, users: int, strike: float) -> float:
    """``E[(strike - mean of W_1 … W_n)_+]``; the profile of (Q, P) is alpha times it at 1/alpha."""
    return _gaussian(_put, sigma, users, strike) if strike > 0.0 else 0.0


def _gaussian(
    option: Callable[[float, float], float], sigma: float, users: int, strike: float
) -> float:
    if users == 1:
        return option(sigma, strike)
    if users != 2:
        raise ValueError(f"users must be 1 or 2, got {users}")

    def over_first(y: float) -> float:
        ratio = math.exp((2.0 * y - 1.0) / (2.0 * sigma**2))
        density = math.exp(-0.5 * (y / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))
        return 0.5 * density * option(sigma, 2.0 * strike - ratio)

    # up to here the second message decides, beyond it the first alone is above the strike
    turn = 0.5 + sigma**2 * math.log(2.0 * strike)
    low, high = -_FAR * sigma, _FAR * sigma + 1.0
    return _integral(over_first, [low, high, min(max(turn, low), high), 0.0, 1.0])


def gaussian_example(sigma: float, users: int, epsilon: float, fraction: float = 1.0) -> float:
    """Profile of ``((1 - f) Q + f P, Q)``, P with the target's 1 among the n messages."""
    strike = 1.0 + math.expm1(epsilon) / fraction
    return fraction * gaussian_above(sigma, users, strike)


def gaussian_example_reversed(
    sigma: float, users: int, epsilon: float, fraction: float = 1.0
) -> float:
    """Profile of ``(Q, (1 - f) Q + f P)``."""
    weight = math.exp(epsilon) * fraction
    return weight * gaussian_below(sigma, users, 1.0 + math.expm1(-epsilon) / fraction)


def gaussian_blanket_excess(sigma: float, alpha: float, t: float) -> float:
    """``E[(l - t)_+]`` of the blanket pair of inputs 0 and 1; l is 0 at the blank."""

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


# Laplace noise on [0, 1]

_NODES, _WEIGHTS = (array.tolist() for array in np.polynomial.legendre.leggauss(24))


def laplace_mechanism(eps0: float, epsilon: float) -> float:
    """Divergence of two Laplace laws a distance 1 apart, scale 1/eps0: ``1 - e^((e - eps0)/2)``."""
    return -math.expm1(0.5 * (epsilon - eps0)) if epsilon < eps0 else 0.0


class LaplaceBlanket:
    """Inputs x0 and x1 among decoys that send the blanket of all inputs in [0, 1], or nothing.

    The blanket's density is ``(eps0/2) e^(-eps0 max(|y|, |1 - y|))``. Between the points 0, 1/2, 1,
    x0 and x1 both likelihood ratios are constant or a multiple of one exponential, so ``l - t``
    changes its sign at most once there.
    """

    def __init__(self, eps0: float, x0: float, x1: float, alpha: float) -> None:
        self.eps0, self.x0, self.x1, self.alpha = eps0, x0, x1, alpha
        self.places = sorted({0.0, 0.5, 1.0, x0, x1})
        self.ends = [self.value(y) for y in self.places]
        self.outside = 0.5 * math.exp(-eps0)
        self.blank = -math.expm1(-0.5 * eps0)

    def value(self, y: float) -> float:
        """The value l of the message y."""
        rest = max(abs(y), abs(1.0 - y))
        first = math.exp(self.eps0 * (rest - abs(y - self.x0)))
        return first - self.alpha * math.exp(self.eps0 * (rest - abs(y - self.x1)))

    def density(self, y: float) -> float:
        """The blanket's density."""
        return 0.5 * self.eps0 * math.exp(-self.eps0 * max(abs(y), abs(1.0 - y)))

    def crossings(self, t: float) -> list[float]:
        """Where l passes t, inside the pieces."""
        found = []
        for i in range(len(self.places) - 1):
            if (self.ends[i] - t) * (self.ends[i + 1] - t) < 0.0:
                left, right = self.places[i], self.places[i + 1]
                found.append(brentq(lambda y: self.value(y) - t, left, right, xtol=1e-15))
        return found

    def excess(self, t: float) -> float:
        """``E[(l - t)_+]`` under the blanket and the blank, by Gauss's rule on smooth pieces."""
        total = self.outside * (max(self.ends[0] - t, 0.0) + max(self.ends[-1] - t, 0.0))
        total += self.blank * max(-t, 0.0)
        points = sorted([*self.places, *self.crossings(t)])
        for left, right in pairwise(points):
            centre, half = 0.5 * (left + right), 0.5 * (right - left)
            if half > 0.0 and self.value(centre) > t:
                total += half * math.fsum(
                    w * self.density(centre + half * x) * (self.value(centre + half * x) - t)
                    for x, w in zip(_NODES, _WEIGHTS, strict=True)
                )
        return total

    def two_users(self) -> float:
        """``E[((l(Y_1) + l(Y_2))/2)_+]``: the divergence of a round of two messages."""
        # the excess is not smooth at the atoms of l nor where its density jumps
        kinks = [0.0, *(-value for value in self.ends)]
        points = [*self.places, *(y for kink in kinks for y in self.crossings(kink))]
        total = _integral(lambda y: self.density(y) * self.excess(-self.value(y)), points)
        total += self.outside * (self.excess(-self.ends[0]) + self.excess(-self.ends[-1]))
        return 0.5 * (total + self.blank * self.excess(0.0))


@lru_cache(maxsize=64)
def laplace_two(eps0: float, epsilon: float) -> float:
    """Divergence of the inputs 0 and 1 in a round of two messages, decoys from the blanket."""
    return LaplaceBlanket(eps0, 0.0, 1.0, math.exp(epsilon)).two_users()
