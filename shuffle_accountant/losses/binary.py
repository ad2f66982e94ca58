"""The loss of a target with two mirrored letters among decoys.

Whatever the protocol, once it is known that ``m`` messages carry one of the two letters, ``a`` of
them letter 0 and ``b = m - a`` letter 1, the pair is

    P(a | m) = f(a) (1 + z),   Q(a | m) = f(a) (1 - z),   f = Bin(m, 1/2),   z = gap (a - b) / m,

and protocols differ in the law of m and in the gap, which may depend on what else was counted; see
`shuffle_accountant.losses.clones` and `shuffle_accountant.losses.response`. The pair is symmetric.
De Moivre's identity ``sum_{i >= a} (i - m/2) f(i) = a f(a) / 2`` gives first moments of tails,
hence hockey-stick divergences and masses of cells, from f and its tail at the ends alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.binomial import (
    TAIL_RATIO_ERROR,
    UNIT_ROUNDOFF,
    log_pmf,
    log_pmf_error,
    upper_tail_ratio,
)
from shuffle_accountant.functionals import HOCKEY_STICK, Functional
from shuffle_accountant.lattice.grid import Array, Atoms, Direction
from shuffle_accountant.losses.base import CellEdges, Effort
from shuffle_accountant.losses.cells import CellSums, HalfAtoms

__all__ = ["BinaryCrowds", "BinaryLoss", "CrowdSource"]

# A crowd whose counts of letter 0 are fewer than this many times the cells is listed atom by atom.
_LIST_WHEN_FEWER = 6

# More than all masses that are too small for a double can add up to.
_UNDERFLOW = 1e-305

# More than numbers below the smallest normal double can lose, in a sum weighted by probabilities.
_SUBNORMAL = 1e-315

# Above this loss e^epsilon is large and the tail formula is regrouped; see `_bracket`.
_REGROUP_FROM = 1.0


@dataclass(frozen=True, eq=False)
class BinaryCrowds:
    """Blocks of what may be counted apart from the two letters' shares.

    Attributes:
        weight: probability of each block, shape (m,), rounded in its direction.
        count: messages with one of the two letters, shape (m,), >= 1.
        gap: the largest ``|z|``, in (0, 1], shape (m,).
        rest: ``1 - gap``, without cancellation, shape (m,).
        silent: probability that no message carries either letter: loss 0.
        missing: bound on the probability in no block.
        round_off: probability added (UPPER) or removed (LOWER) for rounding, in total.
    """

    weight: Array
    count: Array
    gap: Array
    rest: Array
    silent: float
    missing: float
    round_off: float


class CrowdSource(Protocol):
    """What a protocol says about the crowd that hides the target."""

    def __hash__(self) -> int:
        """By value, so that grids can be cached."""

    @property
    def largest(self) -> float:
        """No loss is larger, nats."""

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""

    def crowds(self, direction: Direction, effort: Effort) -> BinaryCrowds:
        """Blocks whose pair bounds the true one in the given direction."""


@dataclass(frozen=True)
class BinaryLoss:
    """Privacy loss of one binary target in a crowd.

    Attributes:
        source: the law of the crowd.
    """

    source: CrowdSource

    @property
    def largest(self) -> float:
        """No loss is larger (nats)."""
        return self.source.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.source.deviation

    @property
    def reversed(self) -> BinaryLoss:
        """The loss of (Q, P): the pair is symmetric."""
        return self

    @property
    def functional(self) -> Functional:
        """The hockey-stick divergence."""
        return HOCKEY_STICK

    def delta(self, epsilon: float, direction: Direction, effort: Effort) -> float:
        """Bound of ``H_alpha``, alpha = e^epsilon, epsilon >= 0: a sum over counts of decoys.

        Relative accuracy is a few hundred units in the last place where blocks are single counts.
        """
        if epsilon >= self.largest and self.largest < math.inf:
            return 0.0
        crowd = self.source.crowds(direction, effort)
        low, high = _conditional(epsilon, crowd) if epsilon < math.inf else _disclosed(crowd)
        if direction is Direction.LOWER:
            total = float(np.sum(crowd.weight * low)) * (1 - 64 * UNIT_ROUNDOFF)
            return max(total - _SUBNORMAL, 0.0)
        total = float(np.sum(crowd.weight * high)) * (1 + 64 * UNIT_ROUNDOFF) + crowd.missing
        return min(total + _SUBNORMAL, 1.0)

    def atoms(self, direction: Direction, edges: CellEdges, effort: Effort) -> Atoms:
        """Atoms of the pair: one by one for small crowds, cell masses for large ones."""
        crowd = self.source.crowds(direction, replace(effort, tail=0.25 * effort.tail))
        m = crowd.count
        # Hoeffding: P(a >= m/2 + t sqrt(m)/2) <= 2 exp(-t^2/2) for the P-law, the other side less.
        reach = np.log(np.maximum(crowd.weight, 1e-320)) - math.log(effort.tail)
        reach = np.sqrt(2.0 * np.maximum(reach + math.log(16.0 * m.size), 0.0))
        last = np.minimum(np.ceil(0.5 * (m + reach * np.sqrt(m))), m)
        cut = 0.5 * effort.tail if bool(np.any(last < m)) else 0.0
        first = np.floor(0.5 * m) + 1.0

        top = _loss(crowd.gap, crowd.rest, last, m)
        finite = top[np.isfinite(top)]
        grid = edges(float(finite.max(initial=0.0)))
        # cells up to each crowd's own largest loss
        cells = np.searchsorted(grid, np.where(np.isfinite(top), top, np.inf)) + 1
        lengths = last - first + 1
        listed = (lengths <= _LIST_WHEN_FEWER * cells) | (m < 4096)
        size = int(lengths[listed].sum()) + int(cells[~listed].sum())
        half = _gather(
            _pieces(crowd, first, last, listed, grid, effort.most_atoms),
            CellSums(grid) if size > effort.most_atoms else None,
        )
        ties = crowd.silent + _ties(crowd.weight, m)

        sign = 1.0 if direction is Direction.UPPER else -1.0
        infinite = float(half.mass[np.isinf(half.loss)].sum())
        keep = np.isfinite(half.loss) & (half.mass > 0)
        loss, slack = half.loss[keep], half.slack[keep]
        everything = np.concatenate([half.mass[keep], half.other[keep], [ties]])
        slack = np.concatenate([slack, slack, [64 * UNIT_ROUNDOFF]])
        truncated = crowd.missing + cut
        return Atoms(
            direction=direction,
            mass=everything * np.maximum(1.0 + sign * slack, 0.0),
            loss=np.concatenate([loss, -loss, [0.0]]),
            infinite=infinite + (truncated + _UNDERFLOW if direction is Direction.UPPER else 0.0),
            truncated=truncated,
            round_off=crowd.round_off + float(np.sum(everything * slack)),
            loss_error=float(half.loss_error.max(initial=0.0))
            + 16 * UNIT_ROUNDOFF * float(crowd.gap.max(initial=0.0)),
        )


def _disclosed(crowd: BinaryCrowds) -> tuple[Array, Array]:
    """Bracket of the probability of an infinite loss given each block: all messages are alike."""
    certain = np.where(crowd.rest == 0.0, np.exp2(1.0 - crowd.count), 0.0)
    return certain, certain


def _conditional(epsilon: float, crowd: BinaryCrowds) -> tuple[Array, Array]:
    """Bracket of the divergence given each block."""
    m = crowd.count
    reach = math.tanh(0.5 * epsilon) / crowd.gap
    first = np.minimum(np.floor(0.5 * m * (1.0 + reach)) + 1.0, m)  # smallest a with loss > eps
    pairs, place = _distinct(first, m)
    log_f = log_pmf(*pairs, 0.5, 0.5)[place]
    f = np.exp(log_f)
    value, scale = _bracket(epsilon, first, crowd)
    error = scale + np.abs(value) * log_pmf_error(first, m, 0.5, log_f)
    return f * np.maximum(value - error, 0.0), f * np.maximum(value + error, 0.0)


def _distinct(a: Array, m: Array) -> tuple[tuple[Array, Array], NDArray[np.intp] | slice]:
    """The different ones among pairs (a, m), and where each pair is among them.

    Crowds that differ in their gap alone often share their pair.
    """
    largest = float(m.max(initial=0.0))
    if m.size < 4096 or largest >= 2.0**26 or bool(np.all(np.diff(m) > 0)):
        return (a, m), slice(None)
    keys, place = np.unique(m * 2.0**27 + a, return_inverse=True)
    count = np.floor(keys / 2.0**27)
    return (keys - count * 2.0**27, count), place


def _bracket(epsilon: float, a: Array, crowd: BinaryCrowds) -> tuple[Array, Array]:
    """``sum_{i >= a} (P - alpha Q)(i) / f(a)`` and a bound on its rounding error."""
    m, gap = crowd.count, crowd.gap
    b, share = m - a, a / m
    if epsilon < _REGROUP_FROM:
        excess = math.expm1(epsilon)
        pairs, place = _distinct(a, m)
        tail = upper_tail_ratio(*pairs, 0.5, 0.5)[place]
        gain, cost = (2.0 + excess) * gap * share, excess * tail
    else:
        # gap a/m and the tail ratio are both near 1 here: alpha multiplies what is left of their
        # difference, a sum of three positive terms
        left = np.where(b > 0, b / (a + 1.0), 0.0)
        pairs, place = _distinct(np.minimum(a + 1.0, m), m)
        left = left * upper_tail_ratio(*pairs, 0.5, 0.5)[place]
        gain = gap * share + 1.0 + left
        cost = _scaled_exp(epsilon, left + b / m) + share * _scaled_exp(epsilon, crowd.rest)
    return gain - cost, (gain + cost) * (TAIL_RATIO_ERROR + 8 * (1 + epsilon) * UNIT_ROUNDOFF)


def _pieces(
    crowd: BinaryCrowds,
    first: Array,
    last: Array,
    listed: NDArray[np.bool_],
    grid: Array,
    most_atoms: int,
) -> Iterator[HalfAtoms]:
    """All crowds' atoms in pieces of about ``most_atoms`` at most."""
    one_by_one = np.flatnonzero(listed)
    lengths = np.maximum(last - first + 1, 0)[one_by_one]
    group = np.floor(np.cumsum(lengths) / most_atoms)
    starts = np.flatnonzero(np.diff(group, prepend=-1.0))
    for some in np.split(one_by_one, starts[1:]):
        yield _listed(crowd, some, first[some], last[some])
    for i in np.flatnonzero(~listed):
        yield _celled(crowd, int(i), first[i], last[i], grid)


