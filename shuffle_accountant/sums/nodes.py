"""Bounds of the profile at several alpha by Laplace inversion: a sum over few nodes.

With the message values ``v = r0 - alpha r1``, their sum S over n i.i.d. messages, ``S1`` the sum of
``r1``, Z standard normal and ``T = S + sigma Z``, the profile is ``n H_alpha = E S_+``, and

* upper end: ``E S_+ <= E T_+`` (Jensen);
* lower end: the event A = {T > 0} is a randomised test, so ``E S_+ >= E[S; A]``, which is
  ``E T_+ - sigma^2 f_T(0)`` with the density of T at 0 (Stein's identity). With ``E[S1; A]`` it is a
  point ``(Q(A), P(A))`` of the error region and bounds the profile at every other alpha, too.

All three are integrals over a vertical line ``z = theta + i t``, theta > 0, of the moment generating
function ``M(z)^n e^(sigma^2 z^2 / 2)`` times ``1/z^2``, ``1``, and ``n M_1(z) / (M(z) z)`` with
``M_1 = sum q r1 e^(z v)``. The trapezoidal sum with nodes ``t = j eta`` is exact but for aliases: it
equals the sum over all integers k, with ``W = 2 pi / eta``, of

    e^(-k W theta) E (T + k W)_+      (and f_T(-k W), and E[S1; T + k W > 0], likewise).

All terms are >= 0, so aliases only raise the upper ends. For the lower ends they are bounded by
Chernoff at ``theta - delta`` (k > 0) and ``theta + delta`` (k < 0): ``(x)_+ <= e^(s x) / (e s)``.

theta minimises ``n log M(theta) - 2 log theta``: the saddle point of the first integral. It keeps
relative accuracy at any depth of the tail. Any other theta would be valid, too.

Errors, all of them part of both ends:

* Left-out nodes: beyond the last one by the normal factor alone; in between, whole blocks of them by
  this lemma. For the tilted message value Y with characteristic function phi, the function
  ``u(t) = sqrt(1 - |phi(t)|^2)`` is Lipschitz with the standard deviation of Y as its constant: with
  D the difference of two independent copies, ``|phi|^2 = E cos(t D)`` has a derivative of at most
  ``sqrt(E D^2) sqrt(E sin^2 (t D)) <= sqrt(2 Var Y) sqrt(2 (1 - |phi|^2))``.
* Rounding of phi: it is off by a few u of ``t E|Y|``, and powers by
  ``|a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1)``.
* Rounding of the tilted weights: a few u of each, which moves expectations of non-negative
  quantities by at most n times that, relative to them.
* Rounding of the ratios: r0, r1 and values are off by a few u of ``r0 + alpha r1``; alpha is lowered
  by as much beforehand, which raises upper ends and keeps events valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.numerics.turns import cosines_and_sines
from shuffle_accountant.sums.far_messages import FarMessages, far_messages

__all__ = ["Ends", "MessageRows", "NodeTable", "node_table"]


@dataclass(frozen=True)
class _Settings:
    """What is left out, and in which sizes work is done.

    Attributes:
        block: neighbouring nodes that are kept or left out together.
        work: messages times kept nodes, and times frequencies surveyed, of all rows of a table:
            where that is too little, sigma is larger and bounds are wider.
        row_work: the same of a single row, at most.
        fewest_nodes: every row may have this many nodes, if its own work allows.
        left_out: left-out nodes and aliases may each be this share of the width aimed for.
        missed: the negative part of sums with far messages may be this share of it.
        passes: how often rows whose bounds are too wide are tabulated again with a smaller sigma.
        undershoot: part of the width aimed for that the normal may take.
        at_once: messages times nodes in memory at once.
        below: exponents delta of the alias bounds below theta, in inverse standard deviations of
            the tilted sum.
        above: the same above theta.
        unsplit: intervals of this many blocks are kept whole: to look at their halves would take as
            long as their nodes.
        half_turn: intervals of nodes are at most this many inverse standard deviations of a message
            long when blocks are searched for that matter.
        least_weight: tilted weights below this count as 0, which is part of the error of phi.
        ratio_error: relative error of likelihood ratios and of ``alpha - 1``.
        underflow: absolute error of products below the smallest normal double.
    """

    block: int = 16
    work: float = 2.0**26
    row_work: float = 2.0**22
    fewest_nodes: float = 2.0**10
    left_out: float = 0.05
    missed: float = 0.05
    passes: int = 3
    undershoot: float = 0.6
    at_once: int = 1 << 19
    below: tuple[float, ...] = (0.7, 1.2, 1.8, 2.6, 3.6, 5.0, 7.0)
    above: tuple[float, ...] = (1.0, 2.0, 3.0, 4.2, 5.5, 7.5, 10.0)
    unsplit: int = 4
    half_turn: float = 1.5
    least_weight: float = 1e-20
    ratio_error: float = 64.0 * UNIT_ROUNDOFF
    underflow: float = 1e-305


_SET = _Settings()
# Error of a wave less one, in units of round-off of its argument.
_WAVE_ERROR = 19.0

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class MessageRows:
    """Message spaces and alpha, row by row: one message space for all rows, or one for each.

    Attributes:
        r0: likelihood ratios of the messages under X to decoys, shape (m,) or (k, m).
        r1: the same under X'.
        q: probabilities of the messages among decoys; 0 for padding.
        excess: ``alpha - 1 >= 0``, shape (k,).
    """

    r0: Array
    r1: Array
    q: Array
    excess: Array

    def __getitem__(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> MessageRows:
        """Some of the rows."""
        ratios = (x if x.ndim == 1 else x[rows] for x in (self.r0, self.r1, self.q))
        return MessageRows(*ratios, self.excess[rows])

    @property
    def anchor(self) -> Array:
        """``alpha - 1``, lowered by what rounding of the ratios may hide."""
        return self.excess - 4.0 * _SET.ratio_error * (1.0 + self.excess)


@dataclass(frozen=True, eq=False)
class Ends:
    """Bounds for one number of messages, row by row; nan where there are none.

    Attributes:
        upper: upper bounds of ``H_alpha``.
        lower: lower bounds of it.
        q: upper bounds of the Q-probabilities of events.
        d: lower bounds of P- less Q-probability of these events: ``d - (alpha - 1) q`` bounds the
            profile from below at every alpha >= 1.
    """

    upper: Array
    lower: Array
    q: Array
    d: Array


@dataclass(frozen=True, eq=False)
class _Aims:
    """What a row is tabulated for, shape (k,) each.

    Attributes:
        width: width of the profile's bounds relative to the profile, about.
        variance: ``sigma^2``; nan for the one that gives the width if the tilted sum is normal.
        value: ``E T_+`` relative to the scale; nan for the one of a normal sum.
        measured: a variance tried before and the relative width that it gave, shape (2, k); nan if
            there is none.
    """

    width: Array
    variance: Array
    value: Array
    measured: Array

    def __getitem__(self, rows: NDArray[np.intp]) -> _Aims:
        """Some of the rows."""
        return _Aims(
            self.width[rows], self.variance[rows], self.value[rows], self.measured[:, rows]
        )


@dataclass(frozen=True, eq=False)
class _Tilted:
    """The messages of several rows under their tilts.

    Attributes:
        index: which row of the question each one answers, shape (k,).
        y: values less their tilted mean, shape (k, m); 0 where the weight is.
        weight: tilted probabilities, shape (k, m).
        sent: the same times r1, shape (k, m).
        theta: the tilt, shape (k,).
        mean: tilted mean of the values, shape (k,).
        spread: tilted variance of the values, shape (k,).
        variance: ``sigma^2``, shape (k,).
        window: ``W = 2 pi / eta``, shape (k,).
        level: nodes are left out if their modulus is below ``e^-level``, shape (k,).
        last: number of the last node, by the normal factor, shape (k,).
        log_scale: logarithm of the moment generating function of a message at theta, shape (k,).
        per_message: relative error of a message's weight, shape (k,).
        lost: sums of weights that count as 0, and of these times r1, shape (2, k).
        alias: bounds of what aliases add to the first sum, and to the third per message, (2, k).
    """

    index: NDArray[np.intp]
    y: Array
    weight: Array
    sent: Array
    theta: Array
    mean: Array
    spread: Array
    variance: Array
    window: Array
    level: Array
    last: Array
    log_scale: Array
    per_message: Array
    lost: Array
    alias: Array

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> _Tilted:
        """Some of the rows."""
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        return _Tilted(
            **{k: x[..., rows] if k in ("alias", "lost") else x[rows] for k, x in values.items()}
        )

    @property
    def step(self) -> Array:
        """Distance eta of nodes."""
        return np.asarray(2.0 * math.pi / self.window)

    @cached_property
    def size(self) -> Array:
        """Upper bound of the tilted mean of ``|Y|``."""
        return np.asarray(np.sum(self.weight * np.abs(self.y), axis=1) * (1.0 + 1e-9))

    @property
    def rounding(self) -> float:
        """Error of sums of products of waves less one, relative to their arguments."""
        return UNIT_ROUNDOFF * (9.0 * self.y.shape[1] + 256.0 + 3.0 * _WAVE_ERROR)

    def off(self, t: Array) -> Array:
        """Absolute error of ``phi`` at t, shape (k, j): waves, their sums, means, lost weights."""
        own = self.rounding * self.size + 16.0 * UNIT_ROUNDOFF * np.abs(self.mean)
        return np.asarray(own[:, None] * t + (8.0 * UNIT_ROUNDOFF + 2.0 * self.lost[0])[:, None])

    def used(self) -> _Tilted:
        """The same without messages that have no weight in any row."""
        some = self.weight.any(axis=0)
        if some.all():
            return self
        y, weight, sent = (x[:, some] for x in (self.y, self.weight, self.sent))
        return replace(self, y=y, weight=weight, sent=sent)


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes of several rows, one row behind the other, and what does not depend on n.

    Attributes:
        rows: the rows' tilts.
        count: number of nodes of each row, shape (k,).
        log_modulus: logarithm of ``|phi|``, shape (j,).
        angle: angle of ``phi e^(i t mean)``, shape (j,).
        log_top: logarithm of an upper bound of ``|phi|``, shape (j,).
        terms: complex coefficients of the three sums, shape (3, j).
        once: absolute errors of these terms that do not grow with n, shape (3, j).
        each: absolute errors that grow with n, shape (3, j).
        dropped: bounds of what left-out nodes add, shape (3, k).
    """

    rows: _Tilted
    count: NDArray[np.intp]
    log_modulus: Array
    angle: Array
    log_top: Array
    terms: Complex
    once: Array
    each: Array
    dropped: Array

    def only(self, kept: NDArray[np.bool_]) -> _Nodes:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)
        return _Nodes(
            self.rows[kept],
            self.count[kept],
            *(x[..., flat] for x in (self.log_modulus, self.angle, self.log_top)),
            *(x[..., flat] for x in (self.terms, self.once, self.each)),
            self.dropped[:, kept],
        )

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
        """Sums of the last numbers of messages: those at the ends of a range are asked for again."""
        return {}

    def sums(self, n: int) -> tuple[Array, Array]:
        """The three sums for n messages, and bounds of their errors, shape (3, k) each."""
        if n not in self._known:
            while len(self._known) > 1:
                self._known.pop(next(iter(self._known)))
            self._known[n] = self._summed(n)
        return self._known[n]

    def _summed(self, n: int) -> tuple[Array, Array]:
        if not self.count.size:
            return np.zeros((3, 0)), np.zeros((3, 0))
        starts = np.cumsum(self.count) - self.count
        modulus = np.exp(n * self.log_modulus)
        cosine, sine = cosines_and_sines(n * self.angle)
        value = self.terms.real * (modulus * cosine)
        value -= self.terms.imag * (modulus * sine)
        error = self.each * n
        error += self.once
        error *= np.exp(n * self.log_top)
        value, error = (np.add.reduceat(x, starts, axis=1) for x in (value, error))
        value[2] *= n
        error[2] *= n
        dropped = self.dropped.copy()
        dropped[2] *= n
        return value, error + dropped


