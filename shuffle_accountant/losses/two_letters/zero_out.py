"""One target with two letters among draws of its own null law.

The target's message is P or Q, Q = (0, s, t, delta0) with ``s = (1 - delta0)/(1 + E)``,
``t = E s`` and ``E = e^eps0``, P the same backwards; the others are J further draws of Q, J
binomial. In a bag of K = J + 1 draws of Q let L be those of the last letter and a those of the
second, binomial among M = K - L. The likelihood ratio of P is ``r(a) = (a E + (M - a)/E)/K``, of
mean M/K, so with de Moivre's identity for first moments

    E (r - c)_+ = f(i) (i (E - 1)/K - R (c - M/K)),   i the first a with r(a) > c,

f the probabilities of a and ``R f(i)`` their sum from i on; likewise below. P has its first letter
besides, of infinite loss, with probability delta0.

Each other user is a draw of Q with chance ``e^-eps0`` only up to ``eta = e^-eps0 delta0``, for
which ``(1 + alpha) eta`` is charged. Nor is the round worse than the target alone. The profile is
the lower convex envelope of both bounds; without delta0 it is the first one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.profile import (
    below_chords,
    polygon_atoms,
    whole_losses,
    whole_places,
    whole_profile,
)
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.decoys.counts import bulk
from shuffle_accountant.losses.decoys.decoy_counts import Decoys, count_law, joined
from shuffle_accountant.losses.divergence import HOCKEY_STICK, Divergence
from shuffle_accountant.losses.two_letters.null_bags import BagCounts, chances
from shuffle_accountant.numerics.binomial import (
    CHANCE,
    log_pmf,
    log_pmf_error,
    tail_ratio_error,
    upper_tail_ratio,
)
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.hockey_stick import Difference, difference_of
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    exponential,
    outwards,
    product,
    roundings,
    sequential_sum,
)

__all__ = ["LARGEST_EPS0", "ZeroOutLoss"]

LARGEST_EPS0 = 300.0
"""Largest eps0, nats: with larger ones the others hide nothing."""

# Largest number of blocks of J (times values of L) for delta at a single epsilon.
_MOST_PAIRS = 400_000
# Largest number of counts of letters, over all blocks of J and values of L, that are added up for a
# profile; and the number of them that takes as long as one point of the profile in one block.
_MOST_COUNTS, _COUNTS_PER_PAIR = 1 << 20, 32
# Fewest points of the profile; their distance near 0, in deviations times sqrt(resolution); and the
# number of deviations from which on they are further apart.
_FEWEST, _STEP, _CENTRE = 48, 1.4, 2.5
# Largest number L of last letters that is summed over.
_MOST_LAST = 64
_SUBNORMAL = 1e-300
# Blocks of J are wider by one over this power of their probability relative to the likeliest.
_SHARE = 0.25
# The letters' chances are off by some roundings, not by one.
_OFF = 4.0


@dataclass(frozen=True)
class ZeroOutLoss:
    """Privacy loss of a round whose users' messages are close to one null distribution.

    Attributes:
        eps0: epsilon of that closeness, nats, in (0, `LARGEST_EPS0`].
        delta0: delta of that closeness, in [0, 1).
        others: number of other users.
        swapped: whether P and Q are exchanged.
    """

    eps0: float
    delta0: float
    others: int
    swapped: bool = False

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.eps0 if self.delta0 == 0.0 else math.inf

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats: that of the mean of K ratios."""
        count = 1.0 + self.others * math.exp(-self.eps0)
        spread = math.log1p(min(4.0 * math.sinh(0.5 * self.eps0) ** 2 / count, 1e300))
        return min(math.sqrt(spread), self.eps0)

    @property
    def reversed(self) -> ZeroOutLoss:
        """The loss of (Q, P)."""
        return replace(self, swapped=not self.swapped)

    @property
    def divergence(self) -> Divergence:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    @property
    def charge(self) -> float:
        """Sum of the others' eta."""
        return self.others * math.exp(-self.eps0) * self.delta0

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "binomial"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0."""
        if epsilon >= self.eps0:  # the target's own probability of an infinite loss
            return self.delta0
        order, where = int(self.swapped), np.array([epsilon])
        return float(np.min(_bounds(self, where, (order,), side, effort.tail, effort.resolution)))

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """One atom for each point of the profile that is on its envelope."""
        atoms = _envelope(self, side, effort.tail, effort.resolution)
        edges(float(np.max(np.abs(atoms.loss), initial=0.0)))  # whether such a grid is allowed
        return atoms


@lru_cache(maxsize=16)
def _envelope(loss: ZeroOutLoss, side: Bound, tail: float, resolution: float) -> PldAtoms:
    # both are rounded to a few values, so that calls share what takes seconds
    tail = max(10.0 ** (4 * math.floor(math.log10(tail) / 4)), 1e-288)
    resolution = 4.0 ** math.floor(math.log(resolution, 4.0))
    points = _points(loss, resolution)
    one_way = replace(loss, swapped=False)
    upper = side is Bound.PESSIMISTIC
    order = (1, 0) if loss.swapped else (0, 1)
    high = _whole(_table(one_way, Bound.PESSIMISTIC, tail, resolution), points, order)
    where = whole_losses(points)
    place = whole_places(where)
    limit = loss.delta0
    # what is below the tail is not worth a window that reaches there
    if upper:
        value = high.min(axis=0)
        far = (where > 0.0) & (value - limit <= 2.0 * tail)
        if far.any():
            last = int(np.argmax(far))
            place, where, value = place[: last + 1], where[: last + 1], value[: last + 1]
        near = (where >= 0.0) | (value > 2.0 * tail)
        near[0] = True
        place, where, value = place[near], where[near], value[near]
        # nothing finite is beyond the largest loss
        value[-1] = limit if not far.any() else max(value[-1], limit)
        # that an infinite loss has a probability is no matter of the tails
        atoms = polygon_atoms(place, value, where, float(value[-1]), side)
        return replace(atoms, truncated=max(float(value[-1]) - limit, min(tail, limit)))
    low = _whole(_table(one_way, side, tail, resolution), points, order)
    value = below_chords(place, np.minimum(low, high), high, where).min(axis=0)
    # below 0 there is nothing but (1 - alpha)_+
    floor, lowest = np.where(where > 0.0, limit, 0.0), np.where(where > 0.0, limit, -tail)
    value = np.where(value - floor <= 2.0 * tail, np.minimum(value, lowest), value)
    value[0] = 0.0
    value[-1] = min(value[-1], limit)
    return polygon_atoms(place, value, where, limit, side)


@lru_cache(maxsize=8)
def _table(loss: ZeroOutLoss, side: Bound, tail: float, resolution: float) -> Array:
    """The bounds at all points, for both orders."""
    return _bounds(loss, _points(loss, resolution), (0, 1), side, tail, resolution)


def _whole(bounds: Array, points: Array, order: tuple[int, int]) -> Array:
    first, second = order
    return whole_profile(points, bounds[:, first], bounds[:, second])


def _points(loss: ZeroOutLoss, resolution: float) -> Array:
    """The profile's points: about equally far apart near 0, further and further beyond."""
    step = _STEP * math.sqrt(resolution) * loss.deviation
    centre = max(_CENTRE * loss.deviation, 4.0 * step)
    places = [0.0]
    while places[-1] < loss.eps0:
        places.append(places[-1] + step * max(1.0, places[-1] / centre) ** 1.5)
    few = np.linspace(0.0, loss.eps0, _FEWEST)
    every = np.union1d(np.array(places[:-1]), few)
    every = every[np.append(True, np.diff(every) > 1e-9 * loss.eps0)]
    every[-1] = loss.eps0 * (1.0 + roundings(16))
    return np.asarray(every)


