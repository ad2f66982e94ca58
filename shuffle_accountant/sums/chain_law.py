"""Upper bounds of the sum of likelihood ratios whose logarithms are a chain or ring plus noise.

The logarithm of bin i's ratio is ``z_i + y_i`` less half its variance: z a stationary normal chain,
``z_(i+1) = theta z_i + noise`` of variance g, and y independent of variance w. Covariances are ``g
theta^|i - j|``, plus w on the diagonal. The law of (z_i, sum so far) is followed bin by bin: z on
nodes, the sum on cells, every spread mean-preserving, all numbers positive.

* *Rounding z_i to the nodes* at random, so that ``E e^z`` is kept, and going on from the node. The
  sum is ``A + Y e^(z_i) + sum_d B_d e^(theta^d z_i)`` given all other randomness, with B_d >= 0,
  and rounding lowers the mean of the last powers by a part of at most ``theta^d (1 - theta^d) c``,
  c a quarter of half the square of a step's relative length. By Jensen's inequality the divergence
  ``E (1 - alpha L)_+`` only grows; so does ``E (L - alpha)_+`` once every term of the sum is
  divided by the product of ``1 - theta^d (1 - theta^d) c`` over all d, which is `ChainSum.raised`.
* *A ring* comes back to where it began: ``z_0`` is rounded first, to nodes of its own, and given
  it the others are a chain towards it. The power of ``z_i`` in a later value, given ``z_0``, is at
  most theta^d, and that of ``z_0`` at most 1, so that the same holds.
* *Cells.* The part of a sum between two edges goes to both, its mean kept.
* *What leaves the nodes* is charged by Chernoff's bound, under Q and under P; what leaves the cells
  is followed by its probability and its mean, which stay exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Array, raised, roundings
from shuffle_accountant.sums.doubling import SumLaw

# Part of the sum's variance that the cells of sums may add, and of the chain's that its nodes may
# add; up to _FEW bins. For more of them, in proportion to their number, nodes add more, by no more
# than _COARSEST times, and cells the square of that.
_CELLS, _NODES, _FEW, _COARSEST = 1e-3, 3e-3, 50, 7.0
# Most that nodes may lower a power's mean by, all distances together, for up to _FEW bins and an
# epsilon of at most 1 nat; in proportion to a larger epsilon, and twice that for more bins.
_LOWERED = 1e-3
# Largest distance of nodes, in logarithms of ratios.
LONGEST = 0.8
# Length of a step of the independent part, in its deviations: a fiftieth of its variance.
_STEP = 0.35
# What far cells are wider by than the first ones, in their distance from the last even one.
_FAR_CELLS = 0.05
# Largest epsilon, in nats, for which cells are of equal width up to where it is decided: farther
# out a sum is hardly more than one ratio, which wider cells hold as well.
_EVEN_EPSILON = 1.2
# Cells are of equal width up to this many times the sum at which the divergence is to be tight, but
# they are no more than this many, and wide enough to reach that many times the sum's mean.
NEAR, _MOST_EVEN = 1.4, 12_000
# Width of cells for small sums, in the sum at which the divergence is to be tight, and how many
# times that sum has them at most.
_SMALL_CELLS, _SMALL_SUMS = 0.1, 100.0
# Factor of what cells and nodes of a ring may add: it is followed once for every value of a bin.
_RING = 4.0
# Number of neighbouring sums that are added at once where one cell holds them all.
_BLOCK = 16
# Number of bins after which cells that hold next to no mass are cleared.
CLEARED = 4
# Errors of one step, relative: of a normal cell's probability and of the share of its upper node.
OWN = 1e-11


@dataclass(frozen=True, eq=False)
class ChainSum:
    """Upper bound of the law of a sum of correlated ratios, in convex order.

    Attributes:
        law: of the sum, for the order in which a larger sum is no worse (Q, P).
        raised: factor >= 1 of all values of the sum in the order (P, Q).
    """

    law: SumLaw
    raised: float


Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array, Array, Array]
"""Values that are added to sums: starts, rows, shifts, values, weights, uppers.

