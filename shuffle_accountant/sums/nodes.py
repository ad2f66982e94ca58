"""Bounds of the profile at several alpha by Laplace inversion: a sum over few nodes.

With the message values ``v = r0 - alpha r1``, their sum S over n i.i.d. messages, ``S1`` the sum of
``r1``, Z standard normal and ``T = S + sigma Z``, the profile is ``n H_alpha = E S_+``, and

* upper end: ``E S_+ <= E T_+`` (Jensen);
* lower end: the event A = {T > 0} is a randomised test, so ``E S_+ >= E[S; A]``, which is
  ``E T_+ - sigma^2 f_T(0)`` with the density of T at 0 (Stein's identity). With ``E[S1; A]`` it is
  a point ``(Q(A), P(A))`` of the error region and bounds the profile at every other alpha, too.

All three are integrals over a vertical line ``z = theta + i t``, theta > 0, of the moment
generating function ``M(z)^n e^(sigma^2 z^2 / 2)`` times ``1/z^2``, ``1``, and ``n M_1(z) / (M(z)
z)`` with ``M_1 = sum q r1 e^(z v)``. The trapezoidal sum with nodes ``t = j eta`` is exact but for
aliases: it equals the sum over all integers k, with ``W = 2 pi / eta``, of

    e^(-k W theta) E (T + k W)_+      (and f_T(-k W), and E[S1; T + k W > 0], likewise).

All terms are >= 0, so aliases only raise the upper ends. For the lower ends they are bounded by
Chernoff at ``theta - delta`` (k > 0) and ``theta + delta`` (k < 0): ``(x)_+ <= e^(s x) / (e s)``.

theta minimises ``n log M(theta) - 2 log theta``: the saddle point of the first integral. It keeps
relative accuracy at any depth of the tail. Any other theta would be valid, too.

Both ends allow for nodes that are left out (`shuffle_accountant.sums.survey`), for aliases, and
for rounding (`shuffle_accountant.sums.spectra`). Rounding of the ratios: r0, r1 and values are off
by a few u of ``r0 + alpha r1``; alpha is lowered by as much beforehand, which raises upper ends and
keeps events valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import LIMITS, UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.question import Ends, MessageRows, Question
from shuffle_accountant.sums.spectra import Nodes, joined, of_blocks
from shuffle_accountant.sums.survey import find_blocks
from shuffle_accountant.sums.tilted import Aims, Tilted, tilt_rows


class NodeTable:
    """Bounds at some rows for every number of messages in a range.

    Args:
        question: the rows, and the range.
        parts: nodes of those rows that have any.
    """

    def __init__(self, question: Question, parts: Iterable[Nodes]) -> None:
        self.rows, self.users = question.rows, question.users
        self.question, self._parts = question, joined(list(parts))

    @property
    def nodes(self) -> float:
        """Number of nodes of each row, on average: one more n takes as many exponentials."""
        return sum(float(part.count.sum()) for part in self._parts) / max(self.rows.excess.size, 1)

    def ends(self, users: int) -> Ends:
        """Bounds of the profile for ``users`` messages, a number in the range."""
        if not self.users[0] <= users <= self.users[1]:
            raise ValueError(f"users must lie in {self.users}, got {users!r}")
        result = np.full((4, self.rows.excess.size), math.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts:
                result[:, part.rows.index] = self._near(part, users)
            result[:, self.question.nothing] = 0.0
            result = self._with_far(result, users)
        result[:, ~np.isfinite(result).all(axis=0)] = math.nan
        return Ends(*result)

    def _near(self, part: Nodes, n: int) -> Array:
        """Upper and lower bounds, q and d of the sums without far messages."""
        value, error = part.sums(n)
        rows = part.rows
        anchor = self.rows.anchor[rows.index]
        excess = self.rows.excess[rows.index]
        log_scale = n * rows.log_scale + 0.5 * rows.variance * rows.theta**2
        relative = 1.01 * n * rows.per_message + UNIT_ROUNDOFF * (256.0 + 8.0 * np.abs(log_scale))
        relative = np.where(relative < 0.1, relative, math.nan)
        scale = np.exp(log_scale) / n
        upper = scale * (value[0] + error[0]) * (1.0 + relative)
        upper = upper * (1.0 + 128 * UNIT_ROUNDOFF) + LIMITS.underflow
        total = value[0] - error[0] - rows.alias[0]
        total -= relative * np.abs(total)
        noise = rows.variance * (value[1] + error[1]) * (1.0 + relative)
        high = np.maximum(value[2] + error[2], 0.0) * (1.0 + relative)
        low = np.maximum((value[2] - error[2] - n * rows.alias[1]) * (1.0 - relative), 0.0)
        slack = np.abs(total) + noise + 2.0 * (1.0 + excess) * high
        gain = total - noise + np.where(anchor > 0.0, anchor * low, anchor * high)
        d = scale * (gain - 4.0 * settings.NODES.ratio_error * slack)
        q = scale * high * (1.0 + 64 * UNIT_ROUNDOFF) + LIMITS.underflow
        # at its own alpha no error of the event's probability counts
        lower = total - noise - (excess - anchor) * high
        lower = scale * (lower - 4.0 * settings.NODES.ratio_error * slack)
        return np.stack([upper, lower, q, d])

    def _with_far(self, near: Array, n: int) -> Array:
        """The bounds of `_near`, with sums added in which some message is far."""
        upper, lower, q, d = near
        anchor, excess = self.rows.anchor, self.rows.excess
        gain, sent, off, off_sent = self.question.far.probabilities(n)
        apart = gain - anchor * sent + off + (1.0 + excess) * off_sent
        upper = upper + np.maximum(apart, 0.0) + self.question.far.missed
        upper = upper * (1.0 + 16 * UNIT_ROUNDOFF)
        size = np.abs(lower) + np.abs(gain) + excess * sent
        lower = lower + (gain - excess * sent) - off - (1.0 + excess) * off_sent
        lower = lower - 32 * UNIT_ROUNDOFF * size
        d, q = d + gain - off, (q + sent + off_sent) * (1.0 + 4 * UNIT_ROUNDOFF)
        return np.stack([upper, np.maximum(lower, 0.0), q, d])

    @cached_property
    def widths(self) -> Array:
        """Widths of the bounds relative to the upper ones, the larger at both ends of the range."""
        found = [self.ends(n) for n in {*self.users}]
        with np.errstate(invalid="ignore", divide="ignore"):
            widths = [(ends.upper - ends.lower) / ends.upper for ends in found]
        widths = [
            np.where(ends.upper == 0.0, 0.0, w) for ends, w in zip(found, widths, strict=True)
        ]
        return np.asarray(np.nan_to_num(np.max(widths, axis=0), nan=math.inf))


def node_table(rows: MessageRows, users: tuple[int, int], width: Array) -> NodeTable:
    """Tabulate nodes that bound the profile for all numbers of messages in a range.

    Rows whose bounds are too wide are tabulated once more with a smaller sigma.

    Args:
        rows: message spaces and alpha, k of them.
        users: least and largest number of messages.
        width: width of the bounds aimed for, relative to the profile, shape (k,).
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        question, unknown = Question.of(rows, users, width), np.full(width.shape, math.nan)
        wanted = np.flatnonzero(~question.nothing)
        table = NodeTable(question, _tabulated(question, Aims(width, unknown, unknown), wanted))
        aims = _closer(table, width)
        wide = np.flatnonzero((table.widths > width) & np.isfinite(aims.variance))
        if not wide.size:
            return table
        return _better(table, NodeTable(question, _tabulated(question, aims, wide)))


