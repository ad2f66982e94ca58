"""Random draws for vectors: coins of exact probability and normal numbers in 32-bit floats.

Box and Muller 1958: with E exponential and an angle t uniform, sqrt(2E) cos t and sqrt(2E) sin t
are independent and normal. NumPy's functions do that for many numbers at a time. Each pair takes 32
random bits for E and 32 for t; where these bits are too coarse for E, far in the tail, more follow.

Rows in blocks, each with a generator of its own, shared among the cores.

The layout of the blocks and their seeds depend on the shape and the caller's generator alone, so
the result does not depend on the number of threads. All seeds are drawn from the generator itself:
its saved state determines everything that follows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.numerics.secure import SecureGenerator
from shuffle_accountant.randomizers.checks import Rows

# Numbers in a block of messages: half a megabyte of 32-bit floats, which a core's cache holds
# together with its inputs. Blocks that are summed up are larger, for fewer calls.
_BLOCK = 2**17
_SUMMED = 2**18
# Numbers in all blocks below which threads cost more time than they save.
_MANY = 2**20
_SEED_BYTES = 32
# Largest number of partial sums added up side by side, and of numbers that they hold together.
_SUMS, _HELD = 8, 2**24

# Fills the messages of the rows from the given first one on.
Fill = Callable[[Rows, Rows, np.random.Generator, int], None]
# The sum of the messages of the rows from the first given one up to the second.
Made = Callable[[int, int, np.random.Generator], Rows]

# Grid step of `Generator.random`, which draws uniformly from its multiples in [0, 1).
_STEP = 2.0**-53

# Number of pairs per block: few calls, and the block stays in a core's cache.
_PAIRS = 2**16
# Below this share of the range, 32 bits tell E less finely than a 32-bit float does.
_COARSE = 2**20


def in_blocks(fill: Fill, vectors: Rows, messages: Rows, rng: np.random.Generator) -> None:
    """Call ``fill(rows, messages of these rows, generator, first row)`` for every block of rows.

    NumPy releases the interpreter's lock in its loops, so threads do run side by side.
    """
    batch, dimension = vectors.shape
    starts = _blocks(batch, dimension, _BLOCK)
    generators = _seeded(len(starts), rng)

    def one(index: int) -> None:
        start, end = starts[index], starts[index] + starts.step
        fill(vectors[start:end], messages[start:end], generators(index), start)

    _run(one, len(starts), vectors.size)


def sum_of_blocks(made: Made, batch: int, dimension: int, rng: np.random.Generator) -> Array:
    """Sum of ``made(first row, row after the last, generator)`` over the blocks of rows.

    No more than a few blocks are held at a time; some blocks share a generator.
    """
    starts = _blocks(batch, dimension, _SUMMED)
    sums = max(1, min(_SUMS, len(starts), _HELD // dimension))
    totals, generators = np.zeros((sums, dimension)), _seeded(sums, rng)

    def one(index: int) -> None:
        # the blocks of a sum do not depend on who adds them up
        own = generators(index)
        for block in range(index * len(starts) // sums, (index + 1) * len(starts) // sums):
            first = starts[block]
            totals[index] += made(first, min(first + starts.step, batch), own)

    _run(one, sums, batch * dimension)
    return np.asarray(totals.sum(axis=0))


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
    """Call it for 0 ... count - 1, on several cores if there is much to do."""
    workers = min(count, _cores())
    if workers < 2 or numbers < _MANY:
        for index in range(count):
            one(index)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="randomize") as pool:
        for _ in pool.map(one, range(count)):
            pass


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def safe_probability(log_odds: float) -> float:
    """The largest probability p, up to round-off, with ``p/(1 - p) <= e^log_odds`` for certain.

    It is a multiple of 2^-53, so that 1 - p is exact and a coin with exactly this chance exists.
    The true odds are never above those asked for; they are below by a relative 1e-12 or 2^-53/(1 -
    p), whichever is more. Beyond log-odds of 36.7 it is 1 - 2^-53.

    Args:
        log_odds: natural logarithm of the largest odds allowed, finite, with its own rounding of at
            most a few units in the last place.
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