The values of a state are those from its start to the next one's, each with the row of its results.
A shift is a number of even cells, or -1 for a value beyond them; weights are probabilities, and
uppers the parts of them that go one even cell further.
"""


def chain_sum(
    bins: int,
    common: float,
    theta: float,
    own: float,
    *,
    tail: float,
    epsilon: float,
    coarser: float = 1.0,
    small: bool = False,
) -> ChainSum:
    """Upper bound of the law of the sum over all bins of their likelihood ratios under Q.

    Args:
        bins: their number, >= 1.
        common: variance g of the chain, > 0.
        theta: correlation of neighbours, in [0, 1).
        own: variance w of the independent part, >= 0.
        tail: probability and gain that may be left out in all.
        epsilon: nats about which the divergence is to be tight; it is a bound everywhere.
        coarser: factor of what cells and nodes may add, for a first look.
        small: whether it is to be tight for small sums, as the order (Q, P) asks for.
    """
    line = _resolved(bins, common, theta, own, tail, epsilon, coarser, small)
    nodes, deviation = line.nodes, math.sqrt(common)
    start = rounded_to_nodes(np.zeros(1), deviation, nodes)[0]
    noise = deviation * math.sqrt(1.0 - theta * theta)
    turn = rounded_to_nodes(theta * nodes, noise, nodes).T.copy()
    held = _Held(np.zeros((nodes.size, line.edges.size)), start * 0.0, start * 0.0, 1)
    held.mass[:, 0] = start
    held = _followed(line, held, bins, lambda place: turn, tail / (4.0 * bins * bins))
    lost = outside(bins, deviation, nodes, line.step, theta)
    powers = theta ** np.arange(1.0, min(bins, 4000))
    short = -float(np.sum(np.log1p(-powers * (1.0 - powers) * line.part)))
    mass, left, gain = held.totals
    return _bounded(line, bins, bins, mass, left, gain, lost, short)


def ring_sum(
    bins: int,
    common: float,
    theta: float,
    own: float,
    *,
    tail: float,
    epsilon: float,
    small: bool = False,
) -> ChainSum:
    """Upper bound of the law of the sum over a ring of bins of their likelihood ratios under Q.

    Covariances are ``common (theta^d + theta^(b-d)) / (1 + theta^b)`` at a distance of d bins, plus
    ``own`` on the diagonal. The first bin's value is put on nodes of its own, and the others are
    followed given it: a chain that comes back to it.

    Args:
        bins: their number b, >= 3.
        common: variance g of the ring, > 0.
        theta: its parameter, in (0, 1).
        own: variance w of the independent part, >= 0.
        tail: probability and gain that may be left out in all.
        epsilon: nats about which the divergence is to be tight; it is a bound everywhere.
        small: whether it is to be tight for small sums, as the order (Q, P) asks for.
    """
    line = _resolved(bins, common, theta, own, tail, epsilon, _RING, small)
    deviation = math.sqrt(common)
    # of all values that are rounded it is one, which few bins depend on
    step = min(line.step * math.sqrt(max(0.5 * bins * (1.0 - theta * theta), 1.0)), LONGEST)
    firsts = nodes_of(deviation, step, 0.1 * tail / bins)
    chances = rounded_to_nodes(np.zeros(1), deviation, firsts)[0]
    # of a chain that may go around any number of times
    around = math.tanh(-0.5 * bins * math.log(theta))
    noise = deviation * math.sqrt((1.0 - theta * theta) * around)
    total, left, gain = np.zeros(line.edges.size), 0.0, 0.0
    for first, weight in zip(firsts, chances, strict=True):

        def turn(place: int, first: float = float(first)) -> Array:
            return _towards(line, noise, line.nodes, first, bins - place)

        held = _first_of_ring(line, noise, float(first), bins)
        found = _followed(line, held, bins - 1, turn, tail / (4.0 * bins * bins)).totals
        total += weight * found[0]
        left += weight * found[1]
        gain += weight * found[2]
    lost = outside(bins - 1, deviation, line.nodes, line.step, theta, step)
    lost += outside(1, deviation, firsts, step, 0.0)
    part = 0.125 * math.expm1(step) ** 2
    short = 0.0
    for place in range(1, bins):
        from_first = (theta**place + theta ** (bins - place)) / (1.0 + theta**bins)
        before = np.arange(1, place)
        powers = theta ** (place - before) * -np.expm1(2.0 * (bins - place) * math.log(theta))
        powers /= -np.expm1(2.0 * (bins - before) * math.log(theta))
        one = -math.log1p(-from_first * (1.0 - from_first) * part)
        short = max(short, one - float(np.sum(np.log1p(-powers * (1.0 - powers) * line.part))))
    return _bounded(line, bins, bins + firsts.size, total, left, gain, lost, short)


@dataclass(frozen=True, eq=False)
class _Line:
    """Nodes of a chain's values and of the independent part, and cells of sums."""

    common: float
    theta: float
    spread: float
    step: float
    nodes: Array
    other: Array
    ratio: Array
    apart: Array
    chance: Array
    edges: Array
    even: int

    @property
    def part(self) -> float:
        """Most that rounding to a node takes of a power's mean, over ``power (1 - power)``."""
        return 0.125 * math.expm1(self.step) ** 2

    def entries(self, ratio: Array) -> Any:
        """Entries of states whose chain has these ratios."""
        return entries_of(ratio, self.apart, self.chance, self.edges, self.even)


