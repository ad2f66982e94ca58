"""PldAtoms of a binary target: one by one in small blocks, by cell masses in large ones.

Many atoms are added up cell by cell, so that memory does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.settings import BINARY
from shuffle_accountant.numerics.binomial import (
    RUN,
    log_pmf,
    log_pmf_error,
    pmf_runs,
    tail_ratio_error,
    upper_tail_ratio,
)
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    exponential,
    log1p,
    pairwise_sum,
    product,
    sequential_sum,
)


@dataclass(frozen=True, eq=False)
class BinaryBlocks:
    """Blocks of counts that hide the target: messages with either letter, and the gap.

    Attributes:
        weight: probability of each block, shape (m,), rounded in its direction.
        count: messages with one of the two letters, shape (m,), >= 1.
        gap: the largest ``|z|``, in (0, 1], shape (m,).
        log_rest: logarithm of ``1 - gap``, -inf where that is 0, shape (m,).
        silent: probability that no message carries either letter: loss 0.
        missing: bound on the probability in no block.
        round_off: probability added (PESSIMISTIC) or removed (OPTIMISTIC) for rounding, in total.
    """

    weight: Array
    count: Array
    gap: Array
    log_rest: Array
    silent: float
    missing: float
    round_off: float


@dataclass(frozen=True, eq=False)
class HalfAtoms:
    """PldAtoms of a symmetric pair with loss > 0; each has a mirror image of the opposite loss.

    Attributes:
        mass: P-masses, shape (m,): those of the mirror images under Q.
        other: Q-masses, shape (m,): those of the mirror images under P.
        difference: ``mass - other``, shape (m,), good to as many digits.
        loss: ``log(mass / other)``, nats, +inf where ``other`` is 0.
        slack: bounds on the relative errors of both masses.
        loss_error: bounds on the errors of the losses, nats.
    """

    mass: Array
    other: Array
    difference: Array
    loss: Array
    slack: Array
    loss_error: Array


class CellSums:
    """Total masses of atoms between the edges of a grid of losses, or all atoms without edges.

    Merging the atoms of a cell keeps both masses: a cell is as good as an atom for connecting the
    dots, and merging is a post-processing for the lower side.
    """

    def __init__(self, edges: Array | None) -> None:
        self._edges = np.zeros(0) if edges is None else edges
        self._listed: list[HalfAtoms] | None = [] if edges is None else None
        size = self._edges.size + 2  # below, between and above the edges, and at +inf
        self._other, self._difference = np.zeros(size), np.zeros(size)
        self._slack = self._shift = 0.0
        self._added = 0

    def add(self, atoms: HalfAtoms) -> None:
        """Add atoms to their cells; losses of +inf share one with nothing else."""
        if self._listed is not None:
            self._listed.append(atoms)
            return
        if atoms.mass.size == 0:
            return
        # next to an edge rounding decides; no loss is further from its cell than by that
        cell = np.searchsorted(self._edges, atoms.loss, side="right")
        cell[np.isinf(atoms.loss)] = self._edges.size + 1
        low, high = int(cell.min()), int(cell.max()) + 1
        span, place = slice(low, high), cell - low
        self._other[span] += np.bincount(place, atoms.other, high - low)
        self._difference[span] += np.bincount(place, atoms.difference, high - low)
        self._slack = max(self._slack, float(atoms.slack.max()))
        self._shift = max(self._shift, float(atoms.loss_error.max()))
        self._added += int(np.bincount(place).max()) + 1

    def atoms(self) -> HalfAtoms:
        """One atom per cell that holds mass, or the atoms that were added."""
        if self._listed is not None:
            every = [[getattr(one, f.name) for one in self._listed] for f in fields(HalfAtoms)]
            return HalfAtoms(*(np.concatenate([np.zeros(0), *column]) for column in every))
        held = np.flatnonzero(self._difference > 0)
        other, difference = self._other[held], rounded(self._difference[held], self._added)
        mass = other + difference
        share = difference / mass
        with np.errstate(divide="ignore", invalid="ignore"):
            # the difference keeps the digits of a small loss, the quotient those of a large one
            small = -np.log1p(-np.minimum(share, 0.75))
            loss = np.where(share < 0.5, small, np.log(mass / other))
        rounding = sequential_sum(self._added, own=8)
        return HalfAtoms(
            mass=mass,
            other=other,
            difference=difference,
            loss=np.where(other > 0, loss, np.inf),
            slack=np.full(held.size, product(self._slack, rounding)),
            loss_error=self._shift + 4.0 * rounding * np.where(other > 0, loss, 0.0),
        )


def pieces(
    blocks: BinaryBlocks,
    first: Array,
    last: Array,
    listed: NDArray[np.bool_],
    grid: Array,
    most_atoms: int,
) -> Iterator[HalfAtoms]:
    """All blocks' atoms in pieces of about ``most_atoms`` at most."""
    one_by_one = np.flatnonzero(listed)
    lengths = np.maximum(last - first + 1, 0)[one_by_one]
    group = np.floor(np.cumsum(lengths) / most_atoms)
    starts = np.flatnonzero(np.diff(group, prepend=-1.0))
    for some in np.split(one_by_one, starts[1:]):
        yield _listed(blocks, some, first[some], last[some])
    for i in np.flatnonzero(~listed):
        yield _celled(blocks, int(i), first[i], last[i], grid)


