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
from shuffle_accountant.sums.lists import (
    ListedProfile,
    counted_histograms,
    counts_of_others,
    few_others,
)

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
        probed: of this many neighbouring alpha one is tabulated first; the others start from its
            sigma.
        passes: how often rows whose bounds are too wide are tabulated again with a smaller sigma.
        undershoot: part of the width aimed for that the normal may take.
        at_once: messages times nodes in memory at once.
        below: exponents delta of the alias bounds below theta, in inverse standard deviations of
            the tilted sum.
        above: the same above theta.
        far_out: how far out, in standard deviations, a message may be left out of the survey.
        rarely: if those as far out are expected at most this many times among all n.
        unsplit: intervals of this many blocks are kept whole: to look at their halves would take as
            long as their nodes.
        half_turn: intervals of nodes are at most this many inverse standard deviations of a message
            long when blocks are searched for that matter.
        least_weight: tilted weights below this count as 0, which is part of the error of phi.
        histograms: at most this many counts are listed, those of all histograms and message spaces
            of a table together.
        listed: histograms are listed if the tilted mean of messages other than the commonest is at
            most this times their largest number in a list, plus one.
        remembered: lists of this many message spaces are kept in memory.
        least_common: and if the commonest message has at least this tilted probability.
        boost: sigma^2 grows by at most this where listed histograms are most of the profile.
        ratio_error: relative error of likelihood ratios and of ``alpha - 1``.
        underflow: absolute error of products below the smallest normal double.
    """

    block: int = 16
    work: float = 2.0**24
    row_work: float = 2.0**22
    fewest_nodes: float = 2.0**10
    left_out: float = 0.05
    missed: float = 0.05
    probed: int = 8
    passes: int = 3
    undershoot: float = 0.6
    at_once: int = 1 << 19
    below: tuple[float, ...] = (0.7, 1.2, 1.8, 2.6, 3.6, 5.0, 7.0)
    above: tuple[float, ...] = (1.0, 2.0, 3.0, 4.2, 5.5, 7.5, 10.0)
    far_out: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    rarely: float = 2.0
    unsplit: int = 4
    half_turn: float = 1.5
    least_weight: float = 1e-20
    histograms: int = 1 << 18
    listed: float = 4.0
    remembered: int = 256
    least_common: float = 0.1
    boost: float = 1e4
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
        spaces: likelihood ratios of the messages under X to decoys, the same under X', and
            probabilities of the messages among decoys; 0 for padding; shape (3, s, m).
        excess: ``alpha - 1 >= 0``, shape (k,).
        space: which of the s spaces a row asks about, shape (k,).
    """

    spaces: Array
    excess: Array
    space: NDArray[np.intp]

    @classmethod
    def of(cls, messages: tuple[Array, Array, Array], excess: Array) -> MessageRows:
        """One message space for all rows: r0, r1 and q of its messages, shape (m,) each."""
        return cls(np.stack(messages)[:, None, :], excess, np.zeros(excess.size, dtype=np.intp))

    def __getitem__(self, rows: slice | NDArray[np.intp] | NDArray[np.bool_]) -> MessageRows:
        """Some of the rows."""
        return MessageRows(self.spaces, self.excess[rows], self.space[rows])

    @cached_property
    def each(self) -> Array:
        """r0, r1 and q of every row, shape (3, 1, m) of one space, (3, k, m) of several."""
        return self.spaces if self.spaces.shape[1] == 1 else self.spaces[:, self.space]

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
        others: listed are histograms with at most this many messages other than the commonest; -1
            if none is, shape (k,).
        held: tilted probability of all messages but the commonest if histograms are listed, of all
            messages if not, shape (k,): y, weight, sent and spread are conditional on those.
        common: value of the commonest message, and its r1 times its tilted probability; 0 if no
            histogram is listed, shape (2, k).
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
    others: NDArray[np.intp]
    held: Array
    common: Array
    alias: Array

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> _Tilted:
        """Some of the rows."""
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        pairs = ("alias", "lost", "common")
        return _Tilted(**{k: x[..., rows] if k in pairs else x[rows] for k, x in values.items()})

    @property
    def most_sent(self) -> Array:
        """Upper bound of the tilted mean of r1, shape (k,)."""
        own = np.sum(self.sent, axis=1) * (1.0 + 1e-9) + self.lost[1]
        return np.asarray(self.common[1] + self.held * own)

    def log_power(self, users: tuple[int, int], top: Array, row: NDArray[np.intp]) -> Array:
        """Logarithm of what bounds the transforms of all sums where ``|phi|`` is at most ``top``.

        Without a list that is ``|phi|^(n-1)``. With one, of n - 1 messages at least ``others`` are
        not the commonest: with w its probability and ``x = held |phi|``, that is at most
        ``C(n-1, others) x^others (w + x)^(n-1-others)``.
        """
        others, held = self.others[row], self.held[row]
        log_top = np.log(held * top)
        log_all = np.log1p(-held * (1.0 - top))
        found = (users[0] - 1.0) * log_all
        some = others > 0
        if some.any():
            c = np.where(some, others, 0)
            listed = _log_binomial(users[1] - 1.0, c) + c * log_top
            listed += (users[0] - 1.0 - c) * log_all
            found = np.where(some, np.minimum(found, listed), found)
        return np.asarray(found + 1e-9 * (1.0 + np.abs(found)))

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
        return np.asarray(own[:, None] * t + (64.0 * UNIT_ROUNDOFF + 2.0 * self.lost[0])[:, None])

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


