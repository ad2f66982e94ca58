"""Privacy losses of rounds on grids, cached from one question to the next."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS, discretize
from shuffle_accountant.lattice.grid import Bound, PldGrid
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.rounding import Array

__all__ = ["GridTooFine", "loss_grid"]


# Mass that stands for none where averages need some: too little to be seen.
_NOTHING = 1e-300


class GridTooFine(Exception):
    """The spacing must grow by this factor for the grid to fit into memory."""

    def __init__(self, factor: float) -> None:
        super().__init__(factor)
        self.factor = factor


# The cache holds the grids of a few questions about a thousand different rounds, usually.
@kept(1 << 26, lambda grid: grid.mass.nbytes)
def loss_grid(
    loss: PrivacyLoss, side: Bound, spacing: float, effort: Effort, most_cells: float
) -> PldGrid:
    """The loss on the grid; cached, so that neighbouring questions cost no rebuilding.

    Args:
        loss: the loss to discretise.
        side: direction of the rounding.
        spacing: distance of grid points, nats.
        effort: accuracy with which the loss is resolved.
        most_cells: cells between 0 and the largest loss that memory allows.

    Raises:
        GridTooFine: more cells than that would be needed.
    """

    def edges(largest: float) -> Array:
        if largest > spacing * most_cells:
            raise GridTooFine(largest / (spacing * most_cells))
        step = spacing if side is Bound.PESSIMISTIC else spacing / SUBCELLS
        return np.arange(math.ceil(largest / step) + 2, dtype=np.float64) * step

    grid = discretize(loss.atoms(side, edges, effort), spacing)
    if not grid.mass.any():
        # all mass is at infinity: something to take averages over, too little to be seen
        return replace(grid, offset=0, mass=np.full(1, _NOTHING))
    return grid
