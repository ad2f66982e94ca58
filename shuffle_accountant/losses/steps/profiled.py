"""Losses of pairs whose privacy profile is a closed form in both orders.

A pair is known by two functions of losses x >= 0 (nats): bounds of ``H_alpha(P‖Q)`` and of
``H_alpha(Q‖P)`` at alpha = e^x. They need not be those of one pair: any two profiles that are
convex together, as ``H_alpha`` above 1 and ``1 - alpha + alpha H_(1/alpha)`` below, are those of
some pair of laws on the losses, which is what is composed (`lattice.profile`).

*One pair of datasets* whose two orders have different profiles: a blanket's profile is the largest
over both orders, which no pair of datasets need have. The true loss of a pair of datasets,
composed, is that of one order throughout.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.profiles import divergence_bounds, profile_table
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import HOCKEY_STICK, CellEdges, Divergence, Effort, OrderedLoss
from shuffle_accountant.losses.settings import STEPS
from shuffle_accountant.numerics.rounding import LIMITS, Array, Bound, roundings


@dataclass(frozen=True)
class OrderedPairLoss:
    """Privacy loss of a target among ``users`` messages, in one order of the datasets.

    Attributes:
        pair: distributions of the target's message under P (p0) and Q (p1), and of a decoy's.
        users: number n of messages.
    """

    pair: MessagePair
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


class ProfiledPair(ABC):
    """A pair of laws by its profile; implementations are frozen and hashable."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""

    @property
    def limit(self) -> float:
        """``H_alpha(P‖Q)`` for alpha to infinity: mass at an infinite loss."""
        return 0.0

    @property
    def largest_reversed(self) -> float:
        """No loss of (Q, P) is larger, nats; those of (P, Q) are not bounded."""
        return math.inf

    @abstractmethod
    def forward(self, losses: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of ``H_alpha(P‖Q)`` at e^losses, losses >= 0."""

    @abstractmethod
    def backward(self, losses: Array) -> tuple[Array, Array]:
        """Lower and upper bounds of ``H_alpha(Q‖P)`` at e^losses, losses >= 0."""


@dataclass(frozen=True)
class ProfiledLoss(OrderedLoss):
    """The privacy loss of a pair that is known by its profile, in both orders."""

    pair: ProfiledPair

    @property
    def largest(self) -> float:
        """No loss is larger, nats."""
        return self.pair.largest_reversed if self.swapped else math.inf

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""
        return self.pair.deviation

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "exact"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of the divergence at ``alpha = e^epsilon``, epsilon >= 0."""
        if epsilon >= min(self.largest, LIMITS.largest_log):
            # beyond the range of doubles, what is at its end is an upper bound
            if side is Bound.OPTIMISTIC or (epsilon >= self.largest and epsilon < math.inf):
                return self._infinite
            epsilon = LIMITS.largest_log
        profile = self.pair.backward if self.swapped else self.pair.forward
        low, high = profile(np.array([epsilon]))
        return float((high if side is Bound.PESSIMISTIC else low)[0])

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The pair of laws on the edges with a profile on that side of the pair's."""
        places = edges(self._last(effort.tail))
        places = _thinned(places[places <= LIMITS.largest_log])
        forward, backward = self.pair.forward(places), self.pair.backward(places)
        if self.swapped:
            forward, backward = backward, forward
        return profile_atoms(places, forward, backward, self._infinite, side)

    @property
    def _infinite(self) -> float:
        """Lower bound of the mass at an infinite loss."""
        return 0.0 if self.swapped else self.pair.limit * (1.0 - roundings(16))

    def _last(self, tail: float) -> float:
        """A loss beyond which both profiles are at most the tail, or the range of doubles ends."""
        reach = LIMITS.largest_log
        last = min(self.deviation, reach)
        while last < reach:
            # several at once: each look at an array costs about as much
            places = np.minimum(last * 1.25 ** np.arange(PROFILES.tried), reach)
            most = np.maximum(self.pair.forward(places)[1], self.pair.backward(places)[1])
            enough = most <= tail + (1.0 + 1e-6) * self.pair.limit
            if enough.any():
                return float(places[int(np.argmax(enough))])
            last = 1.25 * float(places[-1])
        return reach


def _thinned(places: Array) -> Array:
    """The edges, with wider cells far out."""
    cells = STEPS.cells
    if places.size <= 2 * cells:
        return places
    grown = math.log(places.size / cells) / math.log1p(1.0 / cells)
    far = np.ceil(cells * np.exp(np.arange(math.ceil(grown) + 1) * math.log1p(1.0 / cells)))
    far = far[far < places.size - 1].astype(np.int64)
    kept = np.unique(np.concatenate([np.arange(cells), far, [places.size - 1]]))
    return np.asarray(places[kept])
