"""The loss of a few pairs, one of which is the case with a known probability and is revealed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss
from shuffle_accountant.losses.divergence import Divergence
from shuffle_accountant.numerics.rounding import outwards, roundings, sequential_sum

# A probability is rounded once from a fraction, and multiplied by what is rounded.
_ERROR = roundings(4)


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
        error = sequential_sum(len(self.parts), own=4)
        return min(outwards(total, error, upper=side is Bound.PESSIMISTIC), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The atoms of all parts, weighted."""
        upper = side is Bound.PESSIMISTIC
        every = [(weight, loss.atoms(side, edges, effort)) for weight, loss in self.parts]
        infinite = sum(weight * atoms.infinite for weight, atoms in every)
        error = sequential_sum(len(every), own=4)
        return PldAtoms(
            side=side,
            mass=np.concatenate(
                [outwards(weight * atoms.mass, _ERROR, upper=upper) for weight, atoms in every]
            ),
            loss=np.concatenate([atoms.loss for _, atoms in every]),
            infinite=min(outwards(infinite, error, upper=upper), 1.0),
            truncated=sum(weight * atoms.truncated for weight, atoms in every),
            round_off=max(atoms.round_off for _, atoms in every) + _ERROR,
            loss_error=max(atoms.loss_error for _, atoms in every),
        )
