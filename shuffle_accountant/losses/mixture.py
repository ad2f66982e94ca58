"""A round that is revealed to be one of several, each with a symmetric loss of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss
from shuffle_accountant.losses.divergence import HOCKEY_STICK, Divergence
from shuffle_accountant.numerics.rounding import outwards, pairwise_sum, roundings

__all__ = ["MixtureLoss", "Part", "PartSource"]

_ERROR = roundings(4)
# From so many parts on, blocks of their decoys are not narrower than this.
_MANY, _FINEST = 64, 2e-4


@dataclass(frozen=True)
class Part:
    """One of the rounds.

    Attributes:
        weight: its probability, rounded in the direction.
        loss: its loss, or None if it reveals nothing.
    """

    weight: float
    loss: PrivacyLoss | None


class PartSource(Protocol):
    """What the rounds are."""

    def __hash__(self) -> int:
        """By value, so that grids can be cached."""

    @property
    def largest(self) -> float:
        """No finite loss is larger, nats."""

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        """Rounds whose mixture bounds the true one, and the probability of what is left out."""


@dataclass(frozen=True)
class MixtureLoss:
    """The mixture of symmetric losses, which one being revealed.

    Attributes:
        source: the rounds with their probabilities.
    """

    source: PartSource

    @property
    def largest(self) -> float:
        """No finite loss is larger, nats."""
        return self.source.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.source.deviation

    @property
    def reversed(self) -> MixtureLoss:
        """The loss of (Q, P): every part is symmetric."""
        return self

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0: the mean of the parts'."""
        upper = side is Bound.PESSIMISTIC
        parts, missing = self.source.parts(side, effort)
        effort = _of_each(effort, len(parts))
        values = np.array(
            [p.weight * p.loss.delta(epsilon, side, effort) for p in parts if p.loss is not None]
        )
        total = outwards(float(np.sum(values)), pairwise_sum(own=4), upper=upper)
        if upper and epsilon < self.largest:
            total += missing
        return min(total, 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The parts' atoms, lighter; what reveals nothing is at loss 0."""
        parts, missing = self.source.parts(side, effort)
        effort = _of_each(effort, len(parts))
        upper = side is Bound.PESSIMISTIC
        inner = [(p.weight, p.loss.atoms(side, edges, effort)) for p in parts if p.loss is not None]
        harmless = sum(p.weight for p in parts if p.loss is None)
        masses = [weight * atoms.mass for weight, atoms in inner]
        infinite = sum(weight * atoms.infinite for weight, atoms in inner)
        cut = sum(weight * atoms.truncated for weight, atoms in inner)
        error = pairwise_sum(own=4)
        return PldAtoms(
            side=side,
            mass=outwards(np.concatenate([*masses, [harmless]]), _ERROR, upper=upper),
            loss=np.concatenate([*(atoms.loss for _, atoms in inner), [0.0]]),
            infinite=outwards(infinite, error, upper=upper) + (missing if upper else 0.0),
            truncated=cut + missing,
            round_off=sum(weight * atoms.round_off for weight, atoms in inner) + _ERROR,
            loss_error=max((atoms.loss_error for _, atoms in inner), default=0.0),
        )


def _of_each(effort: Effort, parts: int) -> Effort:
    """Of many parts none need be resolved much more closely than they are apart."""
    if parts <= _MANY:
        return effort
    return replace(effort, resolution=max(effort.resolution, _FINEST))
