"""Base class of the Mallows laws."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray, RandomSource, permutation, random_source
from shuffle_accountant.order.distances import DISTANCES

__all__ = ["MOST_USERS", "Mallows"]

MOST_USERS = 10**8
"""Largest number of users: longer permutations do not fit into memory."""


@dataclass(frozen=True)
class Mallows(ABC):
    """A law on permutations s of 0..n-1 with mass ``exp(-theta d(s)) / psi``.

    d is a distance from the identity. Sampling is exact up to the rounding of double precision; it
    is not hardened against attacks on floating-point samplers.

    Args:
        users: length n, in [1, 10^8].
        theta: concentration, >= 0. 0 is the uniform law, infinity the identity alone.
    """

    distance: ClassVar[str]

    users: int
    theta: float

    def __post_init__(self) -> None:
        users = validate.integer(minimum=1, maximum=MOST_USERS, users=self.users)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "theta", validate.nonnegative(theta=self.theta))

    def sample(self, rng: RandomSource = None) -> IntArray:
        """A random permutation in one-line form, shape (n,).

        Args:
            rng: generator or seed; None is the operating system's source.
        """
        source = random_source(rng)
        if self._concentration == 0.0:
            return source.permutation(self.n)
        if self._concentration == math.inf:
            return np.arange(self.n)
        return self._draw(source)

    def logpmf(self, permutation: ArrayLike) -> float:
        """Natural logarithm of a permutation's mass; -inf if it has none.

        Args:
            permutation: one-line form, shape (n,).
        """
        distance = DISTANCES[self.distance](_checked(self.n, permutation))
        # at infinite theta, 0 times infinity is meant to be 0
        return -self.theta * distance - self.log_psi() if distance else -self.log_psi()

    @property
    def n(self) -> int:
        """Number of users."""
        return self.users

    @abstractmethod
    def log_psi(self) -> float:
        """Natural logarithm of the normaliser, the sum of ``exp(-theta d(s))`` over all s."""

    @abstractmethod
    def mean_distance(self) -> float:
        """Expected distance from the identity."""

    @abstractmethod
    def var_distance(self) -> float:
        """Variance of the distance from the identity."""

    @property
    @abstractmethod
    def nearly_uniform(self) -> bool:
        """Whether so little of the order survives that a uniform shuffle would be no worse."""

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> IntArray:
        """A permutation at a finite positive concentration."""

    @property
    def _concentration(self) -> float:
        """Theta, or its limit where doubles cannot distinguish them: 0 if tiny, infinity if huge.

        A distance is at most n²; below 1e-18 / n² all masses are equal to the last digit. Beyond
        1000 + log(n) no double is small enough for the mass of all permutations but the identity.
        """
        if self.theta * self.n**2 < 1e-18:
            return 0.0
        return math.inf if self.theta > 1000.0 + 2.0 * math.log(self.n) else self.theta


def _checked(n: int, values: ArrayLike) -> IntArray:
    return permutation(n, permutation=values)
