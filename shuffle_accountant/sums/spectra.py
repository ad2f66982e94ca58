"""Values of the three transforms at nodes, with their errors, and their sums for any n.

Rounding of phi: it is off by a few u of ``t E|Y|``, and powers by
``|a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1)``. Rounding of the tilted weights: a few u of each,
which moves expectations of non-negative quantities by at most n times that, relative to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.survey import transform
from shuffle_accountant.sums.tilted import Scales, Tilted

Complex = NDArray[np.complex128]
_Kind = TypeVar("_Kind", bound="Summed")


@dataclass(frozen=True, eq=False)
class Summed(ABC):
    """Nodes of several rows, one row behind the other, and what does not depend on n.

    The last axis of every array is either that of the k rows or that of the j nodes.

    Attributes:
        rows: the rows' tilts.
        count: number of nodes of each row, shape (k,).
        error: bounds of the errors of the three sums, and of what left-out nodes add, for all
            numbers of messages in the range, shape (3, k).
        terms: complex coefficients of the three sums, shape (3, j).
    """

    rows: Scales
    count: NDArray[np.intp]
    error: Array
    terms: Complex

    def only(self: _Kind, kept: NDArray[np.bool_]) -> _Kind:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)

        def some(name: str) -> Any:
            found = getattr(self, name)
            if isinstance(found, Scales):
                return found[kept]
            return found[..., kept if name in ("count", "error") else flat]

        known = {n: value[:, kept] for n, value in self._known.items()}
        return self._made(some, known)

    def behind(self: _Kind, others: Sequence[_Kind]) -> _Kind:
        """The nodes of these rows, and behind them those of others of the same kind."""
        parts = [self, *others]

        def every(name: str) -> Any:
            found = [getattr(part, name) for part in parts]
            if isinstance(found[0], Scales):
                return found[0].behind(found[1:])
            return np.concatenate(found, axis=-1)

        numbers = set(self._known).intersection(*(part._known for part in others))
        known = {n: np.hstack([part._known[n] for part in parts]) for n in numbers}
        return self._made(every, known)

    def _made(self: _Kind, change: Callable[[str], Any], known: dict[int, Array]) -> _Kind:
        found = replace(self, **{x.name: change(x.name) for x in fields(self)})
        found._known.update(known)
        return found

    @cached_property
    def _known(self) -> dict[int, Array]:
        """Cache of `sums` for the last numbers of messages: ends of a range are asked for again."""
        return {}

    @cached_property
    def _pieces(self) -> list[tuple[slice, slice, NDArray[np.intp]]]:
        """Rows and their nodes whose arrays fit into a processor's cache, and where rows start."""
        ends = np.cumsum(np.append(0, self.count))
        cuts = np.searchsorted(ends, np.arange(0, ends[-1], settings.NODES.cached))
        cuts = np.unique(np.append(cuts, self.count.size)).tolist()
        return [
            (slice(a, b), slice(int(ends[a]), int(ends[b])), ends[a:b] - ends[a])
            for a, b in pairwise(cuts)
        ]

    def sums(self, n: int) -> tuple[Array, Array]:
        """The three sums for n messages, and bounds of their errors, shape (3, k) each."""
        if n not in self._known:
            while len(self._known) > 1:
                self._known.pop(next(iter(self._known)))
            found = np.zeros((3, self.count.size))
            for rows, nodes, starts in self._pieces:
                found[:, rows] = np.add.reduceat(self._summands(n, rows, nodes), starts, axis=1)
            found[2] *= n
            self._known[n] = found
        return self._known[n], self.error * np.array([[1.0], [1.0], [n]])

    @abstractmethod
    def _summands(self, n: int, rows: slice, nodes: slice) -> Array:
        """What some nodes, those of some rows, add to the sums for n messages, shape (3, j)."""


