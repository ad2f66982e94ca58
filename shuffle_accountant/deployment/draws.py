"""Uniform integers from random bytes, without a floating-point number in between.

A *draw* is eight bytes, most significant first, of which the lowest 11 bits are dropped: a uniform
integer below ``2^53``, which every language and every JSON reader holds exactly. An integer below n
is the remainder of a draw modulo n; draws at or above the largest multiple of n are drawn again, so
that all remainders are equally likely, exactly.

Two forms of each: one by one from a source of bytes (what a device does, and what test vectors are
made of), and many at once for simulations.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

BITS = 53
"""Bits of a draw."""
RANGE = 1 << BITS
"""Number of values of a draw."""
BYTES = 8
"""Bytes that a draw takes."""

Bytes = Callable[[int], bytes]
Integers = NDArray[np.int64]


class Draws:
    """Uniform integers one by one.

    Args:
        source: returns a number of random bytes, such as `os.urandom`.
    """

    def __init__(self, source: Bytes) -> None:
        self._source = source

    def draw(self) -> int:
        """A uniform integer in 0 … 2^53 - 1."""
        return int.from_bytes(self._source(BYTES), "big") >> (8 * BYTES - BITS)

    def below(self, count: int) -> int:
        """A uniform integer in 0 … count - 1, for 1 <= count <= 2^53."""
        limit = RANGE - RANGE % count
        while True:
            drawn = self.draw()
            if drawn < limit:
                return drawn % count


def many_draws(rng: np.random.Generator, size: int) -> Integers:
    """Uniform integers in 0 … 2^53 - 1, shape (size,)."""
    words = np.frombuffer(rng.bytes(BYTES * size), dtype=">u8")
    return (words >> np.uint64(8 * BYTES - BITS)).astype(np.int64)


def many_below(rng: np.random.Generator, count: int, size: int) -> Integers:
    """Uniform integers in 0 … count - 1, shape (size,), for 1 <= count <= 2^53."""
    limit = RANGE - RANGE % count
    drawn = many_draws(rng, size)
    while (again := np.flatnonzero(drawn >= limit)).size:
        drawn[again] = many_draws(rng, again.size)
    return drawn % count
