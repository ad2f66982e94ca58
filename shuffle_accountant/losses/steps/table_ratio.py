"""Likelihood ratios of steps given as tables of privacy losses.

A table lists losses ``l = log(P/Q)`` with their P-masses, so an atom has the ratio ``e^l`` and the
Q-mass ``p e^-l``; what is left of Q is an atom of ratio 0, and what P has at infinite loss is never
sent by Q. Any pair that dominates a step will do, as long as it is one pair for both orders: the
profile that is meant is the larger of the table's own and ``(1 - alpha)_+``, which every pair of
laws has at least.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.tabulated import LossBounds, PldTable
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.doubling import SumLaw


@dataclass(frozen=True)
class TableRatio(RatioSource):
    """Distribution of a step's likelihood ratio, from tables of ``log(P/Q)`` above and below."""

    bounds: LossBounds

    @property
    def deviation(self) -> float:
        """Standard deviation of the upper table's ratio."""
        law = _law(self.bounds.upper, Bound.PESSIMISTIC)
        return max(math.sqrt(float(np.sum(law.mass * (law.value - 1.0) ** 2))), 1e-150)

    @property
    def largest(self) -> float:
        """Largest log-ratio of the upper table, nats; inf if either order has an infinite loss."""
        law = _law(self.bounds.upper, Bound.PESSIMISTIC)
        if law.lost_gain > 0.0 or law.value[0] == 0.0:
            return math.inf
        return float(np.max(np.abs(np.log(law.value)))) + law.moved

    @property
    def infinite(self) -> float:
        """P-mass of the lower table at infinite loss."""
        return self.bounds.lower.infinity_mass

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        """The table's atoms."""
        return _law(self.bounds.side(side), side)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        """Bound of the table's own profile at epsilon, of (P, Q) or, if swapped, of (Q, P)."""
        return _law(self.bounds.side(side), side).divergence(epsilon, side, swapped)


@lru_cache(maxsize=64)
def _law(table: PldTable, side: Bound) -> SumLaw:
    """Distribution of the ratio under Q, rounded to the side."""
    upper = side is Bound.PESSIMISTIC
    loss, infinite = table.losses, table.infinity_mass
    p = _capped(table.probabilities, infinite)
    loss, p = loss[p > 0.0], p[p > 0.0]
    if upper:
        infinite += table.missing
        far = loss > LIMITS.largest_log
        infinite += float(p[far].sum())
        loss, p = np.maximum(loss[~far], -LIMITS.largest_log), p[~far]
    else:
        loss, p = _from_below(np.minimum(loss, LIMITS.largest_log), p)
    ratio = rounded(np.exp(loss), ELEMENTARY)
    q = p * rounded(np.exp(-loss), ELEMENTARY)
    moved = roundings(8.0 + 2.0 * LIMITS.largest_log)
    # masses of Q are as good as the exponentials
    error = roundings(ELEMENTARY + 4.0 + 2.0 * np.abs(loss))
    noise = sequential_sum(q.size + 8)
    missing = 0.0 if upper else table.missing
    if float(q.sum()) > 1.0 + noise or missing > 0.0:
        ratio, q, error, moved = least_profile(ratio, p, q, error, missing, moved)
    # what is left of Q, if rounding does not explain it
    rest, slack = 1.0 - math.fsum(q), math.fsum(error * q)
    q = q * (1.0 + error if upper else 1.0 - error)
    if rest > slack:
        ratio, q = np.append(0.0, ratio), np.append(rest + (slack if upper else -slack), q)
    held = q > 0.0
    if not held.any():
        ratio, q, held = np.zeros(1), np.zeros(1), np.ones(1, dtype=bool)
    ratio, q = ratio[held], q[held]
    return SumLaw(ratio, q, 1, min(infinite, 1.0), 0.0, moved, float(ratio[-1]))


def _capped(p: Array, infinite: float) -> Array:
    """The masses, capped so that with the mass at infinity they sum to 1 at most.

    What is too much is taken from the lowest losses, and is exact: sums are rounded once.
    """

    def left(first: int) -> float:
        return math.fsum([1.0, -infinite, *(-p[first:])])

    if left(0) >= 0.0:
        return p
    # from there on all of them fit
    first = bisect_left(range(p.size), 0.0, key=left)
    kept = np.append(np.zeros(first), p[first:])
    kept[first - 1] = min(rounded(left(first)), float(p[first - 1]))
    return kept


def _from_below(loss: Array, p: Array) -> tuple[Array, Array]:
    """Losses too low for doubles merged with higher ones, until their mean ratio is not."""
    low = int(np.searchsorted(loss, -LIMITS.largest_log))
    if low == 0:
        return loss, p
    # relative to the lowest ratio allowed; losses much further down have all of Q
    q = p * np.exp(np.minimum(-loss - LIMITS.largest_log, 700.0))
    means = np.cumsum(p) / np.cumsum(q)
    last = min(int(np.searchsorted(means, 1.0)), p.size - 1)
    merged = max(math.log(float(means[last])), 0.0) - LIMITS.largest_log
    return np.append(merged, loss[last + 1 :]), np.append(float(p[: last + 1].sum()), p[last + 1 :])


def least_profile(
    ratio: Array, p: Array, q: Array, error: Array, missing: float, moved: float
) -> tuple[Array, Array, Array, float]:
    """The pair whose profile is the larger of some atoms' and ``(1 - alpha)_+``.

    From where the atoms' profile ``S1 - alpha S`` crosses ``1 - alpha`` it is their own; all of Q
    that is below is one atom, at the crossing.

    Args:
        ratio: likelihood ratios, ascending, shape (m,).
        p: their P-masses.
        q: their Q-masses.
        error: bounds on the relative errors of the Q-masses.
        missing: P-mass that is in none of the ratios, nor infinite.
        moved: bound on the relative error of the ratios.

    Returns:
        ``(ratio, q, error, moved)`` of the pair.
    """
    # with relative accuracy
    below_p = rounded(np.append(0.0, np.cumsum(p)) + missing, p.size)
    above_q = rounded(np.append(np.cumsum(q[::-1])[::-1], 0.0), -p.size)
    over = ratio * (1.0 - above_q[:-1]) > below_p[:-1]
    first = int(np.argmax(over)) if over.any() else p.size
    q_below = 1.0 - float(above_q[first])
    p_below = float(below_p[first])
    if not (q_below > 0.0 and p_below > 0.0):
        return ratio[first:], q[first:], error[first:], moved
    noise = sequential_sum(p.size + 8)
    return (
        np.append(p_below / q_below, ratio[first:]),
        np.append(q_below, q[first:]),
        np.append(noise / q_below, error[first:]),
        moved + 2.0 * noise / q_below,
    )