@dataclass(frozen=True, eq=False)
class _Unlisted:
    """Nodes of several rows with lists: the sums are over histograms that are not listed.

    With ``F_k = sum over c > k of C(n-1, c) w^(n-1-c) x^c``, where w is the commonest message's
    tilted probability, x the transform of all others, and at most k of them are listed, those of n
    messages have the transform ``w F_k + x F_(k-1)``, and ``E[S1; .]`` has n times
    ``w r1 F_k + x_1 F_(k-1)``, where w r1 and x_1 are the same with r1.

    Attributes:
        rows: the rows' tilts.
        count: number of nodes of each row, shape (k,).
        log_all: ``log(w + x)``, shape (j,).
        other: x.
        sent: x_1.
        phase: t times the commonest message's value.
        terms: complex coefficients of the three sums, shape (3, j).
        once: absolute errors that do not grow with n, shape (3, j).
        each: absolute errors that grow with n, shape (3, j).
        dropped: bounds of what left-out nodes add, shape (3, k).
    """

    rows: _Tilted
    count: NDArray[np.intp]
    log_all: Complex
    other: Complex
    sent: Complex
    phase: Array
    terms: Complex
    once: Array
    each: Array
    dropped: Array

    def only(self, kept: NDArray[np.bool_]) -> _Unlisted:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)
        return _Unlisted(
            self.rows[kept],
            self.count[kept],
            *(x[flat] for x in (self.log_all, self.other, self.sent, self.phase)),
            *(x[..., flat] for x in (self.terms, self.once, self.each)),
            self.dropped[:, kept],
        )

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
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
        others, held = np.repeat(self.rows.others, self.count), np.repeat(self.rows.held, self.count)
        few = np.exp((n - 1) * self.log_all)
        term = np.exp((n - 1) * np.log1p(-held)).astype(np.complex128)
        ratio = self.other / (1.0 - held)
        for c in range(int(others.max(initial=0))):
            few -= np.where(c < others, term, 0.0)
            term = np.where(c < others, term * ratio * ((n - 1 - c) / (c + 1)), term)
        more = few - term  # F_k, and F_(k-1) before it
        common = np.repeat(self.rows.common[1], self.count)
        phase = n * self.phase
        turn = np.cos(phase) + 1j * np.sin(phase)
        every = ((1.0 - held) * more + self.other * few) * turn
        sent = (common * more + self.sent * few) * turn
        value = np.stack([(self.terms[0] * every).real, (self.terms[1] * every).real])
        value = np.vstack([value, (self.terms[2] * sent).real[None, :]])
        error = self.once + n * self.each
        value, error = (np.add.reduceat(x, starts, axis=1) for x in (value, error))
        value[2] *= n
        error[2] *= n
        dropped = self.dropped.copy()
        dropped[2] *= n
        return value, error + dropped