def _listed(blocks: BinaryBlocks, some: NDArray[np.intp], first: Array, last: Array) -> HalfAtoms:
    """Every count of letter 0 above m/2 as an atom."""
    arrays = blocks.count[some], blocks.gap[some], blocks.log_rest[some], first, last
    lengths, unit = _unit_atoms(*(array.tobytes() for array in arrays))
    weight = np.repeat(blocks.weight[some], lengths)
    return replace(
        unit,
        mass=unit.mass * weight,
        other=unit.other * weight,
        difference=unit.difference * weight,
    )


def _celled(blocks: BinaryBlocks, i: int, first: float, last: float, grid: Array) -> HalfAtoms:
    """The mass of each cell of the grid as one atom."""
    weight, m, gap = float(blocks.weight[i]), float(blocks.count[i]), float(blocks.gap[i])
    reach = np.minimum(np.tanh(0.5 * grid) / gap, 1.0)
    ends = np.clip(np.ceil(0.5 * m * (1.0 + reach)), first, last + 1.0)
    ends[-1] = last + 1.0
    ends = np.unique(ends)
    inside = np.minimum(ends, m)
    log_f = log_pmf(inside, m, 0.5, 0.5)
    f = np.where(ends <= m, weight * np.exp(log_f), 0.0)
    tail = f * upper_tail_ratio(inside, m, 0.5, 0.5)
    moment = 0.5 * ends * f  # sum over i >= end of (i - m/2) f(i)
    base = tail[:-1] - tail[1:]
    tilt = (2.0 * gap / m) * (moment[:-1] - moment[1:])
    good = base > 0
    # of tails, which fall: those of both ends of a cell are off by twice the first one's at most
    error_f = exponential(log_pmf_error(inside, m, 0.5, log_f), own=4)
    error_tail = tail * product(error_f, tail_ratio_error())
    base, tilt, slack = base[good], tilt[good], error_tail[:-1][good] / base[good]
    # a mean of signs is off by as much of the furthest one; no sign is above 0.6 where m is 4096
    furthest = gap * min(2.0 * (last + 1.0) / m - 1.0, 1.0)
    loss = np.log1p(2.0 * tilt / (base - tilt))
    shift = 16.0 * slack * furthest
    return HalfAtoms(base + tilt, base - tilt, 2.0 * tilt, loss, 5.0 * slack, shift)


