"""Hadamard response: a position at which the value's row of a Hadamard matrix is likely +1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.randomizers.categorical import Counts, FrequencyOracle, Probabilities
from shuffle_accountant.randomizers.checks import category_values, generator

__all__ = ["HadamardResponse"]


@dataclass(frozen=True, init=False, repr=False)
class HadamardResponse(FrequencyOracle):
    """Hadamard response (Acharya, Sun and Zhang 2019), in its form for high privacy.

    With K the smallest power of two above k, input x has row x + 1 of the Sylvester Hadamard matrix
    H of size K. The message is a column y, with chance proportional to e^eps0 where
    ``H[x + 1, y] = +1`` and to 1 where it is -1 (half of the columns each). An entry is the parity
    of its indices' common bits: ``H[a, y] = (-1)^popcount(a & y)``.

    Three rows a, b, c are independent signs at a random column, unless ``c = a ^ b``: then the
    third is the product of the others. So triples of inputs are of two sorts. Column 0 is all +1,
    and no other one is in the rows in use, because these include 1, 2, 4, … K/2 (K/2 <= k).

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.

    Attributes:
        categories: number k of values.
    """

    kind: ClassVar[str] = "hadamard-response"

    @property
    def columns(self) -> int:
        """Number K of messages: the smallest power of two above k."""
        return 1 << self.categories.bit_length()

    @property
    def _keep_probability(self) -> float:
        """Chance that the entry of one's own row at the message is +1."""
        return 1.0 / (1.0 + math.exp(-self._eps0))

    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Probabilities, Probabilities]:
        # Of the columns, the share with the signs s at the rows is the mean of prod_i (1 + s_i
        # H_i)/2. A product of rows is the row of their exclusive or, whose mean is 1 for row 0 and
        # else 0.
        signs = np.where(bits, 1.0, -1.0)
        share = np.zeros(len(bits))
        for subset in _dependent(asked):
            share += np.prod(signs[:, subset], axis=1)
        share /= len(bits)
        own = 2.0 * self._keep_probability
        return share * own, share * (own * math.exp(-self._eps0))

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        agreeing = self.columns * len(_dependent(asked)) >> len(asked)
        return 1.0 / agreeing  # column 0 is one of the ``agreeing`` with +1 at the rows asked for

    def _joint_counts(self) -> Counts:
        """Counts of +1 in rows 1 … k of a random column y of the Sylvester matrix.

        Rows 0 … k sum to N = k + 1 at y = 0. Else let t be the lowest bit of y. Cut the rows into
        blocks by the bits of N: a block of 2^b rows sums to nothing for b > t, to its whole size up
        to a sign for b <= t. The sign is ``(-1)^(bit t of N)`` times one that y's higher bits
        decide at random, or +1 if N has no such bits.
        """
        k = self.categories
        rows, columns = k + 1, self.columns
        counts, chances = [float(k)], [1.0 / columns]
        for t in range(columns.bit_length() - 1):
            bit = rows >> t & 1
            total = (bit << t) + (1 - 2 * bit) * (rows & ((1 << t) - 1))
            fair = (rows & (columns - 1)) >> (t + 1) != 0
            for sign in (1, -1) if fair else (1,):
                counts.append((rows + sign * total) // 2 - 1.0)
                chances.append(0.5 ** (t + 1) * (0.5 if fair else 1.0))
        j, mass = np.array(counts), np.array(chances)
        return j, mass * (j / k), mass * ((k - j) / k)

    def datasets(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (x0, x1, others); rows 1, 2, 3 depend on each other, rows 1, 2, 4 do not."""
        independent = ((0, 1, 3),) if self.categories >= 4 else ()
        return (*super().datasets(), *independent)

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomize each user's value independently.

        Args:
            values: integers in 0 … k - 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, integers in 0 … K - 1, of the same shape.
        """
        rows = category_values(values, self.categories) + 1
        rng = generator(rng)
        negative = rng.random(rows.shape) >= self._keep_probability
        columns = rng.integers(self.columns, size=rows.shape)
        wrong = _odd(rows & columns) != negative
        # flipping a bit of the column that its row has changes the sign
        return np.where(wrong, columns ^ (rows & -rows), columns)

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories in whose rows it is +1."""
        return self._keep_probability, 0.5

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        columns = category_values(messages, self.columns, name="messages").ravel()
        sums = _hadamard_transform(np.bincount(columns, minlength=self.columns))
        return (columns.size + sums[1 : self.categories + 1]) // 2, columns.size


def _hadamard_transform(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The Sylvester matrix times a vector of integers, shape (2^m,): sums and differences."""
    half = 1
    while half < counts.size:
        pairs = counts.reshape(-1, 2, half)
        counts = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return counts


def _dependent(asked: tuple[int, ...]) -> list[list[int]]:
    """The sets of inputs asked for, as positions, whose rows multiply to the row of ones."""
    found = []
    for chosen in product((False, True), repeat=len(asked)):
        subset = [i for i, taken in enumerate(chosen) if taken]
        combined = 0
        for i in subset:
            combined ^= asked[i] + 1
        if combined == 0:
            found.append(subset)
    return found


def _odd(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number has an odd number of bits."""
    for shift in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return (numbers & 1).astype(bool)