def _listed(crowd: BinaryCrowds, some: NDArray[np.intp], first: Array, last: Array) -> HalfAtoms:
    """Every count of letter 0 above m/2 as an atom."""
    arrays = crowd.count[some], crowd.gap[some], crowd.rest[some], first, last
    owner, unit = _unit_atoms(*(array.tobytes() for array in arrays))
    weight = crowd.weight[some][owner]
    return replace(unit, mass=unit.mass * weight, other=unit.other * weight)


def _celled(crowd: BinaryCrowds, i: int, first: float, last: float, grid: Array) -> HalfAtoms:
    """The mass of each cell of the grid as one atom."""
    weight, m, gap = float(crowd.weight[i]), float(crowd.count[i]), float(crowd.gap[i])
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
    error_f = log_pmf_error(inside, m, 0.5, log_f) + 4 * UNIT_ROUNDOFF
    error_tail = tail * (error_f + TAIL_RATIO_ERROR)
    error_moment = (2.0 * gap / m) * moment * error_f
    good = base > 0
    base, tilt = base[good], tilt[good]
    slack = (error_tail[:-1] + error_tail[1:])[good] / base
    shift = 2.0 * ((error_moment[:-1] + error_moment[1:])[good] / base + slack * tilt / base)
    loss = np.log1p(2.0 * tilt / (base - tilt))
    return HalfAtoms(base + tilt, base - tilt, loss, 2 * slack + 16 * UNIT_ROUNDOFF, shift)


