"""Bounds of the sum of likelihood ratios of which neighbours share one normal value: two bands.

The logarithm of bin i's ratio is ``first x_i + second x_(i+1)`` less half its variance, of the last
bin ``first x_b + last x_(b+1)``, for independent standard normal x: an encoder of two bands. The
law of (x_(i+1), sum so far) is followed bin by bin, x on nodes and the sum on cells.

Given all else the sum is ``A + B u + C u^r`` in ``u = e^(s x_i)``, s the larger and ``r <= 1`` the
ratio of the smaller to the larger of both numbers; as in `chain_law` and `chain_below`, but with no
noise to be spared, as x_i is drawn afresh:

* *from above* x goes to the nodes at random. For ``E (1 - alpha L)_+`` E u is kept, which lowers no
  other mean but those of u^r, as it may. For ``E (L - alpha)_+`` E u is kept between near nodes,
  and what the mean of u^r is lowered by there is made up for by a factor of all values; between
  nodes farther apart E u^r is kept, which raises the mean of u;
* *from below* each of both powers is replaced by its conditional mean in x's cell, and so is the
  sum, as it is linear in products of powers of independent values.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.compiled import compiled, thread_count
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Array, Bound, raised, roundings
from shuffle_accountant.sums.chain_below import kept_cells, law_of, means_of, merged
from shuffle_accountant.sums.chain_cells import (
    ADDED_PARTS,
    Entries,
    added,
    entries_of,
    even_range,
    sum_edges,
    window,
)
from shuffle_accountant.sums.chain_law import beyond
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.settings import CHAINS, TWO_BANDS


def pair_sum(
    bins: int,
    first: float,
    second: float,
    last: float,
    side: Bound,
    *,
    powers: bool,
    tail: float,
    epsilon: float,
    spare: float = 0.0,
    among: int | None = None,
    coarser: float = 1.0,
) -> SumLaw:
    """Bound of the law of the sum over all bins of their likelihood ratios under Q.

    Args:
        bins: their number, >= 2.
        first: deviation of the part that a bin shares with the one before, > 0.
        second: deviation of the part that it shares with the next one, > 0.
        last: deviation of the last bin's part that it shares with none, at most ``second``.
        side: PESSIMISTIC is above the true law in the order's convex order, OPTIMISTIC below it.
        powers: whether for the order (Q, P), or for (P, Q).
        tail: probability and gain that may be left out in all.
        epsilon: nats about which the divergence is to be tight; it is a bound everywhere.
        spare: nats by which epsilon in the other order is larger, about.
        among: number of bins of the sum whose divergence that is, if these are a part of it.
        coarser: factor of what nodes and cells may add to epsilon, or take from it.
    """
    among = among or bins
    largest, variance = max(first, second), first * first + second * second
    theta, upper = first * second / variance, side is Bound.PESSIMISTIC
    rare = min(TWO_BANDS.off_nodes * tail, 1e-6) / bins
    least = 1.0 if powers else min(one for one in (first, second, last) if one) / largest
    # sums beyond even cells are those where the divergence is linear, or nothing
    linear = powers or epsilon <= TWO_BANDS.even_epsilon
    apart = _distances(
        (bins, among), (first, second, least), upper, powers, linear, epsilon, spare, coarser
    )
    step = apart.step
    most_even = TWO_BANDS.even_epsilon if linear else CHAINS.even_epsilon
    near, widest = even_range(among, epsilon, powers, most_even)
    score = _scores(largest, step, rare, apart.below, apart.dense)
    most = math.exp(float(score[-1]) * (first + second) - 0.5 * variance)
    cells = apart.cells, near, most, widest, apart.growth
    edges, even = sum_edges(bins, variance, theta, 0.0, *cells)
    over = bins * edges.size * score.size**2 / TWO_BANDS.work
    if over > 1.0:
        step = min(step * math.sqrt(over), CHAINS.longest / largest)
        score = _scores(largest, step, rare, apart.below, apart.dense)
    if upper:
        nodes, chance = largest * score, _spread(score, largest, least, TWO_BANDS.least_step * step)
        here, there, after = (one * score for one in (first, second, last))
    else:
        chance = normal_cells(score)
        here, there, after = (_log_means(score, chance, one) for one in (first, second, last))
    end = (np.exp(here - 0.5 * first**2), np.ones(1), np.ones(1))
    if last > 0.0:
        end = (end[0], np.exp(after - 0.5 * last**2), chance)
    if not upper:
        return _below(bins, here, there, chance, variance, end, edges, even, 0.25 * rare)
    law = _above(bins, here, there, chance, variance, end, edges, even, 0.25 * rare)
    parts = (first, second, last)
    lowered = [one / largest * (1.0 - one / largest) for one in parts]
    # of a bin's ratio, the product of its own power of one value and the next power of another
    part = lowered[0] + max(lowered[1:])
    part *= 0.125 * math.expm1(TWO_BANDS.least_step * step * largest) ** 2
    factor = 1.0 if powers else (1.0 + roundings(16)) / (1.0 - part)
    # means of the factors that are rounded, which nodes farther apart raise
    mean = max(1.0, *(float(chance @ np.exp(one * score - 0.5 * one**2)) for one in parts))
    lost = beyond(bins + 1, largest, nodes) * mean * mean
    return SumLaw(
        value=law.value * factor,
        mass=law.mass,
        count=bins,
        lost_gain=(law.lost_gain + lost) * factor * (1.0 + roundings(4)),
        lost=(law.lost + lost) * (1.0 + roundings(4)),
        moved=law.moved + roundings(2),
        reach=law.reach * factor,
    )


@dataclass(frozen=True)
class _Distances:
    """Distances of nodes and of cells.

    Attributes:
        step: least distance of nodes, in deviations.
        below: distance from 0 down to which nodes are a step apart, in deviations.
        dense: distance from the larger mean up to which they are, in deviations.
        cells: part of the sum's variance that its cells may add.
        growth: growth of far cells in width, over their distance from the last even one.
    """

    step: float
    below: float
    dense: float
    cells: float
    growth: float


def _distances(
    counts: tuple[int, int],
    parts: tuple[float, float, float],
    upper: bool,
    powers: bool,
    linear: bool,
    epsilon: float,
    spare: float,
    coarser: float,
) -> _Distances:
    """Distances at which nodes and cells move epsilon by as much as `TWO_BANDS` states.

    Args:
        counts: numbers of bins, of the sum and of all.
        parts: deviations of a bin's two parts, and the least power over the largest one.
        upper: whether for a bound from above.
        powers: whether for the order (Q, P).
        linear: whether even cells reach as far as the divergence is not linear.
        epsilon: nats about which the divergence is to be tight.
        spare: nats by which epsilon in the other order is larger, about.
        coarser: factor of what nodes and cells may add to epsilon, or take from it.
    """
    (bins, among), (first, second, least) = counts, parts
    largest, variance = max(first, second), first * first + second * second
    spread = bins * (math.expm1(variance) + 2.0 * math.expm1(first * second))
    excess = math.expm1(min(max(epsilon, TWO_BANDS.smallest), 100.0))
    # deviations of the mean ratio, and of one ratio, at which either is as large as alpha
    normal = excess * among * math.sqrt(bins / (among * spread))
    alone = math.log1p(among * excess) / largest + 0.5 * largest
    # a deviation that is larger by a share moves epsilon by about ``moved`` times the share, and a
    # variance of the mean that is larger by v by ``0.5 hazard v / alpha``
    if normal**2 <= alone**2 - 2.0 * math.log(among):
        hazard, steep, below = normal**2 / excess, TWO_BANDS.steep, TWO_BANDS.below
    else:  # one ratio is likelier to be as large as all of the sum
        hazard, steep = alone / (largest * excess), TWO_BANDS.steep_alone
        below = TWO_BANDS.below_alone
    moved = steep * max(epsilon, TWO_BANDS.smallest)
    moved = min(TWO_BANDS.large * largest, moved, TWO_BANDS.steepest)
    # nodes and cells move variances by a sixth of the square of their length, downwards by half
    half = 1.0 if upper else 2.0
    share = half * coarser * (TWO_BANDS.nodes if upper else TWO_BANDS.nodes_below)
    share = min(share + 0.5 * spare, TWO_BANDS.other * share)
    dense = TWO_BANDS.dense * math.exp(TWO_BANDS.large * largest) / math.sqrt(spread)
    dense = min(max(dense, TWO_BANDS.dense), TWO_BANDS.densest)
    if least < TWO_BANDS.least_power:
        dense = math.inf
    cells = 2.0 * coarser * TWO_BANDS.cells * (1.0 + excess) * among * bins / (hazard * spread)
    growth = CHAINS.far_cells
    if not linear:  # far cells move epsilon by about ``0.5 large growth / (largest alpha)``
        finer = 2.0 * TWO_BANDS.cells * largest * (1.0 + excess) / TWO_BANDS.large
        growth = min(max(finer, TWO_BANDS.finest), growth)
    return _Distances(
        step=min(math.sqrt(12.0 * share / moved), CHAINS.longest / largest),
        below=dense if powers or dense == math.inf else below,  # small ratios may decide
        dense=dense,
        cells=min(cells, half * TWO_BANDS.coarsest),
        growth=growth,
    )


def _scores(deviation: float, step: float, tail: float, below: float, dense: float) -> Array:
    """Ascending normal scores, a step apart where values decide and farther apart elsewhere.

    Args:
        deviation: of a normal value z, which moves its mean by as many scores under ``e^z dQ``.
        step: least distance.
        tail: probability of either tail beyond the outermost ones, under either law.
        below: distance from 0 down to which scores are a step apart.
        dense: distance from the larger mean up to which they are.
    """
    reach = math.sqrt(-2.0 * math.log(tail))
    ways = []
    for start, end, near in ((0.0, reach, below), (deviation, reach + deviation, dense)):
        found = [0.0]
        while found[-1] < end:
            found.append(found[-1] + step * max((found[-1] - start) / near, 1.0) ** 2)
        ways.append(np.asarray(found))
    return np.concatenate([-ways[0][:0:-1], ways[1]])


def _spread(score: Array, deviation: float, least: float, near: float) -> Array:
    """Masses at these scores of a normal value z that is rounded to them at random.

    Between those nearer to one another than ``near`` it is ``E e^z`` that is kept, and ``E e^(least
    z)`` between others.
    """
    power = np.where(np.diff(score) < near, 1.0, least) * deviation
    cells = normal_cells(score)
    ends = np.stack([score[:-1], score[1:]], axis=1)  # each cell has its own power
    tilted = normal_cells(ends - power[:, None])[:, 0] * np.exp(0.5 * power**2)
    low, high = np.exp(power * score[:-1]), np.exp(power * score[1:])
    above = np.clip((tilted - low * cells) / (high - low), 0.0, cells)
    return np.asarray(np.append(cells - above, 0.0) + np.append(0.0, above))


def _log_means(score: Array, chance: Array, deviation: float) -> Array:
    """Logarithms of conditional means of ``e^(deviation x)``, x standard normal, in its cells.

    Args:
        score: edges of the cells, ascending, shape (m + 1,).
        chance: their probabilities, shape (m,).
        deviation: >= 0.
    """
    tilted = normal_cells(score - deviation)
    return np.asarray(np.log(tilted / chance) + 0.5 * deviation**2)


def _above(
    bins: int,
    here: Array,
    there: Array,
    chance: Array,
    variance: float,
    end: tuple[Array, Array, Array],
    edges: Array,
    even: int,
    budget: float,
) -> SumLaw:
    """Masses at the edges, of the sum with mean-preserving spreads of everything."""
    add: Any = compiled(added, *ADDED_PARTS)
    count = here.size
    ratios = np.exp(np.add.outer(here, there) - 0.5 * variance)
    workers = thread_count(count)
    parts = [
        _to_all(ratios, chance, np.arange(worker, count, workers), edges, even)
        for worker in range(workers)
    ]
    mass = np.zeros((count, edges.size))
    mass[:, 0] = chance
    left, gain = np.zeros(count), np.zeros(count)
    low, high, ahead = 0, 1, ratios @ chance
    with ThreadPoolExecutor(workers) as threads:
        for place in range(bins - 1):
            moved, above = np.zeros_like(mass), np.zeros((2, count))
            rest = edges, even, low, high, TWO_BANDS.single, moved, above
            calls = [(mass, *part, *rest) for part in parts]
            high = max(threads.map(lambda call: int(add(*call)), calls)) + 1
            gain = chance * (float(gain.sum()) + left @ ratios) + above[1]
            left = chance * float(left.sum()) + above[0]
            if place % CHAINS.cleared == 0:
                low, high = window(moved, edges, low, high, left, gain, ahead, budget)
            mass = moved
    out, above = np.zeros((1, edges.size)), np.zeros((2, 1))
    starts, rows, *last = entries_of(*end, edges, even)
    add(mass, starts, 0 * rows, *last, edges, even, low, high, even, out, above)
    gain = gain + end[0] * float(end[1] @ end[2]) * left
    gain, left = np.append(gain, above[1]), np.append(left, above[0])
    total = out[0]
    held = np.flatnonzero(total)
    # one value more than bins is put on nodes
    error = (bins + 1) * CHAINS.own_error + bins * roundings(4.0 * count + 32.0)
    return SumLaw(
        value=edges[held],
        mass=raised(total[held], error),
        count=bins,
        lost_gain=float(gain.sum()) / bins * (1.0 + error),
        lost=float(left.sum()) * (1.0 + error),
        moved=bins * (CHAINS.own_error + roundings(16)),
        reach=float(edges[held[-1]]),
    )


def _to_all(
    ratios: Array, chance: Array, rows: NDArray[np.int64], edges: Array, even: int
) -> Entries:
    """Ratios by state and row of results, for some rows, each between two even cells or beyond."""
    width, states = float(edges[1]), chance.size
    ratios, chance = ratios[:, rows], chance[rows]
    near = ratios < (even - 2) * width
    place = np.where(near, np.floor(ratios / width), -1.0)
    uppers = chance * np.where(near, np.clip(ratios / width - place, 0.0, 1.0), 0.0)
    shifts, weights = place.astype(np.int64).ravel(), np.tile(chance, states)
    starts = rows.size * np.arange(states + 1)
    return starts, np.tile(rows, states), shifts, ratios.ravel(), weights, uppers.ravel()


def _below(
    bins: int,
    here: Array,
    there: Array,
    chance: Array,
    variance: float,
    end: tuple[Array, Array, Array],
    edges: Array,
    even: int,
    budget: float,
) -> SumLaw:
    """Means of the sums in each cell, which are the sum's conditional means."""
    add: Any = compiled(merged)
    count = here.size
    ways = [
        (np.exp(here + there[to] - 0.5 * variance), np.ones(1), chance[to : to + 1])
        for to in range(count)
    ]
    held = np.zeros((2, count, edges.size))
    held[0, :, 0] = chance
    low, high = 0, 1
    with ThreadPoolExecutor(thread_count(count)) as threads:
        for place in range(bins):
            moved, means = np.zeros_like(held), means_of(held)
            targets, rest = ways if place < bins - 1 else [end], (edges, even, low, high, 0, count)
            calls = [
                (held, means, *target, *rest, moved[:, to : to + 1])
                for to, target in enumerate(targets)
            ]
            high = max(threads.map(lambda call: int(add(*call)), calls)) + 1
            held = moved
            low, high = kept_cells(held, low, high, budget)
    # one value more than bins is in cells
    return law_of(held, bins, CHAINS.own_error + bins * roundings(4.0 * count + 64.0))
