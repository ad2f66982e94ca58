"""Distances of one permutation from the identity, in at most O(n log n)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from shuffle_accountant.order.arguments import IntArray

__all__ = ["DISTANCES"]


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
