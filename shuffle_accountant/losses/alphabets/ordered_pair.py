"""The loss of one pair of datasets whose two orders have different profiles.

A blanket's profile is the largest over both orders, which no pair of datasets need have. The true
loss of a pair of datasets, composed, is that of one order throughout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.alphabets.profiles import divergence_bounds, profile_table
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.divergence import HOCKEY_STICK, Divergence
from shuffle_accountant.numerics.rounding import Array


@dataclass(frozen=True)
class OrderedPairLoss:
    """Privacy loss of a target among ``users`` messages, in one order of the datasets.

    Attributes:
        pair: distributions of the target's message under P (p0) and Q (p1), and of a decoy's.
        users: number n of messages.
    """

    pair: LetterPair
    users: int

    @property
    def reversed(self) -> OrderedPairLoss:
        """The loss of (Q, P)."""
        return replace(self, pair=self.pair.reversed)

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.pair.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""
        return self.pair.deviation(self.users)

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        return largest_divergence((self.pair,), self.users, epsilon, side, effort)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        plain = Effort(effort.tail, effort.resolution)
        return divergence_bounds((self.pair,), self.users, epsilon, plain)[2].value

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair with the polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        losses = self.points(side, edges, effort)
        certain = self.delta(np.inf, Bound.OPTIMISTIC, effort)
        forward = self._bounds(losses, effort)
        return profile_atoms(losses, forward, self.reversed._bounds(losses, effort), certain, side)

    def points(self, side: Bound, edges: CellEdges, effort: Effort) -> Array:
        """Points of the profile, the same for both orders."""
        both = self.pair, self.pair.reversed
        largest = max(pair.largest for pair in both)
        every = BlanketLoss(both, self.users, self.deviation, largest)
        return every.points(side, edges, effort, PROFILES.step)

    def _bounds(self, losses: Array, effort: Effort) -> tuple[Array, Array]:
        """Lower and upper bounds of the profile at the losses."""
        plain = Effort(effort.tail, effort.resolution)
        table = profile_table((self.pair,), (self.users, self.users), losses.tobytes(), plain)
        found = table.profile(self.users)
        return found.lower, found.upper
