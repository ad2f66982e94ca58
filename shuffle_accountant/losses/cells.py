"""Adding atoms up cell by cell, so that memory does not grow with their number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffle_accountant.numerics.rounding import Array, product, sequential_sum

__all__ = ["CellSums", "HalfAtoms"]


@dataclass(frozen=True, eq=False)
class HalfAtoms:
    """PldAtoms of a symmetric pair with loss > 0; each has a mirror image of the opposite loss.

    Attributes:
        mass: P-masses, shape (m,): those of the mirror images under Q.
        other: Q-masses, shape (m,): those of the mirror images under P.
        loss: ``log(mass / other)``, nats, +inf where ``other`` is 0.
        slack: bounds on the relative errors of both masses.
        loss_error: bounds on the errors of the losses, nats.
    """

    mass: Array
    other: Array
    loss: Array
    slack: Array
    loss_error: Array


class CellSums:
    """Total masses of atoms between the edges of a grid of losses.

    Merging the atoms of a cell keeps both masses: a cell is as good as an atom for connecting the
    dots, and merging is a post-processing for the lower side.
    """

    def __init__(self, edges: Array) -> None:
        size = edges.size + 1
        self._edges = edges
        self._mass, self._other, self._difference = np.zeros(size), np.zeros(size), np.zeros(size)
        self._error, self._shift = np.zeros(size), np.zeros(size)
        self._added = 0

    def add(self, atoms: HalfAtoms) -> None:
        """Add atoms to their cells; losses of +inf share a cell above all edges."""
        if atoms.mass.size == 0:
            return
        finite = np.isfinite(atoms.loss)
        last = self._edges.size
        cell = np.where(finite, np.searchsorted(self._edges, atoms.loss, side="right"), last)
        difference = np.where(finite, atoms.mass * -np.expm1(-atoms.loss), 0.0)
        low, high = int(cell.min()), int(cell.max()) + 1
        span, place = slice(low, high), cell - low
        for total, weight in (
            (self._mass, atoms.mass),
            (self._other, atoms.other),
            (self._difference, difference),
            (self._error, atoms.mass * atoms.slack),
        ):
            total[span] += np.bincount(place, weights=weight, minlength=high - low)
        np.maximum.at(self._shift, cell, atoms.loss_error)
        self._added += int(np.bincount(place).max()) + 1

    def atoms(self) -> HalfAtoms:
        """One atom per cell that holds mass."""
        held = np.flatnonzero(self._mass > 0)
        mass, other, difference = self._mass[held], self._other[held], self._difference[held]
        share = difference / mass
        with np.errstate(divide="ignore", invalid="ignore"):
            # the difference keeps the digits of a small loss, the quotient those of a large one
            small = -np.log1p(-np.minimum(share, 0.75))
            loss = np.where(share < 0.5, small, np.log(mass / other))
        rounding = sequential_sum(self._added, own=8)
        return HalfAtoms(
            mass=mass,
            other=other,
            loss=np.where(other > 0, loss, np.inf),
            slack=product(self._error[held] / mass, rounding),
            loss_error=self._shift[held] + 4.0 * rounding * np.where(other > 0, loss, 0.0),
        )
