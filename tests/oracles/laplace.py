"""Laplace messages p_x(y) = eps0/2 exp(-eps0 |y - x|), x in [0, 1], and their blanket.

The blanket is m(y) = min over x of p_x(y) = eps0/2 exp(-eps0 max(|y|, |1-y|)), of mass
exp(-eps0/2); the rest is the letter "nothing". Between neighbouring points of {0, x0, 1/2, x1, 1}
every density is a constant times e^(eps0 y) or e^(-eps0 y), so integrals of positive parts are
elementary (``excess``); ``excess_by_quadrature`` knows nothing of that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from scipy.integrate import quad

Density = Callable[[float], float]


def message(eps0: float, x: float) -> Density:
    """The density of the message of a user who holds x."""
    return lambda y: eps0 / 2 * math.exp(-eps0 * abs(y - x))


def blanket(eps0: float) -> Density:
    """The smallest of the densities over x in [0, 1]."""
    return lambda y: eps0 / 2 * math.exp(-eps0 * max(abs(y), abs(1 - y)))


def blanket_mass(eps0: float) -> float:
    """The integral of the blanket."""
    return math.exp(-eps0 / 2)


def alone(eps0: float, epsilon: float, distance: float = 1.0) -> float:
    """n = 1 in closed form: H at e^epsilon of two Laplace laws so far apart, epsilon >= 0."""
    return max(0.0, -math.expm1((epsilon - eps0 * distance) / 2))


def excess(eps0: float, x0: float, x1: float, alpha: float, t: float) -> float:
    """Integral of max(p_x0 - alpha p_x1 - t m, 0) over the line, any t, in closed form.

    That is E[(l - t)_+] over draws of the blanket, not normalised, and without the letter
    "nothing". For t < 0 the blank letter would add ``-t (1 - blanket_mass)``.
    """
    first, second, common = message(eps0, x0), message(eps0, x1), blanket(eps0)

    def integrand(y: float) -> float:
        return first(y) - alpha * second(y) - t * common(y)

    # left of all points everything is proportional to e^(eps0 y), right of them to e^(-eps0 y)
    total = (max(integrand(0.0), 0.0) + max(integrand(1.0), 0.0)) / eps0
    edges = sorted({0.0, min(x0, x1), 0.5, max(x0, x1), 1.0})
    for left, right in itertools.pairwise(edges):
        # there the integrand is rising e^(eps0 (y - left)) + falling e^(-eps0 (y - left))
        middle = (left + right) / 2
        rising = falling = 0.0
        for factor, density, ascends in (
            (1.0, first, x0 > middle),
            (-alpha, second, x1 > middle),
            (-t, common, middle < 0.5),
        ):
            # the blanket ascends left of 1/2, where the far end is 1
            height = factor * density(left)
            rising, falling = (rising + height, falling) if ascends else (rising, falling + height)
        cuts = [left, right]
        if rising * falling < 0:
            root = left + math.log(-falling / rising) / (2 * eps0)
            if left < root < right:
                cuts = [left, root, right]
        for low, high in itertools.pairwise(cuts):
            if integrand((low + high) / 2) > 0:
                a, b = eps0 * (low - left), eps0 * (high - left)
                up = rising * math.exp(a) * math.expm1(b - a)
                down = -falling * math.exp(-a) * math.expm1(a - b)
                total += max(up + down, 0.0) / eps0
    return total


def excess_by_quadrature(eps0: float, x0: float, x1: float, alpha: float, t: float) -> float:
    """The same by adaptive quadrature of the positive part itself, on the whole line."""
    first, second, common = message(eps0, x0), message(eps0, x1), blanket(eps0)

    def integrand(y: float) -> float:
        return max(first(y) - alpha * second(y) - t * common(y), 0.0)

    far = 40.0 / eps0  # what is left out is below e^-40 of the answer's scale
    edges = sorted({-far, 0.0, min(x0, x1), 0.5, max(x0, x1), 1.0, 1.0 + far})
    areas = []
    for left, right in itertools.pairwise(edges):
        areas.append(quad(integrand, left, right, epsabs=1e-12, epsrel=1e-10, limit=400)[0])
    return math.fsum(areas)


def one(eps0: float, epsilon: float, x0: float = 0.0, x1: float = 1.0) -> float:
    """n = 1: the blank letter has l = 0, so only the messages count."""
    return excess(eps0, x0, x1, math.exp(epsilon), 0.0)


def two(eps0: float, epsilon: float, x0: float = 0.0, x1: float = 1.0) -> float:
    """n = 2: E[(l_1 + l_2)/2]_+ with blank letters, the second message by ``excess``.

    Both are blank: 0. One is: twice (1 - mass) times E[l]_+/2. None: the integral over the first
    message y of m(y) E[(l_2 + l(y))]_+ / 2.
    """
    alpha, mass = math.exp(epsilon), blanket_mass(eps0)
    first, second, common = message(eps0, x0), message(eps0, x1), blanket(eps0)

    def ratio(y: float) -> float:
        return (first(y) - alpha * second(y)) / common(y)

    def integrand(y: float) -> float:
        return common(y) * excess(eps0, x0, x1, alpha, -ratio(y))

    edges = sorted({0.0, min(x0, x1), 0.5, max(x0, x1), 1.0})
    areas = [
        # l is constant left of 0 and right of 1, where half of the tails' mass is
        common(0.0) / eps0 * excess(eps0, x0, x1, alpha, -ratio(0.0)),
        common(1.0) / eps0 * excess(eps0, x0, x1, alpha, -ratio(1.0)),
    ]
    for left, right in itertools.pairwise(edges):
        areas.append(quad(integrand, left, right, epsabs=1e-12, epsrel=1e-10, limit=400)[0])
    return (1 - mass) * excess(eps0, x0, x1, alpha, 0.0) + math.fsum(areas) / 2
