"""PldAtoms of a binary target: one by one in small blocks, by cell masses in large ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.cells import CellSums, HalfAtoms
from shuffle_accountant.numerics.binomial import (
    TAIL_RATIO_ERROR,
    log_pmf,
    log_pmf_error,
    upper_tail_ratio,
)
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    exponential,
    log1p,
    pairwise_sum,
    product,
    roundings,
)

__all__ = ["TIES_ERROR", "BinaryBlocks", "gather", "loss_at", "pieces", "ties"]


# The logarithm of numbers that are about to lose digits.
_TINY = -690.0


@dataclass(frozen=True, eq=False)
class BinaryBlocks:
    """Blocks of what may be counted apart from the two letters' shares.

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
    owner, unit = _unit_atoms(*(array.tobytes() for array in arrays))
    weight = blocks.weight[some][owner]
    return replace(unit, mass=unit.mass * weight, other=unit.other * weight)


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
    error_f = exponential(log_pmf_error(inside, m, 0.5, log_f), own=4)
    error_tail = tail * product(error_f, TAIL_RATIO_ERROR)
    error_moment = (2.0 * gap / m) * moment * error_f
    good = base > 0
    base, tilt = base[good], tilt[good]
    slack = (error_tail[:-1] + error_tail[1:])[good] / base
    shift = 2.0 * ((error_moment[:-1] + error_moment[1:])[good] / base + slack * tilt / base)
    loss = np.log1p(2.0 * tilt / (base - tilt))
    return HalfAtoms(base + tilt, base - tilt, loss, product(2.0 * slack, roundings(16)), shift)


# Relative error of `ties`: the largest even count's probability is above e^-19.
TIES_ERROR = pairwise_sum(own=8 + 6 * 19 + ELEMENTARY)


def ties(weight: Array, m: Array) -> float:
    """Mass at loss 0: as many letters 0 as letters 1."""
    even = m[m % 2 == 0]
    return float(np.sum(weight[m % 2 == 0] * np.exp(log_pmf(0.5 * even, even, 0.5, 0.5))))


def loss_at(gap: Array, log_rest: Array, a: Array, m: Array) -> Array:
    """Loss at a letters 0 among m, nats, for a >= m/2; +inf if X' can't produce it."""
    b = m - a
    # with no letter 1 left all hangs on the rest, which may be too small for a double
    alone = (b == 0.0) & (log_rest < _TINY)
    share = a * np.exp(log_rest) + b * (1.0 + gap)
    loss = np.log1p(2.0 * gap * (a - b) / np.where(alone, 1.0, share))
    with np.errstate(divide="ignore"):  # no gap, no loss
        far = math.log(2.0) + np.log(gap) - log_rest
    return np.asarray(np.where(alone, far, loss))


@lru_cache(maxsize=4)
def _unit_atoms(
    m: bytes, gap: bytes, log_rest: bytes, first: bytes, last: bytes
) -> tuple[NDArray[np.intp], HalfAtoms]:
    """The atoms of blocks (arrays as bytes) with weight one, and which block each belongs to.

    Cached, because both directions list the same blocks wherever blocks are single counts.
    """
    blocks, gaps, log_rests, start, end = (
        np.frombuffer(x) for x in (m, gap, log_rest, first, last)
    )
    owner, a = _ranges(start, end)
    total, ahead, behind = blocks[owner], 1.0 + gaps[owner], np.exp(log_rests)[owner]
    b = total - a
    log_f = _log_binomials(blocks, start, end, owner, a)
    f = np.exp(log_f) / total
    loss = loss_at(gaps[owner], log_rests[owner], a, total)
    slack = exponential(log_pmf_error(a, total, 0.5, log_f), own=8)
    error = log1p(np.where(np.isfinite(loss), loss, 0.0), own=8)
    mass, other = f * (a * ahead + b * behind), f * (b * ahead + a * behind)
    return owner, HalfAtoms(mass, other, loss, slack, error)


def _ranges(start: Array, end: Array) -> tuple[NDArray[np.intp], Array]:
    """All integers of the ranges [start, end], one after the other, and whose they are."""
    lengths = np.maximum(end - start + 1, 0).astype(np.intp)
    owner = np.repeat(np.arange(start.size), lengths)
    return owner, start[owner] + (np.arange(owner.size) - (np.cumsum(lengths) - lengths)[owner])


def _log_binomials(
    count: Array, start: Array, end: Array, owner: NDArray[np.intp], a: Array
) -> Array:
    """Log-probabilities of a letters among its owner's count; blocks of one count share them."""
    counts, which = np.unique(count, return_inverse=True)
    if counts.size == count.size:
        return log_pmf(a, count[owner], 0.5, 0.5)
    low, high = np.full(counts.size, np.inf), np.full(counts.size, -np.inf)
    np.minimum.at(low, which, start)
    np.maximum.at(high, which, end)
    shared, every = _ranges(low, high)
    first = np.searchsorted(shared, np.arange(counts.size))
    place = (first - low)[which[owner]] + a
    return np.asarray(log_pmf(every, counts[shared], 0.5, 0.5)[place.astype(np.intp)])


def gather(pieces: Iterator[HalfAtoms], sums: CellSums | None) -> HalfAtoms:
    """All pieces as one, side by side or added up."""
    if sums is not None:
        for piece in pieces:
            sums.add(piece)
        return sums.atoms()
    parts = list(pieces)
    return HalfAtoms(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(HalfAtoms)}
    )
