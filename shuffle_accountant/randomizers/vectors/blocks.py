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

__all__ = ["in_blocks"]

# Half a megabyte of 32-bit floats, which a core's cache holds together with its inputs.
_BLOCK = 2**17
# Threads cost more than they bring below this many numbers.
_MANY = 2**20
_SEED_BYTES = 32

# Fills the messages of the rows from the given first one on.
Fill = Callable[[NDArray[Any], NDArray[Any], np.random.Generator, int], None]


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
    rows = max(1, _BLOCK // dimension)
    starts = range(0, batch, rows)
    seeds = np.frombuffer(rng.bytes(_SEED_BYTES * len(starts)), np.uint32)
    seeds = seeds.reshape(-1, _SEED_BYTES // 4)

    def one(index: int) -> None:
        start = starts[index]
        own = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seeds[index].tolist())))
        fill(vectors[start : start + rows], messages[start : start + rows], own, start)

    workers = min(len(starts), _cores())
    if workers < 2 or vectors.size < _MANY:
        for index in range(len(starts)):
            one(index)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="randomize") as pool:
        for _ in pool.map(one, range(len(starts))):
            pass


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