def _bounds(
    loss: ZeroOutLoss,
    points: Array,
    orders: tuple[int, ...],
    side: Bound,
    tail: float,
    resolution: float,
) -> Array:
    """The bounds (rows) of some orders (columns) at ``e^points``; none is below the envelope."""
    upper = side is Bound.PESSIMISTIC
    every = Decoys(loss.others, math.exp(-loss.eps0), -math.expm1(-loss.eps0)).moved(side)
    law = count_law((every,), side, tail=0.5 * tail, resolution=resolution)
    most = _most_last(law.high, loss.delta0, tail)
    allowed, each = float(_MOST_PAIRS), float(points.size)
    if points.size > 1:
        width = BagCounts(loss.eps0, int(law.high[-1]) + 1, tail).width
        allowed, each = float(_MOST_COUNTS), min(float(width), _COUNTS_PER_PAIR * each)
    # narrower where J is likely: what is rare weighs little in a profile
    share = 0.0 if points.size == 1 else _SHARE
    while law.low.size > 1 and law.low.size * each * (1.0 + most) > allowed:
        resolution = max(1.5 * resolution, 1e-6)
        law = joined(law, side, resolution, share)
    number = law.low if upper else law.high
    mixed = _mixture(loss, points, orders, number + 1.0, law.weight, side, tail)
    missing = law.missing if upper else 0.0
    if loss.delta0 == 0.0:
        return np.clip(mixed + missing, 0.0, 1.0)[None]
    alone = _mixture(loss, points, orders, np.ones(1), np.ones(1), side, tail)
    charge = rounded(loss.charge * (1.0 + np.exp(points)), 3 * ELEMENTARY)
    charge = outwards(charge, roundings(40), upper=upper)
    found = np.array([mixed + missing + charge, alone])
    return np.minimum(found, 1.0) if upper else found  # no divergence is larger


