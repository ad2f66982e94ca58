"""A loss whose parameters are known from two sides: one loss for each bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Divergence, Effort, PrivacyLoss, way_of
from shuffle_accountant.numerics.between import Between
from shuffle_accountant.numerics.rounding import Bound


@dataclass(frozen=True)
class LossBySide:
    """Privacy loss whose upper bounds are those of one loss, its lower bounds those of another.

    Attributes:
        above: a loss whose divergence is nowhere below the true one, in either order.
        below: a loss whose divergence is nowhere above it.
    """

    above: PrivacyLoss
    below: PrivacyLoss

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.above.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.above.deviation

    @property
    def divergence(self) -> Divergence:
        """The divergence of both losses."""
        return self.above.divergence

    @property
    def reversed(self) -> LossBySide:
        """The loss of (Q, P)."""
        return LossBySide(self.above.reversed, self.below.reversed)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0 from the side's loss."""
        return self._of(side).delta(epsilon, side, effort)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return way_of(self.above, epsilon, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """Atoms of the side's loss."""
        return self._of(side).atoms(side, edges, effort)

    def _of(self, side: Bound) -> PrivacyLoss:
        return self.above if side is Bound.PESSIMISTIC else self.below


def by_side(make: Callable[[Bound], PrivacyLoss]) -> PrivacyLoss:
    """The loss that lies between the two that a function makes; theirs if they are one.

    Args:
        make: the loss with every parameter rounded to the side: PESSIMISTIC to what reveals more.
    """
    above, below = make(Bound.PESSIMISTIC), make(Bound.OPTIMISTIC)
    return above if above == below else LossBySide(above, below)


def noise_of(parameter: Between, side: Bound) -> float:
    """The end of a parameter with which a loss bounds the side, where a smaller one reveals more.

    A deviation of noise is such a parameter.
    """
    return parameter.low if side is Bound.PESSIMISTIC else parameter.high


def share_of(parameter: Between, side: Bound) -> float:
    """The end of a parameter with which a loss bounds the side, where a larger one reveals more.

    A probability to take part and a privacy parameter are such.
    """
    return parameter.high if side is Bound.PESSIMISTIC else parameter.low
