"""The loss of shuffled batches of Gaussian steps: random allocation among null clones.

The profile is bounded by ``E_K[H_alpha(1 of K)] + (1 + alpha) beta`` for every p in (0, 1), with K
= 1 + Bin(T - 1, p) and beta from the total variation charged (see `reductions.clones`), and by
the Gaussian mechanism's. What is enclosed is the lower convex envelope of the least of these, with
p from a fixed lattice and K rounded down to seven binary digits (both only raise the bound): the
profile of a pair of laws, which composes.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import (
    below_chords,
    polygon_atoms,
    whole_losses,
    whole_places,
    whole_profile,
)
from shuffle_accountant.losses.base import CellEdges, Effort, OrderedLoss, divergence_of
from shuffle_accountant.losses.counts import block_masses, bulk
from shuffle_accountant.losses.settings import NULL_CLONES
from shuffle_accountant.losses.steps.gaussian import (
    GaussianRatio,
    gaussian_profile,
    gaussian_profiles,
    profile_end,
)
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.compiled import thread_count
from shuffle_accountant.numerics.hockey_stick import difference_of
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    lowered,
    outwards,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.family import SumFamily, rounded_count, rounded_counts
from shuffle_accountant.sums.settings import DOUBLING

__all__ = ["NullCloneLoss", "charge"]


def charge(sigma: float, clones: int, log_odds: float, side: Bound) -> float:
    """Bound of beta: total variation charged for replacing ``clones`` steps by null clones.

    With ``p = 1 / (1 + e^-log_odds)`` and ``h = log(1/p)`` a step is within total variation
    ``gamma = p H`` of a mixture that has weight p on the null step, H the Gaussian mechanism's
    divergence at ``alpha = e^h``; beta is ``1 - (1 - gamma)^clones``.
    """
    return float(charges(sigma, clones, np.full(1, log_odds), side)[0])


def charges(sigma: float, clones: int, log_odds: Array, side: Bound) -> Array:
    """`charge` at many log-odds, shape (m,)."""
    h = np.log1p(np.exp(-log_odds))
    gamma = rounded(np.exp(-h), ELEMENTARY + 4.0 * h) * gaussian_profiles(sigma, h, side)
    beta = -np.expm1(clones * np.log1p(-np.minimum(gamma, BELOW_ONE)))
    # beta is concave in gamma, and off by no larger a share
    error = roundings(40.0 + 4.0 * h)
    beta = rounded(beta, 2 * ELEMENTARY)
    return np.asarray(np.minimum(outwards(beta, error, upper=side is Bound.PESSIMISTIC), 1.0))


@dataclass(frozen=True)
class NullCloneLoss(OrderedLoss):
    """Privacy loss of one epoch of shuffled batches.

    Attributes:
        sigma: deviation of the noise of a step, >= `losses.settings.GAUSSIAN.least_sigma`.
        steps: number T of batches, >= 2.
    """

    sigma: float
    steps: int

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats: that of an allocation among the clones that cost 1e-3."""
        return _deviation(self.sigma, self.steps)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha(P‖Q)``, alpha = e^epsilon, epsilon >= 0: a sum over the atoms."""
        # no sums are needed where the bound without any hiding is small enough
        alone = gaussian_profile(self.sigma, epsilon, Bound.PESSIMISTIC)
        if alone <= max(effort.tail, LIMITS.underflow):
            return alone if side is Bound.PESSIMISTIC else 0.0
        tail = effort.single.kept_tail
        atoms = _envelope(self.sigma, self.steps, side, tail, NULL_CLONES.width, self.swapped)
        return divergence_of(atoms, epsilon)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """One atom for each point of the profile that is on its envelope."""
        atoms = _envelope(
            self.sigma, self.steps, side, effort.kept_tail, NULL_CLONES.width, self.swapped
        )
        edges(float(np.max(np.abs(atoms.loss), initial=0.0)))  # whether such a grid is allowed
        return atoms


def _exchanged(value: Array, loss: Array, side: Bound) -> Array:
    """The profile of (Q, P) above ``(1 - alpha)_+``: ``alpha k(1/alpha)`` with k that of (P, Q).

    Values are those of `whole_profile`.
    """
    found = rounded(value[:0:-1] * np.exp(loss[1:]), ELEMENTARY)
    error = roundings(ELEMENTARY + 4) * np.abs(found)
    return np.append(0.0, found + error if side is Bound.PESSIMISTIC else found - error)


@lru_cache(maxsize=256)
def _deviation(sigma: float, steps: int) -> float:
    """Rough deviation of the loss, nats: the mean of as many ratios as clones at a small charge."""
    low, high = math.log(NULL_CLONES.fewest / steps), math.log(steps / NULL_CLONES.fewest)
    for _ in range(40):
        middle = 0.5 * (low + high)
        cheap = charge(sigma, steps - 1, middle, Bound.PESSIMISTIC) < 1e-3
        low, high = (middle, high) if cheap else (low, middle)
    count = 1.0 + (steps - 1) / (1.0 + math.exp(-low))
    log_variance = math.log(math.expm1(min(1.0 / sigma**2, 600.0))) - math.log(count)
    spread = math.log1p(math.exp(min(0.5 * log_variance, 300.0)))
    return min(spread, 1.0 / sigma)


@lru_cache(maxsize=16)
def _envelope(
    sigma: float, steps: int, side: Bound, tail: float, width: float, swapped: bool
) -> PldAtoms:
    """The pair whose profile is the envelope, or one above or below it; or that pair exchanged."""
    plan = _plan(sigma, steps, tail)
    loss = whole_losses(plan.losses)
    place = whole_places(loss)
    value = _gaussian(sigma, plan.losses, side)
    if plan.log_odds.size:
        # errors of all doublings add up
        mixed = _mixtures(sigma, steps, side, tail, width / math.sqrt(steps.bit_length()))
        least = np.minimum(value, mixed)
        if side is Bound.OPTIMISTIC:
            least = np.where(_far_below(sigma, plan.losses, mixed), mixed, least)
        value = least
    if swapped:
        value = _exchanged(value, loss, side)
    if side is Bound.PESSIMISTIC:
        return polygon_atoms(place, value, loss, float(value[-1]), side)
    value[-1] = min(value[-1], 0.0)  # a chord to the axis is below the profile as well
    return polygon_atoms(place, value, loss, 0.0, side)


def _points(rough: Array, bound: Array) -> Array:
    """The profile's points, from a rough look at it.

    Where the profile falls like ``e^(-lam loss)`` a chord over a step s is too high by a share of
    ``(lam + 1) lam s^2 / 8``, which moves epsilon by ``(lam + 1) s^2 / 8``.
    """
    slope = -np.diff(np.log(np.maximum(bound, 1e-300))) / np.diff(rough)
    middle = 0.5 * (rough[1:] + rough[:-1])
    # the loss is no less spread out than its profile falls near 0
    size = np.maximum(middle, 1.0 / max(float(slope[0]), 1e-300))
    step = np.sqrt(8.0 * NULL_CLONES.chord * size / (np.maximum(slope, 0.0) + 1.0))
    number = np.append(0.0, np.cumsum(np.diff(rough) / step))
    count = math.ceil(number[-1]) + 1
    return np.interp(np.linspace(0.0, number[-1], count + 1), number, rough)


def _gaussian(sigma: float, losses: Array, side: Bound) -> Array:
    """The Gaussian mechanism's profile at the points, or a polygon below it."""
    ends = (gaussian_profiles(sigma, losses, end) for end in Bound)
    high, low = (whole_profile(losses, end, end) for end in ends)
    if side is Bound.PESSIMISTIC:
        return high
    loss = whole_losses(losses)
    return below_chords(whole_places(loss), low, high, loss)


