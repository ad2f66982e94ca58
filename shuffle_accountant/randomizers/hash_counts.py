"""The generator SplitMix64 as a family of hash functions, and the counts that local hashing needs.

To how many messages a category belongs takes one hash for each message and category, a thousand
million for a million users and a thousand categories. None of them is divided: ``h mod g = b`` for
``b < g`` means that ``h - b`` is a multiple of g, not below 0. With ``g = 2^s o`` for an odd o,
a number x below 2^64 is a multiple of g just where ``x o^-1 mod 2^64``, turned right by s bits, is
at most ``(2^64 - 1) // g`` (Granlund and Montgomery 1994, "Division by invariant integers using
multiplication", Section 9).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.compiled import compiled

__all__ = ["split_mix", "support_counts"]

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