class _Lists:
    """Histograms that are listed: of each message space, those nearly all of one message.

    Attributes:
        rows: what is asked.
        users: least and largest number of messages.
        others: of each space, the largest number of messages other than the commonest.
    """

    def __init__(self, rows: MessageRows, users: tuple[int, int]) -> None:
        self.rows, self.users = rows, users
        count = rows.spaces.shape[1]
        self.common = np.argmax(rows.spaces[2], axis=1)
        sizes = np.count_nonzero(rows.spaces[2], axis=1).tolist()
        self.others = np.array(
            [
                few_others(size, users[0] - 1, _SET.histograms // (count * size)) if size else -1
                for size in sizes
            ]
        )
        self._known: dict[tuple[int, bytes, int], ListedProfile] = {}

    def ends(self, used: NDArray[np.bool_], far: NDArray[np.bool_], users: int) -> Array:
        """Upper and lower bounds, q and d of listed histograms, shape (4, k); 0 in other rows.

        Args:
            used: rows of which histograms are listed.
            far: each row's far messages, of which they have none, shape (k, m).
            users: number of messages.
        """
        found = np.zeros((4, used.size))
        rows: dict[tuple[int, bytes], list[int]] = {}
        for row in np.flatnonzero(used).tolist():
            rows.setdefault((int(self.rows.space[row]), far[row].tobytes()), []).append(row)
        for (space, apart), here in rows.items():
            excess = self.rows.excess[here]
            listed = self._profile(space, apart, users)
            found[:2, here] = listed.upper(excess), listed.lower(excess)
            found[2:, here] = listed.events(excess)
        return found

    def _profile(self, space: int, far: bytes, users: int) -> ListedProfile:
        if (space, far, users) not in self._known:
            while len(self._known) > _SET.remembered:
                self._known.pop(next(iter(self._known)))
            some = (self.rows.spaces[2, space] > 0.0) & ~np.frombuffer(far, dtype=bool)
            ratios = self.rows.spaces[0, space, some], self.rows.spaces[1, space, some]
            q = self.rows.spaces[2, space, some]
            counts = counts_of_others(q.size, int(self.others[space]))
            table = counted_histograms((*ratios, q), users, counts)
            self._known[space, far, users] = ListedProfile.of(table, users)
        return self._known[space, far, users]


class NodeTable:
    """Bounds at some rows for every number of messages in a range.

    Args:
        rows: message spaces and alpha.
        users: least and largest number of messages.
        far: far messages of all rows.
        parts: nodes of those rows that have any.
    """

    def __init__(self, question: _Question, parts: Sequence[_Nodes | _Unlisted]) -> None:
        self.rows, self.users = question.rows, question.users
        self.question, self._parts = question, tuple(parts)

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
            question = self.question
            result[:, question.nothing] = 0.0
            settled = np.flatnonzero(np.isfinite(question.settled))
            result[1:, settled] = 0.0
            result[0, settled] = question.settled[settled]
            if question.listed.any():
                listed = question.lists.ends(question.listed, question.apart, users)
                result += np.where(question.listed, listed, 0.0) * (1.0 + 4 * UNIT_ROUNDOFF)
                result[3] -= 8 * UNIT_ROUNDOFF * (np.abs(result[3]) + 2.0 * np.abs(listed[3]))
            result = self._with_far(result, users)
        result[:, ~np.isfinite(result).all(axis=0)] = math.nan
        return Ends(*result)

    def _near(self, part: _Nodes | _Unlisted, n: int) -> Array:
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
        gain, sent, off, off_sent = self.question.far.probabilities(n)
        apart = gain - anchor * sent + off + (1.0 + excess) * off_sent
        upper = upper + np.maximum(apart, 0.0) + self.question.far.missed
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
        question = _Question.of(rows, users, width)
        unknown = np.full(width.shape, math.nan)
        aims = _Aims(width, unknown, unknown, np.stack([unknown, unknown]))
        wanted = np.flatnonzero(question.open)
        probes = wanted[:: _SET.probed] if rows.spaces.shape[1] == 1 else wanted
        table = _refined(question, aims, probes, passes)
        if probes.size < wanted.size:
            aims, _ = _closer(table, aims, probes)
            others = np.setdiff1d(wanted, probes)
            second = _refined(question, _between(question, aims, probes), others, passes)
            table = NodeTable(question, [*table._parts, *second._parts])
    return table


def _refined(
    question: _Question, aims: _Aims, wanted: NDArray[np.intp], passes: int
) -> NodeTable:
    """Tabulate some rows, and again with a smaller sigma those whose bounds are too wide."""
    table = NodeTable(question, list(_tabulated(question, aims, wanted)))
    for _ in range(passes):
        wide = wanted[table.widths[wanted] > aims.width[wanted]]
        aims, limited = _closer(table, aims, wide)
        wide = wide[~limited[wide]]
        if not wide.size:
            break
        again = list(_tabulated(question, aims, wide))
        table = _better(table, NodeTable(question, again))
    return table


def _between(question: _Question, aims: _Aims, probes: NDArray[np.intp]) -> _Aims:
    """Variances and values of all rows by those of some, whose alpha are neighbours."""
    every, known = np.arange(aims.width.size), ~np.isnan(aims.variance[probes])
    if not known.any():
        return aims
    at = probes[known]
    scale = aims.width / question.theta**2
    variance = np.exp(np.interp(every, at, np.log((aims.variance / scale)[at]))) * scale
    value = np.exp(np.interp(every, at, np.log(aims.value[at])))
    return _Aims(aims.width, variance, value, aims.measured)


@dataclass(frozen=True, eq=False)
class _Question:
    """What is asked, and what does not depend on sigma.

    Attributes:
        rows: message spaces and alpha, k of them.
        users: least and largest number of messages.
        far: far messages.
        value: values of the other messages, 0 where the mass is, shape (k, m).
        mass: their probabilities among decoys, shape (k, m).
        theta: tilts, shape (k,).
        lists: listed histograms.
        listed: rows of which histograms are listed, shape (k,).
        apart: which messages are far, shape (k, m).
        bounds: lower bounds of what listed histograms add for the least and the largest number of
            messages, shape (2, k).
        settled: upper bounds of the profile's other part where it is negligible; else nan.
        nothing: rows without a positive value among messages that are not far.
    """

    rows: MessageRows
    users: tuple[int, int]
    far: FarMessages
    value: Array
    mass: Array
    theta: Array
    lists: _Lists
    listed: NDArray[np.bool_]
    apart: NDArray[np.bool_]
    bounds: Array
    settled: Array
    nothing: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: MessageRows, users: tuple[int, int], width: Array) -> _Question:
        """Find far messages, tilts, and what is listed."""
        value, mass = _values(rows, users)
        far = far_messages(*rows.each[:2], mass, value, users, _SET.missed * width)
        apart = value > far.cut[:, None]
        near = ~apart & (mass > 0.0)
        top = np.where(near, value, 0.0).max(axis=1, initial=0.0)
        # once more without messages of which no sum is positive, as far ones no longer count
        kept = near & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
        mass, value = np.where(kept, mass, 0.0), np.where(kept, value, 0.0)
        nothing = top <= 0.0
        theta = np.ones(top.shape)
        some = ~nothing
        theta[some] = _saddles(value[some], mass[some], math.sqrt(users[0] * users[1]), top[some])
        lists = _Lists(rows, users)
        listed, settled = np.zeros(top.shape, dtype=bool), np.full(top.shape, math.nan)
        bounds = np.zeros((2, top.size))
        every = np.arange(top.size)
        tried = some & (mass[every, lists.common[rows.space]] > 0.0)
        if tried.any():
            index = np.flatnonzero(tried)
            weight, log_scale = _weights(theta[index], value[index], mass[index])
            common, others = lists.common[rows.space[index]], lists.others[rows.space[index]]
            held = _of_others(weight, common)
            good = users[1] * held <= _SET.listed * (others + 1.0)
            good &= held <= 1.0 - _SET.least_common
            index, held, others = index[good], held[good], others[good]
            listed[index] = True
            bounds = np.stack([lists.ends(listed, apart, n)[1] for n in users])
            # (x)_+ <= e^(theta x) / (e theta), and a histogram that is not listed has more others
            rest = _log_binomial(float(users[1]), others + 1) + (others + 1.0) * np.log(held)
            scale = np.max(np.multiply.outer(np.array(users), log_scale[good]), axis=0)
            most = np.exp(np.minimum(rest, 0.0) + scale + 1e-6 * (1.0 + np.abs(scale)))
            most = (1.0 + 1e-3) * most / (math.e * theta[index] * users[0]) + _SET.underflow
            enough = most <= _SET.left_out * width[index] * bounds[:, index].min(axis=0)
            settled[index[enough]] = most[enough]
        found = value, mass, theta, lists, listed, apart, bounds, settled, nothing
        return cls(rows, users, far, *found)

    @property
    def open(self) -> NDArray[np.bool_]:
        """Rows that need nodes."""
        return np.asarray(~self.nothing & np.isnan(self.settled))