def _closer(table: NodeTable, width: Array) -> Aims:
    """Smaller variances, from the widths measured: the relative width falls with the variance.

    They are nan where there are no nodes.
    """
    variance, value = np.full((2, width.size), math.nan)
    for part in table._parts:
        rows, found = part.rows, np.array([part.sums(n)[0][:2] for n in table.users])
        ratio = np.max(rows.variance * found[:, 1] / found[:, 0], axis=0)
        wanted = np.minimum(0.5 * width[rows.index] / ratio, 1.0)
        variance[rows.index] = np.where(ratio > 0.0, rows.variance * wanted, math.nan)
        value[rows.index] = np.min(found[:, 0], axis=0)
    return Aims(width, variance, value)


def _better(first: NodeTable, second: NodeTable) -> NodeTable:
    """The table that takes each row from whichever table has the narrower bounds."""
    won = second.widths < first.widths
    parts = []
    for table, kept in ((first, ~won), (second, won)):
        for part in table._parts:
            some = kept[part.rows.index]
            if some.any():
                parts.append(part if some.all() else part.only(some))
    return NodeTable(first.question, parts)


def _tabulated(question: Question, aims: Aims, wanted: NDArray[np.intp]) -> Iterator[Nodes]:
    """Nodes of the rows wanted, in pieces that fit into memory."""
    messages = question.value.shape[1]
    size = max(LIMITS.at_once // (8 * messages), 1)
    rows = question.theta.size
    share = settings.NODES.work / (messages * rows)
    most = min(max(share, settings.NODES.fewest_nodes), settings.NODES.most_nodes)
    for first in range(0, wanted.size, size):
        yield from _affordable(question, aims, wanted[first : first + size], most)


def _affordable(
    question: Question, aims: Aims, index: NDArray[np.intp], most: float
) -> Iterator[Nodes]:
    """Nodes of some rows, with a larger sigma where more than ``most`` would have to be kept."""
    users = question.users
    aims = aims[index]
    while index.size:
        tilted = tilt_rows(question, aims, index, most)
        good = np.isfinite(tilted.window) & np.isfinite(tilted.last)
        good &= np.isfinite(tilted.log_scale) & (tilted.variance > 0.0)
        tilted = tilted[good].used()
        (row, first), dropped, complete = find_blocks(tilted, users, most)
        count = np.bincount(row, minlength=tilted.theta.size)
        fits = complete & (count * settings.NODES.block <= max(most, 2.0 * settings.NODES.block))
        kept = fits[row]
        for part, start in _equal_blocks(tilted, row[kept], first[kept]):
            yield of_blocks(tilted[part].used(), users, start, dropped[:, part])
        again = np.flatnonzero(good)[~fits]
        over = np.maximum(count[~fits] * settings.NODES.block / most, 1.0)
        # four times sigma, or more: every attempt surveys all frequencies again
        wider = 16.0 * tilted.variance[~fits] * over
        index, aims = index[again], aims[again]
        aims = Aims(aims.width, wider, aims.value)


def _equal_blocks(
    rows: Tilted, row: NDArray[np.intp], first: Array
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Iterate over groups of rows with equally many blocks that fit into memory: indices, nodes."""
    order = np.argsort(row, kind="stable")
    first, count = first[order], np.bincount(row, minlength=rows.theta.size)
    start = np.cumsum(count) - count
    for blocks in np.unique(count[count > 0]).tolist():
        same = np.flatnonzero(count == blocks)
        size = max(LIMITS.at_once // ((blocks + settings.NODES.block) * rows.y.shape[1]), 1)
        for begin in range(0, same.size, size):
            some = same[begin : begin + size]
            yield some, first[start[some][:, None] + np.arange(blocks)]