def _far_below(sigma: float, losses: Array, mixed: Array) -> NDArray[np.bool_]:
    """Where a polygon through the mixtures is below the Gaussian mechanism's profile on both steps.

    Points are chosen for the least bound, and may be too far apart for chords of another one. The
    profile rises up to alpha = 1 and falls from there on, so a step's ends bound the whole step.
    """
    low = gaussian_profiles(sigma, losses, Bound.OPTIMISTIC)
    low = whole_profile(losses, low, low)
    step = np.minimum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])
    return np.asarray(np.append(False, step) & np.append(step, False))


@dataclass(frozen=True, eq=False)
class _Plan:
    """Grid on which the bound is computed, all ascending.

    Attributes:
        losses: the profile's points, nats, from 0.
        log_odds: log-odds of the p that count, on the lattice; empty if none does.
        counts: numbers K of null places from 1, some of those on the lattice of `rounded_counts`.
    """

    losses: Array
    log_odds: Array
    counts: Array


@lru_cache(maxsize=16)
def _plan(sigma: float, steps: int, tail: float) -> _Plan:
    """The plan: losses, p and K that matter, chosen from rough values of the bound."""
    end = min(profile_end(sigma, 0.1 * tail), LIMITS.largest_log)
    # distances are a share of the loss and its deviation
    near = _deviation(sigma, steps)
    last = math.log1p(end / near)
    count = math.ceil(last / NULL_CLONES.rough_step)
    rough = near * np.expm1(np.linspace(0.0, last, count + 1))
    single = gaussian_profiles(sigma, rough, Bound.PESSIMISTIC)
    nothing = _Plan(_points(rough, single), np.zeros(0), np.ones(1))
    first_odds = math.floor(math.log(NULL_CLONES.fewest / steps) / NULL_CLONES.odds_step)
    lattice: Array = NULL_CLONES.odds_step * np.arange(first_odds, 1.0 - first_odds)
    paid = charges(sigma, steps - 1, lattice, Bound.PESSIMISTIC)
    paid = paid[2.0 * paid < single[0]]
    lattice = lattice[: paid.size]
    if lattice.size == 0:
        return nothing
    counts, divergence = _rough_divergences(sigma, steps, rough, tail, lattice[-1])
    apart = 4  # every fourth p shows which of them count
    weights = np.array(
        [_weights(steps, u, counts, Bound.PESSIMISTIC, tail) for u in lattice[::apart].tolist()]
    )
    bound = weights @ divergence + np.multiply.outer(paid[::apart], 1.0 + np.exp(rough))
    best, least = apart * bound.argmin(axis=0), bound.min(axis=0)
    useful = least < single
    seen = np.minimum(least, single) > tail
    if not (useful & seen).any():
        return nothing
    losses = _points(rough, np.minimum(least, single))
    # without any clones where these are of no use
    low = max(int(best[useful & seen].min()) - apart, 0) if useful[seen].all() else 0
    # up to where the charge alone is more than the bound
    costly = np.flatnonzero(2.0 * paid > 1.1 * least[0])
    high = int(costly[0]) if costly.size else lattice.size - 1
    high = max(high, int(best[useful & seen].max()) + apart)
    chosen = lattice[low : high + 1]
    rarest = 1.0 / (1.0 + math.exp(-chosen[0]))
    start = bulk(steps - 1, rarest, 1.0 - rarest, tail)[0] + 1
    expected = 1.0 + (steps - 1) / (1.0 + math.exp(-chosen[-1]))
    stop = min(math.ceil(expected + 6.0 * math.sqrt(expected)) + 6, steps)
    number = np.array(sorted({1, *rounded_counts(start, stop)}), dtype=np.float64)
    return _Plan(losses, chosen, number)


