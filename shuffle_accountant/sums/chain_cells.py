"""Cells of sums of ratios, of equal width at first and growing beyond, and adding a ratio to them.

The part of a sum between two edges goes to both, its mean kept: every step is a mean-preserving
spread, and all numbers are positive. What leaves the cells is counted with its mean.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.compiled import thread_count
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.sums.pairs import BLOCK
from shuffle_accountant.sums.settings import CHAINS, DOUBLING

Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array, Array, Array]
"""Values that are added to sums: starts, rows, shifts, values, weights, uppers.

The values of a state are those from its start to the next one's, each with the row of its results.
A shift is a number of even cells, or -1 for a value beyond them; weights are probabilities, and
uppers the parts of them that go one even cell further.
"""


def shares(states: int, products: int) -> list[tuple[int, int]]:
    """Ranges of states, first and end, that threads work on side by side.

    Args:
        states: their number, >= 1.
        products: of one of them.
    """
    threads = thread_count(states * products / DOUBLING.worth_a_thread)
    parts = min(threads * CHAINS.parts, states) if threads > 1 else 1
    return list(pairwise(states * part // parts for part in range(parts + 1)))


def even_range(
    bins: int, epsilon: float, small: bool, most: float = CHAINS.even_epsilon
) -> tuple[float, float]:
    """Sum up to which cells are even, and their largest width.

    Args:
        bins: number of ratios of mean one in the sum.
        epsilon: nats about which the divergence is to be tight.
        small: whether for small sums, as the order (Q, P) asks for, or for large ones, far above
            which divergences are linear.
        most: epsilon, nats, beyond which cells are even no farther.
    """
    if not small:
        return CHAINS.near * bins * math.exp(min(epsilon, most)), math.inf
    sums = bins * math.exp(-epsilon)
    return CHAINS.near * min(float(bins), CHAINS.small_sums * sums), CHAINS.small_cells * sums


def sum_edges(
    bins: int,
    common: float,
    theta: float,
    own: float,
    added: float,
    even: float,
    largest: float,
    widest: float = math.inf,
    growth: float = CHAINS.far_cells,
) -> tuple[Array, int]:
    """Edges of the cells of sums, of equal width at first, and how many those are.

    Args:
        bins: number of ratios in the sum.
        common: variance of the chain.
        theta: correlation of neighbours.
        own: variance of the independent part.
        added: part of the sum's variance that cells may add.
        even: sum up to which cells are to be of equal width.
        largest: largest ratio.
        widest: largest width of those cells.
        growth: of far cells in width, over their distance from the last even one.
    """
    away = np.arange(1.0, min(bins, 4000))
    covered = np.minimum(common * theta**away, 600.0)
    one = math.expm1(min(common + own, 600.0))
    variance = bins * (one + 2.0 * float(np.sum(np.expm1(covered) * (1.0 - away / bins))))
    # heavy tails have cells of their own width: only the bulk is to be resolved
    variance = min(variance, bins * (bins + 10.0) * 4.0)
    width = min(math.sqrt(6.0 * added * variance / bins), widest)
    if even >= CHAINS.near * bins:  # up to the mean, and not to small sums alone
        width = max(width, CHAINS.near * bins / CHAINS.most_even)
    count = min(math.ceil(even / width), CHAINS.most_even) + 1
    found = [width * np.arange(count)]
    last, top = float(found[0][-1]), even + bins * largest
    growing = math.ceil(math.log1p((top - last) * growth / width) / math.log1p(growth)) + 1
    further = np.expm1(np.arange(1, growing + 1) * math.log1p(growth))
    found.append(last + width / growth * further)
    return np.concatenate(found), count


def entries_of(ratio: Array, apart: Array, chance: Array, edges: Array, even: int) -> Entries:
    """A bin's ratio in every state, on the even cells where it lies on them; states keep theirs."""
    width = float(edges[1])
    starts, shifts = [0], []
    values: list[Array] = []
    weights: list[Array] = []
    uppers: list[Array] = []
    for one in ratio:
        value = one * apart
        near = value < (even - 2) * width
        place = np.floor(value[near] / width).astype(np.int64)
        above = chance[near] * np.clip(value[near] / width - place, 0.0, 1.0)
        weight = np.bincount(place, chance[near]).astype(np.float64)
        upper = np.bincount(place, above).astype(np.float64)
        kept = np.flatnonzero(weight)
        beyond = np.full(np.count_nonzero(~near), -1)
        shifts += [kept, beyond]
        values += [width * (kept + upper[kept] / weight[kept]), value[~near]]
        weights += [weight[kept], chance[~near]]
        uppers += [upper[kept], np.zeros(beyond.size)]
        starts.append(starts[-1] + kept.size + beyond.size)
    rows = np.repeat(np.arange(ratio.size), np.diff(starts))
    place = np.concatenate(shifts).astype(np.int64)
    joined = np.concatenate(values), np.concatenate(weights), np.concatenate(uppers)
    return np.asarray(starts), rows, place, *joined


