"""What several people lose together, from the privacy profile of one.

Let h be the profile of one person's change, ``h(alpha) >= H_alpha`` in both orders and for every
alpha >= 0, and F(x) = inf_alpha (alpha x + h(alpha)), above which no test has its power at the
false positive rate x. Changing m people's data one after the other, a test of rate x has at most
the power F(x), F(F(x)), …: that of m people is at most F applied m times, and equals it for some
pair with this profile. Hence, for every alpha_1, …, alpha_m >= 0 with the product alpha,

    H_alpha <= sum over i of (alpha_1 … alpha_(i-1)) h(alpha_i).

Every such split is an upper bound, whatever it was chosen by. A lower end of the right-hand side's
least value comes from the power of F applied m times at any rates, with F from a lower end of h.
Adjacency: m changes as the profile's, in any order; for ZERO_OUT any mix of both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.settings import GROUPS, SETTINGS
from shuffle_accountant.engine.trade_off import table_of
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms, symmetric_atoms
from shuffle_accountant.losses.tabulated import LossBounds, TabulatedLoss
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    lowered,
    raised,
    roundings,
)

Ask = Callable[[Query], tuple[float, float]]
"""Both certified ends of an answer about one person."""


def group_loss(ask: Ask, query: Query, group: int, largest: float) -> TabulatedLoss:
    """Privacy loss of the pair that bounds what a group loses, good near the question.

    Args:
        ask: answers questions about one person, in the worse order.
        query: the question about the group.
        group: number m of people, >= 2.
        largest: no loss of one person is larger, nats; may be inf.
    """
    most = min(LIMITS.largest_log / group, largest)
    if query.delta is not None:
        weight = (group - 1) * ask(query)[1]
        last = ask(Query(delta=max(_share(weight) * query.delta, LIMITS.underflow)))[1]
    else:
        # points of a profile up to less than that would not differ
        last = _reach(ask, max(query.required, LIMITS.underflow), group, most)
    last = min(last, most) or most
    losses = np.linspace(0.0, last, GROUPS.points)
    if last < largest == most:
        losses = np.append(losses, largest)
    low, high = _profile(ask, losses)
    if losses[-1] == largest:
        low[-1] = high[-1] = 0.0
    bounds = LossBounds(
        upper=table_of(_above(losses, high, group)),
        lower=table_of(_below(losses, low, high, group)),
    )
    return TabulatedLoss(bounds=bounds, backward=bounds)


def _share(weight: float) -> float:
    """Points below this share of a delta have no influence, with the log of the largest weight."""
    return max(GROUPS.share * math.exp(-weight), SETTINGS.least_tail)


def _reach(ask: Ask, epsilon: float, group: int, most: float) -> float:
    """The loss of one person beyond which the profile has no influence on delta at epsilon."""
    most, last, share = min(epsilon, most), epsilon / group, _share(epsilon)
    # splits into equal alphas matter most; at much larger epsilons one person's delta is so small
    # that it takes long to compute
    while True:
        last = min(2.0 * last, most) or most
        losses = np.unique(np.linspace(0.0, last, GROUPS.points // 4))
        high = _profile(ask, losses)[1]
        table = table_of(_above(losses, high, group))
        start = table.losses > epsilon
        gain = table.probabilities[start] * -np.expm1(epsilon - table.losses[start])
        beyond = high <= share * (float(np.sum(gain)) + table.infinity_mass)
        if beyond[-1]:
            return float(losses[np.argmax(beyond)])
        if last == most:
            return most


def _profile(ask: Ask, losses: Array) -> tuple[Array, Array]:
    """Both ends of delta at the losses."""
    low, high = np.zeros(losses.size), np.zeros(losses.size)
    least: float | None = None
    laws: dict[Hashable, Any] = {}
    # the smallest delta first: what was prepared for it serves the others
    for i in range(losses.size - 1, -1, -1):
        low[i], high[i] = ask(Query(epsilon=float(losses[i]), least=least, laws=laws))
        least = low[i] if least is None and low[i] > 0.0 else least
    # a profile falls, so each point bounds the others
    return np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)


def _above(losses: Array, high: Array, group: int) -> PldAtoms:
    """The pair of laws whose profile is the lower hull of what the best splits give."""
    places, found = _splits(losses, high, group)
    return profile_atoms(places, (found, found), (found, found), 0.0, Bound.PESSIMISTIC)


def _splits(losses: Array, high: Array, group: int) -> tuple[Array, Array]:
    """Epsilons, ascending from 0, and upper bounds of the group's delta at them."""
    # lines alpha x + h(alpha), by log(alpha): 1 at alpha = 0, below 1 by exchange of the order
    count = 2 * ELEMENTARY + 4
    mirrored = rounded(-np.expm1(-losses) + np.exp(-losses) * high, count)
    mirrored = raised(mirrored, roundings(count))
    slopes = np.concatenate([[-math.inf], -losses[:0:-1], losses])
    heights = np.concatenate([[1.0], mirrored[:0:-1], high])
    corners, slopes, heights = _envelope(slopes, heights)
    values = heights[:-1] + np.exp(slopes[:-1]) * corners
    far = math.exp(-min(group * float(losses[-1]), LIMITS.largest_log))
    rates = _rates(corners, np.append(values, 1.0), np.append(corners, 1.0), group, far)
    rates = np.sqrt(rates[1:] * rates[:-1])  # inside of the segments, where one line is least
    power, (split, offset, added) = rates, np.zeros((3, rates.size))
    for _ in range(group):
        line = slopes.size - 1 - np.searchsorted(corners[::-1], power, side="right")
        with np.errstate(under="ignore"):
            slope = np.exp(slopes[line])
            offset = np.where(slope > 0.0, slope * offset, 0.0) + heights[line]
            power = np.minimum(slope * power + heights[line], 1.0)
        split, added = split + slopes[line], added + np.abs(slopes[line])
    offset = rounded(offset, (ELEMENTARY + 4.0) * group)
    offset = raised(offset, roundings((ELEMENTARY + 4.0) * group))
    # log(alpha) of a split is a rounded sum. Its bound is stated at an alpha that is certainly not
    # smaller, where it holds as well, because a profile falls
    kept = (split > -math.inf) & (split <= LIMITS.largest_log)
    split = disturbed(split[kept], lambda: group * added[kept] * budget().roundoff)
    further = np.maximum(split + roundings(2.0 * group) * added[kept], 0.0)
    start = min(math.nextafter(group * float(high[0]), math.inf), 1.0)
    if not kept.any():
        return np.zeros(1), np.array([start])
    places, first = np.unique(further[np.argsort(offset[kept])], return_index=True)
    found = np.minimum.accumulate(np.sort(np.minimum(offset[kept], 1.0))[first])
    # epsilons closer than their own rounding are merged into the last of them, where every bound
    # of the others holds, too
    apart = (SETTINGS.kinks_apart + 16.0 * group * budget().roundoff) * group * float(losses[-1])
    last = np.append(np.diff(places) > apart, True)
    places, found = places[last], found[last]
    # a profile falls by no more than alpha rises
    next_to_it = rounded(np.min(found + np.expm1(places)), ELEMENTARY + 1.0)
    next_to_it = raised(next_to_it, roundings(ELEMENTARY + 1.0))
    start = min(float(next_to_it), start)
    if places[0] <= apart:
        places, found = places[1:], found[1:]
    return np.append(0.0, places), np.append(start, np.minimum(found, start))