def _mixture(
    loss: ZeroOutLoss,
    points: Array,
    orders: tuple[int, ...],
    count: Array,
    weight: Array,
    side: Bound,
    tail: float,
) -> Array:
    """Divergences of some orders, shape (orders, points), K being the counts with their weights."""
    upper = side is Bound.PESSIMISTIC
    total = np.zeros((len(orders), points.size))
    most = _most_last(count, loss.delta0, tail)
    bags = BagCounts(loss.eps0, int(count.max()), tail / (1.0 + most))
    listed = points.size > 1 and bags.width <= _COUNTS_PER_PAIR * points.size
    for last in range(most + 1):
        chance = np.ones(count.size)
        if loss.delta0 > 0.0:
            logs = log_pmf(np.minimum(last, count), count, loss.delta0, 1.0 - loss.delta0)
            error = exponential(log_pmf_error(last, count, loss.delta0, logs))
            chance = np.where(last <= count, outwards(np.exp(logs), error, upper=upper), 0.0)
        if listed:
            total += bags.profiles(points, count, weight * chance, float(last), side)[list(orders)]
            continue
        for row, order in zip(total, orders, strict=True):
            part = _given_last(loss.eps0, points, count, float(last), order, side)
            row += np.einsum("i,ij->j", weight * chance, part)
    total = rounded(total, most + count.size + 16)
    if upper and loss.delta0 > 0.0:
        total += _beyond(count, loss.delta0, most, tail)
    if 0 in orders:
        total[orders.index(0)] += loss.delta0
    # products of three, and all sums
    return outwards(total, sequential_sum(float(most + count.size), own=80.0), upper=upper)


def _most_last(count: Array, delta0: float, tail: float) -> int:
    """Largest number L of last letters that is summed over."""
    if delta0 == 0.0:
        return 0
    most = int(count.max())
    return min(bulk(most, delta0, 1.0 - delta0, max(tail, 1e-300))[1], _MOST_LAST)


def _beyond(count: Array, delta0: float, most: int, tail: float) -> float:
    """Upper bound of the probability of more last letters than ``most``."""
    largest = int(count.max())
    if most >= largest:
        return 0.0
    if most < _MOST_LAST:
        return max(tail, 1e-300)
    return 1.0  # the trivial bound, where L may be larger than `_MOST_LAST`


def _given_last(
    eps0: float, points: Array, count: Array, last: float, order: int, side: Bound
) -> Array:
    """One order's divergences given K = count and L = last, shape (counts, points)."""
    k = count[:, None]
    m = np.maximum(k - last, 0.0)
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    if order == 0:
        return _call(eps0, np.expm1(points), k, m, last, side)
    # E (1 - alpha r)_+ = alpha E (1/alpha - r)_+, by parity where 1/alpha is above the mean
    short = np.expm1(-points)
    above = difference_of(last / k, -short, roundings(32))  # 1/alpha less the mean
    value = np.zeros(above.value.shape)
    if np.any(above.value <= 0.0):
        value = _put(eps0, np.minimum(short, -last / k), k, m, last, side)
    if np.any(above.value > -above.error):
        call = _call(eps0, np.maximum(short, -last / k), k, m, last, side)
        value = np.where(above.value > 0.0, above.value + call, value)
        value = value + np.where(above.value > -above.error, sign * above.error, 0.0)
        value = np.maximum(value, 0.0)
    return rounded(np.exp(points), ELEMENTARY) * value


