"""Sums of many vectors and of their squares, a block of rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["vector_sums"]

# Number of 64-bit floats in a block, which a core's cache holds.
_BLOCK = 2**17


def vector_sums(rows: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """Sums of coordinates and of their squares, shape (2, d), and the number of rows.

    Args:
        rows: shape (n, d), 32- or 64-bit floats.
    """
    count, dimension = rows.shape
    sums = np.zeros((2, dimension))
    size = max(_BLOCK // dimension, 1)
    for first in range(0, count, size):
        block = rows[first : first + size].astype(np.float64)
        sums[0] += block.sum(axis=0)
        sums[1] += np.einsum("ij,ij->j", block, block)
    return sums, count
