"""Base class of the randomizers of vectors; random draws for them, in blocks on several cores.

Box and Muller 1958: with E exponential and an angle t uniform, sqrt(2E) cos t and sqrt(2E) sin t
are independent and normal. NumPy's functions do that for many numbers at a time. Each pair takes 32
random bits for E and 32 for t; where these bits are too coarse for E, far in the tail, more follow.

The layout of the blocks and their seeds depend on the shape and the caller's generator alone, so
the result does not depend on the number of threads. All seeds are drawn from the generator itself:
its saved state determines everything that follows.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.numerics.secure import SecureGenerator
from shuffle_accountant.randomizers.base import FromArguments, GivenEps0, RunsOnData
from shuffle_accountant.randomizers.checks import (
    Rows,
    as_rows,
    clipped,
    generator,
    like,
)
from shuffle_accountant.randomizers.error_bounds import largest_mean_deviation
from shuffle_accountant.randomizers.estimation import (
    Estimate,
    Estimator,
    ends_around,
    estimated,
    tally_of,
)

# Below the first the round-off of a probability is no longer small beside its privacy; above the
# second e^eps0 overflows.
LEAST_EPS0, LARGEST_EPS0 = 1e-9, 700.0
# Relative excess of a norm over the radius that is accepted: clipping in 32-bit floats leaves 1e-6.
_CLIPPED = 1e-5
# Numbers in a block of messages: half a megabyte of 32-bit floats, which a core's cache holds
# together with its inputs. Blocks that are summed up are larger, for fewer calls.
_BLOCK = 2**17
_SUMMED = 2**18
# Numbers in all blocks below which threads cost more time than they save.
_MANY = 2**20
_SEED_BYTES = 32

# Grid step of `Generator.random`, which draws uniformly from its multiples in [0, 1).
_STEP = 2.0**-53

# Number of pairs per block: few calls, and the block stays in a core's cache.
_PAIRS = 2**16
# Below this share of the range, 32 bits tell E less finely than a 32-bit float does.
_COARSE = 2**20


@dataclass(frozen=True, init=False, repr=False)
class VectorRandomizer(Estimator, FromArguments, GivenEps0, RunsOnData):
    """An unbiased eps0-LDP randomizer of vectors in a ball, whose messages have one constant norm.

    The law of a message is eps0-LDP for every input, also outside of the ball. Every chance of a
    discrete choice that privacy rests on is a multiple of 2^-53, rounded so that the likelihood
    ratio is never above e^eps0, and drawn exactly. Messages with real coordinates (the sphere's)
    are private as real vectors; the floats returned follow these up to their rounding, as with any
    continuous mechanism. A `numpy.random.Generator` is not a cryptographic source: against an
    adversary who may guess its state use a fresh seed from the operating system, and do not publish
    it. Tally: sums of the messages' coordinates and of their squares, shape (2, dimension).
    Standard errors come from the spread of the messages; that of users' own vectors makes them
    larger, never smaller on average.

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

        Proved in `shuffle_accountant.randomizers.error_bounds`.

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
        starts = _blocks(len(rows), self.dimension, _BLOCK)
        generators = _seeded(len(starts), generator(rng))

        def one(index: int) -> None:
            start, end = starts[index], starts[index] + starts.step
            self._randomize(rows[start:end], messages[start:end], generators(index), start)

        _run(one, len(starts), rows.size)
        return like(messages, vectors)

    def randomized_sum(
        self, take: Callable[[int, int], Rows], batch: int, norm: float, rng: np.random.Generator
    ) -> Array:
        """Sum of the messages of ``batch`` vectors that are taken a few at a time, and clipped.

        Args:
            take: the rows from the first number up to the second; a new array of 32- or 64-bit
                floats. Called from several threads. A row that is not finite counts as zero.
            norm: Euclidean norm to clip to, at most the radius.

        Returns:
            Shape (dimension,), 64-bit floats.
        """
        # no more than a few partial sums are held at a time, whose blocks share a generator
        starts = _blocks(batch, self.dimension, _SUMMED)
        sums = max(1, min(8, len(starts), 2**24 // self.dimension))
        totals, generators = np.zeros((sums, self.dimension)), _seeded(sums, generator(rng))

        def one(index: int) -> None:
            # the blocks of a sum do not depend on who adds them up
            own = generators(index)
            for block in range(index * len(starts) // sums, (index + 1) * len(starts) // sums):
                first = starts[block]
                rows = clipped(take(first, min(first + starts.step, batch)), norm)
                messages = np.empty_like(rows, order="C")
                self._fill(rows, np.minimum(self._norms(rows), self.radius), messages, own)
                totals[index] += messages.sum(axis=0)

        _run(one, sums, batch * self.dimension)
        return np.asarray(totals.sum(axis=0))

    def _estimated(self, tally: ArrayLike, users: int) -> Estimate:
        means, squares = tally_of(tally, (2, self.dimension)).astype(np.float64) / users
        ends = partial(ends_around, means, partial(self._largest_error, users), False)
        return estimated(means, squares, users, ends)

    def _counted(self, messages: Any) -> tuple[Array, int]:
        rows, sums = as_rows("messages", messages, self.dimension), np.zeros((2, self.dimension))
        starts = _blocks(len(rows), self.dimension, _BLOCK)
        for first in starts:
            block = rows[first : first + starts.step].astype(np.float64)
            sums[0] += block.sum(axis=0)
            sums[1] += np.einsum("ij,ij->j", block, block)
        return sums, len(rows)

    def _randomize(self, rows: Rows, messages: Rows, rng: np.random.Generator, first: int) -> None:
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


def _blocks(batch: int, dimension: int, size: int) -> range:
    """First rows of the blocks, each of about ``size`` numbers and at least one row."""
    return range(0, batch, max(1, size // dimension))


def _seeded(count: int, rng: np.random.Generator) -> Callable[[int], np.random.Generator]:
    """Function from 0 … ``count`` - 1 to generators seeded by ``rng``; secure if ``rng`` is."""
    if isinstance(rng, SecureGenerator):
        return lambda index: SecureGenerator()
    seeds = np.frombuffer(rng.bytes(_SEED_BYTES * count), np.uint32)
    seeds = seeds.reshape(-1, _SEED_BYTES // 4)

    def own(index: int) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seeds[index].tolist())))

    return own


def _run(one: Callable[[int], None], count: int, numbers: int) -> None:
    """Call it for 0 … count - 1, on several cores if there is much to do.

    NumPy releases the interpreter's lock in its loops, so threads do run side by side.
    """
    workers = min(count, _cores())
    if workers < 2 or numbers < _MANY:
        deque(map(one, range(count)), maxlen=0)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="randomize") as pool:
        deque(pool.map(one, range(count)), maxlen=0)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def safe_probability(log_odds: float) -> float:
    """The largest probability p, up to round-off, with ``p/(1 - p) <= e^log_odds`` for certain.

    It is a multiple of 2^-53, so that 1 - p is exact and a coin with exactly this chance exists.
    The true odds are never above those asked for, whose natural logarithm may be off by a few units
    in its last place; they are below by a relative 1e-12 or 2^-53/(1 - p), whichever is more.
    Beyond log-odds of 36.7 it is 1 - 2^-53.
    """
    # exp turns an absolute error of |log_odds| * 2^-52 into a relative one; 2^-50 per unit and 8
    # more units cover that, the two further operations and the caller's own rounding.
    margin = (abs(log_odds) + 8.0) * 2.0**-50
    against = (1.0 + margin) / (1.0 + math.exp(min(log_odds, 700.0)))
    return 1.0 - min(1.0, max(1.0, math.ceil(against / _STEP)) * _STEP)


def flips(rng: np.random.Generator, probability: float, count: int) -> NDArray[np.bool_]:
    """Independent coins; each is True with exactly ``probability``, a multiple of 2^-53."""
    return rng.random(count) < probability


def fill_normal(out: NDArray[np.float32], rng: np.random.Generator) -> None:
    """Fill a contiguous array with independent standard normal numbers, up to rounding."""
    flat = out.reshape(-1)
    for start in range(0, flat.size, 2 * _PAIRS):
        part = flat[start : start + 2 * _PAIRS]
        pairs = -(-part.size // 2)
        bits = rng.integers(2**64, size=pairs, dtype=np.uint64).view(np.uint32)
        radius = _exponential(bits[::2], rng).astype(np.float32)
        radius *= np.float32(2.0)
        np.sqrt(radius, out=radius)
        angle = bits[1::2].astype(np.float32)
        angle *= np.float32(2.0 * np.pi / 2.0**32)
        across, along = part[:pairs], part[pairs:]  # one less along, if the number is odd
        np.cos(angle, out=across)
        across *= radius
        np.sin(angle[: along.size], out=along)
        along *= radius[: along.size]


def _exponential(bits: NDArray[np.uint32], rng: np.random.Generator) -> Array:
    """Exponential numbers of mean 1: -log U, where the bits are the first 32 of U."""
    uniform = bits + 0.5
    coarse = np.flatnonzero(uniform < _COARSE)
    # 1 minus it is never 0
    uniform[coarse] = bits[coarse] + (1.0 - rng.random(coarse.size))
    uniform *= 2.0**-32
    np.log(uniform, out=uniform)
    return np.asarray(np.negative(uniform, out=uniform))
