"""Laplace noise on [0, 1] among decoys that send the blanket of all inputs, or nothing.

A message has density ``p_x(y) = (eps0/2) e^(-eps0 |y - x|)``; the blanket, the least of them, has
``m(y) = (eps0/2) e^(-eps0 max(|y|, |1 - y|))`` and mass ``e^(-eps0/2)``, the rest being the blank
letter. Between neighbours of {0, x0, 1/2, x1, 1} each density is a multiple of e^(eps0 y) or
e^(-eps0 y), so that integrals of positive parts are elementary; two messages are one integral of
those. Nothing here reads the package.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.integrate import quad

QUADRATURE = 1e-9
"""Relative error of two messages; quad is asked for 1e-12 on each smooth piece."""


def mechanism(eps0: float, epsilon: float) -> float:
    """Divergence of two Laplace laws a distance 1 apart, scale 1/eps0: ``1 - e^((e - eps0)/2)``."""
    return -math.expm1(0.5 * (epsilon - eps0)) if epsilon < eps0 else 0.0


class Blanket:
    """The target's inputs x0 and x1, and ``l = (p_x0 - alpha p_x1)/m``, which is 0 at the blank.

    Attributes:
        blank: probability of the blank letter.
        places: the points between which densities are exponentials.
        ends: values of l there.
    """

    def __init__(self, eps0: float, x0: float, x1: float, alpha: float) -> None:
        self.eps0, self.x0, self.x1, self.alpha = eps0, x0, x1, alpha
        self.blank = -math.expm1(-0.5 * eps0)
        self.places = sorted({0.0, 0.5, 1.0, x0, x1})
        self.ends = [self.value(y) for y in self.places]

    def value(self, y: float) -> float:
        """The value l of the message y."""
        rest = max(abs(y), abs(1.0 - y))
        first = math.exp(self.eps0 * (rest - abs(y - self.x0)))
        return first - self.alpha * math.exp(self.eps0 * (rest - abs(y - self.x1)))

    def density(self, y: float) -> float:
        """The blanket's density."""
        return 0.5 * self.eps0 * math.exp(-self.eps0 * max(abs(y), abs(1.0 - y)))

    def excess(self, t: float) -> float:
        """``E[(l - t)_+]`` of a decoy's message or blank, any t, in closed form."""
        total = self.blank * max(-t, 0.0)
        # left of all points and right of them l is constant
        for y, value in ((0.0, self.ends[0]), (1.0, self.ends[-1])):
            total += self.density(y) / self.eps0 * max(value - t, 0.0)
        for left, right in pairwise(self.places):
            rising, falling = self._exponentials(left, right, t)
            points = [left, *self._crossing(left, right, t), right]
            for low, high in pairwise(points):
                middle = 0.5 * (low + high)
                if self.value(middle) > t:
                    # e^(+-eps0 y) has its mean over the piece times its length as integral
                    half = math.sinh(0.5 * self.eps0 * (high - low))
                    shift = self.eps0 * (middle - left)
                    height = rising * math.exp(shift) + falling * math.exp(-shift)
                    total += 2.0 * half / self.eps0 * max(height, 0.0)
        return total

    def two_users(self) -> float:
        """``E[((l(Y_1) + l(Y_2))/2)_+]``: the divergence of a round of two messages."""
        total = self.blank * self.excess(0.0)
        for y, value in ((0.0, self.ends[0]), (1.0, self.ends[-1])):
            total += self.density(y) / self.eps0 * self.excess(-value)
        # the excess is not smooth at the atoms of l nor where its density jumps
        kinks = [0.0, *(-value for value in self.ends)]
        points = set(self.places)
        for left, right in pairwise(self.places):
            points.update(y for kink in kinks for y in self._crossing(left, right, kink))
        # it spans many orders of magnitude: each piece is cut further
        pieces = [
            piece
            for left, right in pairwise(sorted(points))
            for piece in pairwise(np.linspace(left, right, 9).tolist())
        ]
        areas = [
            quad(lambda y: self.density(y) * self.excess(-self.value(y)), *piece, **_STRICT)[0]
            for piece in pieces
        ]
        return 0.5 * (total + math.fsum(areas))

    def _exponentials(self, left: float, right: float, t: float) -> tuple[float, float]:
        """``m (l - t)`` as ``rising e^(eps0 (y - left)) + falling e^(-eps0 (y - left))``."""
        middle = 0.5 * (left + right)
        heights = {True: 0.0, False: 0.0}
        half = 0.5 * self.eps0
        heights[self.x0 > middle] += half * math.exp(-self.eps0 * abs(left - self.x0))
        heights[self.x1 > middle] -= self.alpha * half * math.exp(-self.eps0 * abs(left - self.x1))
        heights[middle < 0.5] -= t * self.density(left)
        return heights[True], heights[False]

    def _crossing(self, left: float, right: float, t: float) -> list[float]:
        """Where l passes t between neighbours, if it does: there is at most one such place."""
        rising, falling = self._exponentials(left, right, t)
        if rising * falling >= 0.0:
            return []
        y = left + math.log(-falling / rising) / (2.0 * self.eps0)
        return [y] if left < y < right else []


_STRICT = {"epsabs": 0.0, "epsrel": 1e-12, "limit": 200}


@lru_cache(maxsize=64)
def two(eps0: float, epsilon: float) -> float:
    """Divergence of the inputs 0 and 1 in a round of two messages, decoys from the blanket."""
    return Blanket(eps0, 0.0, 1.0, math.exp(epsilon)).two_users()