def window(
    mass: Array,
    edges: Array,
    low: int,
    high: int,
    left: Array,
    gain: Array,
    ahead: Array,
    budget: float,
) -> tuple[int, int]:
    """The range of cells without those at its ends that hold less than a budget of mass and mean.

    What they hold is added to what is left out. Of the mean is also that of the next ratio, given
    the state: ``ahead``.
    """
    part, sums = mass[:, low:high], edges[low:high]
    cost = part * (1.0 + ahead[:, None] + sums)
    share = budget / mass.shape[0]
    few = (np.cumsum(cost, axis=1) < share) | (np.cumsum(cost[:, ::-1], axis=1)[:, ::-1] < share)
    dropped = np.where(few, part, 0.0)
    left += dropped.sum(axis=1)
    gain += dropped @ sums
    part -= dropped
    held = np.flatnonzero(~few.all(axis=0))
    return (low + int(held[0]), low + int(held[-1]) + 1) if held.size else (low, low + 1)


def added(
    mass: Array,
    starts: NDArray[np.int64],
    rows: NDArray[np.int64],
    shifts: NDArray[np.int64],
    values: Array,
    weights: Array,
    uppers: Array,
    edges: Array,
    even: int,
    low: int,
    high: int,
    single: int,
    out: Array,
    beyond: Array,
) -> int:
    """Add a bin's ratio to the sum in every state; return the last cell that holds anything.

    Args:
        mass: by state and edge.
        starts: first entry of each state.
        rows: of results, for each entry.
        shifts: of the entries, in even cells, or -1.
        values: of the entries.
        weights: their probabilities.
        uppers: parts of them that go one even cell further.
        edges: of the cells.
        even: how many of them have equal distances.
        low: first cell that holds anything.
        high: end of them.
        single: least shift of entries that stand for one value each.
        out: masses of the sums by row, added to.
        beyond: probability and mean of sums above the last edge by row, added to.
    """
    top = low
    widths = np.diff(edges)
    inverse = 1.0 / widths
    blocks = np.zeros((2, edges.size // BLOCK + 1))
    # what a shift by even cells brings beyond them, which neighbouring entries share
    far, off = np.zeros((2, edges.size)), np.zeros((2, 2))
    known, reached = np.zeros(2, np.int64), np.zeros(2, np.int64)
    first = max(even - 2, 0)  # no value that is no even shift is smaller than this edge
    for state in range(starts.size - 1):
        source = mass[state]
        start, end = summed_blocks(source, edges, low, high, blocks)
        known[:] = -1
        for entry in range(starts[state], starts[state + 1]):
            shift, upper = shifts[entry], uppers[entry]
            lower = weights[entry] - upper
            row = rows[entry]
            target = out[row]
            stop = max(min(end, even - shift - 1), start) if shift >= 0 else start
            if stop > start:  # sums of even cells that stay in them
                added_even(source[start:stop], lower, upper, target[start + shift :])
                top = max(top, stop + shift)
            alone = shift < 0 or shift >= single
            if not alone and stop < end and stop == even - shift - 1:  # the last even edge
                target[even - 1] += source[stop] * lower
                top = max(top, even - 1)
            # all others: a value that stands for several is taken as the two edges next to it
            slot = 0 if alone else shift % 2
            for more in range(1 if alone else 2):
                part = (slot + more) % 2
                whole = -1 if alone else shift + more
                if not alone and known[part] == whole:
                    continue
                for i in range(first, reached[part] + 1):
                    far[part, i] = 0.0
                off[part, 0] = off[part, 1] = 0.0
                known[part], reached[part] = whole, first
                value = values[entry] if alone else edges[whole]
                begin = stop if alone else max(even - whole, start)
                cells = edges, widths, inverse, even
                found = added_beyond(source, blocks, value, begin, end, cells, far[part], off[part])
                reached[part] = max(found, first)
            size = max(reached[0], reached[1]) + 1 - first
            if alone:
                lower, upper = weights[entry], 0.0
            tail, above = far[slot, first:], far[1 - slot, first:]
            there = target[first:]
            for i in range(size):
                there[i] += tail[i] * lower + above[i] * upper
            for i in range(2):
                beyond[i, row] += off[slot, i] * lower + off[1 - slot, i] * upper
            if size > 1:
                top = max(top, first + size - 1)
    return top


def summed_blocks(
    source: Array, edges: Array, low: int, high: int, blocks: Array
) -> tuple[int, int]:
    """Find the range of edges that hold masses, and sum these and their moments by blocks."""
    start, end = low, high
    while start < end and source[start] == 0.0:
        start += 1
    while start < end and source[end - 1] == 0.0:
        end -= 1
    for part in range(start // BLOCK, end // BLOCK):
        sums, moments = 0.0, 0.0
        for i in range(part * BLOCK, (part + 1) * BLOCK):
            sums += source[i]
            moments += source[i] * edges[i]
        blocks[0, part], blocks[1, part] = sums, moments
    return start, end


def added_even(near: Array, lower: float, upper: float, there: Array) -> None:
    """Add masses, of which ``lower`` stay at their edge and ``upper`` move to the next."""
    there[0] += near[0] * lower
    for i in range(1, near.size):
        there[i] += near[i] * lower + near[i - 1] * upper
    there[near.size] += near[near.size - 1] * upper


def added_beyond(
    source: Array,
    blocks: Array,
    value: float,
    start: int,
    end: int,
    cells: tuple[Array, Array, Array, int],
    out: Array,
    beyond: Array,
) -> int:
    """Add one value to a sum whose cells are not all even; return the last cell that is reached.

    Args:
        source: masses at the edges.
        blocks: masses and moments of `BLOCK` edges each, shape (2, blocks).
        value: to be added.
        start: first edge whose mass is moved.
        end: end of them.
        cells: edges, widths, one over each of these, and how many edges have equal distances.
        out: masses of the sums, added to.
        beyond: probability and mean of the sums above the last edge, added to.
    """
    edges, widths, inverse, even = cells
    last = edges.size - 1
    top = start
    # sums in cells that are wider than the value stay between the same two edges
    wide = max(int(np.searchsorted(widths, value, side="right")), even - 1, start)
    until = min(end, last)
    for i in range(wide, until):
        out[i] += source[i] * (1.0 - value * inverse[i])
    for i in range(wide, until):
        out[i + 1] += source[i] * (value * inverse[i])
    if wide < until:
        top = until
    # those of one cell are taken together, which keeps what goes to its ends
    for begin, finish in ((start, min(wide, end)), (max(until, wide), end)):
        i = begin
        if i >= finish:
            continue
        j = int(np.searchsorted(edges, edges[i] + value, side="right")) - 1
        while i < finish:
            while j < last and edges[j + 1] <= edges[i] + value:
                j += 1
            upto = edges[j + 1] - value if j < last else np.inf
            # the first is in the cell, whatever the difference rounds to
            moved, sums = source[i], source[i] * edges[i]
            i += 1
            while i < finish and edges[i] < upto:
                if i % BLOCK == 0 and i + BLOCK <= finish and edges[i + BLOCK - 1] < upto:
                    moved += blocks[0, i // BLOCK]
                    sums += blocks[1, i // BLOCK]
                    i += BLOCK
                else:
                    moved += source[i]
                    sums += source[i] * edges[i]
                    i += 1
            if moved == 0.0:
                continue
            total = sums + moved * value
            if j >= last:
                beyond[0] += moved
                beyond[1] += total
                continue
            above = (total - moved * edges[j]) / widths[j]
            above = min(max(above, 0.0), moved)
            out[j] += moved - above
            out[j + 1] += above
            top = max(top, j + 1)
    return top


# What `added` calls.
ADDED_PARTS = summed_blocks, added_even, added_beyond
