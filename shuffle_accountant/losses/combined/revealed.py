"""Losses of several cases of known probabilities, where it is revealed which case it is."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import (
    CellEdges,
    Divergence,
    Effort,
    PrivacyLoss,
    SymmetricLoss,
    Tabled,
    way_of,
)
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Bound,
    outwards,
    roundings,
    sequential_sum,
    share,
)

# Roundings of a product: a probability is rounded once from a fraction, and what it multiplies.
_PRODUCT = 4.0


@dataclass(frozen=True)
class PatternsLoss:
    """Privacy loss of a mixture whose part is revealed: divergences are averages of the parts'.

    Attributes:
        parts: probabilities with the losses of the parts; the probabilities add up to 1.
    """

    parts: tuple[tuple[float, PrivacyLoss], ...]

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return max(loss.largest for _, loss in self.parts)

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return float(np.sqrt(sum(weight * loss.deviation**2 for weight, loss in self.parts)))

    @property
    def reversed(self) -> PatternsLoss:
        """The loss of (Q, P)."""
        backward = tuple((weight, loss.reversed) for weight, loss in self.parts)
        same = all(back is loss for (_, back), (_, loss) in zip(backward, self.parts, strict=True))
        return self if same else PatternsLoss(backward)

    @property
    def divergence(self) -> Divergence:
        """The divergence of the parts."""
        return self.parts[0][1].divergence

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "table"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of the divergence at ``alpha = e^epsilon``, epsilon >= 0."""
        total = sum(weight * loss.delta(epsilon, side, effort) for weight, loss in self.parts)
        total = rounded(total, len(self.parts) + 3.0)
        error = sequential_sum(len(self.parts), own=_PRODUCT)
        return min(outwards(total, error, upper=side is Bound.PESSIMISTIC), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The atoms of all parts, weighted."""
        upper = side is Bound.PESSIMISTIC
        every = [(weight, loss.atoms(side, edges, effort)) for weight, loss in self.parts]
        infinite = sum(weight * atoms.infinite for weight, atoms in every)
        infinite = rounded(infinite, len(every) + 3.0)
        error = sequential_sum(len(every), own=_PRODUCT)
        of_each = roundings(_PRODUCT)
        return PldAtoms(
            side=side,
            mass=np.concatenate(
                [
                    outwards(rounded(weight * atoms.mass, _PRODUCT), of_each, upper=upper)
                    for weight, atoms in every
                ]
            ),
            loss=np.concatenate([atoms.loss for _, atoms in every]),
            infinite=min(outwards(infinite, error, upper=upper), 1.0),
            truncated=sum(weight * atoms.truncated for weight, atoms in every),
            round_off=max(atoms.round_off for _, atoms in every) + of_each,
            loss_error=max(atoms.loss_error for _, atoms in every),
        )


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
