"""Subset selection: a random set of categories that is likely to hold the true one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.base import Mixture
from shuffle_accountant.randomizers.categorical import Counts, FrequencyOracle, Probabilities
from shuffle_accountant.randomizers.checks import category_values, generator
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["SubsetSelection"]


@dataclass(frozen=True, init=False, repr=False)
class SubsetSelection(FrequencyOracle):
    """Subset selection (Ye and Barg 2018; Wang et al. 2019).

    The message is a set of d of the k categories. Each set that holds the true value is e^eps0
    times as likely as each set that does not, so the true value is in it with probability
    ``d e^eps0 / (d e^eps0 + k - d)``. With d = 1 this is k-ary randomized response.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
        size: number d of categories in a message, 1 <= d < k; by default the whole number next to
            ``k / (e^eps0 + 1)``, at least 1, with which frequencies are estimated best.

    Attributes:
        categories: number k of values.
        size: number d of categories in a message.
    """

    kind: ClassVar[str] = "subset-selection"
    message_axes: ClassVar[int] = 1
    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0", "size")

    size: int

    def __init__(self, *, categories: int, eps0: float, size: int | None = None) -> None:
        super().__init__(categories=categories, eps0=eps0)
        if size is None:
            odds = math.exp(-self._eps0)
            size = max(1, round(self.categories * odds / (1.0 + odds)))
        checked = validate.integer(minimum=1, maximum=self.categories - 1, size=size)
        object.__setattr__(self, "size", checked)

    @property
    def mixture(self) -> Mixture | None:
        """The truth or a random category, if messages hold one category (size 1); else None."""
        if self.size > 1:
            return None
        return RandomizedResponse(categories=self.categories, eps0=self._eps0).mixture

    @property
    def include_probability(self) -> float:
        """Probability that the message holds the true value."""
        return self.size / self._weight

    @property
    def _weight(self) -> float:
        """``d + (k - d) e^-eps0``: all sets, one with the true value counting k/C(k, d)."""
        return self.size + (self.categories - self.size) * math.exp(-self._eps0)

    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Probabilities, Probabilities]:
        outside = self.categories - self.size
        ones = np.count_nonzero(bits, axis=1).tolist()
        every = math.perm(self.categories, len(asked))
        # the share of all sets with a pattern: a ratio of whole numbers, rounded once
        share = np.array(
            [math.perm(self.size, j) * math.perm(outside, len(asked) - j) / every for j in ones]
        )
        holding = share * (self.categories / self._weight)
        return holding, holding * math.exp(-self._eps0)

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        return 0.0  # no message holds all categories

    def _joint_counts(self) -> Counts:
        """Counts under f: every message says yes to exactly ``size`` categories."""
        share = self.size / self.categories
        rest = (self.categories - self.size) / self.categories
        return np.array([float(self.size)]), np.array([share]), np.array([rest])

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomize each user's value independently.

        Args:
            values: integers in 0 … k - 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The sets, each in rising order, shape ``(*values.shape, d)``.
        """
        given = category_values(values, self.categories)
        own = given.ravel()
        rng = generator(rng)
        held = rng.random(own.size) < self.include_probability
        chosen = _subsets(rng, own.size, self.categories - 1, self.size)
        chosen += chosen >= own[:, np.newaxis]  # any categories but one's own
        place = rng.integers(self.size, size=own.size)
        chosen[held, place[held]] = own[held]
        return np.sort(chosen, axis=-1).reshape(*given.shape, self.size)

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories in it."""
        own = self.include_probability
        return own, (self.size - own) / (self.categories - 1)

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        sets = category_values(messages, self.categories, name="messages")
        if sets.ndim == 0 or sets.shape[-1] != self.size:
            raise ValueError(f"messages must have shape (..., {self.size}), got {sets.shape}")
        sets = sets.reshape(-1, self.size)
        if not np.all(sets[:, 1:] > sets[:, :-1]):
            row = int(np.argmax(np.any(sets[:, 1:] <= sets[:, :-1], axis=1)))
            raise ValueError(
                f"messages must be sets in rising order, got {sets[row].tolist()!s:.60}"
            )
        return np.bincount(sets.ravel(), minlength=self.categories), len(sets)


def _subsets(rng: np.random.Generator, count: int, total: int, size: int) -> NDArray[np.int64]:
    """``count`` uniformly random sets of ``size`` of ``total`` numbers, shape (count, size).

    The memory is a few times that of the answer.
    """
    if 4 * size > total:
        every = np.broadcast_to(np.arange(total), (count, total))
        return rng.permuted(every, axis=1)[:, :size]
    sets = np.sort(rng.integers(total, size=(count, size)), axis=1)
    # Numbers that came twice are drawn again. All numbers are treated alike, so all sets stay
    # equally likely.
    again = np.arange(count)
    while again.size:
        drawn = sets[again]
        twice = np.zeros(drawn.shape, dtype=bool)
        twice[:, 1:] = drawn[:, 1:] == drawn[:, :-1]
        drawn[twice] = rng.integers(total, size=np.count_nonzero(twice))
        sets[again] = np.sort(drawn, axis=1)
        again = again[np.any(twice, axis=1)]
    return sets
