"""Values of the three transforms at nodes, with their errors, and their sums for any n.

Rounding of phi: it is off by a few u of ``t E|Y|``, and powers by
``|a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1)``. Rounding of the tilted weights: a few u of each,
which moves expectations of non-negative quantities by at most n times that, relative to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.angles import cos_sin
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.survey import log_power, transform
from shuffle_accountant.sums.tilted import Scales, Tilted

Complex = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of several rows, one row behind the other, and what does not depend on n.

    The last axis of every array is either that of the k rows or that of the j nodes.

    Attributes:
        rows: the rows' tilts.
        count: number of nodes of each row, shape (k,).
        error: bounds of the errors of the three sums, and of what left-out nodes add, for all
            numbers of messages in the range, shape (3, k).
        terms: complex coefficients of the three sums, shape (3, j).
        log_modulus: logarithm of ``|phi|``, shape (j,).
        angle: angle of ``phi e^(i t mean)``, shape (j,).
    """

    rows: Scales
    count: NDArray[np.intp]
    error: Array
    terms: Complex
    log_modulus: Array
    angle: Array

    def only(self, kept: NDArray[np.bool_]) -> Nodes:
        """The nodes of some of the rows."""
        flat = np.repeat(kept, self.count)
        of_nodes = self.terms[:, flat], self.log_modulus[flat], self.angle[flat]
        return Nodes(self.rows[kept], self.count[kept], self.error[:, kept], *of_nodes)

    @cached_property
    def _known(self) -> dict[int, Array]:
        """Cache of `sums` for the last numbers of messages: ends of a range are asked for again."""
        return {}

    def sums(self, n: int) -> tuple[Array, Array]:
        """The three sums for n messages, and bounds of their errors, shape (3, k) each."""
        if n not in self._known:
            while len(self._known) > 1:
                self._known.pop(next(iter(self._known)))
            modulus = np.exp(n * self.log_modulus)
            cosine, sine = cos_sin(n * self.angle)
            terms = self.terms.real * (cosine * modulus)
            terms -= self.terms.imag * (sine * modulus)
            found = _added(terms, self.count)
            found[2] *= n
            self._known[n] = found
        return self._known[n], self.error * np.array([[1.0], [1.0], [n]])


def joined(parts: Sequence[Nodes]) -> list[Nodes]:
    """The nodes of all parts in one, if there are any."""
    if len(parts) < 2:
        return list(parts)

    def every(kind: type, found: Sequence[object]) -> list[Any]:
        names = [x.name for x in fields(kind) if x.name != "rows"]
        return [np.concatenate([getattr(x, name) for x in found], axis=-1) for name in names]

    rows = Scales(*every(Scales, [part.rows for part in parts]))
    return [Nodes(rows, *every(Nodes, parts))]


def of_blocks(rows: Tilted, users: tuple[int, int], first: Array, left_out: Array) -> Nodes:
    """The nodes of some rows.

    Args:
        rows: k of them.
        users: least and largest number of messages.
        first: numbers of the first nodes of their blocks, shape (k, blocks).
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
    rest = log_power(top, users[0])
    rest -= 0.5 * t**2 * rows.variance[:, None]
    kept = held & ((rest > -rows.level[:, None]) | (t == 0.0))  # every row has nodes
    others = np.where(held & ~kept, np.exp(rest), 0.0)
    dropped = (
        np.einsum("akj,kj->ak", transform(rows.theta[:, None], t), others)
        + left_out
        + _beyond(rows)
    )
    dropped *= 1.01 * 2.0 / rows.window
    dropped[2] *= rows.most_sent
    flat = np.repeat(np.arange(step.size), kept.sum(axis=1))
    found = less[kept], less_sent[kept]
    return _coefficients(rows, users, flat, t[kept], found, off[kept], top[kept], dropped)


def _waves(angle: Array) -> Complex:
    """``e^(i x) - 1``, off by 32 units of round-off of x: nothing is lost near 0.

    ``-t sin x + i sin x`` with ``t = tan(x/2)``: as in `numerics.angles` the imaginary part is off
    by at most 28 units of itself, the real part, ``-2 sin^2(x/2)``, by 37, together by 30 of x at
    most; and x by two.
    """
    tangent, found = np.tan(0.5 * angle), np.empty(angle.shape, dtype=np.complex128)
    sine = 2.0 * tangent / (1.0 + tangent * tangent)
    found.imag = sine
    np.multiply(tangent, -sine, out=found.real)
    return found


def _beyond(rows: Tilted) -> Array:
    """Bounds of the three sums over nodes beyond the last, by the normal factor, shape (3, k)."""
    t, step = (rows.last + 1.0) * rows.step, rows.step
    # t^2 grows by at least 2 t step from node to node
    series = np.exp(-0.5 * t**2 * rows.variance) / -np.expm1(-t * step * rows.variance)
    return np.asarray(series * transform(rows.theta, t))


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
    cosine, sine = cos_sin(angle)
    turned = share * (cosine + 1j * sine)
    terms = np.stack([turned / z**2, turned, turned * sent / phi / z])
    size = np.abs(z)
    moduli = share * np.stack([1.0 / size**2, np.ones(t.shape), 1.0 / size])
    own = UNIT_ROUNDOFF * (208.0 + 8.0 * angle + 8.0 * t**2 * variance + 2.0 * t.size)
    log = _log_one_more(less)
    phase = np.abs(log) + np.abs(less.real) + np.abs(less) ** 2 + t * np.abs(mean)
    most = rows.sent.sum(axis=1)[row] * (1.0 + 1e-9)
    off_sent = t * (rows.rounding * np.sum(rows.sent * np.abs(rows.y), axis=1))[row]
    off_sent += most * (rows.rounding + 16.0 * UNIT_ROUNDOFF * t * np.abs(mean))
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
