"""Distributions of clones' counts, tabulated once for rounds of any size and any gap.

Given that m messages carry one of the two letters, a of them letter 0, the pair of
`shuffle_accountant.losses.two_letters.binary` is

    P = f (1 + gap y),   Q = f (1 - gap y),   y = (2a - m) / m,   a ~ f = Bin(m, 1/2),

linear in y. So for every gap at once

* an atom between two points of a grid of y may be split over them so that its mean is kept: the
  divergence is the mean of a convex function of y, and grows (PESSIMISTIC);
* the atoms of a cell may be merged in their mean (OPTIMISTIC).

Both come from two sums per cell, the shares of its mass that go up and down. They are tabulated for
the counts m at fixed block edges; rounds with different numbers of users are different mixtures of
the same rows. That makes one more round cost a product with the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.counts import block_masses, bulk
from shuffle_accountant.losses.settings import CLONE_TABLE
from shuffle_accountant.numerics.binomial import log_pmf, log_pmf_error
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    exponential,
    outwards,
    product,
    roundings,
    sequential_sum,
)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Consecutive rows of the table; arrays of shape (rows, cells + 1) or (rows,).

    Masses that go to the upper and to the lower end of each cell of y >= 0, those at y = 0 exactly,
    and a bound on the relative error of all of these.
    """

    up: Array
    down: Array
    tied: Array
    error: float


