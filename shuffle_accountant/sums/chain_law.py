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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from shuffle_accountant.numerics.compiled import compiled, thread_count
from shuffle_accountant.numerics.probabilities import normal_cells
from shuffle_accountant.numerics.rounding import Array, raised, roundings
from shuffle_accountant.sums.chain_cells import (
    ADDED_PARTS,
    added,
    entries_of,
    even_range,
    shares,
    sum_edges,
    window,
)
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.settings import CHAINS


@dataclass(frozen=True, eq=False)
class ChainSum:
    """Upper bound of the law of a sum of correlated ratios, in convex order.

    Attributes:
        law: of the sum, for the order in which a larger sum is no worse (Q, P).
        raised: factor >= 1 of all values of the sum in the order (P, Q).
    """

    law: SumLaw
    raised: float


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
    line = _resolved(bins, common, theta, own, tail, epsilon, CHAINS.ring, small)
    deviation = math.sqrt(common)
    # of all values that are rounded it is one, which few bins depend on
    step = min(line.step * math.sqrt(max(0.5 * bins * (1.0 - theta * theta), 1.0)), CHAINS.longest)
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
    more = min(max(bins / CHAINS.few, 1.0), CHAINS.coarsest)
    cells = coarser * more * more * CHAINS.cells
    step = deviation * math.sqrt(6.0 * coarser * more * CHAINS.nodes * (1.0 - theta * theta))
    if lowered > 0.0:
        most = coarser * min(more, 4.0) * CHAINS.lowered * max(epsilon, 1.0)
        step = min(step, math.log1p(math.sqrt(8.0 * most / lowered)), CHAINS.longest)
    nodes = nodes_of(deviation, step, 0.1 * tail / bins)
    spread = math.sqrt(own)
    other = np.zeros(1, np.float64)
    if own > 0.0:
        reach = math.sqrt(-2.0 * math.log(0.01 * tail / bins)) + spread
        steps = math.ceil(reach / CHAINS.own_step)
        other = np.asarray(CHAINS.own_step * spread * np.arange(-steps, steps + 1.0))
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
    error = steps * (CHAINS.own_error + roundings(2.0 * (line.nodes.size + line.other.size) + 16.0))
    law = SumLaw(
        value=line.edges[held],
        mass=raised(mass[held], error),
        count=bins,
        lost_gain=(gain / bins + lost) * (1.0 + error),
        lost=(left + lost) * (1.0 + error),
        moved=bins * (CHAINS.own_error + roundings(16)),
        reach=float(line.edges[held[-1]]),
    )
    return ChainSum(law, math.exp(short) * (1.0 + roundings(64)))


def _first_of_ring(line: _Line, noise: float, first: float, bins: int) -> _Held:
    """Masses by the second bin's value and the first bin's ratio, given the first bin's value."""
    add: Any = compiled(added, *ADDED_PARTS)
    alone, out = np.zeros((2, 1, line.edges.size))
    beyond = np.zeros((2, 1))
    alone[0, 0] = 1.0
    entries = line.entries(np.full(1, math.exp(first - 0.5 * line.common)))
    high = int(add(alone, *entries, line.edges, line.even, 0, 1, line.even, out, beyond)) + 1
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
    add: Any = compiled(added, *ADDED_PARTS)
    mass, left, gain, low, high = held.mass, held.left, held.gain, 0, held.high
    mean = float(line.apart @ line.chance)
    ranges = shares(left.size, line.apart.size * line.edges.size)
    entries = [line.entries(line.ratio[begin:end]) for begin, end in ranges]
    with ThreadPoolExecutor(thread_count(len(ranges))) as threads:
        for place in range(bins):
            out, above = np.zeros_like(mass), [np.zeros((2, end - begin)) for begin, end in ranges]
            rest = line.edges, line.even, low, high, line.even
            calls = [
                (mass[begin:end], *part, *rest, out[begin:end], beyond)
                for (begin, end), part, beyond in zip(ranges, entries, above, strict=True)
            ]
            high = max(threads.map(lambda call: int(add(*call)), calls)) + 1
            lost, taken = np.concatenate(above, axis=1)
            gain = gain + line.ratio * mean * left + taken
            left = left + lost
            if place < bins - 1:
                chances = turn(place + 1)
                out[:, low:high] = chances @ out[:, low:high]
                left, gain = chances @ left, chances @ gain
            if place % CHAINS.cleared == 0:
                low, high = window(out, line.edges, low, high, left, gain, line.ratio, budget)
            mass = out
    return _Held(mass, left, gain, high)


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
