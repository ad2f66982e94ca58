"""Standard normal probabilities."""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.rounding import Array

__all__ = ["normal_cells"]


def normal_cells(edges: Array) -> Array:
    """Standard normal probabilities between edges, with relative accuracy in both tails.

    `Budget.normal` bounds their relative error where cells are not narrower than a thousandth.

    Args:
        edges: ascending, shape (m + 1,).
    """
    from scipy.special import ndtr

    right = edges[:-1] > 0.0
    upper = ndtr(-edges[:-1]) - ndtr(-edges[1:])
    lower = ndtr(edges[1:]) - ndtr(edges[:-1])
    cells = np.asarray(np.where(right, upper, lower), dtype=np.float64)
    return disturbed(cells, lambda: budget().normal * cells)
