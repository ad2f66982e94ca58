"""Local hashing: randomized response of a random hash of the value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.categorical import Probabilities
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values, generator
from shuffle_accountant.randomizers.frequency import FrequencyOracle
from shuffle_accountant.randomizers.hash_counts import split_mix, support_counts
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = ["LocalHashing"]


@dataclass(frozen=True, init=False, repr=False)
class LocalHashing(FrequencyOracle):
    """Optimised local hashing (Wang et al. 2017).

    Each user draws a hash function h from the k categories to g buckets and sends the function with
    the randomized response of the bucket h(x): the true bucket is e^eps0 times as likely as each
    other one.

    The analysis takes the functions to be uniformly random and independent, all g^k of them: then
    every input falls into the message's bucket with chance 1/g, independently. The local parameter
    eps0 holds for any family of functions; the blanket is that of the ideal one.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
        buckets: number g of buckets, 2 <= g <= 2^53; by default the whole number next to
            ``e^eps0 + 1``, with which frequencies are estimated best.

    Attributes:
        categories: number k of values.
        buckets: number g of buckets.
    """

    kind: ClassVar[str] = "local-hashing"
    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0", "buckets")
    message_axes: ClassVar[int] = 1

    buckets: int

    def __init__(self, *, categories: int, eps0: float, buckets: int | None = None) -> None:
        super().__init__(categories=categories, eps0=eps0)
        if buckets is None:
            buckets = min(round(math.exp(min(self._eps0, 40.0))) + 1, MOST_CATEGORIES)
        checked = validate.integer(minimum=2, maximum=MOST_CATEGORIES, buckets=buckets)
        object.__setattr__(self, "buckets", checked)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumption that hash functions are uniformly random and independent."""
        return ("Hash functions are uniformly random, and each user's independent of all others",)

    @cached_property
    def _response(self) -> RandomizedResponse:
        """Randomized response that is applied to the bucket of the user's value."""
        return RandomizedResponse(categories=self.buckets, eps0=self._eps0)

    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Probabilities, Probabilities]:
        ones = np.count_nonzero(bits, axis=1)
        hit, miss = 1.0 / self.buckets, (self.buckets - 1) / self.buckets
        # relative to a random function and a random bucket
        chance = hit ** ones.astype(np.float64) * miss ** (len(asked) - ones).astype(np.float64)
        keep = self._response.keep_probability * self.buckets
        return chance * keep, chance * (self._response.lie_probability * self.buckets)

    @property
    def _rate(self) -> float:
        return 1.0 / self.buckets

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        rest: float = (1.0 / self.buckets) ** (self.categories - len(asked))
        return rest

    def hash(self, seeds: ArrayLike, values: ArrayLike) -> NDArray[np.int64]:
        """Bucket of each value under the function of each seed.

        It is output number ``value`` (from 0) of the generator SplitMix64 started at the seed,
        modulo the number of buckets.

        Args:
            seeds: integers in 0 … 2^63 - 1.
            values: integers in 0 … k - 1, of a shape that broadcasts with that of ``seeds``.

        Returns:
            The buckets, integers in 0 … g - 1.
        """
        start = category_values(seeds, 2**63).astype(np.uint64)
        steps = category_values(values, self.categories).astype(np.uint64) + np.uint64(1)
        try:
            shape = np.broadcast_shapes(start.shape, steps.shape)
        except ValueError:
            raise ValueError(
                f"seeds and values must broadcast, got shapes {start.shape} and {steps.shape}"
            ) from None
        state = split_mix(np.atleast_1d(start), np.atleast_1d(steps))
        buckets = (state % np.uint64(self.buckets)).astype(np.int64)
        return buckets.reshape(shape)

    def randomize(
        self, values: ArrayLike, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Randomize each user's value independently.

        Args:
            values: integers in 0 … k - 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The seeds of the hash functions and the buckets, shape ``(*values.shape, 2)``.
        """
        own = category_values(values, self.categories)
        rng = generator(rng)
        seeds = rng.integers(2**63 - 1, size=own.shape, endpoint=True)
        buckets = self._response.randomize(self.hash(seeds, own), rng)
        return np.stack([seeds, buckets], axis=-1)

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories that its function puts into its bucket."""
        return self._response.keep_probability, 1.0 / self.buckets

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        pairs = category_values(messages, 2**63, name="messages")
        if pairs.ndim == 0 or pairs.shape[-1] != 2:
            raise ValueError(
                f"messages must be seeds and buckets of shape (..., 2), got {pairs.shape}"
            )
        pairs = pairs.reshape(-1, 2)
        buckets = category_values(pairs[:, 1], self.buckets, name="buckets")
        counts = support_counts(pairs[:, 0], buckets, self.categories, self.buckets)
        return counts, len(pairs)