def _of_others(weight: Array, common: NDArray[np.intp]) -> Array:
    """Probability of all messages but one of each row: a sum, as 1 less that one would cancel."""
    others = weight.copy()
    others[np.arange(common.size), common] = 0.0
    return np.asarray(others.sum(axis=1))


def _weights(theta: Array, value: Array, mass: Array) -> tuple[Array, Array]:
    """Tilted probabilities, shape (k, m), and the logarithm of their sum before they are such."""
    exponent = theta[:, None] * value
    shift = np.where(mass > 0.0, exponent, -math.inf).max(axis=1, initial=-math.inf)
    weight = mass * np.exp(exponent - shift[:, None])
    total = weight.sum(axis=1)
    return weight / total[:, None], np.log(total) + shift


def _values(rows: MessageRows, users: tuple[int, int]) -> tuple[Array, Array]:
    """Values and masses, shape (k, m), without messages of which no sum is positive.

    That is exact: E[S_+] is the same without them, as far as they make every sum negative.
    """
    r0, r1, q = rows.each
    value = (r0 - r1) - rows.anchor[:, None] * r1
    top = np.where(q > 0.0, value, 0.0).max(axis=1, initial=0.0)
    kept = (q > 0.0) & (value > -(1.0 + 1e-9) * users[1] * top[:, None])
    return np.where(kept, value, 0.0), np.where(kept, q, 0.0)


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
        ratios, totals = [], []
        for i, n in enumerate(table.users):
            noise = rows.variance * part.sums(n)[0][1]
            listed = table.question.bounds[i, rows.index] * n
            listed = listed * np.exp(-n * rows.log_scale - 0.5 * rows.variance * rows.theta**2)
            totals.append(part.sums(n)[0][0] + listed)
            ratios.append(noise / totals[-1])
        ratio = np.max(ratios, axis=0)
        some = np.isin(rows.index, wide) & (ratio > 0.0) & np.isfinite(ratio)
        at, now, ratio = rows.index[some], rows.variance[some], ratio[some]
        before, then = measured[:, at]
        power = np.log(ratio / then) / np.log(now / before)
        power = np.where(np.isnan(power), 1.0, np.clip(power, 0.4, 1.0))
        wanted = np.minimum(_SET.undershoot * aims.width[at] / ratio, 1.0)
        asked = np.where(np.isnan(aims.variance[at]), math.inf, aims.variance[at])
        limited[at] = now > (1.0 + 1e-6) * asked
        variance[at] = np.where(limited[at], now, now * wanted ** (1.0 / power))
        value[at] = np.min(totals, axis=0)[some]
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
    return NodeTable(first.question, parts)


