"""The loss of a target with two mirrored letters among decoys.

Whatever the protocol, once it is known that ``m`` messages carry one of the two letters, ``a`` of
them letter 0 and ``b = m - a`` letter 1, the pair is

    P(a | m) = f(a) (1 + z),   Q(a | m) = f(a) (1 - z),   f = Bin(m, 1/2),   z = gap (a - b) / m,

and protocols differ in the law of m and in the gap, which may depend on what else was counted; see
`clones` and `mixed_responses` beside this file. The pair is symmetric.
De Moivre's identity ``sum_{i >= a} (i - m/2) f(i) = a f(a) / 2`` gives first moments of tails,
hence hockey-stick divergences and masses of cells, from f and its tail at the ends alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort, SymmetricLoss
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.settings import BINARY
from shuffle_accountant.losses.two_letters.atoms import (
    BinaryBlocks,
    CellSums,
    loss_at,
    pieces,
    ties,
    ties_error,
)
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.binomial import (
    log_pmf,
    log_pmf_error,
    tail_ratio_error,
    upper_tail_ratio,
)
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.hockey_stick import Difference, difference_of
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Array,
    Bound,
    exponential,
    outwards,
    pairwise_sum,
    product,
    roundings,
    underflow,
)


@dataclass(frozen=True)
class BinaryLoss(SymmetricLoss):
    """Privacy loss of one binary target among its clones, or other decoys.

    The source says how many messages carry one of the target's two letters.
    """

    source: NumberOfClones | NumberOfMixedResponses

    @property
    def largest(self) -> float:
        """Upper bound of the losses, nats."""
        return self.source.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.source.deviation

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "binomial"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``H_alpha``, alpha = e^epsilon, epsilon >= 0: a sum over counts of decoys.

        Relative accuracy is a few hundred units in the last place where blocks are single counts.
        """
        if epsilon >= self.largest and self.largest < math.inf:
            return 0.0
        blocks = self.source.blocks(side, effort)
        if epsilon < math.inf:
            low, high = _conditional(epsilon, blocks)
        else:  # all messages are alike
            low = high = np.where(blocks.log_rest == -np.inf, np.exp2(1.0 - blocks.count), 0.0)
        upper = side is Bound.PESSIMISTIC
        total = rounded(float(np.sum(blocks.weight * (high if upper else low))), 4)
        total = outwards(total, pairwise_sum(own=4), upper=upper)
        lost = 1e-315  # at most, by numbers below the smallest normal double
        return min(total + blocks.missing + lost, 1.0) if upper else max(total - lost, 0.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """PldAtoms of the pair: of few, one by one or cell by cell; of many, from a table."""
        if effort.many and (found := self._tabled(side, edges, effort)) is not None:
            return found
        blocks = self.source.blocks(side, replace(effort, tail=0.25 * effort.tail))
        m = blocks.count
        # Hoeffding: P(a >= m/2 + t sqrt(m)/2) <= 2 exp(-t^2/2) for the P-law, the other side less.
        reach = np.log(np.maximum(blocks.weight, 1e-320)) - math.log(effort.tail)
        reach = np.sqrt(2.0 * np.maximum(reach + math.log(16.0 * m.size), 0.0))
        last = np.minimum(np.ceil(0.5 * (m + reach * np.sqrt(m))), m)
        cut = 0.5 * effort.tail if bool(np.any(last < m)) else 0.0
        first = np.floor(0.5 * m) + 1.0

        top = loss_at(blocks.gap, blocks.log_rest, last, m)
        # where the largest is infinite, the grid must reach up to the one below it
        below = loss_at(blocks.gap, blocks.log_rest, np.maximum(last - 1.0, 0.5 * m), m)
        finite = np.where(np.isfinite(top), top, below)
        grid = edges(float(finite.max(initial=0.0)))
        # cells up to each block's own largest loss
        cells = np.searchsorted(grid, np.where(np.isfinite(top), top, np.inf)) + 1
        lengths = last - first + 1
        listed = (lengths <= 6.0 * cells) | (m < 4096)
        size = int(lengths[listed].sum()) + int(cells[~listed].sum())
        most = min(effort.most_atoms, BINARY.at_once)
        few = (
            BINARY.tabled < float(lengths.sum()) < BINARY.listed
            and effort.most_atoms >= BINARY.at_once
        )
        if few and (found := self._tabled(side, edges, effort)) is not None:
            return found
        sums = CellSums(grid if size > most else None)
        for piece in pieces(blocks, first, last, listed, grid, most):
            sums.add(piece)
        half = sums.atoms()
        tied = blocks.silent + ties(blocks.weight, m)

        sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
        far, upper = np.isinf(half.loss), side is Bound.PESSIMISTIC
        # a sum that is rounded once, for which masses' bounds have room
        infinite, off = math.fsum(half.mass[far].tolist()), half.slack[far].max(initial=0.0)
        infinite = outwards(infinite, float(off), upper=upper)
        keep = ~far & (half.mass > 0)
        loss, slack = half.loss[keep], half.slack[keep]
        everything = np.concatenate([half.mass[keep], half.other[keep], [tied]])
        slack = np.concatenate([slack, slack, [ties_error()]])
        truncated = blocks.missing + cut
        return PldAtoms(
            side=side,
            mass=outwards(everything, slack, upper=upper),
            loss=np.concatenate([loss, -loss, [0.0]]),
            infinite=max(infinite + sign * LIMITS.underflow, 0.0) + (truncated if upper else 0.0),
            truncated=truncated,
            round_off=blocks.round_off + float(np.sum(everything * slack)),
            loss_error=float(half.loss_error.max(initial=0.0)),
        )

    def _tabled(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms | None:
        """The atoms from a table that rounds of any size share; None if blocks are as good."""
        source = self.source  # the gap of other sources depends on what else was counted
        return source.tabled(side, edges, effort) if isinstance(source, NumberOfClones) else None


def _conditional(epsilon: float, blocks: BinaryBlocks) -> tuple[Array, Array]:
    """Bracket of the divergence given each block."""
    m = blocks.count
    # a gap below all doubles adds less than what is allowed for numbers as small
    with np.errstate(over="ignore"):
        reach = rounded(math.tanh(0.5 * epsilon) / np.maximum(blocks.gap, underflow(1)), 16)
        away = 0.5 * m * reach  # the losses of a > m/2 + away are above epsilon
    first, last = (
        np.minimum(np.floor(0.5 * m) + np.floor(moved * away + 0.5 * (m % 2.0)) + 1.0, m)
        for moved in (1.0 - roundings(32), 1.0 + roundings(32))
    )
    log_f = _of_pairs(_log_half, first, m)
    f = np.exp(log_f)
    terms = _bracket(epsilon, first, blocks)
    # counts of which rounding decides whether they belong to the sum: P - alpha Q is close to 0
    doubtful = (last - first) * (roundings(64) * math.expm1(min(epsilon, 700.0)))
    error = terms.error + doubtful
    error = error + np.abs(terms.value) * exponential(log_pmf_error(first, m, 0.5, log_f))
    found = Difference(terms.value, error)
    return f * found.positive(upper=False), f * found.positive(upper=True)


def _log_half(a: Array, m: Array) -> Array:
    """``log f(a)``, f = Bin(m, 1/2)."""
    return log_pmf(a, m, 0.5, 0.5)


def _half_tail(a: Array, m: Array) -> Array:
    """The probability of a or more, over f(a)."""
    return upper_tail_ratio(a, m, 0.5, 0.5)


def _of_pairs(function: Callable[[Array, Array], Array], a: Array, m: Array) -> Array:
    """Values of a function at pairs (a, m), shape of ``m``, each different pair computed once.

    Blocks that differ in their gap alone often share their pair.
    """
    largest = float(m.max(initial=0.0))
    if m.size < 1024 or largest >= 2.0**26:  # few, or too large for keys in a double
        return function(a, m)
    if bool(np.all(np.diff(m) > 0)):
        return function(a, m)
    keys, place = np.unique(m * 2.0**27 + a, return_inverse=True)
    count = np.floor(keys / 2.0**27)
    return function(keys - count * 2.0**27, count)[place]


def _bracket(epsilon: float, a: Array, blocks: BinaryBlocks) -> Difference:
    """``sum_{i >= a} (P - alpha Q)(i) / f(a)``."""
    m, gap = blocks.count, blocks.gap
    b, share = m - a, a / m
    if epsilon < 1.0:
        growth = math.expm1(epsilon)
        tail = _of_pairs(_half_tail, a, m)
        gain, cost = (2.0 + growth) * gap * share, growth * tail
    else:
        # gap a/m and the tail ratio are both near 1 here: alpha multiplies what is left of their
        # difference, a sum of three positive terms
        left = np.where(b > 0, b / (a + 1.0), 0.0)
        left = left * _of_pairs(_half_tail, np.minimum(a + 1.0, m), m)
        gain = gap * share + 1.0 + left
        cost = _scaled_exp(epsilon, left + b / m)
        cost = cost + share * np.exp(np.minimum(epsilon + blocks.log_rest, 700.0))
    cost = rounded(cost, 8.0 + 8.0 * epsilon)
    # e^epsilon times a factor is the exponential of a sum of logarithms, of which only those up to
    # about epsilon in size count, and each of them moves by its own rounding and the function's
    own = roundings(28.0 + 10.0 * epsilon)
    return difference_of(gain, cost, min(product(tail_ratio_error(), own), 1.0))


def _scaled_exp(epsilon: float, factor: Array) -> Array:
    """``e^epsilon * factor``, capped instead of overflowing; 0 where the factor is 0."""
    with np.errstate(divide="ignore"):
        return np.exp(np.minimum(epsilon + np.log(factor), 700.0))
