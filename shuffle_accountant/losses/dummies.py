"""Privacy losses of counts to which dummies were added.

A category's count is D without the target's message and D + 1 with it, which the shuffler keeps
with probability beta. With ``r(c) = P(D = c - 1)/P(D = c)`` the likelihood ratio of a count with
and without the target is ``u(c) = 1 - beta + beta r(c)``. Where the target's value a is replaced by
b, the counts of a and b are independent and change both, so the loss is the sum of two independent
ones: ``log u(C)`` for the count C of a, with the message, and ``-log u(C)`` for the count of b,
without it. The second is the first in reverse order; the pair of both is symmetric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.counts import CountTable, count_table
from shuffle_accountant.losses.settings import COUNTS
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    logarithm,
    outwards,
    pairwise_sum,
    product,
    roundings,
    sequential_sum,
)
from shuffle_accountant.randomizers.count_laws import CountLaw


@dataclass(frozen=True)
class ReplacedValue(ProductLoss):
    """The loss of two counts, of which one gains the target's message and the other loses it."""

    @property
    def reversed(self) -> ReplacedValue:
        """The loss of (Q, P), which is the same: exchanging the categories exchanges P and Q."""
        return self

    @property
    def exact(self) -> bool:
        """Whether `delta` is a sum over all pairs of counts: at most `COUNTS.most_listed`."""
        first, second = (_table(part, Bound.PESSIMISTIC).losses.size for part, _ in self.parts)
        return first * second <= COUNTS.most_listed

    def infinite(self, side: Bound) -> float:
        """One minus the chance that neither count has an infinite loss, without cancellation."""
        first, second = (_table(part, side).infinity_mass for part, _ in self.parts)
        return first + second * (1.0 - first)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of delta at epsilon >= 0: a sum of positive terms over pairs of counts."""
        if not self.exact:
            return super().delta(epsilon, side, effort)
        upper = side is Bound.PESSIMISTIC
        first, second = (_table(part, side) for part, _ in self.parts)
        total = self.infinite(side)
        if epsilon < math.inf:
            # sums of losses round, relative to their size, and so does their distance to epsilon
            reach = sum(float(np.max(np.abs(one.losses), initial=0.0)) for one in (first, second))
            moved = roundings(3) * (reach + epsilon)
            total += _pair_sum(first, second, epsilon - moved if upper else epsilon + moved)
        total = rounded(total, 2 * ELEMENTARY)
        total = outwards(total, pairwise_sum(own=2 * ELEMENTARY), upper=upper)
        return min(max(total, 0.0), 1.0)


def dummy_loss(law: CountLaw, keep: float, *, categories: int) -> PrivacyLoss:
    """The loss of one user's value being replaced.

    Args:
        law: of the dummies of one category.
        keep: probability beta that the user's message is counted, in (0, 1].
        categories: with one category, the message is replaced by none; else by another's.

    Raises:
        ValueError: a law with too many counts that matter.
    """
    one = _single(law, keep)
    return one if categories == 1 else ReplacedValue(((one, 1), (one.reversed, 1)))


def infinite_mass(loss: PrivacyLoss) -> tuple[float, float]:
    """Lower and upper end of the chance of an infinite loss, in the worse order."""
    if isinstance(loss, ReplacedValue):
        upper, lower = (
            outwards(rounded(loss.infinite(side), 3), roundings(4), upper=side is Bound.PESSIMISTIC)
            for side in Bound
        )
        return lower, min(upper, 1.0)
    orders = loss, loss.reversed
    upper, lower = (max(_table(one, side).infinity_mass for one in orders) for side in Bound)
    return lower, upper


def _table(part: PrivacyLoss, side: Bound) -> PldTable:
    assert isinstance(part, TabulatedLoss)
    return part.bounds.side(side)


def _pair_sum(first: PldTable, second: PldTable, epsilon: float) -> float:
    """Sum of ``p (1 - e^(epsilon - loss))`` over pairs of atoms whose loss is above epsilon."""
    loss, mass = second.losses, second.probabilities
    rows = max(LIMITS.at_once // max(loss.size, 1), 1)
    sums = []
    for start in range(0, first.losses.size, rows):
        own, weight = first.losses[start : start + rows], first.probabilities[start : start + rows]
        lowest = int(np.searchsorted(loss, epsilon - float(own.max()), side="right"))
        gap = epsilon - own[:, None] - loss[None, lowest:]
        size = epsilon + np.abs(own[:, None]) + np.abs(loss[None, lowest:])
        gap = np.minimum(disturbed(gap, roundings(2) * size), 0.0)
        sums.append(float(np.sum(weight[:, None] * mass[None, lowest:] * -np.expm1(gap))))
    return math.fsum(sums)


@lru_cache(maxsize=64)
def _single(law: CountLaw, keep: float) -> TabulatedLoss:
    """The loss of one category's count, with the message against without."""
    table = count_table(law)
    counts, present, error = _with_message(table, keep)
    ratios = law.ratios(counts)
    ratio = rounded((1.0 - keep) + keep * ratios, law.roundings + 4.0)
    # the ratio is off by those of its terms; either may be rounded to itself
    off = roundings(law.roundings + 4.0)
    forward = [_bound(ratio, off, present, error, table.cut, side) for side in Bound]
    with np.errstate(divide="ignore"):
        inverse = 1.0 / ratio[:-1]
    backward = [
        _bound(inverse, off, table.probabilities, table.error, table.cut, side) for side in Bound
    ]
    return TabulatedLoss(LossBounds(*forward), LossBounds(*backward))


