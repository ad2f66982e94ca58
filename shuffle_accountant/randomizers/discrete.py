"""Any randomizer with finitely many inputs and messages, given as its matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.numerics.ratios import log_ratio_above
from shuffle_accountant.randomizers.arguments import require_fields
from shuffle_accountant.randomizers.base import FiniteRandomizer, LetterClasses
from shuffle_accountant.randomizers.checks import (
    category_values,
    distinct_inputs,
    generator,
    row_sums,
)

__all__ = ["DiscreteRandomizer"]


@dataclass(frozen=True, init=False, repr=False)
class DiscreteRandomizer(FiniteRandomizer):
    """A randomizer given by its channel matrix.

    Compared and hashed by the value of the matrix.

    Args:
        channel: shape (inputs, messages); row x holds the probabilities of the messages from input
            x. At least two rows, entries in [0, 1], rows that sum to 1 within 1e-9, and no column
            of zeros (a message that is never sent).

    Raises:
        TypeError: ``channel`` does not hold real numbers.
        ValueError: ``channel`` is not such a matrix.
    """

    kind: ClassVar[str] = "discrete"

    _entries: bytes
    _shape: tuple[int, int]

    def __init__(self, channel: ArrayLike) -> None:
        matrix = _checked(channel)
        object.__setattr__(self, "_entries", matrix.tobytes())
        object.__setattr__(self, "_shape", matrix.shape)

    def __repr__(self) -> str:
        return f"DiscreteRandomizer(channel={self.channel.tolist()!r})"

    @property
    def channel(self) -> NDArray[np.float64]:
        """The matrix, shape (inputs, messages), read-only."""
        return np.frombuffer(self._entries).reshape(self._shape)

    @property
    def inputs(self) -> int:
        """Number of inputs: the rows."""
        return self._shape[0]

    @cached_property
    def eps0(self) -> float:
        """Largest log-ratio in a column, nats, rounded up; infinite if a message rules one out."""
        ratios = log_ratio_above(self.channel.max(axis=0), self.channel.min(axis=0))
        return float(np.max(ratios))

    @cached_property
    def blanket_mass(self) -> float:
        """Probability that a message is a draw from the blanket: the sum of the columns' minima."""
        return min(math.fsum(self.channel.min(axis=0).tolist()), 1.0)

    def classes(self, inputs: Sequence[int]) -> LetterClasses:
        """The columns at the inputs asked for, equal ones together.

        Columns that are proportional but not equal stay apart.

        Args:
            inputs: the inputs, usually two or three; they may repeat.

        Raises:
            TypeError: an input that is not an integer.
            ValueError: no input, or one that does not exist.
        """
        asked, rows = distinct_inputs(inputs, self.inputs)
        columns = np.vstack([self.channel[list(asked)], self.channel.min(axis=0)])
        columns = columns[:, np.any(columns > 0.0, axis=0)]
        columns, count = np.unique(columns, axis=1, return_counts=True)
        columns = columns * count
        return LetterClasses(columns[:-1][rows], columns[-1])

    def input_pairs(self) -> tuple[tuple[int, int], ...]:
        """All unordered pairs of inputs."""
        return tuple(combinations(range(self.inputs), 2))

    @cached_property
    def symmetric(self) -> bool:
        """Whether there are two inputs, and exchanging them permutes the columns exactly.

        False for more than two inputs, which is safe: it only costs time.
        """
        if self.inputs > 2:
            return False
        columns = [tuple(column) for column in self.channel.T.tolist()]
        return sorted(columns) == sorted((b, a) for a, b in columns)

    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """All ordered triples (x0, x1, others) with x0 != x1."""
        every = range(self.inputs)
        return tuple((a, b, other) for (a, b), other in product(permutations(every, 2), every))

    def randomize(self, values: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Randomize each user's value independently.

        Args:
            values: rows of the channel, integers, any shape.
            rng: source of randomness.

        Returns:
            The messages, columns of the channel, of the same shape.

        Raises:
            TypeError: values that are not integers, or ``rng`` is not a generator.
            ValueError: a value that is not a row.
        """
        own, rng = category_values(values, self.inputs), generator(rng)
        messages = np.empty(own.shape, dtype=np.int64)
        for value in np.unique(own).tolist():
            held, row = own == value, self.channel[value]
            chosen = rng.choice(row.size, size=np.count_nonzero(held), p=row / row.sum())
            messages[held] = chosen
        return messages

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"kind": self.kind, "channel": self.channel.tolist()}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> DiscreteRandomizer:
        """Inverse of `to_dict`, without the ``kind``."""
        require_fields(cls.kind, fields, ("channel",))
        return cls(**fields)


def _checked(channel: ArrayLike) -> NDArray[np.float64]:
    try:
        given: NDArray[Any] = np.asarray(channel)
    except ValueError:  # rows of different lengths
        raise ValueError("channel must have rows of equal lengths, got a ragged sequence") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"channel must be an array of numbers, got one of {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"channel must have 2 dimensions (inputs, messages), got {given.ndim}")
    if given.shape[0] < 2:
        raise ValueError(f"channel must have >= 2 rows (inputs), got {given.shape[0]}")
    matrix = given.astype(np.float64) + 0.0  # turns negative zeros into zeros
    sums = row_sums(channel=matrix)
    empty = np.flatnonzero(matrix.max(axis=0) == 0.0)
    if empty.size:
        raise ValueError(f"channel must have no column of zeros, got one at {empty[0]}")
    # what is run is the row's law; a sum that is off by rounding alone is left as it was given
    rough = np.abs(sums - 1.0) > 1e-14 * matrix.shape[1]
    matrix[rough] /= sums[rough, None]
    return matrix
