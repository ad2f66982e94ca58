"""Composition of very many different losses: their grids as rows of one matrix.

The same questions as `shuffle_accountant.engine.composition`, without a step of Python per loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from shuffle_accountant.engine.composition import Composition, TiltedSum
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.lattice.stack import Stack, rows_times, stack_sum
from shuffle_accountant.losses.base import HOCKEY_STICK, Divergence
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    NORMAL,
    UNIT_ROUNDOFF,
    Array,
    exponential,
    roundings,
)

# Terms lost to underflow, fewer than 1/u, are no more than a rounding of a sum of this size.
_LEAST_SUM = NORMAL / UNIT_ROUNDOFF / UNIT_ROUNDOFF


class StackedComposition(Composition):
    """The sum of many grid losses, all of one spacing and direction."""

    def __init__(
        self, parts: Sequence[tuple[PldGrid, int]], divergence: Divergence = HOCKEY_STICK
    ) -> None:
        super().__init__(parts, divergence)
        self._offset = min(grid.offset for grid, _ in self.parts)
        last = max(grid.offset + grid.mass.size for grid, _ in self.parts)
        self._mass = np.zeros((len(self.parts), last - self._offset))
        for row, (grid, _) in zip(self._mass, self.parts, strict=True):
            at = grid.offset - self._offset
            row[at : at + grid.mass.size] = grid.mass
        self._grid = self.spacing * np.arange(self._offset, last, dtype=np.float64)
        self._count = np.array([float(count) for _, count in self.parts])

    def cumulants(self, lam: float) -> tuple[float, float, float]:
        """Log-moment generating function of the finite part at lam, and two derivatives."""
        shift, growth = self._growth(lam)
        powers = np.stack([growth, growth * self._grid, growth * self._grid**2], axis=1)
        sums = rows_times(self._mass, np.asarray(powers))
        total = sums[:, 0]
        if total.min() < _LEAST_SUM:
            return super().cumulants(lam)
        mean = sums[:, 1] / total
        variance = np.maximum(sums[:, 2] / total - mean**2, 0.0)
        value = float(self._count @ (shift + np.log(total)))
        return value, float(self._count @ mean), float(self._count @ variance)

    @staticmethod
    def fits(parts: Sequence[tuple[PldGrid, int]], memory_limit: int) -> bool:
        """Whether the matrix is mostly full and, with what is made on the way, fits into memory."""
        last = max(grid.offset + grid.mass.size for grid, _ in parts)
        entries = (last - min(grid.offset for grid, _ in parts)) * len(parts)
        held = sum(grid.mass.size for grid, _ in parts)
        return entries <= min(8 * held, memory_limit // 40)  # bytes of an entry at the peak

    @cached_property
    def _pooled(self) -> Composition:
        """A sum whose moment generating function is no smaller, of few losses.

        Rows of similar spread are replaced by their mean: a logarithm is concave.
        """
        spread = rows_times(self._mass, self._grid[:, None] ** 2)[:, 0] / self._mass.sum(axis=1)
        parts = []
        for some in np.array_split(np.argsort(spread), min(8, spread.size)):
            count = self._count[some]
            mean = (count @ self._mass[some]) / count.sum()
            grid = replace(self.parts[0][0], offset=self._offset, mass=mean)
            parts.append((grid, int(count.sum())))
        return Composition(parts, self.divergence)

    def saddle_for_delta(self, delta: float) -> float:
        """A tilt at which the law concentrates near epsilon(delta), to a few per cent."""
        return self._pooled.saddle_for_delta(delta)

    def saddle_for_epsilon(self, epsilon: float) -> float:
        """The tilt whose mean is epsilon, to a few per cent."""
        return self._pooled.saddle_for_epsilon(epsilon)

    def _log_mgf(self, lams: Array) -> Array:
        """No less than the log-moment generating function, as windows need it."""
        return self._pooled._log_mgf(lams)

    def tilted(self, lam: float) -> TiltedSum:
        """The law of the sum under the tilt, on its window."""
        shift, growth = self._growth(lam)
        total = rows_times(self._mass, growth[:, None])[:, 0]
        if total.min() < _LEAST_SUM:
            return super().tilted(lam)
        first, last, below, above = self.window(lam)
        log_scale = shift + np.log(total)
        # growth is the exponential of a rounded number, and dividing by the total is dividing by
        # the exponential of its rounded logarithm; a product and a quotient are in the last term
        reach = abs(lam) * float(np.abs(self._grid).max())
        moved = 4.0 * (reach + abs(shift)) + np.abs(log_scale) + np.abs(np.log(total)) + 4.0
        error = exponential(roundings(2 * ELEMENTARY) * moved)
        stack = Stack(
            offset=self._offset,
            mass=rounded(self._mass * growth / total[:, None], ELEMENTARY),
            count=self._count,
            mass_error=np.asarray(error),
        )
        law = stack_sum(stack, first, last - first + 1)
        log_total = float(math.fsum((self._count * log_scale).tolist()))
        return TiltedSum(self, lam, log_total, law, below, above, last)

    def _growth(self, lam: float) -> tuple[float, Array]:
        """``e^(lam x)`` at all grid points over its largest value, and the logarithm of that."""
        exponent = lam * self._grid
        shift = float(exponent.max())
        return shift, np.exp(exponent - shift)