def ties_error() -> float:
    """Relative error of `ties`: the largest even count's probability is above e^-19."""
    return pairwise_sum(own=8 + 6 * 19 + ELEMENTARY)


def ties(weight: Array, m: Array) -> float:
    """Mass at loss 0, where both letters have the same count."""
    even = m % 2 == 0
    count = m[even]
    return float(np.sum(weight[even] * np.exp(log_pmf(0.5 * count, count, 0.5, 0.5))))


def loss_at(gap: Array, log_rest: Array, a: Array, m: Array) -> Array:
    """Loss where ``a`` of ``m`` messages are letter 0, nats, a >= m/2; +inf if impossible under X'.

    The losses have the common shape of the arguments.
    """
    b = m - a
    # with no letter 1 left all hangs on the rest, which may be too small for a double
    alone = (b == 0.0) & (log_rest < BINARY.tiny)
    share = a * np.exp(log_rest) + b * (1.0 + gap)
    loss = np.log1p(2.0 * gap * (a - b) / np.where(alone, 1.0, share))
    with np.errstate(divide="ignore"):  # no gap, no loss
        far = math.log(2.0) + np.log(gap) - log_rest
    return np.asarray(np.where(alone, far, loss))


# As many as a law of a few hundred thousand atoms has: random participation asks for it twice.
@kept(1 << 25, lambda found: 6 * found[1].mass.nbytes)
def _unit_atoms(
    m: bytes, gap: bytes, log_rest: bytes, first: bytes, last: bytes
) -> tuple[NDArray[np.intp], HalfAtoms]:
    """The atoms of blocks (arrays as bytes) with weight one, and how many each block has.

    Kept, because both directions list the same blocks wherever blocks are single counts.
    """
    blocks, gaps, log_rests, start, end = (
        np.frombuffer(x) for x in (m, gap, log_rest, first, last)
    )
    lengths = np.maximum(end - start + 1, 0).astype(np.intp)
    a = _ranges(start, lengths)
    total, ahead, behind, rest = (
        np.repeat(x, lengths) for x in (blocks, 1.0 + gaps, np.exp(log_rests), log_rests)
    )
    b = total - a
    chance, off = _binomials(blocks, start, lengths)
    f = chance / total
    # of P and of Q, in units of f
    less, more = b * ahead + a * behind, np.repeat(2.0 * gaps, lengths) * (a - b)
    # with no letter of the other kind all hangs on the rest, which may be too small for a double
    alone = (b == 0.0) & (rest < BINARY.tiny)
    if alone.any():
        loss = loss_at(np.repeat(gaps, lengths), rest, a, total)
    else:
        loss = rounded(np.log1p(more / less), ELEMENTARY + 20)
    # the quotient is that of sums of products with the gap and the rest, which are rounded too
    error = log1p(np.where(np.isinf(loss), 0.0, loss), own=24)
    slack = exponential(off, own=12)
    return lengths, HalfAtoms(f * (less + more), f * less, f * more, loss, slack, error)


def _ranges(start: Array, lengths: NDArray[np.intp]) -> Array:
    """Concatenated ranges of integers: ``lengths[i]`` of them from ``start[i]`` on."""
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(start - before, lengths) + np.arange(int(lengths.sum())))


def _binomials(count: Array, start: Array, lengths: NDArray[np.intp]) -> tuple[Array, Array]:
    """Probabilities ``Bin(count, 1/2)(a)`` of blocks, and bounds on the errors of their logarithms.

    Each block has some a in a row from its ``start`` on, which is more than half its count.
    """
    runs = -(-lengths // RUN)
    left = np.repeat(lengths, runs) - RUN * _ranges(np.zeros(runs.size), runs)
    first = _ranges(start / RUN, runs) * RUN
    law, error = pmf_runs(first, np.repeat(count, runs), 0.5, 0.5)
    kept = np.arange(RUN) < left[:, None]
    return law[kept], np.repeat(error, kept.sum(axis=1))