class NodeTable:
    """Bounds at some rows for every number of messages in a range.

    Args:
        rows: message spaces and alpha.
        users: least and largest number of messages.
        far: far messages of all rows.
        parts: nodes of those rows that have any.
        nothing: rows without a positive value among the messages that are not far.
    """

    def __init__(
        self,
        rows: MessageRows,
        users: tuple[int, int],
        far: FarMessages,
        parts: Sequence[_Nodes],
        nothing: NDArray[np.bool_],
    ) -> None:
        self.rows, self.users = rows, users
        self._far, self._parts, self._nothing = far, tuple(parts), nothing

    @property
    def nodes(self) -> float:
        """Number of nodes of each row, on average: one more n takes as many exponentials."""
        return sum(float(part.count.sum()) for part in self._parts) / max(self.rows.excess.size, 1)

    def ends(self, users: int) -> Ends:
        """The bounds for that many messages, a number in the range."""
        if not self.users[0] <= users <= self.users[1]:
            raise ValueError(f"users must lie in {self.users}, got {users!r}")
        result = np.full((4, self.rows.excess.size), math.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts:
                result[:, part.rows.index] = self._near(part, users)
            result[:, self._nothing] = 0.0
            result = self._with_far(result, users)
        result[:, ~np.isfinite(result).all(axis=0)] = math.nan
        return Ends(*result)

    def _near(self, part: _Nodes, n: int) -> Array:
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
        upper = upper * (1.0 + 128 * UNIT_ROUNDOFF) + _SET.underflow
        total = (value[0] - error[0] - rows.alias[0]) * (1.0 - relative)
        noise = rows.variance * (value[1] + error[1]) * (1.0 + relative)
        high = np.maximum(value[2] + error[2], 0.0) * (1.0 + relative)
        low = np.maximum((value[2] - error[2] - n * rows.alias[1]) * (1.0 - relative), 0.0)
        slack = np.abs(total) + noise + 2.0 * (1.0 + excess) * high
        gain = total - noise + np.where(anchor > 0.0, anchor * low, anchor * high)
        d = scale * (gain - 4.0 * _SET.ratio_error * slack)
        q = scale * high * (1.0 + 64 * UNIT_ROUNDOFF) + _SET.underflow
        return np.stack([upper, np.zeros(upper.shape), q, d])

    def _with_far(self, near: Array, n: int) -> Array:
        """The same with sums in which some message is far."""
        upper, _, q, d = near
        anchor, excess = self.rows.anchor, self.rows.excess
        gain, sent, off, off_sent = self._far.probabilities(n)
        apart = gain - anchor * sent + off + (1.0 + excess) * off_sent
        upper = upper + np.maximum(apart, 0.0) + self._far.missed
        upper = upper * (1.0 + 16 * UNIT_ROUNDOFF)
        d, q = d + gain - off, (q + sent + off_sent) * (1.0 + 4 * UNIT_ROUNDOFF)
        lower = (d - excess * q) * (1.0 - 16 * UNIT_ROUNDOFF) - 16 * UNIT_ROUNDOFF * excess * q
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


def node_table(
    rows: MessageRows, users: tuple[int, int], width: Array, passes: int = _SET.passes
) -> NodeTable:
    """Tabulate nodes that bound the profile for all numbers of messages in a range.

    Args:
        rows: message spaces and alpha, k of them.
        users: least and largest number of messages.
        width: width of the bounds aimed for, relative to the profile, shape (k,).
        passes: how often rows whose bounds are too wide are tabulated again.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        far, nothing, aims = _first(rows, users, width)
        parts = list(_tabulated(rows, users, far, aims, np.flatnonzero(~nothing)))
        table = NodeTable(rows, users, far, parts, nothing)
        for _ in range(passes):
            wide = (table.widths > width) & ~nothing
            aims, limited = _closer(table, aims, np.flatnonzero(wide))
            wide &= ~limited
            if not wide.any():
                break
            again = list(_tabulated(rows, users, far, aims, np.flatnonzero(wide)))
            table = _better(table, NodeTable(rows, users, far, again, nothing))
    return table


def _first(
    rows: MessageRows, users: tuple[int, int], width: Array
) -> tuple[FarMessages, NDArray[np.bool_], _Aims]:
    """Far messages, rows without positive values, and what is aimed for first."""
    value, mass = _values(rows, users)
    far = far_messages(rows.r0, rows.r1, mass, value, users, _SET.missed * width)
    near = (mass > 0.0) & (value <= far.cut[:, None])
    nothing = ~np.any(near & (value > 0.0), axis=1)
    unknown = np.full(width.shape, math.nan)
    return far, nothing, _Aims(width, unknown, unknown, np.stack([unknown, unknown]))


def _values(rows: MessageRows, users: tuple[int, int]) -> tuple[Array, Array]:
    """Values and masses, shape (k, m), without messages of which no sum is positive.

    That is exact: E[S_+] is the same without them, as far as they make every sum negative.
    """
    value = (rows.r0 - rows.r1) - rows.anchor[:, None] * rows.r1
    top = np.where(rows.q > 0.0, value, 0.0).max(axis=1, initial=0.0)
    kept = (rows.q > 0.0) & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
    return np.where(kept, value, 0.0), np.where(kept, rows.q, 0.0)


def _closer(
    table: NodeTable, aims: _Aims, wide: NDArray[np.intp]
) -> tuple[_Aims, NDArray[np.bool_]]:
    """Smaller variances for rows that are too wide, from what was measured.

    The relative width falls with the variance; where the sum has atoms near 0, with its root. Which
    it is, two measurements say.

    Returns:
        What is aimed for next, and rows whose sigma work kept larger than was aimed for: it would
        again.
    """
    variance, value, measured = aims.variance.copy(), aims.value.copy(), aims.measured.copy()
    limited = np.zeros(variance.shape, dtype=bool)
    for part in table._parts:
        rows = part.rows
        found = [part.sums(n)[0] for n in {*table.users}]
        ratio = np.max([rows.variance * x[1] / x[0] for x in found], axis=0)
        some = np.isin(rows.index, wide) & (ratio > 0.0) & np.isfinite(ratio)
        at, now, ratio = rows.index[some], rows.variance[some], ratio[some]
        before, then = measured[:, at]
        power = np.log(ratio / then) / np.log(now / before)
        power = np.where(np.isnan(power), 1.0, np.clip(power, 0.4, 1.0))
        wanted = np.minimum(_SET.undershoot * aims.width[at] / ratio, 1.0)
        variance[at] = now * wanted ** (1.0 / power)
        value[at] = np.min([x[0] for x in found], axis=0)[some]
        asked = np.where(np.isnan(aims.variance[at]), math.inf, aims.variance[at])
        limited[at] = now > (1.0 + 1e-6) * asked
        measured[:, at] = now, ratio
    return _Aims(aims.width, variance, value, measured), limited


def _better(first: NodeTable, second: NodeTable) -> NodeTable:
    """The table with the narrower bounds, row by row."""
    won = second.widths < first.widths
    parts = []
    for table, kept in ((first, ~won), (second, won)):
        for part in table._parts:
            some = kept[part.rows.index]
            if some.any():
                parts.append(part if some.all() else part.only(some))
    return NodeTable(first.rows, first.users, first._far, parts, first._nothing)


def _tabulated(
    rows: MessageRows,
    users: tuple[int, int],
    far: FarMessages,
    aims: _Aims,
    wanted: NDArray[np.intp],
) -> Iterator[_Nodes]:
    """Nodes of the rows wanted, in pieces that fit into memory."""
    messages = rows.q.shape[-1]
    size = max(_SET.at_once // (8 * messages), 1)
    most = max(_SET.work / (messages * rows.excess.size), _SET.fewest_nodes)
    most = min(most, _SET.row_work / messages)
    for first in range(0, wanted.size, size):
        some = wanted[first : first + size]
        yield from _affordable(rows[some], users, far[some], aims[some], some, most)


def _affordable(
    rows: MessageRows,
    users: tuple[int, int],
    far: FarMessages,
    aims: _Aims,
    index: NDArray[np.intp],
    most: float,
) -> Iterator[_Nodes]:
    """Nodes of some rows, with a larger sigma where more than ``most`` would have to be kept."""
    while index.size:
        tilted = _tilted(rows, users, far, aims, most)
        good = np.isfinite(tilted.window) & np.isfinite(tilted.last)
        good &= np.isfinite(tilted.log_scale) & (tilted.variance > 0.0)
        tilted = replace(tilted, index=index)[good]
        (row, first), dropped = _survey(tilted, users)
        count = np.bincount(row, minlength=tilted.theta.size)
        fits = count * _SET.block <= max(most, 2.0 * _SET.block)
        kept = fits[row]
        for part, start in _equal_blocks(tilted, row[kept], first[kept]):
            yield _of_blocks(tilted[part].used(), users, start, dropped[:, part])
        again = np.flatnonzero(good)[~fits]
        wider = 4.0 * tilted.variance[~fits] * np.maximum(count[~fits] * _SET.block / most, 1.0)
        index, rows, far, aims = index[again], rows[again], far[again], aims[again]
        aims = _Aims(aims.width, wider, aims.value, aims.measured)


def _tilted(
    rows: MessageRows, users: tuple[int, int], far: FarMessages, aims: _Aims, most: float
) -> _Tilted:
    """Tilt the messages of some rows, and choose sigma and the window.

    Sigma is large enough for a survey of at most ``most`` frequencies of each row.
    """
    value, mass = _values(rows, users)
    near = (value <= far.cut[:, None]) & (mass > 0.0)
    top = np.where(near, value, 0.0).max(axis=1, initial=0.0)
    # the same once more, without far messages
    kept = near & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
    mass, value = np.where(kept, mass, 0.0), np.where(kept, value, 0.0)
    theta = _saddles(value, mass, math.sqrt(users[0] * users[1]), top)
    exponent = theta[:, None] * value
    shift = np.where(kept, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    total = weight.sum(axis=1)
    weight /= total[:, None]
    mean = np.sum(weight * value, axis=1)
    y = np.where(weight > 0.0, value - mean[:, None], 0.0)
    spread = np.sum(weight * y**2, axis=1)
    log_scale = np.log(total) + shift
    size = np.where(weight > 0.0, np.abs(exponent), 0.0).max(axis=1, initial=0.0)
    variance, relative = _smoothing(theta, users[1] * spread, aims)
    sent = weight * rows.r1
    level = -np.log(_SET.left_out * aims.width * relative)
    third = np.maximum(rows.anchor, 0.0) * users[1] * sent.sum(axis=1)
    while True:
        law = y, weight, sent, theta, mean, spread, variance
        window, alias = _windows(law, users, rows.anchor, -level)
        last = _reach(variance, third, level) * window / (2.0 * math.pi)
        surveyed = last * np.sqrt(spread) * 2.0 * math.pi / window / _SET.half_turn
        over = surveyed / most
        if not np.any((over > 1.0) & (over < math.inf)):
            break
        # frequencies fall with 1 / sigma
        variance = np.where(over > 1.0, variance * (1.1 * over) ** 2, variance)
    # aliases count all messages; the nodes do without those that have next to no weight
    light = np.where(weight < _SET.least_weight, weight, 0.0)
    lost = (1.0 + 1e-9) * np.stack([light.sum(axis=1), np.sum(light * rows.r1, axis=1)])
    weight, sent = weight - light, sent - light * rows.r1
    y = np.where(weight > 0.0, y, 0.0)
    count = np.ceil(last)
    largest = np.maximum(np.maximum(1.0 / theta**2, variance), third / theta)
    bound = (count + 2.0) / window * largest
    return _Tilted(
        index=np.arange(theta.size),
        y=y,
        weight=weight,
        sent=sent,
        theta=theta,
        mean=mean,
        spread=spread,
        variance=variance,
        window=window,
        level=np.maximum(level + np.log(bound), 1.0),
        last=count,
        log_scale=log_scale,
        per_message=UNIT_ROUNDOFF
        * (64.0 + min(rows.q.shape[-1], 128) + 4.0 * size + 8.0 * np.abs(log_scale)),
        lost=lost,
        alias=alias,
    )


def _saddles(value: Array, mass: Array, n: float, top: Array) -> Array:
    """Minimisers of ``n log M(theta) - 2 log theta`` to a few percent, by Newton's method."""
    total = mass.sum(axis=1)
    mean = np.sum(mass * value, axis=1) / total
    spread = np.sum(mass * (value - mean[:, None]) ** 2, axis=1) / total
    root = np.sqrt(mean**2 + 8.0 * spread / n)
    theta = np.where(mean > 0.0, 4.0 / n / (mean + root), 0.5 * (root - mean) / spread)
    # beyond the second, only the largest value is left
    theta = np.minimum(np.where(theta > 0.0, theta, 1.0 / top), 1e4 / top + 2.0 / (n * top))
    low, high = np.zeros(theta.shape), np.full(theta.shape, math.inf)
    active = np.arange(theta.size)
    for _ in range(80):
        here, v, p = theta[active], value[active], mass[active]
        exponent = here[:, None] * v
        exponent -= np.where(p > 0.0, exponent, -math.inf).max(axis=1)[:, None]
        weight = p * np.exp(np.minimum(exponent, 0.0))
        weight /= weight.sum(axis=1)[:, None]
        mean = np.sum(weight * v, axis=1)
        spread = np.sum(weight * (v - mean[:, None]) ** 2, axis=1)
        slope = n * mean - 2.0 / here
        low[active] = np.where(slope < 0.0, here, low[active])
        high[active] = np.where(slope < 0.0, high[active], here)
        newton = here - slope / (n * spread + 2.0 / here**2)
        inside = (newton > low[active]) & (newton < high[active])
        middle = np.where(
            high[active] < math.inf,
            np.where(low[active] > 0.0, np.sqrt(low[active] * high[active]), 0.1 * high[active]),
            4.0 * here,
        )
        then = np.where(inside, newton, middle)
        theta[active] = then
        active = active[np.abs(then - here) > 0.02 * here]
        if not active.size:
            break
    return theta


def _smoothing(theta: Array, variance: Array, aims: _Aims) -> tuple[Array, Array]:
    """``sigma^2``, and about the value of ``E T_+`` relative to the scale.

    For a normal tilted sum of mean ``2 / theta`` the ratio of ``E S_+`` and the density at 0 is
    the variance times ``1 - b R(b)``, R Mills' ratio.
    """
    from scipy.special import erfcx

    deviation = np.sqrt(variance)
    b = theta * deviation - 2.0 / (theta * deviation)
    mills = math.sqrt(0.5 * math.pi) * erfcx(np.clip(b, -30.0, 1e4) / math.sqrt(2.0))
    ratio = np.where(b > 20.0, 1.0 / (2.0 + b * b), 1.0 - b * mills) * variance
    ratio = np.minimum(np.where(ratio > 0.0, ratio, math.inf), 4.0 / theta**2)
    found = np.where(np.isnan(aims.variance), 0.35 * aims.width * ratio, aims.variance)
    usual = 1.0 / (theta**2 * np.sqrt(2.0 * math.pi * (variance + found + 2.0 / theta**2)))
    return found, np.where(np.isnan(aims.value), usual, aims.value)


def _windows(
    parts: tuple[Array, ...], users: tuple[int, int], anchor: Array, goal: Array
) -> tuple[Array, Array]:
    """The least window whose aliases are below ``e^goal``, and bounds of what they add.

    Returns:
        W, shape (k,); and bounds for the first and the third sum, the latter per message, that hold
        for both numbers of messages and, being log-linear in them, for all between, shape (2, k).
    """
    y, weight, sent, theta, mean, spread, variance = parts
    deviation = np.sqrt(users[1] * spread + variance)
    window = np.zeros((2, theta.size))
    first, third, delta = (np.empty((2, 7, 2, theta.size)) for _ in range(3))
    for side, steps in enumerate((_SET.below, _SET.above)):
        sign = (-1.0, 1.0)[side]
        for i, step in enumerate(steps):
            d = step / deviation
            if side == 0:
                d = np.minimum(d, (0.9 + 0.01 * i) * theta)
            grown = np.expm1(sign * d[:, None] * y)
            change, size = np.sum(weight * grown, axis=1), np.sum(weight * np.abs(grown), axis=1)
            moved = UNIT_ROUNDOFF * (128.0 + y.shape[1]) * (size + d * np.abs(mean) + 1e-3)
            growth = np.log1p(np.maximum(change + moved, -0.5)) + sign * d * mean
            share = np.sum(sent * (1.0 + grown), axis=1) / (1.0 + change) * (1.0 + 1e-6)
            s = theta + sign * d
            for j, n in enumerate(users):
                log = n * growth + 0.5 * variance * (s * s - theta * theta) + 1e-6
                first[side, i, j] = log - 1.0 - np.log(s)
                third[side, i, j] = log + np.log(share)
                delta[side, i, j] = d
        weighed = third[side] + np.log(np.maximum(anchor * np.array(users)[:, None], 1e-300))
        needed = (np.maximum(first[side], weighed) - goal) / delta[side]
        window[side] = np.where(np.isnan(needed), math.inf, needed).max(axis=1).min(axis=0)
    found = np.maximum(window.max(axis=0), 1e-3 / theta)
    # two aliases of each side take about half of the goal; all further ones next to nothing
    bounds = []
    for log in (first, third):
        decay = delta * found
        total = np.where(decay > 0.1, np.exp(log - decay) / -np.expm1(-decay), math.inf)
        total = np.where(np.isnan(total), math.inf, total)
        bounds.append(total.max(axis=2).min(axis=1).sum(axis=0) * (1.0 + 1e-6))
    return found, np.stack(bounds)


def _reach(variance: Array, third: Array, level: Array) -> Array:
    """The frequency from which on the normal factor leaves about ``e^-level`` of all sums.

    Args:
        variance: ``sigma^2``, shape (k,).
        third: the weight of the third sum, relative to the first, shape (k,).
        level: shape (k,).
    """
    deviation = np.sqrt(variance)
    log = np.maximum(level + np.log(np.maximum(deviation, third * variance)), 4.0)
    return np.asarray(np.sqrt(2.0 * log / variance))


def _equal_blocks(
    rows: _Tilted, row: NDArray[np.intp], first: Array
) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Rows with equally many blocks, as many as fit into memory, and their first nodes."""
    order = np.argsort(row, kind="stable")
    first, count = first[order], np.bincount(row, minlength=rows.theta.size)
    start = np.cumsum(count) - count
    for blocks in np.unique(count[count > 0]).tolist():
        same = np.flatnonzero(count == blocks)
        size = max(_SET.at_once // ((blocks + _SET.block) * rows.y.shape[1]), 1)
        for begin in range(0, same.size, size):
            some = same[begin : begin + size]
            yield some, first[start[some][:, None] + np.arange(blocks)]


def _of_blocks(rows: _Tilted, users: tuple[int, int], first: Array, left_out: Array) -> _Nodes:
    """The nodes of some rows, from the first nodes of their blocks, shape (k, blocks)."""
    size, step = _SET.block, rows.step
    fine = _waves(np.multiply.outer(step, np.arange(size))[:, :, None] * rows.y[:, None, :])
    starts = _waves((step[:, None] * first)[:, :, None] * rows.y[:, None, :])
    t = (step[:, None, None] * (first[:, :, None] + np.arange(size))).reshape(step.size, -1)
    less, less_sent = (
        _less_one(starts, fine, x).reshape(t.shape) for x in (rows.weight, rows.sent)
    )
    held = t <= (rows.last * step)[:, None] * (1.0 + 1e-9)
    off = rows.off(t)
    log_top = np.log(np.minimum(np.abs(1.0 + less) + off, 1.0))
    rest = (users[0] - 1) * log_top - 0.5 * t**2 * rows.variance[:, None]
    kept = held & (rest > -rows.level[:, None])
    others = np.where(held & ~kept, np.exp(rest), 0.0)
    dropped = np.einsum("akj,kj->ak", _transforms(rows, t), others) + left_out + _beyond(rows)
    dropped *= 1.01 * 2.0 / rows.window
    dropped[2] *= np.sum(rows.sent, axis=1) * (1.0 + 1e-9) + rows.lost[1]
    flat = np.repeat(np.arange(step.size), kept.sum(axis=1))
    return _coefficients(
        rows, flat, *(x[kept] for x in (t, less, less_sent, off, log_top)), dropped
    )


class _Survey:
    """Intervals of nodes that are left out, or kept as blocks: see `_survey`."""

    def __init__(self, rows: _Tilted, users: tuple[int, int]) -> None:
        self.rows, self.users = rows, users
        every = np.arange(rows.theta.size)
        self.kept = [every], [np.zeros(every.size)]
        self.dropped = np.zeros((3, every.size))

    def examine(
        self, index: NDArray[np.intp], begin: Array, length: Array, phi: Array, slope: Array
    ) -> tuple[NDArray[np.intp], Array, Array]:
        """Leave out intervals where the modulus is small, keep blocks, and halve all others.

        Args:
            index: row of each interval, shape (i,).
            begin: its first node.
            length: its number of nodes.
            phi: ``|phi|`` at its middle.
            slope: ``|phi'|`` there.

        Returns:
            Row, first node and number of nodes of what is to be examined next.
        """
        rows = self.rows
        step = rows.step[index]
        half, low = 0.5 * length * step, begin * step
        top = _largest_modulus(rows, index, (phi, slope), low + half, half)
        rest = (self.users[0] - 1) * np.log(top) - 0.5 * low**2 * rows.variance[index]
        out = rest <= -rows.level[index]
        gone = index[out]
        bound = np.minimum(length, rows.last[index] - begin + 1.0)[out] * np.exp(rest[out])
        for i, transform in enumerate(_transform(rows.theta[gone], low[out])):
            self.dropped[i] += np.bincount(gone, bound * transform, rows.theta.size)
        whole = ~out & (length <= _SET.block * _SET.unsplit)
        blocks = np.maximum(length[whole] / _SET.block, 1.0).astype(int)
        row, start = np.repeat(index[whole], blocks), np.repeat(begin[whole], blocks)
        start += _SET.block * (np.arange(row.size) - np.repeat(np.cumsum(blocks) - blocks, blocks))
        there = start <= rows.last[row]
        self.kept[0].append(row[there])
        self.kept[1].append(start[there])
        split = ~out & ~whole
        index, begin, length = index[split], begin[split], 0.5 * length[split]
        index, begin = np.tile(index, 2), np.concatenate([begin, begin + length])
        length = np.tile(length, 2)
        inside = begin <= rows.last[index]
        return index[inside], begin[inside], length[inside]


def _survey(rows: _Tilted, users: tuple[int, int]) -> tuple[tuple[NDArray[np.intp], Array], Array]:
    """Find the blocks of nodes that matter, by halving intervals of frequencies.

    Returns:
        The row and the first node of each such block; and what all others add to the three sums,
        shape (3, k).
    """
    survey, every = _Survey(rows, users), np.arange(rows.theta.size)
    # over this many nodes phi may move by about one
    longest = _SET.half_turn / (rows.step * np.sqrt(rows.spread) + 1e-300)
    reach, waiting = np.full(every.size, float(_SET.block)), []
    while np.any(far := (rows.last >= reach) & (reach < longest)):
        # intervals that are as long as they are far away
        waiting.append((every[far], reach[far], reach[far]))
        reach[far] *= 2.0
    for row in every[rows.last >= reach].tolist():
        length, begin = reach[row], np.arange(reach[row], rows.last[row] + 1.0, reach[row])
        size = np.full(begin.size, length)
        found = _regular(rows, row, begin[0] + 0.5 * length, length, begin.size)
        waiting.append(survey.examine(np.full(begin.size, row), begin, size, *found))
    while waiting:
        index, begin, length = (np.concatenate(x) for x in zip(*waiting, strict=True))
        if not index.size:
            break
        middle = (begin + 0.5 * length) * rows.step[index]
        waiting = [survey.examine(index, begin, length, *_single(rows, index, middle))]
    kept = np.concatenate(survey.kept[0]), np.concatenate(survey.kept[1])
    return kept, survey.dropped


def _single(rows: _Tilted, index: NDArray[np.intp], t: Array) -> tuple[Array, Array]:
    """``|phi|`` and ``|phi'|`` of the rows given by index, at one t each."""
    phi, slope = np.empty((2, t.size))
    size = max(_SET.at_once // (4 * rows.y.shape[1]), 1)
    for first in range(0, t.size, size):
        some = slice(first, first + size)
        row = index[some]
        y = rows.y[row]
        cosine, sine = cosines_and_sines(t[some][:, None] * y)
        cosine *= rows.weight[row]
        sine *= rows.weight[row]
        phi[some] = np.hypot(cosine.sum(axis=1), sine.sum(axis=1))
        slope[some] = np.hypot(np.einsum("kj,kj->k", cosine, y), np.einsum("kj,kj->k", sine, y))
    return phi, slope


def _regular(
    rows: _Tilted, row: int, first: float, apart: float, count: int
) -> tuple[Array, Array]:
    """The same at ``count`` nodes of one row that are equally far apart."""
    some = rows.weight[row] > 0.0
    y, weight, step = rows.y[row][some], rows.weight[row][some], float(rows.step[row])
    few = math.isqrt(count - 1) + 1
    near = np.exp(np.multiply.outer(np.arange(few) * (apart * step), 1j * y))
    start = (first + apart * few * np.arange(-(-count // few))) * step
    far = np.exp(np.multiply.outer(start, 1j * y)) * weight
    phi, slope = (np.abs(x @ near.T).ravel()[:count] for x in (far, far * y))
    return phi, slope


def _largest_modulus(
    rows: _Tilted, index: NDArray[np.intp], found: tuple[Array, Array], t: Array, half: Array
) -> Array:
    """Upper bounds of ``|phi|`` within ``half`` of t, from ``|phi|`` and ``|phi'|`` at t.

    The smaller one of two: by the lemma of this module, and by Taylor's theorem, as the second
    derivative of phi is at most the variance of Y.
    """
    phi, slope = found
    spread = rows.spread[index] * (1.0 + 1e-9)
    own = rows.rounding * rows.size[index] * (t + half)
    own += UNIT_ROUNDOFF * (128.0 + 8.0 * rows.y.shape[1]) + 2.0 * rows.lost[0][index]
    largest = np.max(np.abs(rows.y), axis=1, initial=0.0)[index]
    phi = np.minimum(phi + own, 1.0)
    u = np.sqrt((1.0 - phi) * (1.0 + phi)) - half * np.sqrt(spread)
    by_lemma = np.sqrt(np.maximum(1.0 - np.maximum(u, 0.0) ** 2, 0.0))
    by_taylor = phi + half * (slope + own * largest + 0.5 * half * spread)
    found_ = np.minimum(by_lemma, by_taylor) * (1.0 + 1e-15)
    return np.asarray(np.clip(found_, 1e-15, 1.0))


def _waves(angle: Array) -> Complex:
    """``e^(i x) - 1``, off by `_WAVE_ERROR` units of round-off of x: nothing is lost near 0.

    ``2 i sin(x/2) (cos(x/2) + i sin(x/2))``, with NumPy's sines and cosines off by eight units of
    themselves, and x by two.
    """
    half = 0.5 * angle
    sine, found = np.sin(half), np.empty(angle.shape, dtype=np.complex128)
    np.multiply(sine, np.cos(half), out=found.imag)
    np.multiply(sine, -sine, out=found.real)
    found *= 2.0
    return found


def _transforms(rows: _Tilted, t: Array) -> Array:
    """Moduli of the three transforms at nodes t, shape (3, k, j)."""
    return _transform(rows.theta[:, None], t)


def _transform(theta: Array, t: Array) -> Array:
    """The same for arrays that broadcast."""
    size = np.hypot(theta, t)
    return np.stack([1.0 / size**2, np.ones(size.shape), 1.0 / size])


def _beyond(rows: _Tilted) -> Array:
    """Bounds of the three sums over nodes beyond the last, by the normal factor, shape (3, k)."""
    t, step = (rows.last + 1.0) * rows.step, rows.step
    # t^2 grows by at least 2 t step from node to node
    series = np.exp(-0.5 * t**2 * rows.variance) / -np.expm1(-t * step * rows.variance)
    return np.asarray(series * _transforms(rows, t[:, None])[:, :, 0])


def _less_one(starts: Complex, fine: Complex, weight: Array) -> Complex:
    """Weighted sums of waves less one at all nodes of some blocks, shape (k, blocks, block)."""
    first = starts * weight[:, None, :]
    both = np.matmul(first, fine.transpose(0, 2, 1))
    both += first.sum(axis=2)[:, :, None]
    both += np.matmul(fine, weight[:, :, None]).transpose(0, 2, 1)
    return both


def _coefficients(
    rows: _Tilted,
    row: NDArray[np.intp],
    t: Array,
    less: Complex,
    less_sent: Complex,
    off: Array,
    log_top: Array,
    dropped: Array,
) -> _Nodes:
    """What is summed up over the nodes of all rows, one row behind the other."""
    theta, variance = rows.theta[row], rows.variance[row]
    mean, total = rows.mean[row], rows.sent.sum(axis=1)[row]
    z, phi, sent = theta + 1j * t, 1.0 + less, total + less_sent
    phi = np.where(phi == 0.0, 1e-300, phi)  # a power that is 0 anyway
    share = np.where(t > 0.0, 2.0, 1.0) / rows.window[row] * np.exp(-0.5 * t**2 * variance)
    angle = theta * variance * t
    turned = share * (np.cos(angle) + 1j * np.sin(angle))
    terms = np.stack([turned / z**2, turned, turned * sent / phi / z])
    size = np.abs(z)
    moduli = share * np.stack([1.0 / size**2, np.ones(t.shape), 1.0 / size])
    own = UNIT_ROUNDOFF * (160.0 + 8.0 * angle + 8.0 * t**2 * variance + 2.0 * t.size)
    top = np.exp(log_top)
    log = _log_one_more(less)
    phase = np.abs(log) + np.abs(less.real) + np.abs(less) ** 2 + t * np.abs(mean)
    most = rows.sent.sum(axis=1)[row] * (1.0 + 1e-9) + rows.lost[1][row]
    off_sent = t * (rows.rounding * np.sum(rows.sent * np.abs(rows.y), axis=1))[row]
    off_sent += most * (rows.rounding + 16.0 * UNIT_ROUNDOFF * t * np.abs(mean))
    off_sent += 2.0 * rows.lost[1][row]
    moduli[2] *= most / top
    each = moduli * (off / top + 64.0 * UNIT_ROUNDOFF * phase)
    once = own * moduli
    once[2] += share / size * off_sent / top
    return _Nodes(
        rows=rows,
        count=np.bincount(row, minlength=rows.theta.size),
        log_modulus=log.real,
        angle=log.imag + t * mean,
        log_top=log_top,
        terms=terms,
        once=once,
        each=each,
        dropped=dropped,
    )


def _log_one_more(less: Complex) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = np.empty(x.shape, dtype=np.complex128)
    found.real = np.where(small, 0.5 * np.log1p(square), np.log(np.abs(1.0 + less)))
    found.imag = np.arctan2(y, 1.0 + x)
    return found