def _ties(weight: Array, m: Array) -> float:
    """Mass at loss 0: as many letters 0 as letters 1."""
    even = m[m % 2 == 0]
    return float(np.sum(weight[m % 2 == 0] * np.exp(log_pmf(0.5 * even, even, 0.5, 0.5))))


def _loss(gap: Array, rest: Array, a: Array, m: Array) -> Array:
    """Loss at a letters 0 among m, nats, for a >= m/2; +inf if X' can't produce it."""
    b = m - a
    with np.errstate(divide="ignore"):
        return np.log1p(2.0 * gap * (a - b) / (a * rest + b * (1.0 + gap)))


@lru_cache(maxsize=4)
def _unit_atoms(
    m: bytes, gap: bytes, rest: bytes, first: bytes, last: bytes
) -> tuple[NDArray[np.intp], HalfAtoms]:
    """The atoms of crowds (arrays as bytes) with weight one, and which crowd each belongs to.

    Cached, because both directions list the same crowds wherever blocks are single counts.
    """
    crowd, gaps, rests, start, end = (np.frombuffer(x) for x in (m, gap, rest, first, last))
    owner, a = _ranges(start, end)
    total, ahead, behind = crowd[owner], 1.0 + gaps[owner], rests[owner]
    b = total - a
    log_f = _log_binomials(crowd, start, end, owner, a)
    f = np.exp(log_f) / total
    loss = _loss(gaps[owner], behind, a, total)
    slack = log_pmf_error(a, total, 0.5, log_f) + 16 * UNIT_ROUNDOFF
    error = 16 * UNIT_ROUNDOFF * np.where(np.isfinite(loss), loss, 0.0)
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
    """Log-probabilities of a letters among its owner's count; crowds of one count share them."""
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


def _gather(pieces: Iterator[HalfAtoms], sums: CellSums | None) -> HalfAtoms:
    """All pieces as one, side by side or added up."""
    if sums is not None:
        for piece in pieces:
            sums.add(piece)
        return sums.atoms()
    parts = list(pieces)
    return HalfAtoms(
        **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(HalfAtoms)}
    )


def _scaled_exp(epsilon: float, factor: Array) -> Array:
    """``e^epsilon * factor``, capped instead of overflowing; 0 where the factor is 0."""
    with np.errstate(divide="ignore"):
        return np.exp(np.minimum(epsilon + np.log(factor), 700.0))