def _tabulated(
    question: _Question, aims: _Aims, wanted: NDArray[np.intp]
) -> Iterator[_Nodes | _Unlisted]:
    """Nodes of the rows wanted, in pieces that fit into memory."""
    messages = question.value.shape[1]
    size = max(_SET.at_once // (8 * messages), 1)
    most = max(_SET.work / (messages * question.theta.size), _SET.fewest_nodes)
    most = min(most, _SET.row_work / messages)
    for first in range(0, wanted.size, size):
        yield from _affordable(question, aims, wanted[first : first + size], most)


def _affordable(
    question: _Question, aims: _Aims, index: NDArray[np.intp], most: float
) -> Iterator[_Nodes | _Unlisted]:
    """Nodes of some rows, with a larger sigma where more than ``most`` would have to be kept."""
    users = question.users
    aims = aims[index]
    while index.size:
        tilted = _tilted(question, aims, index, most)
        good = np.isfinite(tilted.window) & np.isfinite(tilted.last)
        good &= np.isfinite(tilted.log_scale) & (tilted.variance > 0.0)
        tilted = tilted[good]
        (row, first), dropped, complete = _survey(tilted, users, most)
        count = np.bincount(row, minlength=tilted.theta.size)
        fits = complete & (count * _SET.block <= max(most, 2.0 * _SET.block))
        for alike in (tilted.others >= 0, tilted.others < 0):
            kept = (fits & alike)[row]
            for part, start in _equal_blocks(tilted, row[kept], first[kept]):
                yield _of_blocks(tilted[part].used(), users, start, dropped[:, part])
        again = np.flatnonzero(good)[~fits]
        wider = 4.0 * tilted.variance[~fits] * np.maximum(count[~fits] * _SET.block / most, 1.0)
        index, aims = index[again], aims[again]
        aims = _Aims(aims.width, wider, aims.value, aims.measured)


def _tilted(question: _Question, aims: _Aims, index: NDArray[np.intp], most: float) -> _Tilted:
    """Tilt the messages of some rows, and choose sigma and the window.

    Sigma is large enough for a survey of at most ``most`` frequencies of each row.
    """
    rows, users = question.rows[index], question.users
    theta, value, mass = (x[index] for x in (question.theta, question.value, question.mass))
    r1 = rows.each[1]
    weight, log_scale = _weights(theta, value, mass)
    mean = np.sum(weight * value, axis=1)
    y = np.where(weight > 0.0, value - mean[:, None], 0.0)
    spread = np.sum(weight * y**2, axis=1)
    size = np.where(weight > 0.0, np.abs(theta[:, None] * value), 0.0).max(axis=1, initial=0.0)
    listed = question.listed[index]
    common = question.lists.common[rows.space]
    every = np.arange(index.size)
    held = np.where(listed, _of_others(weight, common), 1.0)
    others = np.where(listed, question.lists.others[rows.space], -1)
    variance, relative = _smoothing(theta, users[1] * spread, aims)
    if listed.any():
        number = np.array(users)[:, None]
        scale = np.exp(-number * log_scale) * number
        known = np.min(question.bounds[:, index] * scale, axis=0)
        rest = np.where(
            listed,
            np.exp(np.minimum(_log_binomial(float(users[1]), others + 1) + (others + 1.0) * np.log(held), 0.0)),
            1.0,
        )
        total = np.where(listed & np.isnan(aims.value), known + rest * relative, relative)
        boost = np.clip(total / (rest * relative), 1.0, _SET.boost)
        first = listed & np.isnan(aims.variance)
        variance = np.where(first, np.minimum(variance * boost, np.maximum(variance, 0.1 / theta**2)), variance)
        relative = total
    sent = weight * r1
    level = -np.log(_SET.left_out * aims.width * relative)
    third = np.maximum(rows.anchor, 0.0) * users[1] * sent.sum(axis=1)
    # what is surveyed changes as fast as messages do that are not listed
    moving = np.sqrt(np.maximum(spread, np.where(listed, spread / held, 0.0)))
    while True:
        law = y, weight, sent, theta, mean, spread, variance
        window, alias = _windows(law, users, rows.anchor, -level)
        last = _reach(variance, third, level) * window / (2.0 * math.pi)
        surveyed = last * moving * 2.0 * math.pi / window / _SET.half_turn
        over = surveyed / most
        if not np.any((over > 1.0) & (over < math.inf)):
            break
        # frequencies fall with 1 / sigma
        variance = np.where(over > 1.0, variance * (1.1 * over) ** 2, variance)
    # aliases count all messages; the nodes do without listed histograms and messages of no weight
    apart = np.zeros((2, index.size))
    if listed.any():
        apart = np.where(listed, [value[every, common], sent[every, common]], 0.0)
        weight[every[listed], common[listed]] = 0.0
        sent[every[listed], common[listed]] = 0.0
        weight /= np.where(listed, held, 1.0)[:, None]
        sent /= np.where(listed, held, 1.0)[:, None]
        mean = np.where(listed, np.sum(weight * value, axis=1), mean)
        y = np.where(weight > 0.0, value - mean[:, None], 0.0)
        spread = np.where(listed, np.sum(weight * y**2, axis=1), spread)
    light = np.where(weight < _SET.least_weight, weight, 0.0)
    lost = (1.0 + 1e-9) * np.stack([light.sum(axis=1), np.sum(light * r1, axis=1)])
    weight, sent = weight - light, sent - light * r1
    y = np.where(weight > 0.0, y, 0.0)
    count = np.ceil(last)
    largest = np.maximum(np.maximum(1.0 / theta**2, variance), third / theta)
    bound = (count + 2.0) / window * largest
    return _Tilted(
        index=index,
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
        * (64.0 + min(value.shape[1], 128) + 4.0 * size + 8.0 * np.abs(log_scale)),
        lost=lost,
        others=others,
        held=held,
        common=apart,
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


def _of_blocks(
    rows: _Tilted, users: tuple[int, int], first: Array, left_out: Array
) -> _Nodes | _Unlisted:
    """The nodes of some rows, from the first nodes of their blocks, shape (k, blocks).

    Args:
        rows: all of them with a list, or all without.
        users: least and largest number of messages.
        first: numbers of nodes.
        left_out: what left-out blocks add, shape (3, k).
    """
    size, step = _SET.block, rows.step
    fine = _waves(np.multiply.outer(step, np.arange(size))[:, :, None] * rows.y[:, None, :])
    starts = _waves((step[:, None] * first)[:, :, None] * rows.y[:, None, :])
    t = (step[:, None, None] * (first[:, :, None] + np.arange(size))).reshape(step.size, -1)
    less, less_sent = (
        _less_one(starts, fine, x).reshape(t.shape) for x in (rows.weight, rows.sent)
    )
    held = t <= (rows.last * step)[:, None] * (1.0 + 1e-9)
    off = rows.off(t)
    top = np.minimum(np.abs(1.0 + less) + off, 1.0)
    rest = rows.log_power(users, top, np.arange(step.size)[:, None])
    rest -= 0.5 * t**2 * rows.variance[:, None]
    kept = held & ((rest > -rows.level[:, None]) | (t == 0.0))  # every row has nodes
    others = np.where(held & ~kept, np.exp(rest), 0.0)
    dropped = np.einsum("akj,kj->ak", _transforms(rows, t), others) + left_out + _beyond(rows)
    dropped *= 1.01 * 2.0 / rows.window
    dropped[2] *= rows.most_sent
    flat = np.repeat(np.arange(step.size), kept.sum(axis=1))
    make = _unlisted if rows.others.max(initial=-1) >= 0 else _coefficients
    return make(rows, flat, *(x[kept] for x in (t, less, less_sent, off, np.log(top))), dropped)


class _Survey:
    """Intervals of nodes that are left out, or kept as blocks: see `_survey`.

    Attributes:
        work: number of frequencies at which phi was evaluated, of each row, shape (k,).
    """

    def __init__(self, rows: _Tilted, users: tuple[int, int], most: float) -> None:
        self.rows, self._rare = _without_rare(rows, users[1])
        self.users, self._most = users, most
        every = np.arange(rows.theta.size)
        self.work = np.zeros(every.size)
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
        self.work += np.bincount(index, minlength=self.work.size)
        step = rows.step[index]
        half, low = 0.5 * length * step, begin * step
        top = _largest_modulus(rows, index, (phi, slope), low + half, half)
        top = np.minimum(top + self._rare[index] * (1.0 - top), 1.0)
        rest = rows.log_power(self.users, top, index) - 0.5 * low**2 * rows.variance[index]
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
        inside = (begin <= rows.last[index]) & (self.work <= self._most)[index]
        return index[inside], begin[inside], length[inside]


def _survey(
    rows: _Tilted, users: tuple[int, int], most: float
) -> tuple[tuple[NDArray[np.intp], Array], Array, NDArray[np.bool_]]:
    """Find the blocks of nodes that matter, by halving intervals of frequencies.

    Returns:
        The row and the first node of each such block; what all others add to the three sums, shape
        (3, k); and whether ``most`` frequencies were enough, shape (k,): if not, blocks are missing.
    """
    survey, every = _Survey(rows, users, most), np.arange(rows.theta.size)
    rows = survey.rows
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
    return kept, survey.dropped, survey.work <= most


def _without_rare(rows: _Tilted, n: int) -> tuple[_Tilted, Array]:
    """The tilted messages without those far out, and the probability of these, shape (k,).

    A message far out that is expected about once among n lets the modulus of phi be larger by its
    probability, but makes phi change much faster.
    """
    cut = np.full(rows.theta.size, math.inf)
    distance, deviation = np.abs(rows.y), np.sqrt(rows.spread)
    for reach in reversed(_SET.far_out):
        far = distance > (reach * deviation)[:, None]
        rare = np.sum(np.where(far, rows.weight, 0.0), axis=1)
        cut = np.where(rare * n <= _SET.rarely, reach * deviation, cut)
    far = distance > cut[:, None]
    rare = np.sum(np.where(far, rows.weight, 0.0), axis=1) * (1.0 + 1e-9)
    weight = np.where(far, 0.0, rows.weight) / (1.0 - rare)[:, None]
    mean = np.sum(weight * rows.y, axis=1)
    y = np.where(far, 0.0, rows.y - mean[:, None])
    return replace(rows, y=y, weight=weight, spread=np.sum(weight * y**2, axis=1)), rare


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
    own += UNIT_ROUNDOFF * (192.0 + 8.0 * rows.y.shape[1]) + 2.0 * rows.lost[0][index]
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


def _unlisted(
    rows: _Tilted,
    row: NDArray[np.intp],
    t: Array,
    less: Complex,
    less_sent: Complex,
    off: Array,
    log_top: Array,
    dropped: Array,
) -> _Unlisted:
    """The same of rows with lists: sums over the histograms that are not listed."""
    del log_top
    theta, variance, held = rows.theta[row], rows.variance[row], rows.held[row]
    common, gap = rows.common[0][row], (rows.mean - rows.common[0])[row]
    turn = _waves(t * gap)
    less_all = held * (less + turn + less * turn)  # of w + held phi e^(i t gap), less one
    other = held * (1.0 + less) * (1.0 + turn)
    sent = held * (rows.sent.sum(axis=1)[row] + less_sent) * (1.0 + turn)
    z = theta + 1j * t
    share = np.where(t > 0.0, 2.0, 1.0) / rows.window[row] * np.exp(-0.5 * t**2 * variance)
    angle = theta * variance * t
    turned = share * (np.cos(angle) + 1j * np.sin(angle))
    own = UNIT_ROUNDOFF * (256.0 + 8.0 * angle + 8.0 * t**2 * variance + 2.0 * t.size)
    own += UNIT_ROUNDOFF * 32.0 * np.maximum(rows.others[row], 0)
    moduli = share * np.stack([1.0 / np.abs(z) ** 2, np.ones(t.shape), 1.0 / np.abs(z)])
    moduli[2] *= rows.most_sent[row]
    each = held * (off + UNIT_ROUNDOFF * (64.0 + 40.0 * t * np.abs(gap)))
    each += 8.0 * UNIT_ROUNDOFF * t * np.abs(common)
    spread = np.sum(rows.sent * np.abs(rows.y), axis=1)[row]
    most = rows.sent.sum(axis=1)[row] * (1.0 + 1e-9) + rows.lost[1][row]
    off_sent = t * rows.rounding * spread + 2.0 * rows.lost[1][row]
    off_sent += most * (rows.rounding + UNIT_ROUNDOFF * (64.0 + 40.0 * t * np.abs(gap)))
    once = own * moduli
    once[2] += share / np.abs(z) * held * off_sent
    return _Unlisted(
        rows=rows,
        count=np.bincount(row, minlength=rows.theta.size),
        log_all=_log_one_more(less_all),
        other=other,
        sent=sent,
        phase=t * common,
        terms=np.stack([turned / z**2, turned, turned / z]),
        once=once,
        each=moduli * each,
        dropped=dropped,
    )


def _log_binomial(n: Array | float, k: Array | NDArray[np.intp]) -> Array:
    """Logarithm of the binomial coefficient, -inf if k > n."""
    from scipy.special import gammaln

    n, k = np.asarray(n, dtype=np.float64), np.asarray(k, dtype=np.float64)
    inside = np.minimum(k, n)
    found = gammaln(n + 1.0) - gammaln(inside + 1.0) - gammaln(n - inside + 1.0)
    return np.where(k > n, -math.inf, found + 1e-14 * (gammaln(n + 2.0) + 1.0))


def _log_one_more(less: Complex) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = np.empty(x.shape, dtype=np.complex128)
    found.real = np.where(small, 0.5 * np.log1p(square), np.log(np.abs(1.0 + less)))
    found.imag = np.arctan2(y, 1.0 + x)
    return found
