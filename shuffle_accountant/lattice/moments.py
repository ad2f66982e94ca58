"""Laws of sums with the conditional moments of what goes along, by Fourier transforms.

A law on a lattice is given by four rows: at each point t the probability w of T = t, and the
moments of two companions there,

    w(t),   E[R; T = t],   E[B; T = t],   E[B^2; T = t].

Companions of independent summands add up as T does, so the rows of a sum follow from those of its
parts. With the Fourier transforms ``(f, r, b, s)`` of the rows of X and ``(f', r', b', s')`` those
of an independent X', the transforms for X + X' are

    f f',   r f' + f r',   b f' + f b',   s f' + 2 b b' + f s',

and for the sum of c independent copies of X

    f^c,   c f^(c-1) r,   c f^(c-1) b,   c f^(c-1) s + c (c-1) f^(c-2) b^2.

Neither divides by f, which has zeros.

Errors. Each row carries a bound e of the 1-norm of its error, so its transform is off by at most e
at every frequency. A fast transform is one path of butterflies per input and output (see
`shuffle_accountant.lattice.convolve`), which adds ``c u log2(N)`` times the row's 1-norm. A product
of k factors, each of modulus at most g_i with its error e_i included, is off by at most ``sum_i e_i
prod_(j != i) g_j``; every bound below is such a sum, plus the rounding of the operation itself. An
inverse transform is off by at most the mean of the errors at all frequencies at each point, and by
their 2-norm over sqrt(N) in the 2-norm, which times sqrt(N) bounds the 1-norm.

What the next transform makes of such an error is far smaller near frequency 0, the only place where
its power is not negligible, than the 1-norm: between two frequencies of the old circle, j and j +
1, an error with the bounds E_k at its frequencies is at most ``sum_k E_k min(1, 1/(2 d_k))``, d_k
the distance of k from that interval on the circle (the Dirichlet kernel). Rounding a law to a
coarser lattice multiplies what is at a point by ``E e^(zD)``, where D has mean 0 and a range of one
new spacing h and z is the tilt plus i times the frequency; that differs from 1 by at most ``|z|^2
h^2 e^(tilt h) / 8``, and so much of the 1-norm is added. To what goes along, R, it adds ``E D
e^(zD)``, at most ``|z| h^2 e^(tilt h) / 4``, times the 1-norm of the first row's error.

The first power of all, that of single letters, is the largest, and its base has the least to do:
near frequency 0, where the power is not negligible, f is close to 1. There ``f - 1 = sum w (e^(i x
t) - 1)`` is added up as it stands, to a few u of itself, and the logarithm of f is as good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.budget import budget, disturbed
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["MomentRows", "MomentSpectrum", "coarser", "sharpened", "transform_error"]

Spectrum = NDArray[np.complex128]

# Powers of a modulus below this are taken for 0, and their bound for their error.
_UNSEEN = 1e-40
# Between so many of the first frequencies errors are known by more than their 1-norms.
_NEAR = 16
# So many frequencies are looked at one by one for that.
_ALONE = 128
# So many terms are added up one by one in a millisecond.
_MOST_TERMS = 1 << 15


@dataclass(frozen=True, eq=False)
class MomentRows:
    """The four rows of a law on a window of the integers.

    Attributes:
        first: integer of the first entry.
        rows: shape (4, m): w, and the moments of R, B and B^2.
        error: bounds on the 1-norms of the rows' errors, shape (4,).
        pointwise: bounds on the errors of each entry, shape (4,).
        near: bounds on the errors of the rows' transforms between the frequencies j and j + 1 of a
            circle of ``period`` integers, shape (4, J).
        period: that circle.
    """

    first: int
    rows: Array
    error: Array
    pointwise: Array
    near: Array
    period: float

    @property
    def centre(self) -> int:
        """The integer next to the mean."""
        weight = self.rows[0]
        total = float(weight.sum())
        mean = float(np.sum(weight * np.arange(weight.size))) / max(total, 1e-300)
        return self.first + round(mean)

    def spectrum(self, size: int, centre: int) -> MomentSpectrum:
        """Transforms of the rows on a circle of ``size`` points, ``centre`` moved to 0."""
        from scipy.fft import rfft

        values = rfft(_folded(self.rows, self.first - centre, size), axis=1)
        norms = np.abs(self.rows).sum(axis=1)
        error = np.repeat(self.error[:, None], values.shape[1], axis=1)
        known = self.near.shape[1]
        if known:
            # frequencies of this circle that lie below the known ones of the other
            count = min(math.ceil(known * size / self.period), values.shape[1])
            place = (np.arange(count) * (self.period / size)).astype(np.intp)
            inside = place < known
            place, count = place[inside], int(np.count_nonzero(inside))
            error[:, :count] = np.minimum(error[:, :count], self.near[:, place])
        own = transform_error(size) * norms[:, None]
        values = disturbed(values, own)
        error += own
        return MomentSpectrum(size, values, error, np.zeros(values.shape[1], dtype=bool))


def sharpened(law: MomentRows, size: int, centre: int, count: int) -> MomentSpectrum:
    """`MomentRows.spectrum` with near frequencies added up term by term.

    Args:
        law: the law of one letter, of total one; ``error`` bounds the errors of the last three
            rows, and the first has none.
        size: points of the circle.
        centre: integer moved to 0.
        count: which power is to be taken.
    """
    spectrum = law.spectrum(size, centre)
    held = np.flatnonzero(law.rows[0])
    modulus = np.abs(spectrum.values[0])
    near = np.flatnonzero(modulus ** (count - 1.0) > _UNSEEN)
    most = max(_MOST_TERMS // held.size, 1)
    if near.size > most:
        near = near[np.argpartition(modulus[near], near.size - most)[near.size - most :]]
    place = (law.first - centre + held) % size
    place = np.where(place > size // 2, place - size, place)
    # multiples of the circle are taken off exactly
    turn = np.multiply.outer(near, place) % size
    turn = np.where(turn > size // 2, turn - size, turn)
    angle = (2.0 * math.pi / size) * turn
    wave = -2.0 * np.sin(0.5 * angle) ** 2 - 1j * np.sin(angle)
    rows = law.rows[:, held]
    totals = np.array([math.fsum(row) for row in rows])
    values, error = spectrum.values.copy(), spectrum.error.copy()
    less = np.einsum("kj,rj->kr", wave, rows)
    values[:, near] = (less + np.append(1.0, totals[1:])).T
    spread = np.einsum("kj,rj->kr", np.abs(wave), np.abs(rows))
    order = UNIT_ROUNDOFF * (32.0 + held.size)
    error[:, near] = (order * spread).T + law.error[:, None]
    error[1:, near] += 4 * UNIT_ROUNDOFF * (np.abs(totals[1:, None]) + spread.T[1:])
    exact = np.zeros(modulus.size, dtype=bool)
    exact[near] = True
    differences = np.zeros(modulus.size, dtype=complex)
    differences[near] = less[:, 0]
    return MomentSpectrum(size, values, error, exact, differences)


def coarser(law: MomentRows, factor: int, spacing: float, tilt: float) -> MomentRows:
    """The law on every ``factor``-th integer: each one goes to one of its two neighbours at random.

    The means are kept, so what a neighbour gains or loses is the distance that R makes up for: with
    T' the rounded T, R' = R + T - T'. Weights are tilted by ``e^(tilt T)``.

    Args:
        law: the law; its T is the integer times ``spacing``.
        factor: >= 1.
        spacing: distance of the given lattice.
        tilt: theta, per unit of T.
    """
    if factor == 1:
        return law
    index = law.first + np.arange(law.rows.shape[1])
    cell, rest = index // factor, index % factor
    inside = rest / factor
    first = int(cell[0])
    width = factor * spacing
    size = int(cell[-1]) - first + 2
    result = np.zeros((4, size))
    for offset, share, moved in (
        (0, 1.0 - inside, inside * width),
        (1, inside, (inside - 1.0) * width),
    ):
        rows = law.rows * (share * np.exp(-tilt * moved))
        rows[1] += rows[0] * moved
        for row in range(4):
            result[row] += np.bincount(cell - first + offset, rows[row], size)
    growth = math.exp(tilt**2 * width**2 / 8.0) * (1.0 + 64 * UNIT_ROUNDOFF)
    error = law.error * growth
    error[1] += law.error[0] * growth * width
    # each entry is a sum of up to 2 factor terms with a few roundings each
    norms = np.abs(law.rows).sum(axis=1) * growth
    norms[1] += norms[0] * width
    rounding = UNIT_ROUNDOFF * (16.0 + 2.0 * factor + 4.0 * tilt * width) * norms
    frequency = (2.0 * math.pi / (law.period * spacing)) * np.arange(1.0, law.near.shape[1] + 1.0)
    turn = np.sqrt(tilt**2 + frequency**2) * width
    most = math.exp(tilt * width)
    near = law.near + np.multiply.outer(law.error, turn**2 * (most / 8.0))
    near[1] += law.error[0] * turn * (width * most / 4.0)
    near += rounding[:, None]
    error += rounding
    return MomentRows(first, result, error, error, near, law.period / factor)


@dataclass(frozen=True, eq=False)
class MomentSpectrum:
    """Transforms of the four rows at the frequencies 0 … N/2.

    Attributes:
        size: number N of points of the circle.
        values: shape (4, N // 2 + 1).
        error: bounds on their errors, same shape.
        exact: where the first row's distance from 1 is known as such, shape (N // 2 + 1,).
        less: that distance.
    """

    size: int
    values: Spectrum
    error: Array
    exact: NDArray[np.bool_]
    less: Spectrum | None = None

    def power(self, count: int) -> MomentSpectrum:
        """That of the sum of ``count`` independent copies."""
        if count == 1:
            return self
        c = float(count)
        modulus = np.abs(self.values[0])
        seen = (c - 1.0) * np.log(modulus + self.error[0]) > math.log(_UNSEEN)
        values = np.zeros(self.values.shape, dtype=complex)
        error = np.empty(self.values.shape)
        values[:, seen], error[:, seen] = self._powers(seen, modulus[seen], c)
        if not seen.all():  # taken for 0, and off by what they are at most
            sizes = np.abs(self.values[:, ~seen]).max(axis=1)
            g, r, b, s = sizes + self.error[:, ~seen].max(axis=1)
            error[:, ~seen] = _power_sizes(g, r, b, s, c)[:, None]
        return MomentSpectrum(self.size, values, error, np.zeros(seen.size, dtype=bool))

    def _powers(self, seen: NDArray[np.bool_], modulus: Array, c: float) -> tuple[Spectrum, Array]:
        """The power ``c`` at some frequencies, and bounds on its error."""
        f, r, b, s = self.values[:, seen]
        e0, er, eb, es = self.error[:, seen]
        g = modulus + e0
        size_r, size_b, size_s = np.abs(r) + er, np.abs(b) + eb, np.abs(s) + es
        bound = _power_sizes(g, size_r, size_b, size_s, c)
        log_g = np.log(g)
        g1, g2 = np.exp((c - 1.0) * log_g), np.exp((c - 2.0) * log_g)
        g3 = np.exp((c - 3.0) * log_g) if c > 2.0 else np.zeros_like(g)
        once = (c - 1.0) * e0 * g2
        error = np.empty(bound.shape)
        error[0] = c * e0 * g1
        error[1] = c * (g1 * er + once * size_r)
        error[2] = c * (g1 * eb + once * size_b)
        error[3] = c * (g1 * es + once * size_s)
        error[3] += c * (c - 1.0) * size_b * (2.0 * g2 * eb + (c - 2.0) * e0 * g3 * size_b)
        log_f = np.log(np.maximum(modulus, 1e-300))
        off = np.ones(f.size)
        if self.less is not None:
            exact, less = self.exact[seen], self.less[seen]
            near = 0.5 * np.log1p(less.real * (2.0 + less.real) + less.imag**2)
            log_f = np.where(exact, near, log_f)
            off = np.where(exact, np.minimum(np.abs(less), 1.0), off)
        angle = np.angle(f)
        p2 = np.exp((c - 2.0) * log_f) * np.exp(1j * ((c - 2.0) * angle))
        p1 = p2 * f
        values = np.stack(
            [p1 * f, c * p1 * r, c * p1 * b, c * p1 * s + (c * (c - 1.0)) * p2 * b**2]
        )
        # logarithm and angle of f, multiplied by c, and a few products
        size = 8.0 * off + 2.0 * np.abs(log_f) + 2.0 * np.abs(angle)
        relative = budget().roundoff * (64.0 + c * size)
        error += relative * bound
        return disturbed(values, lambda: 0.5 * relative * np.abs(values)), error

    def times(self, other: MomentSpectrum) -> MomentSpectrum:
        """That of the sum with an independent variable on the same circle."""
        f, r, b, s = self.values
        f2, r2, b2, s2 = other.values
        values = np.stack([f * f2, r * f2 + f * r2, b * f2 + f * b2, s * f2 + 2 * b * b2 + f * s2])
        size, size2 = np.abs(self.values), np.abs(other.values)
        terms = (
            ((0, 0, 0, 1.0),),
            ((1, 1, 0, 1.0), (1, 0, 1, 1.0)),
            (
                (2, 2, 0, 1.0),
                (2, 0, 2, 1.0),
            ),
            ((3, 3, 0, 1.0), (3, 2, 2, 2.0), (3, 0, 3, 1.0)),
        )
        error = np.zeros(values.shape)
        for products in terms:
            for row, i, j, factor in products:
                first = size[i] + self.error[i]
                error[row] += factor * (self.error[i] * size2[j] + first * other.error[j])
                error[row] += (16 * budget().roundoff * factor) * size[i] * size2[j]
        values = disturbed(values, lambda: 8 * budget().roundoff * np.abs(values))
        return MomentSpectrum(self.size, values, error, np.zeros(values.shape[1], dtype=bool))

    def rows(self, start: int, centre: int) -> MomentRows:
        """The rows on the window of N integers from ``start``; ``centre`` was moved to 0."""
        from scipy.fft import irfft

        size = self.size
        rows = np.asarray(irfft(self.values, n=size, axis=1))
        rows = np.roll(rows, -((start - centre) % size), axis=1)
        levels = transform_error(size)
        total = self.error + levels * np.abs(self.values)
        # every frequency but the first and last stands for two
        pointwise = (2.0 / size) * total.sum(axis=1)
        norm = np.sqrt(2.0 * np.square(total).sum(axis=1))
        slack = 1.0 + 64 * UNIT_ROUNDOFF
        rounding = levels * np.sqrt(2.0 * np.square(np.abs(self.values)).sum(axis=1))
        near = (self._between() + rounding[:, None]) * slack
        rows = disturbed(rows, rounding[:, None] / size)
        return MomentRows(start, rows, norm * slack, pointwise * slack, near, float(size))

    def _between(self) -> Array:
        """Bounds on the errors between the first few frequencies, once the circle is cut open."""
        known = self.error.shape[1]
        cells = np.arange(min(_NEAR, known - 1))[:, None]
        first = _groups(known)
        last = np.append(first[1:], known) - 1
        # of each group the nearest frequency counts for all
        ahead = np.maximum(first - cells - 1, cells - last)
        behind = np.minimum(first + cells, self.size - last - cells - 1)
        kernel = np.minimum(1.0, 0.5 / np.maximum(ahead, 0.5))
        kernel += np.minimum(1.0, 0.5 / np.maximum(behind, 0.5))
        total = np.add.reduceat(self.error, first, axis=1)
        # a matrix product would wake a second thread
        return np.asarray(np.einsum("rk,jk->rj", total, kernel), dtype=np.float64)


def _power_sizes(g: Array, r: Array, b: Array, s: Array, c: float) -> Array:
    """The largest that the rows of a power ``c`` can be, given bounds of a transform's rows."""
    log_g = np.log(g)
    once, twice = c * np.exp((c - 1.0) * log_g), c * (c - 1.0) * np.exp((c - 2.0) * log_g)
    return np.stack([np.exp(c * log_g), once * r, once * b, once * s + twice * b**2])


@lru_cache(maxsize=64)
def _groups(count: int) -> NDArray[np.intp]:
    """Where groups of so many frequencies start: the first ones alone, then ever more together."""
    far = np.geomspace(_ALONE, count, 200) if count > _ALONE else np.zeros(0)
    starts = np.union1d(np.arange(min(count, _ALONE)), np.floor(far)).astype(np.intp)
    return np.asarray(starts[starts < count])


def transform_error(size: int) -> float:
    """Of a transform of so many points; see `shuffle_accountant.lattice.convolve`."""
    return 10 * budget().roundoff * (math.log2(size) + 1)


def _folded(rows: Array, offset: int, size: int) -> Array:
    """The rows on a circle of the given size."""
    length = rows.shape[1]
    result = np.zeros((rows.shape[0], size))
    position, done = offset % size, 0
    while done < length:
        piece = rows[:, done : done + size - position]
        result[:, position : position + piece.shape[1]] += piece
        done += piece.shape[1]
        position = 0
    return result
