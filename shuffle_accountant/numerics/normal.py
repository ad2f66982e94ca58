"""Standard normal probabilities."""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import Array

__all__ = ["normal_cells"]


def normal_cells(edges: Array) -> Array:
    """Standard normal probabilities between edges, with relative accuracy in both tails.

    Args:
        edges: ascending, shape (m + 1,).
    """
    from scipy.special import ndtr

    right = edges[:-1] > 0.0
    upper = ndtr(-edges[:-1]) - ndtr(-edges[1:])
    lower = ndtr(edges[1:]) - ndtr(edges[:-1])
    return np.asarray(np.where(right, upper, lower), dtype=np.float64)