def _envelope(slopes: Array, heights: Array) -> tuple[Array, Array, Array]:
    """The lines that are least somewhere, by ascending slope, and where they meet, descending."""
    kept: list[tuple[float, float]] = []
    meets: list[float] = []
    for log_slope, height in zip(slopes.tolist(), heights.tolist(), strict=True):
        slope = math.exp(log_slope)
        while kept:
            before = math.exp(kept[-1][0])
            if height >= kept[-1][1] or slope <= before:
                break
            meet = (kept[-1][1] - height) / (slope - before)
            if meets and meet >= meets[-1]:
                kept.pop()
                meets.pop()
                continue
            meets.append(meet)
            break
        if not kept or (height < kept[-1][1] and slope > math.exp(kept[-1][0])):
            kept.append((log_slope, height))
    return np.array(meets), np.array([k[0] for k in kept]), np.array([k[1] for k in kept])


def _below(losses: Array, low: Array, high: Array, group: int) -> PldAtoms:
    """The pair of laws below F applied several times, from a pair below the profile."""
    atoms = profile_atoms(losses, (low, high), (low, high), 0.0, Bound.OPTIMISTIC)
    far = math.exp(-min(group * float(losses[-1]), LIMITS.largest_log))
    return symmetric_atoms(*_powers(atoms, group, far))


def _powers(atoms: PldAtoms, group: int, far: float) -> tuple[Array, Array, float]:
    """False positive rates x, lower ends of F applied several times less x, and of that at 0.

    The atoms are those of a pair below one person's profile, ``far`` is as for `_rates`.
    """
    order = np.argsort(-atoms.loss)
    loss, mass = atoms.loss[order] - atoms.loss_error, atoms.mass[order]
    count = ELEMENTARY + 4.0 + 2.0 * loss.size
    slack = roundings(count)
    # the worst errors of both are opposite
    x = raised(rounded(np.cumsum(mass * np.exp(-loss)), -count), slack)
    y = lowered(rounded(atoms.infinite + np.cumsum(mass), count), slack)
    corner = np.append(0.0, x)
    height = np.minimum(np.append(atoms.infinite, y), 1.0)
    kept = np.append(True, np.diff(corner) > 0.0)
    corner, height = corner[kept], np.maximum.accumulate(height[kept])
    rates = _rates(corner[1:], height[1:], corner[1:], group, far)
    power = np.append(rates, 0.0)
    for _ in range(group):
        power = rounded(np.interp(power, corner, height), 8.0) * (1.0 - roundings(8.0))
    power, start = power[:-1], float(power[-1])
    return rates, (rounded(power, 4.0) - rates) - roundings(4.0) * power, start


def _rates(corners: Array, heights: Array, places: Array, group: int, far: float) -> Array:
    """False positive rates to look at: the kinks of F applied several times, and many between.

    Args:
        corners: rates at which F has kinks, > 0, any order.
        heights: F at ``places``.
        places: these and further rates.
        group: how often F is applied.
        far: how much smaller the least rate of interest is than the first kink.
    """
    held = corners[corners > 0.0]
    least = max(float(held.min(initial=1.0)) * 1e-3 * far, LIMITS.underflow)
    order = np.argsort(places)
    at, value = np.append(0.0, places[order]), np.append(0.0, heights[order][: places.size])
    value = np.maximum.accumulate(value)
    found = [np.geomspace(least, 1.0, 4 * GROUPS.points), held]
    for _ in range(min(group - 1, GROUPS.followed)):
        found.append(np.interp(found[-1], value, at))
    rates = np.unique(np.concatenate(found))
    return rates[(rates >= LIMITS.underflow) & (rates <= 1.0)]
