"""A target close to its null law among draws of that law, and what the others may differ from it.

The target's message is P or Q, Q = (0, s, t, delta0) with ``s = (1 - delta0)/(1 + E)``,
``t = E s`` and ``E = e^eps0``, P the same backwards; each other user is a draw of Q with chance
``1/E``, and else blank. P has its first letter, of infinite loss, with probability delta0.

That is so up to ``eta = delta0/E`` for each other user, for which ``(1 + alpha) eta`` is charged.
Nor is the round worse than the target alone. The profile is the lower convex envelope of both
bounds; without delta0 there is nothing to charge, and it is the first one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import (
    below_chords,
    polygon_atoms,
    whole_losses,
    whole_places,
    whole_profile,
)
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.profiles import profile_table
from shuffle_accountant.losses.base import CellEdges, Effort, OrderedLoss
from shuffle_accountant.losses.settings import ZERO_OUT
from shuffle_accountant.losses.steps.profiled import OrderedPairLoss
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, Bound, outwards, roundings


def among_draws(eps0: float, delta0: float, users: int) -> OrderedPairLoss:
    """The loss of the target's two letters among ``users - 1`` others, nothing charged."""
    ratio = math.exp(-eps0)
    s, t = (1.0 - delta0) * ratio / (1.0 + ratio), (1.0 - delta0) / (1.0 + ratio)
    p, q = np.array([delta0, t, s, 0.0, 0.0]), np.array([0.0, s, t, delta0, 0.0])
    draws = ratio * q
    draws[-1] = -math.expm1(-eps0)
    return OrderedPairLoss(MessagePair(p, q, draws, math.inf if delta0 else eps0), users)


@dataclass(frozen=True)
class ZeroOutLoss(OrderedLoss):
    """Privacy loss of a round whose ``users`` messages are each close to one null distribution.

    Attributes:
        eps0: epsilon of that closeness, nats, in (0, `ZERO_OUT.largest_eps0`].
        delta0: delta of that closeness, in (0, 1).
    """

    eps0: float
    delta0: float
    users: int

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats: that of the mean of ratios, of finite losses."""
        count = 1.0 + (self.users - 1) * math.exp(-self.eps0)
        spread = math.log1p(min(4.0 * math.sinh(0.5 * self.eps0) ** 2 / count, 1e300))
        return min(math.sqrt(spread), self.eps0)

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return self._among.way(epsilon, effort)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        if epsilon >= self.eps0:  # the target's own probability of an infinite loss
            return self.delta0
        where = np.array([epsilon])
        near = self._near(effort)
        among = self._among.delta(epsilon, side, near) + self._charge(where, side)
        return min(float(among[0]), float(self._alone(where, side)[0]), 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """One atom for each point of the profile that is on its envelope."""
        plain = Effort(effort.tail, effort.resolution)
        inside = self._among.points(side, edges, self._near(plain))
        inside = inside[inside < (1.0 - roundings(64)) * self.eps0]
        every = np.union1d(inside, np.linspace(0.0, self.eps0, ZERO_OUT.fewest)[:-1])
        every = every[np.append(True, np.diff(every) > 1e-9 * self.eps0)]
        points = np.append(every, self.eps0)
        edges(float(points[-1]))  # whether such a grid is allowed
        return _envelope(self, points.tobytes(), side, plain)

    @property
    def _among(self) -> OrderedPairLoss:
        found = among_draws(self.eps0, self.delta0, self.users)
        return found.reversed if self.swapped else found

    def _near(self, effort: Effort) -> Effort:
        """The effort for messages among others: what is far below the charge adds nothing to it."""
        least = 0.01 * effort.resolution * float(self._charge(np.zeros(1), Bound.OPTIMISTIC)[0])
        return Effort(max(effort.tail, least), effort.resolution)

    def _charge(self, points: Array, side: Bound) -> Array:
        """Bound of ``(1 + alpha)`` times the sum of the others' eta."""
        every = (self.users - 1) * math.exp(-self.eps0) * self.delta0
        charge = rounded(every * (1.0 + np.exp(points)), 3 * ELEMENTARY)
        return outwards(charge, roundings(40), upper=side is Bound.PESSIMISTIC)

    def _alone(self, points: Array, side: Bound) -> Array:
        """Bound of the profile of the target alone, either order."""
        often = (1.0 - self.delta0) / (1.0 + math.exp(-self.eps0))
        finite = often * -np.expm1(np.minimum(points - self.eps0, 0.0))
        upper = side is Bound.PESSIMISTIC
        found = outwards(rounded(finite, 3 * ELEMENTARY), roundings(40), upper=upper)
        return outwards(found + self.delta0, roundings(4), upper=upper)

    def _bounds(self, points: Array, side: Bound, effort: Effort) -> Array:
        """The bounds among others and alone (rows), of the whole profile: see `whole_profile`."""
        alone, near = self._alone(points, side), self._near(effort)
        one_way, back = (
            profile_table((one.pair,), (self.users, self.users), points.tobytes(), near).profile(
                self.users
            )
            for one in (self._among, self._among.reversed)
        )
        upper = side is Bound.PESSIMISTIC
        both = (found.upper if upper else found.lower for found in (one_way, back))
        forward, backward = (found + self._charge(points, side) for found in both)
        return whole_profile(points, np.stack([forward, alone]), np.stack([backward, alone]))


@lru_cache(maxsize=16)
def _envelope(loss: ZeroOutLoss, points: bytes, side: Bound, effort: Effort) -> PldAtoms:
    """The pair whose profile is the convex envelope of both bounds at the points, and between."""
    losses, tail, limit = np.frombuffer(points), effort.tail, loss.delta0
    where = whole_losses(losses)
    place = whole_places(where)
    high = loss._bounds(losses, Bound.PESSIMISTIC, effort)
    if side is Bound.PESSIMISTIC:
        value = high.min(axis=0)
        # what is below the tail is not worth a window that reaches there
        far = (where > 0.0) & (value - limit <= 2.0 * tail)
        last = int(np.argmax(far)) if far.any() else where.size - 1
        kept = (where >= 0.0) | (value > 2.0 * tail)
        kept[0], kept[last + 1 :] = True, False
        place, where, value = place[kept], where[kept], value[kept]
        # nothing finite is beyond the largest loss
        value[-1] = max(value[-1], limit) if far.any() else limit
        atoms = polygon_atoms(place, value, where, float(value[-1]), side)
        # that an infinite loss has a probability is no matter of the tails
        return replace(atoms, truncated=max(float(value[-1]) - limit, min(tail, limit)))
    low = loss._bounds(losses, side, effort)
    value = below_chords(place, np.minimum(low, high), high, where).min(axis=0)
    # below 0 there is nothing but (1 - alpha)_+
    floor, lowest = np.where(where > 0.0, limit, 0.0), np.where(where > 0.0, limit, -tail)
    value = np.where(value - floor <= 2.0 * tail, np.minimum(value, lowest), value)
    value[0], value[-1] = 0.0, min(value[-1], limit)
    return polygon_atoms(place, value, where, limit, side)