@dataclass(frozen=True, eq=False)
class Nodes(Summed):
    """Nodes of several rows; see `Summed`.

    Attributes:
        log_modulus: logarithm of ``|phi|``, shape (j,).
        angle: angle of ``phi e^(i t mean)``, shape (j,).
    """

    log_modulus: Array
    angle: Array

    def _summands(self, n: int, rows: slice, nodes: slice) -> Array:
        del rows
        modulus = np.exp(n * self.log_modulus[nodes])
        angle = n * self.angle[nodes]
        cosine, sine = np.cos(angle), np.sin(angle)
        cosine *= modulus
        sine *= modulus
        found = self.terms.real[:, nodes] * cosine
        found -= self.terms.imag[:, nodes] * sine
        return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Unlisted(Summed):
    """Nodes of several rows with lists: the sums are over histograms that are not listed.

    With ``F_k = sum over c > k of C(n-1, c) w^(n-1-c) x^c``, where w is the commonest message's
    tilted probability, x the transform of all others, and at most k of them are listed, those of n
    messages have the transform ``w F_k + x F_(k-1)``, and ``E[S1; .]`` has n times
    ``w r1 F_k + x_1 F_(k-1)``, where w r1 and x_1 are the same with r1.

    Attributes:
        log_all: ``log(w + x)``, shape (j,).
        other: x.
        sent: x_1.
        phase: t times the commonest message's value.
    """

    log_all: Complex
    other: Complex
    sent: Complex
    phase: Array

    def _summands(self, n: int, rows: slice, nodes: slice) -> Array:
        count = self.count[rows]
        others, held = (np.repeat(x[rows], count) for x in (self.rows.others, self.rows.held))
        other = self.other[nodes]
        few = np.exp((n - 1) * self.log_all[nodes])
        term = np.exp((n - 1) * np.log1p(-held)).astype(np.complex128)
        ratio = other / (1.0 - held)
        for c in range(int(others.max(initial=0))):
            few -= np.where(c < others, term, 0.0)
            term = np.where(c < others, term * ratio * ((n - 1 - c) / (c + 1)), term)
        more = few - term  # F_k, and F_(k-1) before it
        common = np.repeat(self.rows.common[1, rows], count)
        phase = n * self.phase[nodes]
        turn = np.cos(phase) + 1j * np.sin(phase)
        every = ((1.0 - held) * more + other * few) * turn
        sent = (common * more + self.sent[nodes] * few) * turn
        return np.asarray((self.terms[:, nodes] * np.stack([every, every, sent])).real)


def joined(parts: Sequence[Summed]) -> list[Summed]:
    """The same nodes, those of all rows without a list in one, and those with a list in another."""
    found: list[Summed] = []
    for kind in (Nodes, Unlisted):
        alike: list[Summed] = [part for part in parts if isinstance(part, kind)]
        if alike:
            found.append(alike[0].behind(alike[1:]) if len(alike) > 1 else alike[0])
    return found


def of_blocks(rows: Tilted, users: tuple[int, int], first: Array, left_out: Array) -> Summed:
    """The nodes of some rows, from the first nodes of their blocks, shape (k, blocks).

    Args:
        rows: all of them with a list, or all without.
        users: least and largest number of messages.
        first: numbers of nodes.
        left_out: bounds of what left-out blocks add, shape (3, k).
    """
    size, step = settings.NODES.block, rows.step
    fine = _waves(np.multiply.outer(step, np.arange(size))[:, :, None] * rows.y[:, None, :])
    starts = _waves((step[:, None] * first)[:, :, None] * rows.y[:, None, :])
    t = (step[:, None, None] * (first[:, :, None] + np.arange(size))).reshape(step.size, -1)
    less, less_sent = _less_one(starts, fine, (rows.weight, rows.sent))
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
    found = less[kept], less_sent[kept]
    return make(rows, users, flat, t[kept], found, off[kept], top[kept], dropped)


