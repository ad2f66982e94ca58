"""A round that is revealed to be harmless with some probability, and else has a given loss."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import (
    CellEdges,
    Effort,
    PrivacyLoss,
    SymmetricLoss,
    Tabled,
    way_of,
)
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import ELEMENTARY, outwards, roundings, share


@dataclass(frozen=True)
class DilutedLoss(SymmetricLoss):
    """The mixture of ``inner`` with an atom at loss 0, for a symmetric ``inner``.

    Attributes:
        inner: loss of the round when it is not harmless.
        active: probability that it is not harmless.
        harmless: ``1 - active``.
    """

    inner: PrivacyLoss
    active: float
    harmless: float

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.inner.largest if self.active > 0.0 else 0.0

    @property
    def table(self) -> Hashable:
        """Key of the inner loss's table, or None."""
        return self.inner.table if isinstance(self.inner, Tabled) else None

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.inner.deviation * float(np.sqrt(self.active))

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0: ``active`` times the inner loss's."""
        value = rounded(self.inner.delta(epsilon, side, effort), ELEMENTARY)
        return min(share(value, self.active, _error(), upper=side is Bound.PESSIMISTIC), 1.0)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.inner, epsilon, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The inner atoms, times the probability ``active``, and one at loss 0."""
        inner = self.inner.atoms(side, edges, effort)
        mass = rounded(np.append(self.active * inner.mass, self.harmless), ELEMENTARY)
        infinite = rounded(self.active * inner.infinite, ELEMENTARY)
        error, upper = _error(), side is Bound.PESSIMISTIC
        return PldAtoms(
            side=side,
            mass=outwards(mass, error, upper=upper),
            loss=np.append(inner.loss, 0.0),
            infinite=outwards(infinite, error, upper=upper),
            truncated=inner.truncated,
            round_off=inner.round_off + error,
            loss_error=inner.loss_error,
        )


def _error() -> float:
    """Relative error of a product with a probability that is a function of eps0."""
    return roundings(ELEMENTARY + 8)