def _place(eps0: float, excess: Array, k: Array, m: Array, last: float) -> Array:
    """The a, not whole, where ``r(a) = 1 + excess``."""
    slope = 2.0 * math.sinh(eps0)
    idle = -math.expm1(-eps0)
    size = (k * np.abs(excess) + last + m * idle) / slope
    return disturbed((k * excess + last + m * idle) / slope, roundings(32) * size)


def _call(eps0: float, excess: Array, k: Array, m: Array, last: float, side: Bound) -> Array:
    """Bound of ``E (r - c)_+`` for c = 1 + excess, at or above the mean M/K."""
    s, t = chances(eps0)
    # no ratio is larger than that of all letters, which may be next to the strike
    a = np.clip(np.floor(_place(eps0, excess, k, m, last)) + 1.0, 1.0, np.maximum(m, 1.0))
    n = np.broadcast_to(np.maximum(m, 1.0), a.shape)
    logs = log_pmf(a, n, s, t)
    beyond = np.minimum(a + 1.0, n)
    rest = np.where(a < n, (n - a) / (a + 1.0) * math.exp(-eps0), 0.0)
    rest = rest * upper_tail_ratio(beyond, n, s, t)
    gain, cost = a * (math.expm1(eps0) / k), (1.0 + rest) * np.maximum(excess + last / k, 0.0)
    off = _OFF * log_pmf_error(a, n, s, logs)
    return _rounded(logs, gain, cost, off, n, excess, m >= 1.0, side)


def _put(eps0: float, excess: Array, k: Array, m: Array, last: float, side: Bound) -> Array:
    """Bound of ``E (c - r)_+`` for c = 1 + excess, at or below the mean M/K."""
    s, t = chances(eps0)
    n = np.maximum(m, 1.0)
    a = np.clip(np.ceil(_place(eps0, excess, k, m, last)) - 1.0, 0.0, n - 1.0)
    n = np.broadcast_to(n, a.shape)
    logs = log_pmf(a, n, s, t)
    beyond = np.minimum(n - a + 1.0, n)
    rest = np.where(a > 0.0, a / (n - a + 1.0) * math.exp(min(eps0, 700.0)), 0.0)
    rest = rest * upper_tail_ratio(beyond, n, t, s)
    gain = (n - a) * (-math.expm1(-eps0) / k)
    cost = (1.0 + rest) * np.maximum(-(excess + last / k), 0.0)
    off = _OFF * log_pmf_error(a, n, s, logs)
    return _rounded(logs, gain, cost, off, n, excess, m >= 1.0, side)


def _rounded(
    logs: Array,
    gain: Array,
    cost: Array,
    log_error: Array,
    n: Array,
    excess: Array,
    inside: NDArray[np.bool_],
    side: Bound,
) -> Array:
    """``e^logs (gain - cost)`` with what rounding may have moved it by.

    It decides whether a count belongs to the sum whose ratio is within some 64 roundings of ``1 +
    |excess|`` of the strike, and so adds no more than these. Of several such counts there are more
    than 1e14, of whose tail ratios more than that is allowed for.
    """
    # a tail ratio whose p and q are rounded
    moved = 40.0 + 4.0 * (CHANCE + 1.0) * np.sqrt(n)
    own = product(roundings(moved), tail_ratio_error())
    terms = difference_of(rounded(gain, moved), rounded(cost, -moved), own)
    error = terms.error + roundings(96) * (1.0 + np.abs(excess))
    upper = side is Bound.PESSIMISTIC
    value = Difference(terms.value, error).positive(upper=upper)
    # which may be multiplied by alpha
    found = outwards(np.exp(logs) * value, exponential(log_error, own=16.0), upper=upper)
    if upper:
        found = found + _SUBNORMAL
    return np.where(inside, np.maximum(found, 0.0), 0.0)
