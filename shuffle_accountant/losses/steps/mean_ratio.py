"""The loss when one dataset makes all messages i.i.d.: the mean of their likelihood ratios.

If the target's message under Q has the distribution of all others, the density lemma (see
`shuffle_accountant.reductions.base`) says that P/Q is the mean of n i.i.d. ratios W. One
distribution, that of their sum under Q, then answers for every alpha and for both orders of the
pair. If the target takes part with probability g only, the ratio is ``1 + g (mean - 1)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, OrderedLoss
from shuffle_accountant.losses.settings import MEAN_RATIO
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.hockey_stick import Ratios
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    UNIT_ROUNDOFF,
    Array,
    Bound,
    outwards,
    pairwise_sum,
    product,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.doubling import SumLaw, additions, power


class RatioSource(ABC):
    """Distribution of one message's likelihood ratio P/Q, under Q.

    Implementations are immutable and hashable.
    """

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Standard deviation of the ratio, or a bound of what its logarithm may reach."""

    @property
    def largest(self) -> float:
        """Upper bound of the size of a log-ratio, nats."""
        return math.inf

    @property
    def infinite(self) -> float:
        """A lower bound of the P-probability of messages that Q never sends."""
        return 0.0

    @property
    def complete(self) -> bool:
        """Whether OPTIMISTIC distributions leave out no more of P and Q than they say.

        Rounding aside.
        """
        return False

    @abstractmethod
    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of one ratio, in cells of equal width in the normal score.

        Args:
            side: PESSIMISTIC is above the true distribution in convex order, OPTIMISTIC below it.
            users: number of such ratios in the mean.
            width: width of cells, in normal scores.
            tail: P- or Q-probability that all of them together may leave out.
        """

    def sums(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """Distribution of the sum of ``users`` independent ratios; arguments as in `ratios`."""
        one = self.ratios(side, users=users, width=width, tail=0.5 * tail)
        return power(one, users, side, width=width, tail=0.5 * tail)

    @abstractmethod
    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of ``H_alpha(P‖Q)`` of one message, or of ``H_alpha(Q‖P)``; epsilon >= 0."""

    def below(self, log_ratio: float) -> float:
        """Upper bound of the Q-probability of ratios with no larger logarithm."""
        return 1.0


