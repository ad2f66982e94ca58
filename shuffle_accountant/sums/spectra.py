"""Values of the three transforms at nodes, with their errors, and their sums for any n.

Rounding of phi: it is off by a few u of ``t E|Y|``, and powers by
``|a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1)``. Rounding of the tilted weights: a few u of each,
which moves expectations of non-negative quantities by at most n times that, relative to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.numerics.turns import cosines_and_sines
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.survey import transform
from shuffle_accountant.sums.tilted import Tilted

__all__ = ["Nodes", "Unlisted", "of_blocks"]

Complex = NDArray[np.complex128]


class _Summed(ABC):
    """Sums over nodes, remembered for the last two numbers of messages."""

    @cached_property
    def _known(self) -> dict[int, tuple[Array, Array]]:
        """Cache of `sums` for the last numbers of messages: ends of a range are asked for again."""
        return {}

    def sums(self, n: int) -> tuple[Array, Array]:
        """The three sums for n messages, and bounds of their errors, shape (3, k) each."""
        if n not in self._known:
            while len(self._known) > 1:
                self._known.pop(next(iter(self._known)))
            self._known[n] = self._summed(n)
        return self._known[n]

    @abstractmethod
    def _summed(self, n: int) -> tuple[Array, Array]:
        """The same, computed anew."""


@dataclass(frozen=True, eq=False)
class Nodes(_Summed):
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

    rows: Tilted
    count: NDArray[np.intp]
    log_modulus: Array
    angle: Array
    log_top: Array
    terms: Complex
    once: Array
    each: Array
    dropped: Array

    def only(self, kept: NDArray[np.bool_]) -> Nodes:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)
        return replace(
            self,
            rows=self.rows[kept],
            count=self.count[kept],
            log_modulus=self.log_modulus[flat],
            angle=self.angle[flat],
            log_top=self.log_top[flat],
            terms=self.terms[:, flat],
            once=self.once[:, flat],
            each=self.each[:, flat],
            dropped=self.dropped[:, kept],
        )

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
class Unlisted(_Summed):
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

    rows: Tilted
    count: NDArray[np.intp]
    log_all: Complex
    other: Complex
    sent: Complex
    phase: Array
    terms: Complex
    once: Array
    each: Array
    dropped: Array

    def only(self, kept: NDArray[np.bool_]) -> Unlisted:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)
        return replace(
            self,
            rows=self.rows[kept],
            count=self.count[kept],
            log_all=self.log_all[flat],
            other=self.other[flat],
            sent=self.sent[flat],
            phase=self.phase[flat],
            terms=self.terms[:, flat],
            once=self.once[:, flat],
            each=self.each[:, flat],
            dropped=self.dropped[:, kept],
        )

    def _summed(self, n: int) -> tuple[Array, Array]:
        if not self.count.size:
            return np.zeros((3, 0)), np.zeros((3, 0))
        starts = np.cumsum(self.count) - self.count
        others, held = (np.repeat(x, self.count) for x in (self.rows.others, self.rows.held))
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


def of_blocks(
    rows: Tilted, users: tuple[int, int], first: Array, left_out: Array
) -> Nodes | Unlisted:
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
    return make(rows, flat, t[kept], (less[kept], less_sent[kept]), off[kept], top[kept], dropped)


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


def _less_one(starts: Complex, fine: Complex, weight: Array) -> Complex:
    """Weighted sums of waves less one at all nodes of some blocks, shape (k, blocks, block)."""
    first = starts * weight[:, None, :]
    both = np.matmul(first, fine.transpose(0, 2, 1))
    both += first.sum(axis=2)[:, :, None]
    both += np.matmul(fine, weight[:, :, None]).transpose(0, 2, 1)
    return np.asarray(both)


def _coefficients(
    rows: Tilted,
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
    return Nodes(
        rows=rows,
        count=np.bincount(row, minlength=rows.theta.size),
        log_modulus=log.real,
        angle=log.imag + t * mean,
        log_top=np.log(top),
        terms=terms,
        once=once,
        each=each,
        dropped=dropped,
    )


def _unlisted(
    rows: Tilted,
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
    return Unlisted(
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


def _log_one_more(less: Complex) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = np.empty(x.shape, dtype=np.complex128)
    found.real = np.where(small, 0.5 * np.log1p(square), np.log(np.abs(1.0 + less)))
    found.imag = np.arctan2(y, 1.0 + x)
    return found