@dataclass(frozen=True, eq=False)
class _Held:
    """Masses by node and edge, with the probability and the sum's mean left out by node."""

    mass: Array
    left: Array
    gain: Array
    high: int

    @property
    def totals(self) -> tuple[Array, float, float]:
        """Masses at the edges, the probability and the mean left out, over all nodes."""
        return self.mass.sum(axis=0), float(self.left.sum()), float(self.gain.sum())


def _resolved(
    bins: int,
    common: float,
    theta: float,
    own: float,
    tail: float,
    epsilon: float,
    coarser: float,
    small: bool,
) -> _Line:
    """Nodes and cells for a chain of so wide a question."""
    deviation = math.sqrt(common)
    powers = theta ** np.arange(1.0, min(bins, 4000))
    lowered = float(np.sum(powers * (1.0 - powers)))
    more = min(max(bins / _FEW, 1.0), _COARSEST)
    cells = coarser * more * more * _CELLS
    step = deviation * math.sqrt(6.0 * coarser * more * _NODES * (1.0 - theta * theta))
    if lowered > 0.0:
        most = coarser * min(more, 2.0) * _LOWERED * max(epsilon, 1.0)
        step = min(step, math.log1p(math.sqrt(8.0 * most / lowered)), LONGEST)
    nodes = nodes_of(deviation, step, 0.1 * tail / bins)
    spread = math.sqrt(own)
    other = np.zeros(1, np.float64)
    if own > 0.0:
        reach = math.sqrt(-2.0 * math.log(0.01 * tail / bins)) + spread
        steps = math.ceil(reach / _STEP)
        other = np.asarray(_STEP * spread * np.arange(-steps, steps + 1.0))
    chance = rounded_to_nodes(np.zeros(1), spread, other)[0] if own > 0.0 else np.ones(1)
    ratio, apart = np.exp(nodes - 0.5 * common), np.exp(other - 0.5 * own)
    near, widest = even_range(bins, epsilon, small)
    most = float(ratio[-1] * apart[-1])
    edges, even = sum_edges(bins, common, theta, own, cells, near, most, widest)
    return _Line(
        *(common, theta, spread, step, nodes, other, ratio, apart, chance),
        edges=edges,
        even=even,
    )


def _bounded(
    line: _Line,
    bins: int,
    steps: int,
    mass: Array,
    left: float,
    gain: float,
    lost: float,
    short: float,
) -> ChainSum:
    """The bound, from masses at the edges and what was left out.

    Args:
        line: nodes and cells.
        bins: number of ratios in the sum.
        steps: number of roundings to nodes and of sums over them.
        mass: at the edges.
        left: probability of sums beyond the last edge.
        gain: their mean, times their probability.
        lost: probability of values beyond the nodes, under Q or P.
        short: logarithm of what means of powers are lowered by.
    """
    if line.spread > 0.0:
        lost += beyond(bins, line.spread, line.other)
    held = np.flatnonzero(mass)
    error = steps * (OWN + roundings(2.0 * (line.nodes.size + line.other.size) + 16.0))
    law = SumLaw(
        value=line.edges[held],
        mass=raised(mass[held], error),
        count=bins,
        lost_gain=(gain / bins + lost) * (1.0 + error),
        lost=(left + lost) * (1.0 + error),
        moved=bins * (OWN + roundings(16)),
        reach=float(line.edges[held[-1]]),
    )
    return ChainSum(law, math.exp(short) * (1.0 + roundings(64)))


