"""The baseline for groups that do not overlap: uniform shuffles inside disjoint blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import IntArray
from shuffle_accountant.order.experiments.arguments import located, values_below

__all__ = ["grid_blocks", "uniform_within_blocks"]


def uniform_within_blocks(
    blocks: ArrayLike, *, rng: np.random.Generator | int | None = None
) -> IntArray:
    """Shuffle uniformly inside every block, and never across.

    For groups that each lie in one block, the blocks themselves for example, this has alpha = 0 and
    keeps all that an analyst learns of blocks. It protects nobody from those beyond a border:
    groups that overlap need `DSigmaShuffler`.

    Args:
        blocks: the number of each user's block, >= 0, shape (n,).
        rng: generator or seed.

    Returns:
        A permutation: slot i releases the value of user ``permutation[i]``, shape (n,).

    Raises:
        TypeError: not an array of integers.
        ValueError: empty, or a negative number.
    """
    label = values_below(2**62, blocks=blocks)
    generator = np.random.default_rng(rng)
    permutation: IntArray = np.empty(label.size, dtype=np.int64)
    permutation[np.argsort(label, kind="stable")] = np.lexsort(
        (generator.random(label.size), label)
    )
    return permutation


def grid_blocks(points: ArrayLike, *, width: float) -> IntArray:
    """Number of the cell, of a grid of that width, that each point lies in.

    Args:
        points: places, shape (n,) or (n, d).
        width: of a cell along every axis, > 0.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """
    places = located(points=points)
    cells = np.floor((places - places.min(axis=0)) / validate.positive(width=width))
    _, number = np.unique(cells, axis=0, return_inverse=True)
    found: IntArray = number.ravel().astype(np.int64)
    return found
