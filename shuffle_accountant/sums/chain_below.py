"""A lower bound of the sum of likelihood ratios whose logarithms are a chain plus noise.

The logarithm of bin i's ratio is ``s_i (z_i + y_i)`` less half its variance: z a stationary normal
chain, ``z_(i+1) = theta z_i + noise`` of variance g, y independent of variance w, and s_i a scale
in (0, 1]. The law of (z_i, sum so far) is followed bin by bin: z on nodes, of the sums in one cell
their probability and their mean. Everything is dropped that leaves the nodes or is too unlikely.

The sum is ``A + Y e^(s z_i) + sum_d B_d e^(s_d theta^d z_i)`` given all other randomness, with B_d
>= 0. For ``E (L - alpha)_+`` it is convex in z_i, and so is the positive part; ``E (1 - alpha
L)_+`` is convex in ``u = e^(z_i)``, as L is concave in it. A law of z_i that is smaller in convex
order, of z in the first and of u in the second order, bounds the divergence from below.

*Rounding to nodes.* z_i is drawn with a deviation tau less in its noise and then rounded at random
to a neighbouring node so that its mean, of z or of u, is kept: for a step h between nodes and ``tau
= 0.65 h`` that is less spread than the noise of deviation tau which it takes the place of. *Proof.*
Let q be the probability of the upper node b of a and b. The largest difference of expected excess
over any place is where the noise is above it with probability q, and there it is nowhere negative
if ``tau phi(z_q) >= h q (1 - q)`` for z, and ``(1 + q (e^h - 1)) Phi(tau + z_q) >= e^h q`` for u,
z_q the q-quantile. The first needs ``tau / h >= 0.6267``, the second less for larger h.

Sums that are taken together, and values of y in one cell, are replaced by their conditional means,
which by Jensen's inequality lowers both divergences.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from shuffle_accountant.numerics.compiled import compiled, thread_count
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Array, roundings
from shuffle_accountant.sums.chain_cells import shares, sum_edges
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.settings import CHAINS, CHAINS_BELOW

# Probabilities and moments by state and cell, the first cell that holds anything, and their end.
_Held = tuple[Array, int, int]


def chain_below(
    scales: Array,
    common: float,
    theta: float,
    own: float,
    *,
    powers: bool,
    tail: float,
    far: float,
    whole: tuple[int, ...] = (),
) -> list[SumLaw]:
    """Lower bounds of the law of the sum over all bins of their likelihood ratios under Q.

    Args:
        scales: of the bins' logarithms, in (0, 1], shape (b,), the ones first.
        common: variance g of the chain, > 0.
        theta: correlation of neighbours, in [0, 1).
        own: variance w of the independent part, >= 0.
        powers: whether the mean of e^z is kept, for the order (Q, P); or that of z.
        tail: probability that may be dropped in all.
        far: sum about which the bound is to be tight.
        whole: numbers of bins, at most b, of further chains whose scales are all 1.

    Returns:
        The law of the bins with these scales, and that of each further chain.
    """
    bins = scales.size
    deviation = math.sqrt(common)
    noise = deviation * math.sqrt(1.0 - theta * theta)
    coarser = min(max((bins / CHAINS_BELOW.few) ** 0.5, CHAINS_BELOW.finest), CHAINS_BELOW.coarsest)
    farthest = math.sqrt(-2.0 * math.log(0.1 * tail / bins))
    coarser *= max(farthest / CHAINS_BELOW.usual, 1.0)
    step = min(CHAINS_BELOW.step * coarser * noise, CHAINS_BELOW.longest)
    reach = deviation * farthest
    below = math.ceil(reach / step)
    above = math.ceil((reach + common) / step)
    nodes = step * np.arange(-below, above + 1.0)
    taken = CHAINS_BELOW.taken * step
    start = _rounded(np.zeros(1), deviation, taken, nodes, powers)[0]
    turn = _rounded(theta * nodes, noise, taken, nodes, powers)
    cell = min(
        coarser * math.sqrt(12.0 * CHAINS_BELOW.apart * (common + own) / max(own, 1e-300)),
        CHAINS_BELOW.widest_apart,
    )
    other, chance = _cells(own, cell, 0.1 * tail / bins)
    largest = math.exp(float(nodes[-1]) - 0.5 * common) * float(other[-1])
    cells = coarser * coarser * CHAINS_BELOW.cells
    edges, equal = sum_edges(bins, common, theta, own, cells, CHAINS.near * far, largest)
    add: Any = compiled(merged)
    backwards = np.ascontiguousarray(turn.T)
    ranges = shares(nodes.size, other.size * edges.size)
    rounding = bins * roundings(4.0 * (nodes.size + other.size) + 64.0)

    def next_bin(held: Array, low: int, high: int, place: int, scale: float) -> _Held:
        if place:
            turned = np.zeros_like(held)
            turned[:, :, low:high] = backwards @ held[:, :, low:high]
            held = turned
        ratio = np.exp(scale * nodes - 0.5 * scale * scale * common)
        factors = other, chance
        if scale != 1.0:
            factors = _cells(own * scale * scale, cell, 0.1 * tail / bins)
        out = np.zeros_like(held)
        given = held, means_of(held), ratio, *factors, edges, equal, low, high
        calls = [(*given, *part, out) for part in ranges]
        high = max(threads.map(lambda call: int(add(*call)), calls)) + 1
        return out, *kept_cells(out, low, high, tail / (8.0 * bins))

    held = np.zeros((2, nodes.size, edges.size))
    held[0, :, 0] = start
    # chains with scales of 1 have the beginning in common
    alike = int(np.argmax(np.append(scales != 1.0, True)))
    now: _Held = (held, 0, 1)
    scaled, laws = now, {}
    with ThreadPoolExecutor(thread_count(len(ranges))) as threads:
        for place in range(max(alike, *whole, 0)):
            now = next_bin(*now, place, 1.0)
            if place + 1 in whole:
                laws[place + 1] = law_of(now[0], place + 1, rounding)
            if place + 1 == alike:
                scaled = now
        for place in range(alike, bins):
            scaled = next_bin(*scaled, place, float(scales[place]))
    return [law_of(scaled[0], bins, rounding), *(laws[count] for count in whole)]


def law_of(held: Array, bins: int, rounding: float) -> SumLaw:
    """The law of the sums over all states, from their probabilities and moments, from below.

    Args:
        held: probabilities and moments by state and cell, shape (2, states, cells).
        bins: number of ratios in the sum.
        rounding: relative error of both by sums and products.
    """
    mass, moment = held.sum(axis=1)
    there = mass > CHAINS_BELOW.scarce
    error = bins * CHAINS.own_error + rounding
    mass, value = mass[there], moment[there] / mass[there]
    return SumLaw(
        value=value,
        mass=mass * (1.0 - error),
        count=bins,
        lost_gain=0.0,
        lost=max(1.0 - float(mass.sum()), 0.0) + error,
        moved=2.0 * error,
        reach=float(value[-1]),
    )


def _rounded(mean: Array, deviation: float, taken: float, nodes: Array, powers: bool) -> Array:
    """Masses at the nodes of normal values with less deviation, rounded at random, a row each.

    What lies outside the nodes is left out.
    """
    left = math.sqrt(deviation**2 - taken**2)
    rows = []
    for place in mean:
        centre = place + 0.5 * taken**2 if powers else place
        score = (nodes - centre) / left
        cells = normal_cells(score)
        if powers:
            tilted = normal_cells(score - left) * math.exp(centre + 0.5 * left**2)
            low = np.exp(nodes)
            above = (tilted - low[:-1] * cells) / np.diff(low)
        else:
            density = np.exp(-0.5 * score**2) / math.sqrt(2.0 * math.pi)
            above = (left * -np.diff(density) - (nodes[:-1] - centre) * cells) / np.diff(nodes)
        above = np.clip(above, 0.0, cells)
        rows.append(np.append(cells - above, 0.0) + np.append(0.0, above))
    return np.asarray(rows)


def _cells(variance: float, width: float, tail: float) -> tuple[Array, Array]:
    """Means and probabilities of cells of a lognormal ratio of mean one, without its tails.

    Args:
        variance: of its logarithm.
        width: of cells, in deviations.
        tail: probability of each tail, under Q below and under P above.
    """
    if variance == 0.0:
        return np.ones(1), np.ones(1)
    spread = math.sqrt(variance)
    reach = math.sqrt(-2.0 * math.log(tail))
    score = width * np.arange(-math.ceil(reach / width), math.ceil((reach + spread) / width) + 1.0)
    chance = normal_cells(score)
    return normal_cells(score - spread) / chance, chance


def means_of(held: Array) -> Array:
    """Means of the sums, shape (states, cells); cells with hardly any probability are emptied.

    Args:
        held: probabilities and moments by state and cell, shape (2, states, cells), changed.

    Returns:
        Moments over probabilities, 0 where a cell is empty.
    """
    scarce = held[0] <= CHAINS_BELOW.scarce
    np.copyto(held, 0.0, where=scarce)
    found: Array = np.zeros(held.shape[1:])
    np.divide(held[1], held[0], out=found, where=~scarce)
    return found


def kept_cells(held: Array, low: int, high: int, budget: float) -> tuple[int, int]:
    """The range of cells, without those at the ends of states that hold less than a budget."""
    cost = held[0, :, low:high] + held[1, :, low:high]
    share = budget / (2.0 * cost.shape[0])
    few = (np.cumsum(cost, axis=1) < share) | (np.cumsum(cost[:, ::-1], axis=1)[:, ::-1] < share)
    if few.all():
        return low, high
    held[:, :, low:high][:, few] = 0.0
    kept = np.flatnonzero(~few.all(axis=0))
    return low + int(kept[0]), low + int(kept[-1]) + 1


def merged(
    held: Array,
    means: Array,
    ratio: Array,
    apart: Array,
    chance: Array,
    edges: Array,
    even: int,
    low: int,
    high: int,
    first: int,
    until: int,
    out: Array,
) -> int:
    """Add a bin's ratio to the sum in every state; return the last cell that holds anything.

    Args:
        held: probabilities and moments by state and cell, shape (2, states, cells).
        means: of the sums by state and cell.
        ratio: of the states.
        apart: factors of the ratio.
        chance: their probabilities.
        edges: lower ends of the cells.
        even: how many of them have equal distances.
        low: first cell that holds anything.
        high: end of them.
        first: first state whose sums are added.
        until: end of them.
        out: as ``held``, or with one state for all, added to.
    """
    last = edges.size - 1
    inverse = 1.0 / edges[1]
    top = low
    for state in range(first, until):
        target = state if out.shape[1] > 1 else 0
        mass, moment, mean = held[0, state], held[1, state], means[state]
        masses, moments = out[0, target], out[1, target]
        start, end = low, high
        while start < end and mass[start] == 0.0:
            start += 1
        while start < end and mass[end - 1] == 0.0:
            end -= 1
        for entry in range(apart.size):
            value, weight = ratio[state] * apart[entry], chance[entry]
            # sums that stay in even cells, whose place is a product
            stop = start
            if value < edges[even - 1]:
                stop = max(min(end, even - 3 - int(value * inverse)), start)
            for i in range(start, stop):
                j = int((mean[i] + value) * inverse)
                masses[j] += mass[i] * weight
                moments[j] += (moment[i] + mass[i] * value) * weight
            if stop > start:
                top = max(top, int((mean[stop - 1] + value) * inverse))
            j = even - 1
            for i in range(stop, end):
                if mass[i] == 0.0:
                    continue
                place = mean[i] + value
                if place < edges[even - 1]:
                    k = int(place * inverse)
                else:
                    while j < last and edges[j + 1] <= place:
                        j += 1
                    k = j
                masses[k] += mass[i] * weight
                moments[k] += (moment[i] + mass[i] * value) * weight
                if k > top:
                    top = k
    return top
