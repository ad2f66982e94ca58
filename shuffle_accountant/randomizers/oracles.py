"""Frequency oracles: bits per category, a Hadamard matrix's signs, sets of categories, and hashes.

*Local hashing* has the generator SplitMix64 as a family of hash functions.

To count messages takes one hash for each message and category. None of them is divided: ``h mod g =
b`` for ``b < g`` means that ``h - b`` is a multiple of g, not below 0. With ``g = 2^s o`` for an
odd o, a number x below 2^64 is a multiple of g just where ``x o^-1 mod 2^64``, turned right by s
bits, is at most ``(2^64 - 1) // g`` (Granlund and Montgomery 1994, "Division by invariant integers
using multiplication", Section 9).
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from operator import xor
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import (
    FromArguments,
    GivenEps0,
    Mixture,
    YesCounts,
    distinct_inputs,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES, category_values, message_rows
from shuffle_accountant.randomizers.randomized_response import (
    CategoricalRandomizer,
    RandomizedResponse,
)

Bits = NDArray[np.bool_]
Counts = tuple[Array, Array, Array]
Counted = NDArray[np.int64]
Words = NDArray[np.uint64]

# Largest number of bits whose sum always fits into an unsigned byte.
_BITS = 255
# SplitMix64 (Steele, Lea and Flood 2014): the increment of its state and the mixing of its output.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_WORD = 2**64
# Number of hashes in one NumPy block, where there is no compiler.
_BLOCK = 2**20
# Least number of hashes that one thread is given.
_SHARE = 2**22


@dataclass(frozen=True, init=False, repr=False)
class FrequencyOracle(FromArguments, GivenEps0, CategoricalRandomizer):
    """A randomizer whose message says yes or no to each of k categories: ``bit_x(y)``.

    With a law f of messages that does not depend on the input,

        R(x)(y) = f(y) high   if bit_x(y) = 1,      f(y) low   if bit_x(y) = 0,

    and ``high = e^eps0 low``. Messages fall into classes by their bits at the inputs asked for. The
    blanket ``min_x R(x)(y)`` is ``f(y) low``, but ``f(y) high`` for a message that says yes to all
    categories: such messages are a class of their own.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
    """

    classes_double: ClassVar[bool] = True
    arguments: ClassVar[tuple[str, ...]] = ("categories", "eps0")

    categories: int
    _eps0: float

    def __init__(self, *, categories: int, eps0: float) -> None:
        vars(self).update(
            categories=validate.integer(minimum=2, maximum=MOST_CATEGORIES, categories=categories),
            _eps0=validate.positive(eps0=eps0),
        )

    def at(self, eps0: float) -> Self:
        """The oracle with another eps0 and all other parameters, its size included, unchanged.

        A smaller one adds noise: to each bit (RAPPOR), to the choice between a column's signs
        (Hadamard), to the set or the bucket, by a uniformly random one now and then.
        """
        return type(self)(**{**self._written(), "eps0": eps0})

    @property
    def representable(self) -> bool:
        """Whether eps0 is so small that the probability of a wrong bit is a double."""
        return self.eps0 <= 300.0

    def yes_counts(self) -> YesCounts:
        """Distribution of the number of categories that a message says yes to."""
        (_, own), (no, yes) = self._pattern_chances((0,), np.array([[False], [True]]))
        foreign = float(no), float(yes)
        return YesCounts(self.categories, float(own), foreign, self._rate, *self._joint_counts())

    @property
    def _rate(self) -> float | None:
        """Chance to say yes to each category under f, if the answers are independent."""
        return None

    def _joint_counts(self) -> Counts:
        """Counts of yes, and their joint chances with a yes and with a no; see `YesCounts`."""
        assert self._rate is not None
        if self.categories > 4096:  # too many to list: their fluctuation is bounded
            return np.zeros(0), np.zeros(0), np.zeros(0)
        i = np.arange(self.categories, dtype=np.float64)  # of the other categories
        chance = np.exp(log_pmf(i, self.categories - 1, self._rate, 1.0 - self._rate))
        yes, no = self._rate * np.append(0.0, chance), (1.0 - self._rate) * np.append(chance, 0.0)
        return np.arange(self.categories + 1.0), yes, no

    @abstractmethod
    def _pattern_chances(self, asked: tuple[int, ...], bits: Bits) -> tuple[Array, Array]:
        """Probabilities of the patterns of bits, shape (2^m, m), at m distinct inputs, (2^m,) each.

        From an input whose own bit in it is one (the pattern without ones has no such input: any
        number), and from one whose bit is zero.
        """

    def _rest_agrees(self, asked: tuple[int, ...]) -> float:
        """Probability that a message says yes to all categories, given yes to those asked for."""
        return 0.0 if self._rate is None else float(self._rate ** (self.categories - len(asked)))

    def classes(self, inputs: Sequence[int]) -> Array:
        """Messages by their bits at the m inputs asked for, 2^m classes and at most one more."""
        asked, rows = distinct_inputs(inputs, self.categories)
        bits = np.array(list(product((False, True), repeat=len(asked))))
        ones, zeros = self._pattern_chances(asked, bits)
        found = np.vstack([np.where(bits.T, ones, zeros), zeros])  # the blanket last
        # The last pattern says yes to all inputs asked for; part of it says yes to all categories.
        share = self._rest_agrees(asked)
        unanimous = share * ones[-1]
        found[:, -1] *= 1.0 - share
        found = np.column_stack([found, np.full(len(found), unanimous)])
        sent = np.any(found[:-1] > 0.0, axis=0)
        return found[[*rows, -1]][:, sent]


@dataclass(frozen=True, init=False, repr=False)
class RAPPOR(FrequencyOracle):
    """Basic one-time RAPPOR (Erlingsson et al. 2014), also called symmetric unary encoding.

    The value x is written as k bits, of which bit x alone is one, and each bit is flipped with
    probability ``s = 1 / (e^(eps0/2) + 1)``. With ``t = 1 - s``, and f(y) the chance of the bits y
    from k zeros, the message has chance ``f(y) t/s`` from an input whose bit in y is one and ``f(y)
    s/t`` from the other inputs. Messages: the bits, shape ``(*values.shape, k)``.

    Args:
        categories: number k of values, 2 <= k <= 2^53 (a message has k bits).
        eps0: local privacy parameter in nats, finite, > 0.
    """

    kind: ClassVar[str] = "rappor"
    message_axes: ClassVar[int] = 1

    @property
    def flip_probability(self) -> float:
        """Probability s that a bit is flipped."""
        return math.exp(-0.5 * self._eps0) * self._stay_probability

    @property
    def _stay_probability(self) -> float:
        return 1.0 / (1.0 + math.exp(-0.5 * self._eps0))

    def _pattern_chances(self, asked: tuple[int, ...], bits: Bits) -> tuple[Array, Array]:
        flip, stay = self.flip_probability, self._stay_probability
        ones = np.count_nonzero(bits, axis=1)
        zeros = len(asked) - ones
        # f is flip^ones stay^zeros; times stay/flip and flip/stay
        from_one = flip ** np.maximum(ones - 1.0, 0.0) * stay ** (zeros + 1.0)
        from_zero = flip ** (ones + 1.0) * stay ** (zeros - 1.0)
        return from_one, from_zero

    @property
    def _rate(self) -> float:
        return self.flip_probability

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_]:
        bits = rng.random((*own.shape, self.categories)) < self.flip_probability
        own = own[..., np.newaxis]
        np.put_along_axis(bits, own, ~np.take_along_axis(bits, own, axis=-1), axis=-1)
        return bits

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories whose bits are one."""
        return self._stay_probability, self.flip_probability

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        bits = np.asarray(messages)
        if bits.dtype.kind != "b":
            raise TypeError(f"messages must be bits, an array of bool, got one of {bits.dtype}")
        rows = message_rows(bits, self.categories).view(np.uint8)
        counts = np.zeros(self.categories, dtype=np.int64)
        for start in range(0, len(rows), _BITS):
            counts += np.add.reduce(rows[start : start + _BITS], axis=0, dtype=np.uint8)
        return counts, len(rows)


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
    Messages: integers in 0 … K - 1, of the values' shape.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
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

    def _pattern_chances(self, asked: tuple[int, ...], bits: Bits) -> tuple[Array, Array]:
        # Of the columns, the share with the signs s at the rows is the mean of prod_i (1 + s_i
        # H_i)/2. A product of rows is the row of their exclusive or, whose mean is 1 for row 0 and
        # else 0.
        signs = np.where(bits, 1.0, -1.0)
        share = sum(np.prod(signs[:, subset], axis=1) for subset in _dependent(asked)) / len(bits)
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

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        rows = own + 1
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
        sums = np.bincount(columns, minlength=self.columns)
        for bit in range(self.columns.bit_length() - 1):  # the Sylvester matrix times the counts
            pairs = sums.reshape(-1, 2, 1 << bit)
            sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        return (columns.size + sums[1 : self.categories + 1]) // 2, columns.size


