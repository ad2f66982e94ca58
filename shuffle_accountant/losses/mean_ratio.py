"""The loss when one dataset makes all messages i.i.d.: the mean of their likelihood ratios.

If the target's message under Q has the law of all others, the density lemma (see
`shuffle_accountant.reductions.decoys`) says that P/Q is the mean of n i.i.d. ratios W. One law,
that of their sum under Q, then answers for every alpha and for both orders of the pair. If the
target takes part with probability g only, the ratio is ``1 + g (mean - 1)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from shuffle_accountant.lattice.doubling import SumLaw, additions, power
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.divergence import HOCKEY_STICK, Divergence
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    lowered,
    outwards,
    pairwise_sum,
    raised,
    roundings,
)

__all__ = ["MeanRatioLoss", "RatioSource"]

# Tails that may be cut off, as powers of ten: laws are made for few of them.
_TAILS = (20, 26, 33, 42, 54, 70, 90, 115, 150, 200, 280)
# Narrower cells would take more than seconds.
_LEAST_WIDTH = 0.005
# Cells of one ratio, with nothing to add it to.
_ALONE = 0.001
# More than what products below the smallest normal double can lose in all pairs and additions.
_SUBNORMAL = 1e-295


class RatioSource(Protocol):
    """The law of one message's likelihood ratio."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    @property
    def deviation(self) -> float:
        """Standard deviation of the ratio, or a bound of what its logarithm may reach."""

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """One ratio in cells of a normal score's width.

        Args:
            side: PESSIMISTIC is above the true law in convex order, OPTIMISTIC below it.
            users: of how many such ratios the mean is taken.
            width: of cells, in normal scores.
            tail: P- or Q-probability that all of them may leave out.
        """

    def alone(self, epsilon: float) -> float:
        """Upper bound of ``H_alpha`` for one user, in either order."""

    def told_apart(self, epsilon: float, users: int) -> float:
        """A lower bound of ``H_alpha(P‖Q)`` that holds however far apart P and Q are."""


@dataclass(frozen=True)
class MeanRatioLoss:
    """Privacy loss of the pair whose ratio is the mean of ``users`` ratios.

    Attributes:
        source: law of one ratio.
        users: messages n.
        fraction: probability g that the target takes part, in (0, 1].
        swapped: whether P and Q are exchanged.
    """

    source: RatioSource
    users: int
    fraction: float = 1.0
    swapped: bool = False

    @property
    def largest(self) -> float:
        """Losses are not bounded."""
        return math.inf

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        spread = self.source.deviation / math.sqrt(self.users)
        return max(math.log1p(self.fraction * min(spread, 1e300)), 1e-300)

    @property
    def reversed(self) -> MeanRatioLoss:
        """The loss of (Q, P)."""
        return replace(self, swapped=not self.swapped)

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        law = _law(self.source, self.users, side, effort)
        upper = side is Bound.PESSIMISTIC
        total = self._infinite(law) if upper else 0.0
        if epsilon < 700.0:
            # values are off by a relative amount; take the worse, or the better
            nudge = (1.0 + law.moved) if upper != self.swapped else (1.0 - law.moved)
            gain = self.fraction * (law.value * nudge / self.users - 1.0)
            growth = math.expm1(epsilon)
            above = -growth - (1.0 + growth) * gain if self.swapped else gain - growth
            total += float(np.sum(law.mass * np.maximum(above, 0.0)))
        if upper:
            total = raised(total, pairwise_sum(own=8)) + _SUBNORMAL
            # with all other messages revealed; a target that may not take part is told apart less
            alone = self.fraction * self.source.alone(epsilon)
            return min(total, alone, 1.0)
        total = max(lowered(total, pairwise_sum(own=8)) - _SUBNORMAL, 0.0)
        if self.fraction == 1.0 and not self.swapped:
            total = max(total, self.source.told_apart(epsilon, self.users))
        return total

    def _infinite(self, law: SumLaw) -> float:
        """Bound of the first law's probability of all that was left out."""
        if self.swapped:
            return law.lost
        return self.fraction * law.lost_gain + (1.0 - self.fraction) * law.lost

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """Each value of the mean as an atom."""
        law = _law(self.source, self.users, side, effort)
        gain = self.fraction * (law.value / self.users - 1.0)
        idle = 1.0 - self.fraction
        ratio = idle + self.fraction * law.value / self.users  # without cancellation near 0
        loss = np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), np.log(ratio))
        mass = law.mass * ratio
        slack = roundings(ELEMENTARY + 4)
        if self.swapped:
            loss, mass = -loss, law.mass
        lost = self._infinite(law)
        upper = side is Bound.PESSIMISTIC
        return PldAtoms(
            side=side,
            mass=outwards(mass, slack, upper=upper),
            loss=loss,
            infinite=lost + _SUBNORMAL if upper else 0.0,
            truncated=lost,
            round_off=abs(float(law.mass.sum()) + law.lost - 1.0) + slack,
            loss_error=law.moved + slack * float(np.max(np.abs(loss), initial=1.0)),
        )


def _law(source: RatioSource, users: int, side: Bound, effort: Effort) -> SumLaw:
    """The law of the sum of ratios, for a tail and a resolution that few questions share."""
    wanted = -math.log10(effort.tail)
    tail = next((t for t in _TAILS if t >= wanted), _TAILS[-1])
    # each addition adds about width^2 / 6 to the relative variance
    width = max(math.sqrt(6.0 * effort.resolution / additions(users)), _LEAST_WIDTH)
    if users == 1:
        width = _ALONE
    return _remembered(source, users, side, 10.0**-tail, width)


@lru_cache(maxsize=32)
def _remembered(source: RatioSource, users: int, side: Bound, tail: float, width: float) -> SumLaw:
    one = source.ratios(side, users=users, width=width, tail=0.5 * tail)
    return power(one, users, side, width=width, tail=0.5 * tail)
