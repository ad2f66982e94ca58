"""Permutation of a code: each number is the rank, among unused values, of the next value."""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.order.arguments import IntArray

__all__ = ["decode", "decode_by_doubling"]


def decode(codes: IntArray) -> IntArray:
    """The permutation whose i-th entry is the ``codes[i]``-th smallest value not used before.

    Args:
        codes: integers with ``0 <= codes[i] < n - i``, shape (n,).

    Returns:
        One-line form, shape (n,), int64.
    """
    loop = compiled(_loop)
    if loop is _loop:  # Python itself would take a minute at a million
        return decode_by_doubling(codes)
    levels = int(codes.size - 1).bit_length()
    # node v counts the unused values below its left child; all leaves beyond n-1 stay unused
    unused = np.empty(1 << levels, dtype=np.int32)
    for level in range(levels):
        unused[1 << level : 2 << level] = 1 << (levels - 1 - level)
    out = np.empty(codes.size, dtype=np.int64)
    loop(codes, unused, levels, out)
    return out


def _loop(
    codes: IntArray, unused: np.ndarray[tuple[int], np.dtype[np.int32]], levels: int, out: IntArray
) -> None:
    """Down a tree over the values, one user after the other."""
    for i in range(codes.size):
        code = codes[i]
        node = 1
        for _ in range(levels):
            left = unused[node]
            # without a branch: which way a code goes cannot be predicted
            right = int(code >= left)
            unused[node] = left - 1 + right
            code -= left * right
            node = 2 * node + right
        out[i] = node - (1 << levels)


def decode_by_doubling(codes: IntArray) -> IntArray:
    """`decode` by NumPy, in O(n log² n): blocks of entries are joined in pairs.

    Within a block, entries are counted among the values that are unused when the block begins. An
    entry x of the right block is then value x + t of the left block's count, where t is how many
    of the left block's values v_0 < v_1 < ... have ``v_k - k <= x``. One search serves all pairs.
    """
    n = codes.size
    values = codes.astype(np.int64)
    place = np.arange(n)
    size = 1
    while size < n:
        pair = place // (2 * size)
        right = (place // size) % 2 == 1
        left = np.sort(values[~right] + pair[~right] * n)
        passed = left - np.arange(left.size) % size
        found = np.searchsorted(passed, values[right] + pair[right] * n, side="right")
        values[right] += found - pair[right] * size
        size *= 2
    return values
