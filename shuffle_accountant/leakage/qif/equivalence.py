"""Equivalence of channels: equal leakage for every prior and gain.

Outputs whose columns are proportional lead to the same posterior, so they may be merged; zero
columns never occur. Two channels are equivalent if and only if what is left, as a set of posteriors
(columns over their sums) with weights, is the same (Alvim et al. 2020, chapter 4).
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import Array

__all__ = ["equivalent", "merge_columns"]


def merge_columns(matrix: Array, tolerance: float) -> list[list[int]]:
    """Groups of proportional columns, without the zero columns.

    Args:
        matrix: entries >= 0, shape (inputs, outputs).
        tolerance: largest difference of an entry, columns over their sums, from the first of a
            group.

    Returns:
        Lists of ascending column numbers, by the first of each.
    """
    sums = matrix.sum(axis=0)
    present = np.flatnonzero(sums > 0.0)
    shapes = matrix[:, present] / sums[present]
    # a group is close in every projection too; a fixed one narrows down where to look
    weights = np.cos(np.arange(matrix.shape[0], dtype=np.float64))
    projected = weights @ shapes
    order = np.argsort(projected, kind="stable")
    reach = tolerance * matrix.shape[0] + 1e-15
    free = np.ones(present.size, dtype=bool)
    groups = []
    for first in range(present.size):
        if not free[first]:
            continue
        low, high = np.searchsorted(
            projected, [projected[first] - reach, projected[first] + reach], sorter=order
        )
        near = np.append(order[low:high], first)
        near = np.unique(near[free[near]])
        distance = np.max(np.abs(shapes[:, near] - shapes[:, [first]]), axis=0)
        members = near[distance <= tolerance]
        free[members] = False
        groups.append(present[members].tolist())
    return groups


def equivalent(one: Array, other: Array, tolerance: float) -> bool:
    """Whether the channels have the same posteriors with the same weights.

    Args:
        one: channel, shape (inputs, outputs).
        other: channel with as many inputs.
        tolerance: of posteriors and of weights, absolute.
    """
    both = np.hstack([one, other])
    # outer probability of an output under the uniform prior, the other channel's counted against
    weights = both.sum(axis=0) / both.shape[0]
    weights[one.shape[1] :] *= -1.0
    return all(
        abs(float(weights[group].sum())) <= tolerance for group in merge_columns(both, tolerance)
    )