def _dependent(asked: tuple[int, ...]) -> list[list[int]]:
    """The sets of inputs asked for, as positions, whose rows multiply to the row of ones."""
    every = product((False, True), repeat=len(asked))
    subsets = ([i for i, taken in enumerate(chosen) if taken] for chosen in every)
    return [one for one in subsets if reduce(xor, (asked[i] + 1 for i in one), 0) == 0]


def _odd(numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each number has an odd number of bits."""
    for shift in (32, 16, 8, 4, 2, 1):
        numbers = numbers ^ (numbers >> shift)
    return (numbers & 1).astype(bool)


@dataclass(frozen=True, init=False, repr=False)
class SubsetSelection(FrequencyOracle):
    """Subset selection (Ye and Barg 2018; Wang et al. 2019).

    The message is a set of d of the k categories. Each set that holds the true value is e^eps0
    times as likely as each set that does not, so the true value is in it with probability
    ``d e^eps0 / (d e^eps0 + k - d)``. With d = 1 this is k-ary randomized response. Messages: the
    sets, each in rising order, shape ``(*values.shape, d)``.

    Args:
        categories: number k of values, 2 <= k <= 2^53.
        eps0: local privacy parameter in nats, finite, > 0.
        size: number d of categories in a message, 1 <= d < k; by default the whole number next to
            ``k / (e^eps0 + 1)``, at least 1, with which frequencies are estimated best.
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
        most = self.categories - 1
        vars(self).update(size=validate.integer(minimum=1, maximum=most, size=size))

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

    def _pattern_chances(self, asked: tuple[int, ...], bits: Bits) -> tuple[Array, Array]:
        outside = self.categories - self.size
        # the share of all sets with a pattern: a ratio of whole numbers, rounded once
        every, m = math.perm(self.categories, len(asked)), len(asked)
        shares = [math.perm(self.size, j) * math.perm(outside, m - j) / every for j in range(m + 1)]
        share = np.array(shares)[np.count_nonzero(bits, axis=1)]
        holding = share * (self.categories / self._weight)
        return holding, holding * math.exp(-self._eps0)

    def _joint_counts(self) -> Counts:
        """Counts under f: every message says yes to exactly ``size`` categories."""
        size, k = self.size, self.categories
        return np.array([float(size)]), np.array([size / k]), np.array([(k - size) / k])

    def _messages(self, own: NDArray[Any], rng: np.random.Generator) -> NDArray[np.int64]:
        shape, own = (*own.shape, self.size), own.ravel()
        held = rng.random(own.size) < self.include_probability
        chosen = _subsets(rng, own.size, self.categories - 1, self.size)
        chosen += chosen >= own[:, np.newaxis]  # any categories but one's own
        place = rng.integers(self.size, size=own.size)
        chosen[held, place[held]] = own[held]
        return np.sort(chosen, axis=-1).reshape(shape)

    @property
    def yes_probabilities(self) -> tuple[float, float]:
        """A message says yes to the categories in it."""
        own = self.include_probability
        return own, (self.size - own) / (self.categories - 1)

    def _counted(self, messages: Any) -> tuple[NDArray[np.int64], int]:
        sets = category_values(messages, self.categories, name="messages")
        sets = message_rows(sets, self.size)
        wrong = np.any(sets[:, 1:] <= sets[:, :-1], axis=1)
        if np.any(wrong):
            first = sets[np.argmax(wrong)].tolist()
            raise ValueError(f"messages must be sets in rising order, got {first!s:.60}")
        return np.bincount(sets.ravel(), minlength=self.categories), len(sets)


def _subsets(rng: np.random.Generator, count: int, total: int, size: int) -> NDArray[np.int64]:
    """``count`` uniformly random sets of ``size`` of ``total`` numbers, shape (count, size)."""
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


@dataclass(frozen=True, init=False, repr=False)
class LocalHashing(FrequencyOracle):
    """Optimised local hashing (Wang et al. 2017).

    Each user draws a hash function h from the k categories to g buckets and sends the function with
    the randomized response of the bucket h(x): the true bucket is e^eps0 times as likely as each
    other one.

    The analysis takes the functions to be uniformly random and independent: then every input falls
    into the message's bucket with chance 1/g, independently. The local parameter eps0 holds for any
    family of functions; the blanket is that of the ideal one. Messages: the seeds of the functions
    and the buckets, shape ``(*values.shape, 2)``.

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
        buckets = validate.integer(minimum=2, maximum=MOST_CATEGORIES, buckets=buckets)
        vars(self).update(buckets=buckets)

    @cached_property
    def _response(self) -> RandomizedResponse:
        """Randomized response that is applied to the bucket of the user's value."""
        return RandomizedResponse(categories=self.buckets, eps0=self._eps0)

    def _pattern_chances(self, asked: tuple[int, ...], bits: Bits) -> tuple[Array, Array]:
        ones = np.count_nonzero(bits, axis=1).astype(np.float64)
        hit, miss = 1.0 / self.buckets, (self.buckets - 1) / self.buckets
        # relative to a random function and a random bucket
        chance = hit**ones * miss ** (len(asked) - ones)
        keep = self._response.keep_probability * self.buckets
        return chance * keep, chance * (self._response.lie_probability * self.buckets)

    @property
    def _rate(self) -> float:
        return 1.0 / self.buckets

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


def split_mix(start: NDArray[np.uint64], steps: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Output number ``steps`` (from 1) of the generator started at ``start``, elementwise."""
    return np.asarray(_mixed(start + steps * _INCREMENT), dtype=np.uint64)  # which wraps around


def _mixed(state: Any) -> Any:
    """The generator's output at a state."""
    mixed = (state ^ (state >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


def support_counts(seeds: Counted, buckets: Counted, categories: int, modulus: int) -> Counted:
    """Number of messages, per category, whose hash function puts it into the message's bucket.

    The ``modulus`` is the number of buckets. The memory needed is a small multiple of the counts'.
    """
    starts, wanted = seeds.astype(np.uint64), buckets.astype(np.uint64)
    fast = compiled(_count, _mixed)
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

    with ThreadPoolExecutor(thread_name_prefix="tally") as pool:
        parts = pool.map(one, range(0, starts.size, share))
        return sum(parts, start=np.zeros(categories, dtype=np.int64))


def _count_blocks(starts: Words, wanted: Words, categories: int, modulus: int) -> Counted:
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
            mixed = _mixed(state)
            quotient = (mixed - bucket) * inverse
            turned = (quotient >> right) | (quotient << left)
            counts[category] += (mixed >= bucket) & (turned <= most)
