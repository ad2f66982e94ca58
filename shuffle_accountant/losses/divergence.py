"""Functionals of a composition's loss L that give delta: E[w(L - epsilon); L >= epsilon].

The accountant tilts the law by ``e^(lam L)``, so each functional also says how large and how spread
its tilted weight ``e^(-lam y) w(y)`` is.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Array, outwards, pairwise_sum


class Divergence(Protocol):
    """A weight of losses above epsilon, between 0 and 1.

    Attributes:
        continuous: whether the weight has no jump, so that losses may be spread with their mean
            kept; else they are rounded, and all roundings add up.
        opposite: the weight is ``1 - opposite e^-y`` for all y >= 0; in [0, 1].
    """

    continuous: bool
    opposite: float

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        """``w(y)`` at y = loss - epsilon; 0 for y < 0."""

    def largest(self, lam: float) -> float:
        """Maximum of the tilted weight over y >= 0."""

    def norm(self, lam: float, spacing: float, points: int) -> float:
        """Bound on the 2-norm of the tilted weight over ``points`` grid points y >= 0."""

    def overshoot(self, lam: float, sd: float) -> float:
        """``E[tilted weight of Y; Y > 0]`` for Y ~ N(0, sd^2), roughly."""


class _HockeyStick:
    """``w(y) = 1 - e^-y``: delta is the hockey-stick divergence at ``e^epsilon``."""

    continuous = True
    opposite = 1.0

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        return np.asarray(-np.expm1(-np.maximum(above, 0.0)))

    def largest(self, lam: float) -> float:
        return 1.0 if lam == 0 else float((lam / (lam + 1)) ** lam / (lam + 1))

    def norm(self, lam: float, spacing: float, points: int) -> float:
        # the square is unimodal: its sum is at most its maximum plus its integral over the spacing,
        # and the integral is the beta function B(2 lam, 3)
        top = self.largest(lam) ** 2
        if lam == 0:
            return math.sqrt(top * points)
        integral = 1 / (lam * (2 * lam + 1) * (2 * lam + 2))
        return math.sqrt(min(top * points, top + integral / spacing))

    def overshoot(self, lam: float, sd: float) -> float:
        from scipy.special import erfcx  # here, because it is most of the package's import time

        root = sd / math.sqrt(2.0)
        return 0.5 * float(erfcx(lam * root) - erfcx((lam + 1.0) * root))


class _Tail:
    """``w(y) = 1``: delta is the probability that the loss is at least epsilon."""

    continuous = False
    opposite = 0.0

    def weight(self, above: NDArray[np.floating[Any]]) -> Array:
        return np.where(above >= 0.0, 1.0, 0.0)

    def largest(self, lam: float) -> float:
        return 1.0

    def norm(self, lam: float, spacing: float, points: int) -> float:
        if lam == 0:
            return math.sqrt(points)
        return math.sqrt(min(float(points), 1.0 + 1.0 / (2.0 * lam * spacing)))

    def overshoot(self, lam: float, sd: float) -> float:
        from scipy.special import erfcx

        return 0.5 * float(erfcx(lam * sd / math.sqrt(2.0)))


HOCKEY_STICK: Divergence = _HockeyStick()
PROBABILISTIC_DP: Divergence = _Tail()


def divergence_of(atoms: PldAtoms, epsilon: float) -> float:
    """Bound of the hockey-stick divergence at ``e^epsilon`` on the side of the atoms, in [0, 1]."""
    upper = atoms.side is Bound.PESSIMISTIC
    moved = atoms.loss_error if upper else -atoms.loss_error
    weight = HOCKEY_STICK.weight(atoms.loss + moved - epsilon)
    total = rounded(float(np.sum(atoms.mass * weight)), 8) + atoms.infinite
    return min(outwards(total, pairwise_sum(own=8), upper=upper), 1.0)