@dataclass(frozen=True)
class MeanRatioLoss(OrderedLoss):
    """Privacy loss of the pair whose ratio is the mean of ``users`` ratios.

    Attributes:
        source: distribution of one ratio.
        users: number n of messages.
        fraction: probability g that the target takes part, in (0, 1].
    """

    source: RatioSource
    users: int
    fraction: float = 1.0

    @property
    def largest(self) -> float:
        """Upper bound of the losses of either order, nats; inf if there is none."""
        top = self.source.largest
        if top > 600.0:  # e^top is near the end of doubles
            return math.inf
        found = rounded(math.log1p(self.fraction * math.expm1(top)), ELEMENTARY)
        return found * (1.0 + roundings(16))

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        spread = self.source.deviation / math.sqrt(self.users)
        return max(math.log1p(self.fraction * min(spread, 1e300)), 1e-300)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        if self.largest <= epsilon < math.inf:
            return 0.0
        upper = side is Bound.PESSIMISTIC
        if epsilon == math.inf and not (upper or self.swapped):
            return self._certain
        known = self._without_law(epsilon, side)
        if known is not None:
            return known
        if self.source.largest == math.inf:
            effort = effort.single  # cells decide the width there
        law = _law(self.source, self.users, side, effort)
        total = self._infinite(law) if upper else 0.0
        ratios = self._ratios(law)
        terms = ratios.below(epsilon) if self.swapped else ratios.above(epsilon)
        total += rounded(float(np.sum(law.mass * terms.positive(upper=upper))), 8)
        if upper:
            total = raised(total, pairwise_sum(own=8)) + MEAN_RATIO.subnormal
            # with all other messages revealed; a target that may not take part is exposed less
            alone = self.fraction * self.source.alone(epsilon, side, self.swapped)
            alone *= 1.0 + roundings(8)
            return min(total, alone, self._pointed_out(epsilon, side), 1.0)
        total = max(total * (1.0 - pairwise_sum(own=8)) - MEAN_RATIO.subnormal, 0.0)
        if not self.swapped:
            total = max(total + self._certain, self._pointed_out(epsilon, side))
        return min(total, 1.0)

    @property
    def _certain(self) -> float:
        """Lower bound of the P-probability of what Q never leads to."""
        return self.fraction * self.source.infinite * (1.0 - roundings(ELEMENTARY + 4))

    def _ratios(self, law: SumLaw) -> Ratios:
        """The ratio ``1 + g (mean - 1)`` of each value of the sum."""
        mean = rounded(law.value / self.users, 3)
        part, gain = self.fraction * mean, self.fraction * (mean - 1.0)
        # the quotient and the product round, and a sum in between
        error = product(law.moved, roundings(4))
        value = (1.0 - self.fraction) + part
        return Ratios(value, gain, error, error * (part + np.abs(gain)))

    def _without_law(self, epsilon: float, side: Bound) -> float | None:
        """Bound of delta where one message outweighs all others, without any law; else None.

        In the order (Q, P) that is where it is below `MEAN_RATIO.sure` times that of the other
        order.
        """
        forward = replace(self, swapped=False)
        least = forward._pointed_out(epsilon, Bound.OPTIMISTIC)
        if self.swapped:
            if least == 0.0:
                return None
            # no message may have a ratio above t / alpha
            log_ratio = math.log(self.users) - math.log(self.fraction) - epsilon
            most = self.source.below(log_ratio) ** self.users
            if most > MEAN_RATIO.sure * least:
                return None
            return most if side is Bound.PESSIMISTIC else 0.0
        most = forward._pointed_out(epsilon, Bound.PESSIMISTIC)
        if most > (1.0 + MEAN_RATIO.sure) * least:
            return None
        return most if side is Bound.PESSIMISTIC else least

    def _pointed_out(self, epsilon: float, side: Bound) -> float:
        """Bound of ``H_alpha(P‖Q)`` for large alpha, where one message outweighs all others.

        With ``t = n / g`` the mean is ``(X_1 + R) / t``, where under P the target's ratio is X_1
        but for a probability 1 - g. R has the mean t under Q at most, so that it is above ``eta
        alpha t`` with probability ``1 / (eta alpha)`` at most, and below that the divergence is
        that of X_1 alone at ``(1 - eta) alpha t``. From below, the mean is at least ``X_i / t``
        for each i, and two of them are above ``alpha t`` at once with probability ``1 / alpha``
        at most, given one that is.
        """
        if self.swapped or epsilon > 1e300:
            return 1.0 if side is Bound.PESSIMISTIC else 0.0
        slack = roundings(8)
        alone = rounded(epsilon + math.log(self.users) - math.log(self.fraction), 4)
        if side is Bound.OPTIMISTIC:
            least = self.source.alone(alone * (1.0 + slack), side)
            least = rounded(self.fraction * least, 4)
            return max(least * (1.0 - math.exp(-epsilon) - slack), 0.0)
        one = self.fraction * self.source.alone(alone, side)
        # about the best share: it adds as much to one message as to what is above it
        eta = math.sqrt(math.exp(-epsilon) / max(one, LIMITS.underflow))
        eta = max(eta, UNIT_ROUNDOFF)
        if eta > 0.5:
            return 1.0
        point = max((alone - eta * (1.0 + eta)) * (1.0 - slack), 0.0)
        one = self.fraction * self.source.alone(point, side)
        return min(rounded(one + math.exp(-epsilon) / eta, 4) * (1.0 + slack), 1.0)

    def _infinite(self, law: SumLaw) -> float:
        """Bound of the probability left out, under P or, if swapped, under Q."""
        if self.swapped:
            return law.lost
        return self.fraction * law.lost_gain + (1.0 - self.fraction) * law.lost

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """Each value of the mean as an atom."""
        law = _law(self.source, self.users, side, effort)
        gain = self.fraction * (law.value / self.users - 1.0)
        # without cancellation near 0
        ratio = 1.0 - self.fraction + self.fraction * law.value / self.users
        with np.errstate(divide="ignore"):
            loss = np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), np.log(ratio))
        loss, mass = rounded(loss, ELEMENTARY), rounded(law.mass * ratio, 4)
        slack = roundings(ELEMENTARY + 4)
        own = product(slack, law.moved)  # a ratio that is off is as much of P off
        if self.swapped:
            loss, mass, own = -loss, law.mass, slack
        lost, certain, upper = self._infinite(law), self._certain, side is Bound.PESSIMISTIC
        nothing = ratio <= 0.0  # to which P never leads
        if self.swapped:
            never = rounded(float(law.mass[nothing].sum()), 4)
            certain = never * (1.0 - slack)
            lost += never * (1.0 + slack)
        mass, loss = mass[~nothing], loss[~nothing]
        order = slice(None, None, -1 if self.swapped else 1)  # of ascending losses
        mass, loss = outwards(mass[order], own, upper=upper), loss[order]
        if upper:
            mass = _capped(mass)
        elif self.source.complete:
            mass = _completed(mass, 1.0 - lost)
        return PldAtoms(
            side=side,
            mass=mass,
            loss=loss,
            infinite=lost + MEAN_RATIO.subnormal if upper else certain,
            truncated=max(lost - certain, 0.0),
            round_off=abs(float(law.mass.sum()) + law.lost - 1.0) + slack,
            loss_error=law.moved + slack * float(np.max(np.abs(loss), initial=1.0)),
        )