def _rough_divergences(
    sigma: float, steps: int, losses: Array, tail: float, log_odds: float
) -> tuple[Array, Array]:
    """Numbers of places and estimates of the divergence with that many, in order (P, Q)."""
    expected = (steps - 1) / (1.0 + math.exp(-log_odds))
    most = min(math.ceil(1.0 + expected + 8.0 * math.sqrt(expected)) + 8, steps)
    octaves = math.log2(most)  # two values each
    places = 2.0 ** np.linspace(0.0, octaves, math.ceil(2.0 * octaves) + 1)
    grid = np.unique([rounded_count(round(place)) for place in places.tolist()])
    family = _family(sigma, Bound.PESSIMISTIC, DOUBLING.widest, tail, most)
    known = np.array(
        [_divergences(family.law(int(count)), losses, Bound.PESSIMISTIC)[0] for count in grid]
    )
    counts = np.array(rounded_counts(1, most), dtype=np.float64)
    logs = np.log(np.maximum(known, 1e-300)).T
    between = [np.interp(np.log(counts), np.log(grid), row) for row in logs]
    return counts, np.exp(np.array(between).T)


def _family(sigma: float, side: Bound, width: float, tail: float, most: int) -> SumFamily:
    source = GaussianRatio(sigma)

    def one(width: float, tail: float) -> SumLaw:
        return source.ratios(side, users=most, width=width, tail=tail)

    return SumFamily(one, side, width=width, tail=0.1 * tail, users=most)


def _divergences(law: SumLaw, losses: Array, side: Bound) -> tuple[Array, Array]:
    """Bounds of ``H_alpha(P‖Q)`` and ``H_alpha(Q‖P)`` of the mean, at ``e^losses``.

    Sums from the far end and their moments. They are off by some roundings of all terms, and of the
    masses of ratios so close to alpha that rounding decides whether they belong to the sum.
    """
    upper = side is Bound.PESSIMISTIC
    sign = 1.0 if upper else -1.0
    excess = np.expm1(losses)
    size = float(law.mass.size)
    noise, near = sequential_sum(size + 48.0), roundings(2 * ELEMENTARY + 4)
    # forward: values above alpha, from the largest down; moved the worse way, or the better
    gain = law.value * (1.0 + sign * law.moved) / law.count - 1.0
    gain = disturbed(gain, lambda: roundings(16) * (1.0 + np.abs(gain)))
    mass, moment = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (law.mass, law.mass * gain))
    at = np.searchsorted(gain, excess, side="right")
    decided = mass[np.searchsorted(gain + near * (1.0 + np.abs(gain)), excess)]
    above = difference_of(rounded(moment[at], size), excess * rounded(mass[at], -size), 0.0)
    forward = above.value + sign * noise * (np.abs(moment[at]) + (1.0 + excess) * decided)
    # backward: values below 1 / alpha, from the smallest up
    gain = law.value * (1.0 - sign * law.moved) / law.count - 1.0
    gain = disturbed(gain, lambda: -roundings(16) * (1.0 + np.abs(gain)))
    short = -np.expm1(-losses)
    mass, moment = (np.append(0.0, np.cumsum(x)) for x in (law.mass, law.mass * -gain))
    at = np.searchsorted(gain, -short, side="left")
    decided = mass[np.searchsorted(gain, near - short, side="right")]
    below = difference_of(rounded(moment[at], size), short * rounded(mass[at], -size), 0.0)
    backward = below.value + sign * noise * (np.abs(moment[at]) + decided)
    backward = np.exp(losses) * backward
    if upper:
        forward, backward = forward + law.lost_gain, backward + law.lost
        return np.clip(forward, 0.0, 1.0), np.clip(backward, 0.0, 1.0)
    return np.maximum(forward, 0.0), np.maximum(backward, 0.0)


