"""Permutations: their distances from the identity, and decoding."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.order.arguments import IntArray


def kendall(permutation: IntArray) -> int:
    """Number of inversions: pairs of entries of which the larger stands first.

    Blocks are doubled; at each size, the entries of a right block are looked up among the sorted
    entries of the left block beside it, for all pairs of blocks at once.
    """
    n = permutation.size
    place = np.arange(n)
    count, size = 0, 1
    while size < n:
        pair = place // (2 * size)
        right = (place // size) % 2 == 1
        key = pair * n + permutation
        left = np.sort(key[~right])
        # entries of left blocks up to and including this pair's, less those that are smaller
        upto = np.minimum((pair[right] + 1) * size, left.size)
        count += int((upto - np.searchsorted(left, key[right])).sum())
        size *= 2
    return count


def hamming(permutation: IntArray) -> int:
    """Number of entries that are not in their own place."""
    return int(np.count_nonzero(permutation != np.arange(permutation.size)))


def cayley(permutation: IntArray) -> int:
    """Length less the number of cycles: how many transpositions sort it.

    Each entry learns the smallest entry of its cycle, from twice as far along it at each step.
    """
    smallest = np.arange(permutation.size)
    ahead = permutation
    for _ in range(permutation.size.bit_length()):
        smallest = np.minimum(smallest, smallest[ahead])
        ahead = ahead[ahead]
    return int(np.count_nonzero(smallest != np.arange(permutation.size)))


def footrule(permutation: IntArray) -> int:
    """Sum of displacements."""
    return int(np.abs(permutation - np.arange(permutation.size)).sum())


def spearman(permutation: IntArray) -> int:
    """Sum of squared displacements."""
    return int(((permutation - np.arange(permutation.size)) ** 2).sum())


def ulam(permutation: IntArray) -> int:
    """Length less that of the longest increasing subsequence, by patience sorting."""
    tops: list[int] = []
    for entry in permutation.tolist():
        pile = bisect_left(tops, entry)
        if pile == len(tops):
            tops.append(entry)
        else:
            tops[pile] = entry
    return permutation.size - len(tops)


DISTANCES: dict[str, Callable[[IntArray], int]] = {
    "kendall": kendall,
    "hamming": hamming,
    "cayley": cayley,
    "footrule": footrule,
    "spearman": spearman,
    "ulam": ulam,
}


def decode(codes: IntArray) -> IntArray:
    """The permutation whose i-th entry is the ``codes[i]``-th smallest value not used before.

    ``0 <= codes[i] < n - i``; one-line form, shape (n,), int64.
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