def _waves(angle: Array) -> Complex:
    """``e^(i x) - 1``, off by `WAVE_ERROR` units of round-off of x: nothing is lost near 0.

    ``2 i sin(x/2) (cos(x/2) + i sin(x/2))``, with NumPy's sines and cosines off by eight units of
    themselves, and x by two.
    """
    half = 0.5 * angle
    sine, found = np.sin(half), np.empty(angle.shape, dtype=np.complex128)
    np.multiply(sine, np.cos(half), out=found.imag)
    np.multiply(sine, -sine, out=found.real)
    found *= 2.0
    return found


def _transforms(rows: Tilted, t: Array) -> Array:
    """Moduli of the three transforms at nodes t, shape (3, k, j)."""
    return transform(rows.theta[:, None], t)


def _beyond(rows: Tilted) -> Array:
    """Bounds of the three sums over nodes beyond the last, by the normal factor, shape (3, k)."""
    t, step = (rows.last + 1.0) * rows.step, rows.step
    # t^2 grows by at least 2 t step from node to node
    series = np.exp(-0.5 * t**2 * rows.variance) / -np.expm1(-t * step * rows.variance)
    return np.asarray(series * _transforms(rows, t[:, None])[:, :, 0])


def _less_one(starts: Complex, fine: Complex, weights: Sequence[Array]) -> Complex:
    """Weighted sums of waves less one at all nodes of some blocks, shape (weights, k, nodes).

    With ``(1 + a)(1 + b) - 1 = a + (1 + a) b``. All weights in one product of matrices: such with a
    single vector are slow where several threads share few processors.
    """
    count = starts.shape[1]
    turned = 1.0 + starts
    both = np.concatenate([turned * weight[:, None, :] for weight in weights], axis=1)
    found = np.matmul(both, fine.transpose(0, 2, 1))
    parts = [found[:, i * count : (i + 1) * count] for i in range(len(weights))]
    for part, weight in zip(parts, weights, strict=True):
        part += np.sum(starts * weight[:, None, :], axis=2)[:, :, None]
    return np.stack([part.reshape(part.shape[0], -1) for part in parts])


def _coefficients(
    rows: Tilted,
    users: tuple[int, int],
    row: NDArray[np.intp],
    t: Array,
    transforms: tuple[Complex, Complex],
    off: Array,
    top: Array,
    dropped: Array,
) -> Nodes:
    """Nodes of all rows, one row behind the other, with the terms that are summed up."""
    less, less_sent = transforms
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
    count = np.bincount(row, minlength=rows.theta.size)
    return Nodes(
        rows=rows.scales,
        count=count,
        error=_added((once + users[1] * each) * top ** users[0], count) + dropped,
        terms=terms,
        log_modulus=log.real,
        angle=log.imag + t * mean,
    )


def _unlisted(
    rows: Tilted,
    users: tuple[int, int],
    row: NDArray[np.intp],
    t: Array,
    transforms: tuple[Complex, Complex],
    off: Array,
    top: Array,
    dropped: Array,
) -> Unlisted:
    """Nodes of rows with lists: their sums are over the histograms that are not listed."""
    del top
    less, less_sent = transforms
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
    count = np.bincount(row, minlength=rows.theta.size)
    return Unlisted(
        rows=rows.scales,
        count=count,
        error=_added(once + users[1] * moduli * each, count) + dropped,
        terms=np.stack([turned / z**2, turned, turned / z]),
        log_all=_log_one_more(less_all),
        other=other,
        sent=sent,
        phase=t * common,
    )


def _added(x: Array, count: NDArray[np.intp]) -> Array:
    """Sums over each row's nodes, shape (3, k); every row has nodes."""
    return np.asarray(np.add.reduceat(x, np.cumsum(count) - count, axis=1))


def _log_one_more(less: Complex) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = np.empty(x.shape, dtype=np.complex128)
    found.real = np.where(small, 0.5 * np.log1p(square), np.log(np.abs(1.0 + less)))
    found.imag = np.arctan2(y, 1.0 + x)
    return found