def _weights(steps: int, log_odds: float, counts: Array, side: Bound, tail: float) -> Array:
    """Probabilities that K, rounded down to one of the counts, is each of them.

    PESSIMISTIC: numbers that are not among the counts are taken for smaller ones; OPTIMISTIC: for
    larger ones, or left out. What is far below the tail is the first count's (PESSIMISTIC) or
    nobody's.
    """
    upper, trials = side is Bound.PESSIMISTIC, steps - 1
    p, q = 1.0 / (1.0 + math.exp(-log_odds)), 1.0 / (1.0 + math.exp(log_odds))
    low, high = bulk(trials, p, q, 1e-6 * tail)
    if upper:
        edges = np.append(counts, steps + 1.0)
    else:  # the same rounding, but up to the next count where there is a gap
        edges = np.append(1.0, counts + 2.0 ** np.maximum(np.frexp(counts)[1] - DOUBLING.bits, 0))
    edges = np.clip(edges - 1.0, low, high + 1.0)
    weights = np.zeros(counts.size)
    if edges[0] < edges[-1]:
        mass, error = block_masses(np.unique(edges), trials, p, q)
        mass = mass + error if upper else np.maximum(mass - error, 0.0)
        weights[np.diff(edges) > 0.0] = mass
    if upper and (low > 0 or high < trials):
        weights[0] += 2e-6 * tail
    return weights


@lru_cache(maxsize=4)
def _mixtures(sigma: float, steps: int, side: Bound, tail: float, width: float) -> Array:
    """The least of the bounds over p, or a value below it for every p on the lattice."""
    upper = side is Bound.PESSIMISTIC
    plan = _plan(sigma, steps, tail)
    losses = plan.losses
    loss = whole_losses(losses)
    place = whole_places(loss)
    counts, points = tuple(map(int, plan.counts.tolist())), tuple(losses.tolist())
    # a lower end needs both sides, which share the cores
    sides = {side, Bound.PESSIMISTIC}
    with ThreadPoolExecutor(thread_count(len(sides))) as threads:
        made = {
            one: threads.submit(
                copy_context().run, _allocations, sigma, counts, points, one, tail, width
            )
            for one in sides
        }
        table, highs = made[side].result(), made[Bound.PESSIMISTIC].result()
    if not upper:
        table = below_chords(place, table, highs, loss)
    weights = np.array(
        [_weights(steps, u, plan.counts, side, tail) for u in plan.log_odds.tolist()]
    )
    cost = rounded(1.0 + np.exp(loss), ELEMENTARY)
    paid = np.multiply.outer(charges(sigma, steps - 1, plan.log_odds, side), cost)
    mixed: Array = rounded(weights @ table, plan.counts.size)
    slack = sequential_sum(plan.counts.size + 32) * (weights @ np.abs(table) + paid)
    if upper:
        return np.asarray(np.min(mixed + paid + slack, axis=0))
    least = np.min(mixed + paid - slack, axis=0)
    # fewer clones: no less without a charge; more clones: no less than the next charge alone
    beyond = charge(sigma, steps - 1, float(plan.log_odds[-1]) + NULL_CLONES.odds_step, side)
    least = np.minimum(least, lowered(beyond * cost, roundings(ELEMENTARY + 4)))
    return np.asarray(np.minimum(least, (mixed - slack)[0]))


@lru_cache(maxsize=4)
def _allocations(
    sigma: float,
    counts: tuple[int, ...],
    losses: tuple[float, ...],
    side: Bound,
    tail: float,
    width: float,
) -> Array:
    """Bounds of the profiles of allocations 1 of K, one row for each K."""
    family, points = _family(sigma, side, width, tail, counts[-1]), np.array(losses)
    rows = [_divergences(family.law(count), points, side) for count in counts]
    return np.array([whole_profile(points, *row) for row in rows])
