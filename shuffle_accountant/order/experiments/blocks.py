"""Blocks for the baseline: groups that do not overlap, to be shuffled uniformly inside."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.experiments.arguments import located
from shuffle_accountant.order.groups import Groups

__all__ = ["grid_blocks"]


def grid_blocks(points: ArrayLike, *, width: float) -> Groups:
    """The cells of a grid of that width as disjoint groups, for `BlockShuffler`.

    That shuffle has alpha = 0 for its blocks, and keeps all that an analyst learns of blocks. It
    protects nobody from those beyond a border: groups around everyone need `DSigmaShuffler`.

    Args:
        points: places, shape (n,) or (n, d).
        width: of a cell along every axis, > 0.
    """
    places = located(points=points)
    width = validate.positive(width=width)
    with np.errstate(over="ignore"):
        cells = np.floor((places - places.min(axis=0)) / width)
    if not np.all(np.isfinite(cells)):
        raise ValueError(f"width must be large enough to number the cells, got {width!r}")
    _, block = np.unique(cells, axis=0, return_inverse=True)
    block = block.ravel()
    members = np.argsort(block, kind="stable")
    return Groups.from_lists(np.split(members, np.cumsum(np.bincount(block))[:-1]))