def _first_of_ring(line: _Line, noise: float, first: float, bins: int) -> _Held:
    """Masses by the second bin's value and the first bin's ratio, given the first bin's value."""
    add: Any = compiled(added, added_beyond)
    alone, out = np.zeros((2, 1, line.edges.size))
    beyond = np.zeros((2, 1))
    alone[0, 0] = 1.0
    entries = line.entries(np.full(1, math.exp(first - 0.5 * line.common)))
    high = int(add(alone, *entries, line.edges, line.even, 0, 1, out, beyond)) + 1
    turn = _towards(line, noise, np.full(1, first), first, bins)[:, 0]
    return _Held(np.outer(turn, out[0]), turn * beyond[0, 0], turn * beyond[1, 0], high)


def _towards(line: _Line, noise: float, values: Array, end: float, away: int) -> Array:
    """Chances of the next bin's nodes, by column, given a value and another one some bins on."""
    theta, rate = line.theta, 2.0 * math.log(line.theta)
    whole, rest = -math.expm1(rate * away), -math.expm1(rate * (away - 1))
    mean = (theta * rest * values + theta ** (away - 1) * (1.0 - theta**2) * end) / whole
    turn = rounded_to_nodes(mean, noise * math.sqrt(rest / whole), line.nodes)
    return np.ascontiguousarray(turn.T)


def nodes_of(deviation: float, step: float, tail: float) -> Array:
    """Nodes of the chain's values: far enough for the tail under Q and, upwards, under P."""
    reach = deviation * (math.sqrt(-2.0 * math.log(tail)) + 1.0)
    below, above = math.ceil(reach / step), math.ceil((reach + deviation**2) / step)
    return np.asarray(step * np.arange(-below, above + 1.0))


def rounded_to_nodes(mean: Array, deviation: float, nodes: Array) -> Array:
    """Masses at the nodes of normal values rounded at random with ``E e^z`` kept, a row each.

    What lies outside the nodes is left out.
    """
    centre = mean[:, None]
    score = (nodes - centre) / deviation
    cells = normal_cells(score)
    tilted = normal_cells(score - deviation) * np.exp(centre + 0.5 * deviation**2)
    low = np.exp(nodes)
    above = np.clip((tilted - low[:-1] * cells) / np.diff(low), 0.0, cells)
    found = np.zeros(score.shape)
    found[:, :-1] = cells - above
    found[:, 1:] += above
    return found


def even_range(bins: int, epsilon: float, small: bool) -> tuple[float, float]:
    """Sum up to which cells are even, and their largest width.

    Args:
        bins: number of ratios of mean one in the sum.
        epsilon: nats about which the divergence is to be tight.
        small: whether for small sums, as the order (Q, P) asks for, or for large ones, far above
            which divergences are linear.
    """
    if not small:
        return NEAR * bins * math.exp(min(epsilon, _EVEN_EPSILON)), math.inf
    sums = bins * math.exp(-epsilon)
    return NEAR * min(float(bins), _SMALL_SUMS * sums), _SMALL_CELLS * sums