def _capped(mass: Array) -> Array:
    """Masses of which no more than 1 in all is meant, without what is too much.

    Each may be too large by rounding, not all of them at once. It is taken from the smallest
    losses, the first ones: no law of at most these masses, and of 1 in all, has larger losses.
    """
    error = sequential_sum(float(mass.size), own=8)
    # both sums are off by as much
    excess = rounded(float(mass.sum()), mass.size) * (1.0 - 2.0 * error) - 1.0
    if excess <= 0.0:
        return mass
    below = rounded(np.cumsum(mass), -mass.size)
    return np.asarray(np.clip(below - excess, 0.0, mass))


def _completed(mass: Array, total: float) -> Array:
    """Masses that are too small by rounding, with what is missing at the smallest loss."""
    # of the sum, of the total and of what follows, none of which is more than the total
    error = sequential_sum(float(mass.size), own=8)
    missing = total * (1.0 - error) - rounded(float(mass.sum()), -mass.size)
    if missing <= 0.0 or mass.size == 0:
        return mass
    return np.append(rounded(mass[0] + missing, 3), mass[1:])


def _law(source: RatioSource, users: int, side: Bound, effort: Effort) -> SumLaw:
    """Distribution of the sum of ratios, its tail and cells rounded so that calls can share it."""
    tail = effort.kept_tail
    # as many cells for deeper tails, whose losses are as much larger
    square = MEAN_RATIO.least_width**2 * max(-math.log10(tail) / MEAN_RATIO.shallow, 1.0)
    if effort.resolution < MEAN_RATIO.fine:
        square *= 0.25
    # each addition adds about width^2 / 6 to the relative variance
    width = math.sqrt(max(6.0 * effort.resolution / additions(users), square))
    if users == 1:
        width = MEAN_RATIO.alone
    return _remembered(source, users, side, tail, width)


@lru_cache(maxsize=32)
def _remembered(source: RatioSource, users: int, side: Bound, tail: float, width: float) -> SumLaw:
    return source.sums(side, users=users, width=width, tail=tail)
