"""Rows in blocks, each with a generator of its own, shared among the cores.

The layout of the blocks and their seeds depend on the shape and the caller's generator alone, so
the result does not depend on the number of threads. All seeds are drawn from the generator itself:
its saved state determines everything that follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.secure import SecureGenerator

__all__ = ["in_blocks", "sum_of_blocks"]

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
Fill = Callable[[NDArray[Any], NDArray[Any], np.random.Generator, int], None]
# The sum of the messages of the rows from the first given one up to the second.
Made = Callable[[int, int, np.random.Generator], NDArray[Any]]


def in_blocks(
    fill: Fill, vectors: NDArray[Any], messages: NDArray[Any], rng: np.random.Generator
) -> None:
    """Call ``fill(rows, messages of these rows, generator, first row)`` for every block of rows.

    NumPy releases the interpreter's lock in its loops, so threads do run side by side.

    Args:
        fill: writes into its second argument.
        vectors: shape (batch, d), d >= 1.
        messages: same shape.
        rng: source of the blocks' seeds.
    """
    batch, dimension = vectors.shape
    starts = _blocks(batch, dimension, _BLOCK)
    generators = _seeded(len(starts), rng)

    def one(index: int) -> None:
        start, end = starts[index], starts[index] + starts.step
        fill(vectors[start:end], messages[start:end], generators(index), start)

    _run(one, len(starts), vectors.size)


def sum_of_blocks(
    made: Made, batch: int, dimension: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Sum of ``made(first row, row after the last, generator)`` over the blocks of rows.

    No more than a few blocks are held at a time.

    Args:
        made: called once for every block of rows; some blocks share a generator.
        batch: number of rows, >= 1.
        dimension: length of a row, >= 1.
        rng: source of the seeds.

    Returns:
        Shape (dimension,).
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
    total: NDArray[np.float64] = totals.sum(axis=0)
    return total


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
