"""The loss of independent parts that belong to one round: the sum of their losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS, discretize
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.positive import positive_sum
from shuffle_accountant.losses.base import CellEdges, Divergence, Effort, PrivacyLoss
from shuffle_accountant.losses.settings import COMBINED
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    Array,
    Bound,
    outwards,
    pairwise_sum,
    product,
    raised,
    roundings,
    underflow,
)


@dataclass(frozen=True)
class ProductLoss:
    """Privacy loss of a product of pairs: losses with their counts, at least one.

    A composition of rounds takes the parts one by one (see `factors`); the sum here is for delta of
    the round as a whole.
    """

    parts: tuple[tuple[PrivacyLoss, int], ...]

    @property
    def exact(self) -> bool:
        """Whether `delta` is a finite sum over all atoms; here the sum is on a grid of its own."""
        return False

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        total = rounded(math.fsum(count * part.largest for part, count in self.parts), 2)
        return raised(total, roundings(4))

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        top = max(part.deviation for part, _ in self.parts)
        return top * math.sqrt(sum(n * (part.deviation / top) ** 2 for part, n in self.parts))

    @property
    def reversed(self) -> ProductLoss:
        """The loss of (Q, P)."""
        backward = tuple((part.reversed, count) for part, count in self.parts)
        same = all(back is part for (back, _), (part, _) in zip(backward, self.parts, strict=True))
        return self if same else ProductLoss(backward)

    @property
    def divergence(self) -> Divergence:
        """The divergence of the parts."""
        return self.parts[0][0].divergence

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "table"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of the divergence at ``alpha = e^epsilon``, epsilon >= 0: a sum over the atoms."""
        atoms = _atoms(self, side, effort)
        upper = side is Bound.PESSIMISTIC
        if epsilon == math.inf:
            return atoms.infinite
        moved = atoms.loss_error if upper else -atoms.loss_error
        weight = self.divergence.weight(atoms.loss + moved - epsilon)
        total = rounded(float(np.sum(atoms.mass * weight)) + atoms.infinite, 8)
        return min(outwards(total, pairwise_sum(own=8), upper=upper), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The sum of the parts' losses on a grid of its own."""
        atoms = _atoms(self, side, effort)
        edges(float(np.max(np.abs(atoms.loss), initial=0.0)))
        return atoms


@lru_cache(maxsize=16)
def _atoms(loss: ProductLoss, side: Bound, effort: Effort) -> PldAtoms:
    parts = [(_alone(part, side, effort), count) for part, count in loss.parts]
    low = math.fsum(n * min(float(one.loss.min()), 0.0) for one, n in parts)
    high = math.fsum(n * max(float(one.loss.max()), 0.0) for one, n in parts)
    spacing = max((high - low) / COMBINED.most_cells, 1e-12 * loss.deviation)
    grids = [(discretize(one, spacing), count) for one, count in parts]
    first, last = math.floor(low / spacing) - 2, math.ceil(high / spacing) + 2
    law = positive_sum(grids, side, first, last)
    upper = side is Bound.PESSIMISTIC
    rounding = product(law.relative, roundings(8))
    losses = rounded(spacing * (law.offset + np.arange(law.scaled.size, dtype=np.float64)), 2)
    infinite = outwards(rounded(law.infinite, 8), rounding, upper=upper)
    if upper:
        # each number that is subnormal was rounded twice, and underflow takes off less than one
        infinite += underflow(2 * law.scaled.size + 3)
    return PldAtoms(
        side=side,
        mass=outwards(rounded(law.mass, 8), rounding, upper=upper),
        loss=losses,
        infinite=min(infinite, 1.0),
        truncated=min(sum(count * grid.truncated for grid, count in grids), 1.0),
        round_off=rounding + sum(count * grid.round_off for grid, count in grids),
        loss_error=sum(count * grid.loss_error for grid, count in grids)
        + roundings(4) * max(high, -low),
        limited=any(grid.limited for grid, _ in grids),
    )


def _alone(part: PrivacyLoss, side: Bound, effort: Effort) -> PldAtoms:
    """A part's atoms in cells of a small share of its deviation."""
    step = part.deviation * math.sqrt(6.0 * effort.resolution)

    def edges(largest: float) -> Array:
        width = max(step / (SUBCELLS if side is Bound.OPTIMISTIC else 1), largest / 1e6)
        return np.arange(math.ceil(largest / width) + 2, dtype=np.float64) * width

    return part.atoms(side, edges, effort)
