"""The probability that a round's loss is at least epsilon, for a target that never lies.

This is a valid but loose delta ("probabilistic differential privacy"). It is no hockey-stick
divergence: losses may only be rounded up or down, which costs the first order in the spacing.

Given ``m = C + 1`` messages with one of the two letters, the loss under P is ``log(a/b)``, a = A +
1, b = m - a, A ~ Bin(C, 1/2); so it is at least x where ``A >= ceil(m/(1 + e^-x)) - 1``. In a block
of counts C the threshold of one end is combined with the law of the other, both monotone in C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.clones import NumberOfClones
from shuffle_accountant.losses.counts import CountBlocks, count_blocks
from shuffle_accountant.losses.divergence import PROBABILISTIC_DP, Divergence
from shuffle_accountant.numerics.binomial import log_pmf, log_upper_tail
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    lowered,
    pairwise_sum,
    product,
    raised,
    roundings,
    sequential_sum,
)

__all__ = ["ProbabilisticDpLoss"]

# Blocks of counts are this many standard deviations of A wide: the threshold moves by as much.
_BLOCK = 0.02
# In one round's delta they are so many times the resolution wide.
_BLOCK_PER_RESOLUTION = 10.0
# So many tails are taken at once; more losses than that are rounded to fewer points.
_MOST_TAILS = 12_000_000
_BLOCKS_AT_ONCE = 32
# Relative error of a tail: of the pmf, at an exponent of at most 1000, and of a sum of which the
# first few thousand terms count.
_TAIL_ERROR = sequential_sum(2048, own=6144)


@dataclass(frozen=True)
class ProbabilisticDpLoss:
    """Tail probability of the loss of a target that never lies (``clones.largest`` is inf)."""

    clones: NumberOfClones

    @property
    def divergence(self) -> Divergence:
        """The tail probability."""
        return PROBABILISTIC_DP

    @property
    def largest(self) -> float:
        """There is no bound: the target may be alone."""
        return math.inf

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.clones.deviation if math.isfinite(self.clones.deviation) else 1.0

    @property
    def reversed(self) -> ProbabilisticDpLoss:
        """The loss of (Q, P): the pair is symmetric."""
        return self

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``P(loss >= epsilon)``, epsilon >= 0."""
        # a block moves the threshold by half its width, and the tail by about as many deviations
        blocks = self._blocks(side, effort, min(_BLOCK, _BLOCK_PER_RESOLUTION * effort.resolution))
        law, threshold = _thresholds(np.array([[epsilon]]), blocks, side)
        tails = np.exp(log_upper_tail(np.maximum(threshold[0], 0.0), law, 0.5, 0.5))
        value = float(np.sum(blocks.weight * tails))
        if side is Bound.OPTIMISTIC:
            return lowered(value, _TAIL_ERROR)
        return min(raised(value, _TAIL_ERROR) + blocks.missing + 1e-315, 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The law of the loss, rounded up (PESSIMISTIC) or down (OPTIMISTIC) to edges."""
        blocks = self._blocks(side, effort, _BLOCK)
        # beyond, Hoeffding: P(A >= C/2 + t sqrt(C)/2) <= exp(-t^2/2)
        reach = math.sqrt(-2.0 * math.log(effort.tail))
        share = min(0.5 + 0.5 * (reach + 1.0) / math.sqrt(1.0 + float(blocks.low[0])), 1.0)
        end = math.log(float(blocks.high[-1]) + 1.0) + 1.0
        if share < 1.0:
            end = min(end, math.log(share / (1.0 - share)))
        grid = edges(end)[:: SUBCELLS if side is Bound.OPTIMISTIC else 1]
        stride = max(math.ceil(2 * grid.size * blocks.weight.size / _MOST_TAILS), 1)
        grid = grid[::stride]
        points = np.concatenate([-grid[:0:-1], grid])
        above = np.zeros(points.size)
        for start in range(0, blocks.weight.size, _BLOCKS_AT_ONCE):
            some = slice(start, start + _BLOCKS_AT_ONCE)
            part = replace(
                blocks, weight=blocks.weight[some], low=blocks.low[some], high=blocks.high[some]
            )
            law, threshold = _thresholds(points[:, None], part, side)
            for i, count in enumerate(law.tolist()):
                above += part.weight[i] * _upper_tails(threshold[:, i], count)
        mass = np.maximum(-np.diff(above), 0.0)  # of losses from each point to the next
        if side is Bound.PESSIMISTIC:
            # what lies below the first point goes there, what lies above the last to +inf
            rest = max(float(blocks.weight.sum()) - float(above[0]), 0.0)
            loss, mass = points, np.append(rest, mass)
            infinite = raised(float(above[-1]) + blocks.missing, _TAIL_ERROR)
            # a difference of tails is off by their errors
            mass = raised(mass, product(_TAIL_ERROR, pairwise_sum())) + _TAIL_ERROR * np.append(
                above[0], above[:-1] + above[1:]
            )
        else:
            # what is certainly infinite: all messages are alike
            infinite = lowered(float(np.sum(blocks.weight * np.exp2(-blocks.high))), _TAIL_ERROR)
            loss, mass = points, np.append(mass, max(above[-1] - infinite, 0.0))
            both = np.append(above[:-1] + above[1:], above[-1])
            mass = np.maximum(mass - _TAIL_ERROR * both, 0.0)
        return PldAtoms(
            side=side,
            mass=mass,
            loss=loss,
            infinite=infinite,
            truncated=blocks.missing,
            round_off=blocks.round_off + 4 * _TAIL_ERROR,
            loss_error=roundings(2 * ELEMENTARY) * float(points[-1]),
        )

    def _blocks(self, side: Bound, effort: Effort, width: float) -> CountBlocks:
        """Blocks of that many standard deviations of A."""
        source = self.clones
        mean = 1.0 + source.decoys * source.rate
        return count_blocks(
            source.decoys,
            source.rate,
            source.idle,
            side,
            tail=0.5 * effort.tail,
            resolution=min(width / math.sqrt(mean), 0.5),
        )


def _thresholds(losses: Array, blocks: CountBlocks, side: Bound) -> tuple[Array, Array]:
    """Bounds of ``P(loss >= x | block)``: as ``P(Bin(law, 1/2) >= threshold)``.

    Args:
        losses: x, shape (m, 1).
        blocks: blocks of counts.
        side: of the bound.

    Returns:
        ``(law, threshold)``, shapes (blocks,) and (m, blocks).
    """
    upper = side is Bound.PESSIMISTIC
    law, other = (blocks.high, blocks.low) if upper else (blocks.low, blocks.high)
    share = 1.0 / (1.0 + np.exp(-losses))
    # a threshold that is an integer up to rounding counts as met (PESSIMISTIC) or not (OPTIMISTIC);
    # half of an integer is exact
    rounded = (share < 1.0) & (losses != 0.0)
    error = roundings(ELEMENTARY + 4)
    nudge = np.where(rounded, 1.0 - error if upper else 1.0 + error, 1.0)
    return law, np.ceil(share * (other + 1.0) * nudge) - 1.0


def _upper_tails(threshold: Array, count: float) -> Array:
    """``P(Bin(count, 1/2) >= threshold)`` for each of ascending thresholds."""
    wanted = np.clip(threshold, 0.0, count + 1.0)
    low, high = float(wanted[0]), min(float(wanted[-1]), count)
    if high - low > 4 * wanted.size + 1024:
        new = np.flatnonzero(np.diff(wanted, prepend=-1.0))
        few = wanted[new]
        tails = np.exp(log_upper_tail(few, np.full(few.size, count), 0.5, 0.5))
        return np.asarray(np.repeat(tails, np.diff(np.append(new, wanted.size))))
    values = np.arange(low, high + 1.0)
    mass = np.exp(log_pmf(values, np.full(values.size, count), 0.5, 0.5))
    beyond = float(np.exp(log_upper_tail(np.array([high + 1.0]), np.array([count]), 0.5, 0.5))[0])
    tails = np.append(np.cumsum(mass[::-1])[::-1] + beyond, beyond)
    return np.asarray(tails[(wanted - low).astype(np.intp)])
