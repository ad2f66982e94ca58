"""Sums of atoms cell by cell, so that memory does not grow with the number of atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Array, product, sequential_sum

__all__ = ["CellSums", "HalfAtoms"]


@dataclass(frozen=True, eq=False)
class HalfAtoms:
    """PldAtoms of a symmetric pair with loss > 0; each has a mirror image of the opposite loss.

    Attributes:
        mass: P-masses, shape (m,): those of the mirror images under Q.
        other: Q-masses, shape (m,): those of the mirror images under P.
        difference: ``mass - other``, shape (m,), good to as many digits.
        loss: ``log(mass / other)``, nats, +inf where ``other`` is 0.
        slack: bounds on the relative errors of both masses.
        loss_error: bounds on the errors of the losses, nats.
    """

    mass: Array
    other: Array
    difference: Array
    loss: Array
    slack: Array
    loss_error: Array


class CellSums:
    """Total masses of atoms between the edges of a grid of losses.

    Merging the atoms of a cell keeps both masses: a cell is as good as an atom for connecting the
    dots, and merging is a post-processing for the lower side.
    """

    def __init__(self, edges: Array) -> None:
        size = edges.size + 2  # below, between and above the edges, and at +inf
        self._edges = edges
        step = float(edges[1]) if edges.size > 1 else 0.0
        self._even = step > 0.0 and np.array_equal(edges, step * np.arange(edges.size))
        self._other, self._difference = np.zeros(size), np.zeros(size)
        self._slack = self._shift = 0.0
        self._added = 0

    def add(self, atoms: HalfAtoms) -> None:
        """Add atoms to their cells; losses of +inf share one with nothing else."""
        if atoms.mass.size == 0:
            return
        cell = self._cells(atoms.loss)
        low, high = int(cell.min()), int(cell.max()) + 1
        span, place = slice(low, high), cell - low
        for total, weight in (
            (self._other, atoms.other),
            (self._difference, atoms.difference),
        ):
            total[span] += np.bincount(place, weights=weight, minlength=high - low)
        self._slack = max(self._slack, float(atoms.slack.max()))
        self._shift = max(self._shift, float(atoms.loss_error.max()))
        self._added += int(np.bincount(place).max()) + 1

    def _cells(self, loss: Array) -> NDArray[np.intp]:
        """Index of the cell of each loss: the number of edges not above it.

        Next to an edge rounding decides; no loss is further from its cell than by that.
        """
        last = self._edges.size
        if self._even:
            place = np.floor(loss / self._edges[1]) + 1.0
            cell = np.asarray(np.minimum(place, float(last)), dtype=np.intp)
        else:
            cell = np.searchsorted(self._edges, loss, side="right")
        return np.where(np.isfinite(loss), cell, last + 1)

    def atoms(self) -> HalfAtoms:
        """One atom per cell that holds mass."""
        held = np.flatnonzero(self._difference > 0)
        other, difference = self._other[held], rounded(self._difference[held], self._added)
        mass = other + difference
        share = difference / mass
        with np.errstate(divide="ignore", invalid="ignore"):
            # the difference keeps the digits of a small loss, the quotient those of a large one
            small = -np.log1p(-np.minimum(share, 0.75))
            loss = np.where(share < 0.5, small, np.log(mass / other))
        rounding = sequential_sum(self._added, own=8)
        return HalfAtoms(
            mass=mass,
            other=other,
            difference=difference,
            loss=np.where(other > 0, loss, np.inf),
            slack=np.full(held.size, product(self._slack, rounding)),
            loss_error=self._shift + 4.0 * rounding * np.where(other > 0, loss, 0.0),
        )