def sum_edges(
    bins: int,
    common: float,
    theta: float,
    own: float,
    added: float,
    even: float,
    largest: float,
    widest: float = math.inf,
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
    """
    away = np.arange(1.0, min(bins, 4000))
    covered = np.minimum(common * theta**away, 600.0)
    one = math.expm1(min(common + own, 600.0))
    variance = bins * (one + 2.0 * float(np.sum(np.expm1(covered) * (1.0 - away / bins))))
    # heavy tails have cells of their own width: only the bulk is to be resolved
    variance = min(variance, bins * (bins + 10.0) * 4.0)
    width = min(math.sqrt(6.0 * added * variance / bins), widest)
    if even >= NEAR * bins:  # up to the mean, and not to small sums alone
        width = max(width, NEAR * bins / _MOST_EVEN)
    count = min(math.ceil(even / width), _MOST_EVEN) + 1
    found = [width * np.arange(count)]
    last, top = float(found[0][-1]), even + bins * largest
    growing = math.ceil(math.log1p((top - last) * _FAR_CELLS / width) / math.log1p(_FAR_CELLS)) + 1
    found.append(
        last + width / _FAR_CELLS * np.expm1(np.arange(1, growing + 1) * math.log1p(_FAR_CELLS))
    )
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


def _followed(
    line: _Line, held: _Held, bins: int, turn: Callable[[int], Array], budget: float
) -> _Held:
    """Masses after further bins, the first of which has the nodes' values as they are.

    Args:
        line: nodes and cells.
        held: masses before.
        bins: number of further bins.
        turn: chances of the next bin's nodes by column, from the number of bins before it.
        budget: mass and mean that one clearing may leave out.
    """
    add: Any = compiled(added, added_beyond)
    entries = line.entries(line.ratio)
    mass, left, gain, low, high = held.mass, held.left, held.gain, 0, held.high
    mean = float(line.apart @ line.chance)
    for place in range(bins):
        out = np.zeros_like(mass)
        beyond = np.zeros((2, left.size))
        high = int(add(mass, *entries, line.edges, line.even, low, high, out, beyond)) + 1
        gain = gain + line.ratio * mean * left + beyond[1]
        left = left + beyond[0]
        if place < bins - 1:
            chances = turn(place + 1)
            out[:, low:high] = chances @ out[:, low:high]
            left, gain = chances @ left, chances @ gain
        if place % CLEARED == 0:
            low, high = window(out, line.edges, low, high, left, gain, line.ratio, budget)
        mass = out
    return _Held(mass, left, gain, high)


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
        out: masses of the sums by row, added to.
        beyond: probability and mean of sums above the last edge by row, added to.
    """
    top = low
    widths = np.diff(edges)
    inverse = 1.0 / widths
    blocks = np.zeros((2, edges.size // _BLOCK + 1))
    # what a shift by even cells brings beyond them, which neighbouring entries share
    far, known = np.zeros((2, edges.size)), np.zeros(2, np.int64)
    off = np.zeros((2, 2))
    first = max(even - 2, 0)  # no value that is no even shift is smaller than this edge
    for state in range(starts.size - 1):
        source = mass[state]
        start, end = low, high
        while start < end and source[start] == 0.0:
            start += 1
        while start < end and source[end - 1] == 0.0:
            end -= 1
        for part in range(start // _BLOCK, end // _BLOCK):
            sums, moments = 0.0, 0.0
            for i in range(part * _BLOCK, (part + 1) * _BLOCK):
                sums += source[i]
                moments += source[i] * edges[i]
            blocks[0, part], blocks[1, part] = sums, moments
        known[:] = -1
        for entry in range(starts[state], starts[state + 1]):
            shift, upper = shifts[entry], uppers[entry]
            lower = weights[entry] - upper
            row = rows[entry]
            target = out[row]
            if shift < 0:
                far[0, first:], off[0, :], known[0] = 0.0, 0.0, -1
                value = values[entry]
                found = added_beyond(
                    source, blocks, value, start, end, edges, widths, inverse, even, far[0], off[0]
                )
                tail, there = far[0, first : found + 1], target[first : found + 1]
                for i in range(tail.size):
                    there[i] += tail[i] * lower
                beyond[0, row] += off[0, 0] * lower
                beyond[1, row] += off[0, 1] * lower
                top = max(top, found)
                continue
            stop = max(min(end, even - shift - 1), start)
            if stop > start:  # sums of even cells that stay in them
                near, there = source[start:stop], target[start + shift : stop + shift + 1]
                size = stop - start
                there[0] += near[0] * lower
                for i in range(1, size):
                    there[i] += near[i] * lower + near[i - 1] * upper
                there[size] += near[size - 1] * upper
                top = max(top, stop + shift)
            if stop < end and stop == even - shift - 1:  # the sum is the last even edge
                target[even - 1] += source[stop] * lower
                top = max(top, even - 1)
            # all others: a value that stands for several is taken as the two edges next to it
            for whole in (shift, shift + 1):
                weight = lower if whole == shift else upper
                begin = max(even - whole, start)
                if weight == 0.0 or begin >= end:
                    continue
                slot = whole % 2
                if known[slot] != whole:
                    far[slot, first:], off[slot, :], known[slot] = 0.0, 0.0, whole
                    found = added_beyond(
                        source,
                        blocks,
                        edges[whole],
                        begin,
                        end,
                        edges,
                        widths,
                        inverse,
                        even,
                        far[slot],
                        off[slot],
                    )
                    top = max(top, found)
                tail, there = far[slot, first:], target[first:]
                for i in range(tail.size):
                    there[i] += tail[i] * weight
                beyond[0, row] += off[slot, 0] * weight
                beyond[1, row] += off[slot, 1] * weight
    return top


def added_beyond(
    source: Array,
    blocks: Array,
    value: float,
    start: int,
    end: int,
    edges: Array,
    widths: Array,
    inverse: Array,
    even: int,
    out: Array,
    beyond: Array,
) -> int:
    """Add one value to a sum whose cells are not all even; return the last cell that is reached.

    Args:
        source: masses at the edges.
        blocks: masses and moments of each _BLOCK edges, shape (2, blocks).
        value: to be added.
        start: first edge whose mass is moved.
        end: end of them.
        edges: of the cells.
        widths: of the cells.
        inverse: one over each of them.
        even: how many edges have equal distances.
        out: masses of the sums, added to.
        beyond: probability and mean of the sums above the last edge, added to.
    """
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
                if i % _BLOCK == 0 and i + _BLOCK <= finish and edges[i + _BLOCK - 1] < upto:
                    moved += blocks[0, i // _BLOCK]
                    sums += blocks[1, i // _BLOCK]
                    i += _BLOCK
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


def outside(
    bins: int, deviation: float, nodes: Array, step: float, theta: float, first: float = 0.0
) -> float:
    """Bound of the probability, under Q or P, that the rounded chain ever leaves its nodes.

    Rounding multiplies the moment ``E e^(k z)`` by at most that of the two neighbours at the worst
    place between them, at every earlier value, whose power is at most ``k theta^d``; ``first`` is a
    step between nodes of one more value before, whose power is at most k.
    """
    total = 0.0
    for far, tilt in ((float(nodes[-1]), deviation**2), (-float(nodes[0]), 0.0)):
        best = math.inf
        for k in np.linspace(0.5, 1.5, 21) * (far - tilt) / deviation**2:
            powers = (k + 1.0) * theta ** np.arange(400)
            inflated = _inflation(powers, step) + _inflation(powers[:1], first)
            best = min(best, inflated + 0.5 * (k * deviation) ** 2 + k * tilt - k * far)
        total += bins * math.exp(min(best, 700.0))
    return min(total * (1.0 + 1e-3), 1.0)


def _inflation(powers: Array, step: float) -> float:
    """Logarithm of the product of what rounding may multiply these exponential moments by.

    On a step of ``U = e^z`` a chord of ``U^k`` or ``U^-k`` is above the curve by at most ``k (k +
    1) (e^step - 1)^2 e^(k step) / 8`` of the curve.
    """
    grown = np.exp(np.minimum(powers * step, 700.0))
    size = 0.125 * math.expm1(step) ** 2 * powers * (powers + 1.0)
    return float(np.sum(np.log1p(size * grown)))


def beyond(count: int, spread: float, nodes: Array) -> float:
    """Bound of the probability, under Q or P, that one of these normal values leaves its nodes."""
    from scipy.special import ndtr

    low, high = float(nodes[0]), float(nodes[-1])
    under_q = float(ndtr(low / spread)) + float(ndtr(-high / spread))
    return count * (under_q + float(ndtr(-(high - spread**2) / spread))) * (1.0 + 1e-9)
