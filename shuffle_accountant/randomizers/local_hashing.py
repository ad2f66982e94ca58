"""Local hashing: randomized response of a random hash of the value.

The generator SplitMix64 as a family of hash functions, and the counts that local hashing needs.

To how many messages a category belongs takes one hash for each message and category, a thousand
million for a million users and a thousand categories. None of them is divided: ``h mod g = b`` for
``b < g`` means that ``h - b`` is a multiple of g, not below 0. With ``g = 2^s o`` for an odd o,
a number x below 2^64 is a multiple of g just where ``x o^-1 mod 2^64``, turned right by s bits, is
at most ``(2^64 - 1) // g`` (Granlund and Montgomery 1994, "Division by invariant integers using
multiplication", Section 9).
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values, message_rows
from shuffle_accountant.randomizers.oracles import FrequencyOracle
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

# SplitMix64 (Steele, Lea and Flood 2014): the increment of its state and the mixing of its output.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_FIRST, _SECOND = (np.uint64(factor) for _, factor in _MIXING)
_LAST_SHIFT = np.uint64(31)
_WORD = 2**64
# Number of hashes in one NumPy block, where there is no compiler.
_BLOCK = 2**20
# Least number of hashes that one thread is given.
_SHARE = 2**22


def split_mix(start: NDArray[np.uint64], steps: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Output number ``steps`` (from 1) of the generator started at ``start``, elementwise."""
    # unsigned integers wrap around
    state = np.asarray(start + steps * _INCREMENT, dtype=np.uint64)
    for shift, factor in _MIXING:
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> _LAST_SHIFT
    return state


def support_counts(
    seeds: NDArray[np.int64], buckets: NDArray[np.int64], categories: int, modulus: int
) -> NDArray[np.int64]:
    """Number of messages, per category, whose hash function puts it into the message's bucket.

    Args:
        seeds: seeds of the hash functions, >= 0, shape (n,).
        buckets: in 0 … modulus - 1, shape (n,).
        categories: number k of categories.
        modulus: number g of buckets.

    Returns:
        The counts, shape (k,). The memory needed beyond the messages is a small multiple of it.
    """
    starts, wanted = seeds.astype(np.uint64), buckets.astype(np.uint64)
    fast = compiled(_count)
    if fast is _count:
        return _count_blocks(starts, wanted, categories, modulus)
    twos = (modulus & -modulus).bit_length() - 1
    inverse = np.uint64(pow(modulus >> twos, -1, _WORD))
    most = np.uint64((_WORD - 1) // modulus)
    # a turn by no bits is one by all of them in two halves
    right, left = np.uint64(twos), np.uint64((64 - twos) % 64)
    share = max(_SHARE // categories, -(-starts.size // (os.cpu_count() or 1)), 1)

    def one(first: int) -> NDArray[np.int64]:
        counts = np.zeros(categories, dtype=np.int64)
        part = slice(first, first + share)
        fast(starts[part], wanted[part], inverse, most, right, left, counts)
        return counts

    total = np.zeros(categories, dtype=np.int64)
    with ThreadPoolExecutor(thread_name_prefix="tally") as pool:
        for counts in pool.map(one, range(0, starts.size, share)):
            total += counts
    return total


def _count_blocks(
    starts: NDArray[np.uint64], wanted: NDArray[np.uint64], categories: int, modulus: int
) -> NDArray[np.int64]:
    """Support counts without a compiler: remainders by NumPy, a block of messages at a time."""
    steps = np.arange(1, categories + 1, dtype=np.uint64)
    counts = np.zeros(categories, dtype=np.int64)
    rows = max(_BLOCK // categories, 1)
    for first in range(0, starts.size, rows):
        part = slice(first, first + rows)
        hashes = split_mix(starts[part, None], steps[None]) % np.uint64(modulus)
        counts += np.count_nonzero(hashes == wanted[part, None], axis=0)
    return counts


def _count(
    starts: NDArray[np.uint64],
    wanted: NDArray[np.uint64],
    inverse: np.uint64,
    most: np.uint64,
    right: np.uint64,
    left: np.uint64,
    counts: NDArray[np.int64],
) -> None:  # pragma: no cover - compiled
    for i in range(starts.size):
        state, bucket = starts[i], wanted[i]
        for category in range(counts.size):
            state += _INCREMENT
            mixed = (state ^ (state >> np.uint64(30))) * _FIRST
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
            mixed ^= mixed >> np.uint64(31)
            quotient = (mixed - bucket) * inverse
            turned = (quotient >> right) | (quotient << left)
            counts[category] += (mixed >= bucket) & (turned <= most)


@dataclass(frozen=True, init=False, repr=False)
class LocalHashing(FrequencyOracle):
    """Optimised local hashing (Wang et al. 2017).

    Each user draws a hash function h from the k categories to g buckets and sends the function with
    the randomized response of the bucket h(x): the true bucket is e^eps0 times as likely as each
    other one.

    The analysis takes the functions to be uniformly random and independent, all g^k of them: then
    every input falls into the message's bucket with chance 1/g, independently. The local parameter
    eps0 holds for any family of functions; the blanket is that of the ideal one. Messages: the
    seeds of the functions and the buckets, shape ``(*values.shape, 2)``.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
        buckets: number g of buckets, 2 <= g <= 2^53; by default the whole number next to
            ``e^eps0 + 1``, with which frequencies are estimated best.
    """

    kind: ClassVar[str] = "local-hashing"
    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0", "buckets")
    message_axes: ClassVar[int] = 1
    conditions = ("Hash functions are uniformly random, and each user's independent of all others",)

    buckets: int

    def __init__(self, *, categories: int, eps0: float, buckets: int | None = None) -> None:
        super().__init__(categories=categories, eps0=eps0)
        if buckets is None:
            buckets = min(round(math.exp(min(self._eps0, 40.0))) + 1, MOST_CATEGORIES)
        checked = validate.integer(minimum=2, maximum=MOST_CATEGORIES, buckets=buckets)
        vars(self).update(buckets=checked)

    @cached_property
    def _response(self) -> RandomizedResponse:
        """Randomized response that is applied to the bucket of the user's value."""
        return RandomizedResponse(categories=self.buckets, eps0=self._eps0)

    def _pattern_chances(
        self, asked: tuple[int, ...], bits: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        ones = np.count_nonzero(bits, axis=1).astype(np.float64)
        hit, miss = 1.0 / self.buckets, (self.buckets - 1) / self.buckets
        # relative to a random function and a random bucket
        chance = hit**ones * miss ** (len(asked) - ones)
        keep = self._response.keep_probability * self.buckets
        return chance * keep, chance * (self._response.lie_probability * self.buckets)

    @property
    def _rate(self) -> float:
        return 1.0 / self.buckets

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        return float((1.0 / self.buckets) ** (self.categories - len(asked)))

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
        return (state % np.uint64(self.buckets)).astype(np.int64).reshape(shape)

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        seeds = rng.integers(2**63 - 1, size=own.shape, endpoint=True)
        buckets = self._response.randomize(self.hash(seeds, own), rng)
        return np.stack([seeds, buckets], axis=-1)

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories that its function puts into its bucket."""
        return self._response.keep_probability, 1.0 / self.buckets

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        pairs = category_values(messages, 2**63, name="messages")
        pairs = message_rows(pairs, 2, "be seeds and buckets of")
        buckets = category_values(pairs[:, 1], self.buckets, name="buckets")
        counts = support_counts(pairs[:, 0], buckets, self.categories, self.buckets)
        return counts, len(pairs)
