"""Base class of the randomizers of vectors: arguments, running on data, and mean estimates."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import FromArguments, GivenEps0, RunsOnData
from shuffle_accountant.randomizers.checks import (
    Rows,
    as_rows,
    clipped,
    generator,
    like,
    vector_sums,
)
from shuffle_accountant.randomizers.error_bounds import largest_mean_deviation
from shuffle_accountant.randomizers.estimation import (
    Estimate,
    Estimator,
    ends_around,
    estimated,
    tally_of,
)
from shuffle_accountant.randomizers.vectors.draws import in_blocks, sum_of_blocks

# Below the first the round-off of a probability is no longer small beside its privacy; above the
# second e^eps0 overflows.
LEAST_EPS0, LARGEST_EPS0 = 1e-9, 700.0
# Relative excess of a norm over the radius that is accepted: clipping in 32-bit floats leaves 1e-6.
_CLIPPED = 1e-5


@dataclass(frozen=True, init=False, repr=False)
class VectorRandomizer(Estimator, FromArguments, GivenEps0, RunsOnData):
    """An unbiased eps0-LDP randomizer of vectors in a ball, whose messages have one constant norm.

    The law of a message is eps0-LDP for every input, clipped or not: an input outside the ball
    would only cost the lack of bias. Every chance of a discrete choice that privacy rests on is a
    multiple of 2^-53, rounded so that the likelihood ratio is never above e^eps0, and drawn
    exactly. Messages with real coordinates (the sphere's) are private as real vectors; the floats
    returned follow these up to their rounding, as with any continuous mechanism. A
    `numpy.random.Generator` is not a cryptographic source: against an adversary who may guess its
    state use a fresh seed from the operating system, and do not publish it.

    Args:
        dimension: length d of the vectors.
        eps0: local privacy parameter in nats, in [1e-9, 700].
        radius: radius of the ball of inputs, finite, > 0.
    """

    arguments: ClassVar[tuple[str, ...]] = ("dimension", "eps0", "radius")
    least_dimension: ClassVar[int] = 1
    ball: ClassVar[str]
    message_axes: ClassVar[int] = 1

    dimension: int
    _eps0: float
    radius: float

    def __init__(self, *, dimension: int, eps0: float, radius: float = 1.0) -> None:
        least = self.least_dimension
        vars(self).update(
            dimension=validate.integer(minimum=least, maximum=2**31, dimension=dimension),
            _eps0=validate.positive(eps0=eps0),
            radius=validate.positive(radius=radius),
        )
        if not LEAST_EPS0 <= self._eps0 <= LARGEST_EPS0:
            raise ValueError(
                f"eps0 must be a number in [{LEAST_EPS0:g}, {LARGEST_EPS0:g}], got {eps0!r}"
            )

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """Squared Euclidean norm of every message, the same for all inputs."""

    @property
    @abstractmethod
    def largest_coordinate(self) -> float:
        """Largest absolute value of a message's coordinate."""

    @property
    def coordinate_moment(self) -> float:
        """Largest mean square of a message's coordinate, over all inputs and coordinates."""
        return self.second_moment / self.dimension

    def largest_mean_error(self, *, users: int, confidence: float = 0.95) -> float:
        """Bound on the largest error of all coordinates of an estimated mean, for any vectors.

        All coordinates at once; a bound, proved in `shuffle_accountant.randomizers.error_bounds`.

        Args:
            users: number of messages, >= 1.
            confidence: least probability that the bound holds, in (0, 1).
        """
        users = validate.integer(minimum=1, users=users)
        failure = 1.0 - validate.open_unit(confidence=confidence)
        return self._largest_error(users, failure, self.dimension)

    def _largest_error(self, users: int, failure: float, coordinates: int) -> float:
        off = largest_mean_deviation(
            self.largest_coordinate + self.radius,
            self.coordinate_moment,
            self.second_moment,
            users=users,
            dimension=coordinates,
            failure=failure,
        )
        return off / users

    def variance(self, norm: float = 0.0) -> float:
        """Mean squared Euclidean distance of a message from its input: the sum over coordinates.

        Args:
            norm: Euclidean norm of the input, finite, >= 0; the variance is largest at 0.
        """
        norm = validate.finite_nonnegative(norm=norm)
        if norm > self._largest_norm() * (1.0 + _CLIPPED):
            raise ValueError(
                f"norm must be a number in [0, {self._largest_norm():g}], got {norm!r}"
            )
        return self.second_moment - norm * norm

    def randomize(self, vectors: Any, rng: np.random.Generator | None = None) -> Any:
        """Randomize each row independently.

        Args:
            vectors: shape (batch, dimension), rows in the ball up to a relative 1e-5; a NumPy array
                or anything that becomes one, or a PyTorch tensor.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            One message per row, same shape: an array of the same precision (32-bit floats stay, all
            else becomes 64-bit), or a tensor of the same device and precision.
        """
        rows = as_rows("vectors", vectors, self.dimension)
        messages = np.empty_like(rows, order="C")
        in_blocks(self._checked, rows, messages, generator(rng))
        return like(messages, vectors)

    def randomized_sum(
        self, take: Callable[[int, int], Rows], batch: int, norm: float, rng: np.random.Generator
    ) -> Array:
        """Sum of the messages of many vectors that are taken a few at a time, and clipped.

        Args:
            take: the rows from the first number up to the second; a new array of 32- or 64-bit
                floats, which is overwritten. Called from several threads. A row that is not finite
                counts as zero.
            batch: number of rows, >= 1.
            norm: Euclidean norm to clip to, at most the radius.
            rng: source of randomness.

        Returns:
            Shape (dimension,), 64-bit floats.
        """

        def made(first: int, end: int, own: np.random.Generator) -> Rows:
            return self._total(take(first, end), norm, own)

        return sum_of_blocks(made, batch, self.dimension, generator(rng))

    def _total(self, rows: Rows, norm: float, rng: np.random.Generator) -> Rows:
        """Sum of the messages of a few rows after clipping; the rows may be overwritten."""
        rows = clipped(rows, norm)
        messages = np.empty_like(rows, order="C")
        self._fill(rows, np.minimum(self._norms(rows), self.radius), messages, rng)
        return np.asarray(messages.sum(axis=0))

    def estimate_from(self, tally: ArrayLike, users: int) -> Estimate:
        """Unbiased mean vector from the tally of all messages.

        Args:
            tally: sums of the messages' coordinates and of their squares, shape (2, dimension).
            users: number of users who sent them, >= 1.

        Returns:
            The mean, shape (dimension,). The standard errors come from the spread of the messages;
            the spread of users' own vectors makes them larger, never smaller on average.
        """
        users = validate.integer(minimum=1, users=users)
        means, squares = tally_of(tally, (2, self.dimension)).astype(np.float64) / users
        ends = partial(ends_around, means, partial(self._largest_error, users), False)
        return estimated(means, squares, users, ends)

    def _counted(self, messages: Any) -> tuple[Array, int]:
        return vector_sums(as_rows("messages", messages, self.dimension))

    def _checked(self, rows: Rows, messages: Rows, rng: np.random.Generator, first: int) -> None:
        norms = self._norms(rows)
        bad = np.flatnonzero(~(norms <= self.radius * (1.0 + _CLIPPED)))
        if bad.size:
            row = int(bad[0])
            if not np.isfinite(rows[row]).all():
                worst = rows[row][~np.isfinite(rows[row])][0]
                raise ValueError(f"vectors must be finite, got {worst} in row {first + row}")
            raise ValueError(
                f"vectors must have {self.ball} norm at most radius = {self.radius:g}, "
                f"got {norms[row]:g} in row {first + row}: clip them first"
            )
        self._fill(rows, norms, messages, rng)

    def _largest_norm(self) -> float:
        """Largest Euclidean norm in the ball."""
        return self.radius

    @abstractmethod
    def _norms(self, rows: Rows) -> Array:
        """The ball's norm of each row, not finite if the row is not."""

    @abstractmethod
    def _fill(self, rows: Rows, norms: Array, messages: Rows, rng: np.random.Generator) -> None:
        """Write the messages of some rows."""