def _with_message(table: CountTable, keep: float) -> tuple[Array, Array, Array]:
    """Counts with the target's message, their probabilities, and bounds on the relative errors.

    What neighbours beyond the table's ends would add is at most what the table has cut off.
    """
    counts = np.append(table.counts, table.first + table.probabilities.size)
    without = np.append(table.probabilities, 0.0) * (1.0 - keep)
    moved = np.append(0.0, table.probabilities) * keep
    error = np.maximum(np.append(table.error, 0.0), np.append(0.0, table.error))
    return counts.astype(np.float64), rounded(without + moved, 4), error + roundings(4)


def _bound(
    ratio: Array, off: float, mass: Array, error: Array, cut: float, side: Bound
) -> PldTable:
    """The table of losses ``log ratio`` on one side; what is cut off may be infinite.

    Ratios are off by a share of ``off``, their probabilities ``mass`` by ``error``.
    """
    upper = side is Bound.PESSIMISTIC
    never = np.isinf(ratio)  # the neighbour never sends it
    infinite = rounded(float(np.sum(mass[never])) + (cut if upper else 0.0), 4)
    slack = product(float(np.max(error[never], initial=0.0)), pairwise_sum(own=4))
    infinite = outwards(infinite, slack, upper=upper)
    seen = ~never & (mass > 0.0) & (ratio > 0.0)  # a ratio of 0 has no mass under P
    log = rounded(np.log(ratio[seen]), ELEMENTARY)
    shift = logarithm(log, off) + 2.0**-1000
    losses = log + shift if upper else log - shift
    order = np.argsort(losses, kind="stable")  # at once, where they only rise or only fall
    losses, mass, error = losses[order], mass[seen][order], error[seen][order]
    firsts = np.flatnonzero(np.diff(losses, prepend=-math.inf))
    most = float(np.diff(firsts, append=losses.size).max(initial=1))
    # each mass is moved by what its sum with those of equal losses is rounded by as well
    masses = outwards(mass, product(error, sequential_sum(most, own=4)), upper=upper)
    together = rounded(np.add.reduceat(masses, firsts) if firsts.size else masses, most)
    together = np.minimum(together, 1.0)
    return PldTable(losses[firsts], together, infinity_mass=min(infinite, 1.0))
