"""Vectors with Gaussian noise, sent through the shuffler."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.numerics.rounding import roundings
from shuffle_accountant.randomizers.base import FromArguments
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.randomizers.estimation import Estimate, Estimator, ends_around, tally_of

__all__ = ["GaussianVectors"]

# Amount by which a norm may exceed 1, for the rounding of whoever clipped the vectors.
_ROUNDING = 1e-9


@dataclass(frozen=True, init=False, repr=False)
class GaussianVectors(Estimator, FromArguments):
    """A vector of 2-norm at most 1, of any dimension, plus normal noise in every coordinate.

    Adjacency: zero-out. One user's vector is replaced by the vector 0, or the reverse, and the user
    goes on sending a message. A round of it is reduced by null clones (see
    `shuffle_accountant.reductions.clones`), whatever the dimension and the other vectors.

    Privacy is that of real-valued noise; sampled doubles follow it up to their rounding.

    Args:
        noise_multiplier: standard deviation of the noise per coordinate, in [1e-100, 1e12], in
            units of the largest norm.
    """

    kind: ClassVar[str] = "gaussian-vectors"
    arguments: ClassVar[tuple[str, ...]] = ("noise_multiplier",)
    message_axes: ClassVar[int] = 1

    noise_multiplier: float

    def __init__(self, *, noise_multiplier: float) -> None:
        value = validate.noise_multiplier(noise_multiplier=noise_multiplier)
        object.__setattr__(self, "noise_multiplier", value)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumption that every user's vector has 2-norm at most 1."""
        return ("Each user's vector has 2-norm at most 1 before the noise is added to it",)

    @property
    def eps0(self) -> float:
        """Infinite: the ratio of two normal densities is not bounded."""
        return math.inf

    @property
    def noisy_vectors(self) -> float:
        """The noise multiplier."""
        return self.noise_multiplier

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out: one user's vector is replaced by the vector 0, or the reverse."""
        return Adjacency.ZERO_OUT

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.float64]:
        """Add independent noise to each user's vector.

        Args:
            values: vectors of 2-norm at most 1, shape (..., d).
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, of the same shape.
        """
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"values must be numbers, got an array of {array.dtype}")
        own = array.astype(np.float64)
        if own.ndim == 0:
            raise ValueError("values must be vectors of shape (..., d), got a single number")
        norms = np.linalg.norm(own, axis=-1)
        wrong = ~(norms <= 1.0 + _ROUNDING)  # NaN is outside too
        if np.any(wrong):
            raise ValueError(f"values must have norms of at most 1, got {norms[wrong].flat[0]!s}")
        return own + generator(rng).normal(scale=self.noise_multiplier, size=own.shape)

    def estimate_from(self, tally: ArrayLike, users: int) -> Estimate:
        """Unbiased mean vector from the sum of all messages.

        Args:
            tally: sums of the messages' coordinates, shape (d,).
            users: number of users who sent them, >= 1.

        Returns:
            The mean, shape (d,), and the noise multiplier over the root of ``users``.
        """
        users = validate.integer(minimum=1, users=users)
        sums = tally_of(tally, (np.size(tally),)).astype(np.float64)
        error = self.noise_multiplier / math.sqrt(users)
        means = sums / users
        ends = ends_around(means, partial(_largest_error, error))
        return Estimate(means, np.full(sums.size, error), users, ends)

    def _counted(self, messages: Any) -> tuple[NDArray[np.float64], int]:
        array = np.asarray(messages)
        if array.dtype.kind not in "iuf":
            raise TypeError(f"messages must be numbers, got an array of {array.dtype}")
        if array.ndim == 0:
            raise ValueError("messages must be vectors of shape (..., d), got a single number")
        rows = array.reshape(-1, array.shape[-1])
        return rows.sum(axis=0, dtype=np.float64), len(rows)


def _largest_error(deviation: float, failure: float, coordinates: int) -> float:
    """Bound on the largest of several normal errors at once, of this standard deviation."""
    return deviation * -float(ndtri(0.5 * failure / coordinates)) * (1.0 + roundings(64))
