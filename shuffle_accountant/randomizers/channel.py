"""Randomizers that are given as a matrix: a row of probabilities for each input."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.numerics.ratios import log_ratio_above
from shuffle_accountant.randomizers.base import FiniteRandomizer, LetterClasses, RunsOnData
from shuffle_accountant.randomizers.checks import category_values, distinct_inputs, generator

__all__ = ["ChannelRandomizer"]


class ChannelRandomizer(RunsOnData, FiniteRandomizer):
    """A randomizer that knows its channel matrix, from which all else follows.

    A subclass need only have the property `channel`, and be written and read.
    """

    @property
    @abstractmethod
    def channel(self) -> NDArray[np.float64]:
        """Row x holds the probabilities of the messages from input x, shape (inputs, messages).

        At least two rows of sum 1, and no column of zeros. It is asked for again and again.
        """

    @property
    def inputs(self) -> int:
        """Number of inputs: the rows."""
        return len(self.channel)

    def matrix(self) -> NDArray[np.float64]:
        """The channel itself."""
        return self.channel

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

    @cached_property
    def symmetric(self) -> bool:
        """Whether there are two inputs, and exchanging them permutes the columns exactly.

        False for more than two inputs, which is safe: it only costs time.
        """
        if self.inputs > 2:
            return False
        columns = [tuple(column) for column in self.channel.T.tolist()]
        return sorted(columns) == sorted((b, a) for a, b in columns)

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomize each user's value independently.

        Args:
            values: rows of the channel, integers, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

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
