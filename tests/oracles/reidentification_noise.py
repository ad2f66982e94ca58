"""Re-identification under Laplace and Gaussian noise, by quadrature.

Laplace: over the logarithm of the ratio, in 25 digits. Gaussian: over the target's message, in
doubles, with relative errors below 1e-13 (positive integrands, 1600 nodes on their support).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oracles.precision import MP, Real, exact

_DIGITS = 25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_PIECES = 40


def _integral(f: Callable[[Real], Real], low: Real, high: Real) -> Real:
    pieces = int((high - low) / 4) + 1
    return MP.quad(f, [low + (high - low) * i / pieces for i in range(pieces + 1)])


def _sum(f: Callable[[float], float], low: float, high: float) -> float:
    half = 0.5 * (high - low) / _PIECES
    return math.fsum(
        half * weight * f(low + (2 * i + 1 + node) * half)
        for i in range(_PIECES)
        for node, weight in zip(_NODES.tolist(), _WEIGHTS.tolist(), strict=True)
    )


def _cdf(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def _pdf(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def _one(users: int, chance: Real) -> Real:
    """``1 - (1 - q)^n``."""
    return -MP.expm1(users * MP.log1p(-chance))


def laplace_pair(gap: float, users: int) -> Real:
    """Means a gap apart in units of the scale: the layer integral over the log-ratio."""
    with MP.workdps(_DIGITS):
        gap = exact(gap)
        inner = _integral(lambda v: MP.exp(v) * _one(users, MP.exp(-(gap + v) / 2) / 2), -gap, gap)
        return (MP.exp(-gap) + inner) / users


def laplace_blanket(eps0: float, target: float, users: int) -> Real:
    """The same with decoys that are draws from e^(-eps0/2) of the noise around 1/2."""
    with MP.workdps(_DIGITS):
        e, d = exact(eps0), abs(exact(target) - exact("0.5"))
        low, high = e * (exact("0.5") - d), e * (exact("0.5") + d)
        floor = MP.exp(low) * _one(users, MP.exp(-e / 2))
        if d == 0:
            return floor / users
        inner = _integral(
            lambda v: MP.exp(v) * _one(users, MP.exp(-e / 4 - e * d / 2 - v / 2) / 2), low, high
        )
        return (floor + inner) / users


def gaussian_pair(gap: float, users: int, guesses: int = 1) -> float:
    """Over the target's score: fewer than k of the others are above it."""

    def density(z: float) -> float:
        below, above = _cdf(z), _cdf(-z)
        chance = sum(
            math.comb(users - 1, j) * above**j * below ** (users - 1 - j) for j in range(guesses)
        )
        return _pdf(z - gap) * chance

    return _sum(density, -10.0, gap + 10.0)


def gaussian_blanket(sigma: float, target: float, users: int) -> float:
    """Over the message: no decoy has a larger ratio; ties with the target's share alike."""
    lean = abs(target - 0.5)

    def above(level: float) -> float:
        """Common mass of ratios whose logarithm exceeds that of the middle by more than this."""
        total = _cdf(-(level / (1 + 2 * lean) + 0.5) / sigma)
        if lean < 0.5:
            total += _cdf(-(level / (1 - 2 * lean) + 0.5) / sigma)
        return total

    def right(u: float) -> float:
        best = (1 - above(u * (1 + 2 * lean))) ** (users - 1)
        return _pdf((u - lean) / sigma) / sigma * best

    def left(u: float) -> float:
        best = (1 - above(u * (1 - 2 * lean))) ** (users - 1)
        return _pdf((u + lean) / sigma) / sigma * best

    end = lean + 10.0 * sigma
    total = _sum(right, 0.0, end)
    if lean < 0.5:
        return total + _sum(left, 0.0, end)
    # the whole left side has ratio one, with as much mass of the blanket as of the target
    tied, better = _cdf(-0.5 / sigma), above(0.0)
    return total + ((1 - better) ** users - (1 - better - tied) ** users) / users