@dataclass(frozen=True)
class CloneTable:
    """Table of distributions of clones' counts: rows at fixed counts, cells of one width.

    Attributes:
        cells: number of cells between y = 0 and y = 1.
        resolution: relative width of blocks of counts, > 0.
        tail: mass of a row that may be cut off, > 0.
    """

    cells: int
    resolution: float
    tail: float

    @property
    def reach(self) -> float:
        """Distance t at which rows end: at ``m / 2 + t sqrt(m) / 2``.

        Hoeffding: P(a >= m/2 + t sqrt(m)/2) <= 2 exp(-t^2/2) for the P-law, the other side less.
        """
        return math.sqrt(2.0 * math.log(64.0 / self.tail))

    def width(self, least: float) -> int:
        """Length of rows whose counts m are at least ``least``: their cells, and one more."""
        # the last count is rounded up
        share = min((self.reach * math.sqrt(least) + 2.0) / least, 1.0)
        return math.ceil(share * self.cells) + 2

    def law(self, first: int, weight: Array) -> tuple[Array, Array, float, float]:
        """The mixture of rows: masses up and down of each cell, tied mass, relative error.

        Rows have weights from number ``first`` on.
        """
        # the first rows are the widest: their counts are the smallest
        width = _rows(self, first // CLONE_TABLE.rows).up.shape[1]
        up, down, tied, error, done = np.zeros(width), np.zeros(width), 0.0, 0.0, 0
        while done < weight.size:
            piece, start = divmod(first + done, CLONE_TABLE.rows)
            rows = _rows(self, piece)
            some = weight[done : done + CLONE_TABLE.rows - start]
            inside, cells = slice(start, start + some.size), slice(rows.up.shape[1])
            up[cells] += rounded(some @ rows.up[inside], weight.size)
            down[cells] += rounded(some @ rows.down[inside], weight.size)
            tied += float(rounded(some @ rows.tied[inside], weight.size))
            error = max(error, rows.error)
            done += some.size
        return up, down, tied, product(error, sequential_sum(weight.size, own=4))


@lru_cache(maxsize=16)
def block_edges(resolution: float) -> Array:
    """Counts of decoys at which blocks begin, ascending.

    All counts up to one over the resolution, then counts a factor of ``1 + resolution`` apart.
    """
    single = math.ceil(1.0 / resolution)
    steps = math.ceil(math.log(2.0**53 / single) / math.log1p(resolution))
    # single * resolution >= 1: no two of them have the same whole number
    wide = np.floor(single * np.exp(np.arange(steps) * math.log1p(resolution)))
    return np.unique(np.concatenate([np.arange(single, dtype=np.float64), wide]))


@dataclass(frozen=True, eq=False)
class _Weights:
    """A binomial distribution in blocks: first block, weights, and bounds on the mass outside."""

    first: int
    weight: Array
    error: float
    below: float
    above: float


@lru_cache(maxsize=8192)
def _weights(trials: int, rate: float, idle: float, resolution: float, tail: float) -> _Weights:
    """Weights of blocks of the counts C ~ Bin(trials, rate), 0 < rate < 1, trials >= 1."""
    edges = block_edges(resolution)
    low, high = bulk(trials, rate, idle, tail)
    start = int(np.searchsorted(edges, low, side="right")) - 1
    stop = int(np.searchsorted(edges, high, side="right"))
    weight, error = block_masses(
        np.minimum(edges[start : stop + 1], trials + 1.0), trials, rate, idle
    )
    first, last = int(edges[start]), int(edges[stop]) - 1
    return _Weights(
        first=start,
        weight=weight,
        error=float(np.max(error / weight)),
        below=tail if first > 0 else 0.0,
        above=tail if last < trials else 0.0,
    )


@kept(1 << 27, lambda rows: rows.up.nbytes + rows.down.nbytes)
def _rows(table: CloneTable, piece: int) -> _Rows:
    """Rows number ``piece * CLONE_TABLE.rows`` and so on."""
    edges = block_edges(table.resolution)
    m = edges[piece * CLONE_TABLE.rows : (piece + 1) * CLONE_TABLE.rows] + 1.0
    half = np.floor(0.5 * m)
    last = np.minimum(np.ceil(0.5 * (m + table.reach * np.sqrt(m))), m)
    log_f = log_pmf(half + 1.0, m, 0.5, 0.5)
    steps = int((last - half).max())
    width = table.width(float(m[0]))
    up, down = np.zeros((m.size, width)), np.zeros((m.size, width))
    f = np.exp(log_f)
    crowd = 1
    for i in range(m.size):
        a = np.arange(half[i] + 1.0, last[i] + 1.0)
        mass = np.empty(a.size)
        mass[0] = f[i]
        mass[1:] = rounded((m[i] - a[:-1]) / a[1:], 2)
        np.cumprod(mass, out=mass)
        place = (2.0 * a - m[i]) * (table.cells / m[i])
        cell = np.floor(place).astype(np.intp)
        share = mass * (place - cell)
        up[i] = np.bincount(cell, weights=share, minlength=width)
        down[i] = np.bincount(cell, weights=mass - share, minlength=width)
        crowd = max(crowd, math.ceil(0.5 * m[i] / table.cells) + 2)
    even = 2.0 * half == m
    tied = np.zeros(m.size)
    tied[even] = np.exp(log_pmf(half[even], m[even], 0.5, 0.5))
    # the first of a row; half of the messages are likelier, so that ties are off by less
    error = exponential(float(log_pmf_error(half + 1.0, m, 0.5, log_f).max()))
    relative = product(error, sequential_sum(crowd, own=2.0 * steps + ELEMENTARY))
    return _Rows(rounded(up, crowd), rounded(down, crowd), tied, relative)


def clone_table(step: float, gap: float, resolution: float, tail: float) -> CloneTable | None:
    """The table whose cells are no wider than a step of losses, nats, at the largest ``|z|``.

    None if they would be too narrow.
    """
    wide = math.tanh(0.5 * step) / gap
    # narrower cells would not have enough digits left for shares of them, nor smaller tails
    if resolution <= 0.0 or tail < 1e-200 or wide < 2.0**-30:
        return None
    # powers of the square root of 2, so that rounds of other gaps and other questions share it
    cells = math.ceil(2.0 ** (0.5 * math.ceil(-2.0 * math.log2(min(wide, 0.5)))))
    return CloneTable(cells, resolution, tail)


def tabled_atoms(
    table: CloneTable,
    side: Bound,
    trials: int,
    rate: float,
    idle: float,
    *,
    gap: float,
    log_rest: float,
) -> PldAtoms | None:
    """The pair of a target among ``trials`` decoys as atoms at the table's cells.

    None where a table loses digits or does not pay. All else is as in `NumberOfClones`.
    """
    rest = math.exp(log_rest)
    # a smaller rest leaves no digits in 1 - gap y
    digits = min(rate, idle) > 1e-6 and trials >= 1 and rest >= 1e-9
    if not digits or trials * rate > CLONE_TABLE.most_counts:
        return None
    found = _weights(trials, rate, idle, table.resolution, table.tail)
    if table.width(block_edges(table.resolution)[found.first] + 1.0) > CLONE_TABLE.most_cells:
        return None
    upper = side is Bound.PESSIMISTIC
    first, weight = found.first, found.weight.copy()
    if upper:
        weight[-1] += found.above
    weight = outwards(weight, found.error, upper=upper)
    if not upper:
        # a block that is one count is its own largest; of a wider one the next row stands for it
        edges = block_edges(table.resolution)[first : first + weight.size + 1]
        wide = np.where(np.diff(edges) == 1.0, 0.0, weight)
        weight = np.append(weight - wide, 0.0) + np.append(0.0, wide)
    up, down, tied, relative = table.law(first, weight)
    y, mass, zero = _points(table, up, down, tied, upper=upper)
    behind = rest + gap * (1.0 - y)
    loss = np.log1p(2.0 * gap * y / behind)
    # a point of y is known to some roundings, a mean of y in a cell to its masses' errors; that is
    # a larger share of the Q-mass behind it, and twice as large a one of the ratio, whose logarithm
    # is rounded by less
    moved = roundings(8) * y + 2.0 * relative / table.cells
    shift = 4.0 * moved * gap / behind
    slack = 2.0 * relative + shift
    everything = np.concatenate([mass * (1.0 + gap * y), mass * behind, [zero]])
    slack = np.concatenate([slack, slack, [2.0 * relative]])
    # rounding by more than all masses that are too small for a double, whose tail is not
    truncated = found.below + (0.0 if upper else found.above) + 0.25 * table.tail
    infinite = rounded(truncated, 4) * (1.0 + roundings(8)) if upper else 0.0
    return PldAtoms(
        side=side,
        mass=outwards(everything, slack, upper=upper),
        loss=np.concatenate([loss, -loss, [0.0]]),
        infinite=infinite,
        truncated=truncated,
        round_off=float(np.sum(everything * slack)) + found.error,
        loss_error=2.0 * float(shift.max(initial=0.0)),
    )


def _points(
    table: CloneTable, up: Array, down: Array, tied: float, *, upper: bool
) -> tuple[Array, Array, float]:
    """Points y > 0 with their masses, and the mass at 0: ends of cells, or means in them."""
    if upper:
        mass = np.append(down, 0.0) + np.append(0.0, up)
        zero = tied + 2.0 * mass[0]
        held = np.flatnonzero(mass[1:]) + 1
        return np.minimum(held / table.cells, 1.0), mass[held], zero
    mass = up + down
    held = np.flatnonzero(mass)
    mass = mass[held]
    y = (held + up[held] / mass) / table.cells
    inside = y > 0.0
    zero = tied + 2.0 * float(mass[~inside].sum())
    return np.minimum(y[inside], 1.0), mass[inside], zero
