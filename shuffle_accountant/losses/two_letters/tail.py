"""The probability that a round's loss is at least epsilon, for a target that never lies.

This is a valid but loose delta ("probabilistic differential privacy"). It is no hockey-stick
divergence: losses may only be rounded up or down, which costs the first order in the spacing.

Given C messages of the others with one of the two letters, the loss under P is ``2 artanh((R + 1) /
(C + 1))``, where R, the first letter's majority among them, is a symmetric walk of C steps. A walk
of two steps more is at least r >= 1 with no smaller a probability, and at least r <= 0 with no
larger one: R's law moves from ``p(r - 2) - 2 p(r) + p(r + 2)``, and p falls away from 0. So in a
block of counts of one parity the positive values of R are likeliest at its largest count, the
negative ones at its smallest, and all losses of the block are within its relative width of one
another. Where single counts are too many, both parities share a block, and R moves by the one step
that a count of the other parity is away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.discretize import SUBCELLS
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import (
    PROBABILISTIC_DP,
    CellEdges,
    Divergence,
    Effort,
    SymmetricLoss,
)
from shuffle_accountant.losses.counts import CountBlocks, bulk, count_blocks
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.settings import COUNTS, TAIL
from shuffle_accountant.numerics.binomial import log_pmf, log_upper_tail
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    SMALLEST,
    Array,
    Bound,
    lowered,
    outwards,
    raised,
    roundings,
    sequential_sum,
)


@dataclass(frozen=True, eq=False)
class _Blocks(CountBlocks):
    """Blocks of counts C whose ends have one parity; if the shift is 1, the other is included."""

    shift: float

    def parts(self, size: int) -> Iterator[tuple[Array, Array, Array]]:
        """Weights, smallest and largest counts of blocks; at most ``size`` of one parity a time."""
        odd = self.low % 2.0 == 1.0
        for some in (np.flatnonzero(~odd), np.flatnonzero(odd)):
            for start in range(0, some.size, size):
                part = some[start : start + size]
                yield self.weight[part], self.low[part], self.high[part]


@dataclass(frozen=True)
class ProbabilisticDpLoss(SymmetricLoss):
    """Probability that the loss is >= epsilon, for a target among clones that never lies."""

    clones: NumberOfClones

    @property
    def divergence(self) -> Divergence:
        """The tail probability."""
        return PROBABILISTIC_DP

    @property
    def largest(self) -> float:
        """Infinity: the target may be alone."""
        return math.inf

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.clones.deviation if math.isfinite(self.clones.deviation) else 1.0

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon."""
        return "binomial"

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound of ``P(loss >= epsilon)``, epsilon >= 0."""
        blocks = self._blocks(side, 0.5 * effort.tail, 4.0 * effort.resolution)
        upper = side is Bound.PESSIMISTIC
        part = rounded(math.tanh(0.5 * epsilon), ELEMENTARY)
        if epsilon > 0.0:
            part = max(part, SMALLEST)  # losses of 0 are smaller than any epsilon above
        if 0.0 < part < 1.0:
            part *= 1.0 - _moved() if upper else 1.0 + _moved()
        # R + 1 is at least that part of C + 1; all messages alike are any loss
        count = (blocks.low if upper else blocks.high) + 1.0
        least = np.minimum(np.ceil(part * count), count) - 1.0
        least -= blocks.shift if upper else -blocks.shift
        least += (least + blocks.low) % 2.0
        likelier = (least >= 1.0) == upper
        law = np.where(likelier, blocks.high, blocks.low)
        tails = np.exp(log_upper_tail(np.maximum(0.5 * (law + least), 0.0), law, 0.5, 0.5))
        value = float(np.sum(blocks.weight * tails))
        if not upper:
            return lowered(value, _tail_error())
        return min(raised(value, _tail_error()) + blocks.missing + 1e-315, 1.0)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """Distribution of the loss, rounded up (PESSIMISTIC) or down (OPTIMISTIC) to edges."""
        upper = side is Bound.PESSIMISTIC
        blocks = self._blocks(side, 0.25 * effort.tail, effort.resolution)
        # Hoeffding: P(R >= r) <= e^(-r^2 / (2 C)), on either side
        most = float(blocks.high.max(initial=0.0))
        reach = math.sqrt(-2.0 * most * math.log(0.25 * effort.tail))
        beyond = 0.5 * effort.tail if reach < most else 0.0
        reach = min(math.ceil(reach) + 1.0, most)
        # the largest finite loss where R is at most the reach, or a little less in size
        majority = np.minimum(reach + 2.0 + blocks.shift, blocks.low)
        largest = float(np.max(np.log1p(2.0 * majority / (blocks.low + 1.0 - majority))))
        fine, finer = edges(largest), 1 if upper else SUBCELLS
        spacing, last = finer * float(fine[1]), -(-(fine.size - 1) // finer)
        cells = _Cells(side, spacing, last, blocks.shift)
        step = 2.0 if reach <= 2.0 * TAIL.listed else 2.0 * math.ceil(0.5 * reach / TAIL.shared)
        values = np.arange(0.0, reach + 1.0, step)
        for weight, low, high in blocks.parts(max(LIMITS.at_once // values.size, 1)):
            cells.add(weight, low, high, values + low[0] % 2.0)
        mass, infinite, round_off = cells.total()
        missing = blocks.missing + beyond
        return PldAtoms(
            side=side,
            mass=mass,
            loss=rounded(spacing * np.arange(-last, last + 1, dtype=np.float64), 4.0),
            infinite=infinite + missing + 10.0 * LIMITS.underflow if upper else infinite,
            truncated=missing,
            round_off=blocks.round_off + round_off,
            loss_error=roundings(4.0) * spacing * last,
        )

    def _blocks(self, side: Bound, tail: float, width: float) -> _Blocks:
        """Blocks of a relative width, without a probability of ``tail`` on either side."""
        trials, rate, idle = self.clones.decoys, self.clones.rate, self.clones.idle
        counted = trials * rate * idle == 0.0
        if not counted:
            first, last = bulk(trials, rate, idle, tail)
            counted = last - first <= COUNTS.added  # each parity in blocks of its own
        found = count_blocks(
            trials, rate, idle, side, tail=tail, resolution=0.0 if counted else width
        )
        # those above the last block have joined it, which is no bound here
        missing = found.missing + (tail if side is Bound.PESSIMISTIC else 0.0)
        if not counted:
            pairs = np.ceil(0.5 * (found.high + 1.0 - found.low))
            high = found.low + 2.0 * pairs
            return _Blocks(found.weight, found.low, high, missing, found.round_off, 1.0)
        joined = 1 + int(0.5 * min(width, 1.0) * float(found.low[0]))
        columns = []
        for counts, chances in ((found.low[k::2], found.weight[k::2]) for k in (0, 1)):
            starts = np.arange(0, counts.size, joined)
            if starts.size:
                last = counts[np.minimum(starts + joined, counts.size) - 1]
                weight = rounded(np.add.reduceat(chances, starts), joined)
                columns.append((weight, counts[starts], last))
        weight, low, high = (np.concatenate(one) for one in zip(*columns, strict=True))
        error = sequential_sum(float(joined))
        weight = outwards(weight, error, upper=side is Bound.PESSIMISTIC)
        return _Blocks(weight, low, high, missing, found.round_off, 0.0)


class _Cells:
    """Probabilities of the points of a grid of losses, from -last to last.

    Losses and probabilities are rounded to the side; R may be off by ``shift``.
    """

    def __init__(self, side: Bound, spacing: float, last: int, shift: float) -> None:
        self._upper, self._spacing, self._last = side is Bound.PESSIMISTIC, spacing, last
        self._majority = 1.0 + (shift if self._upper else -shift)
        # below all points, at the points, and above them, which is at infinity
        self._mass = np.zeros(2 * last + 3)
        self._added = self._values = 0

    def add(self, weight: Array, low: Array, high: Array, values: Array) -> None:
        """Add blocks of one parity: their probabilities, smallest and largest counts, shape (m,).

        Values of R go from 0 or 1 on, in even steps; each stands for those up to the next.
        """
        inside = float(values[1] - values[0]) - 2.0 if values.size > 1 else 0.0
        for sign in (1.0, -1.0):
            outward = (sign > 0.0) == self._upper
            chance = _half_law(high if outward else low, values, inside + 2.0, upper=self._upper)
            if not self._upper:
                chance[chance < LIMITS.underflow] = 0.0
            chance *= weight[:, None]
            majority = sign * (values + (inside if outward else 0.0)) + self._majority
            place = self._places(majority, low[:, None] + 1.0, high[:, None] + 1.0)
            self._mass += np.bincount(
                place.ravel(), weights=chance.ravel(), minlength=self._mass.size
            )
        self._added += 2 * weight.size * values.size
        self._values = max(self._values, values.size)

    def _places(self, majority: Array, low: Array, high: Array) -> NDArray[np.intp]:
        """Indices of the grid points that losses of ``R + 1`` among ``C + 1`` are rounded to."""
        size, gains, last = np.abs(majority), majority > 0.0, float(self._last)
        count = np.where(gains == self._upper, low, high)
        with np.errstate(divide="ignore"):
            place = np.log1p(2.0 * size / np.maximum(count - size, 0.0)) / self._spacing
        moved = np.where(gains, 1.0, -1.0) + (_moved() if self._upper else -_moved())
        place = (np.ceil if self._upper else np.floor)(moved * rounded(place, ELEMENTARY + 8))
        place = np.clip(place, -last if self._upper else -last - 1.0, last + 1.0)
        return np.asarray(place + (last + 1.0), dtype=np.intp)

    def total(self) -> tuple[Array, float, float]:
        """Masses of the points, mass at infinity, and how much rounding was allowed for."""
        # 512 of the pmf at the centre, whose logarithm is at most 40 in size
        error = sequential_sum(float(self._added), own=3.0 * self._values + 512.0)
        mass = outwards(rounded(self._mass, self._added), error, upper=self._upper)
        return mass[1:-1], float(mass[-1]), error * float(mass.sum())


def _half_law(count: Array, values: Array, step: float, *, upper: bool) -> Array:
    """``P(r <= R < r + step)`` for walks of ``count`` steps; R = 0 counts half.

    All r have the parity of the counts, from 0 or 1 on, in even steps. Shape (counts, values).
    """
    count = count[:, None]
    if step > 2.0:
        edges = np.append(values[1:], values[-1] + step)
        tails = np.exp(log_upper_tail(np.maximum(0.5 * (count + edges), 0.0), count, 0.5, 0.5))
        tails = np.concatenate([np.full(count.shape, 0.5), tails], axis=1)
        error = 2.0 * _tail_error() * tails[:, :-1]  # of both, the first one being larger
        law = -np.diff(tails, axis=1)
        return np.maximum(law + error if upper else law - error, 0.0)
    law = np.empty((count.size, values.size))
    law[:, :1] = np.exp(log_pmf(np.ceil(0.5 * count), count, 0.5, 0.5))
    # p(r + 2) / p(r); nothing is left beyond the largest r
    law[:, 1:] = rounded(np.maximum(count - values[:-1], 0.0) / (count + values[:-1] + 2.0), 3)
    np.cumprod(law, axis=1, out=law)
    if values[0] == 0.0:
        law[:, 0] *= 0.5
    return law


def _tail_error() -> float:
    """Relative error of a binomial tail.

    Of the pmf, at an exponent of at most 1000, and of a sum of which some thousand terms count.
    """
    return sequential_sum(2048, own=6144)


def _moved() -> float:
    """Relative error of a loss: elementary functions of a quotient, divided by the spacing."""
    return roundings(ELEMENTARY + 8)
