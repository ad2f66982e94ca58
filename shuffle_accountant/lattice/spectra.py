"""Frequencies of tilted letters that matter, and what they contribute, at several alpha at once.

A frequency s enters by the spectrum ``M(theta + i s)^n`` of the sum and by three transforms, of the
sum's positive part, of its density at 0, and of S1 where the sum is positive. All are kept
relative to what s = 0 has.

Errors:

* Frequencies that are left out: those where the modulus is next to nothing for the smallest number
  of messages, added up, and those beyond the last one, by a geometric series.
* Rounding: each spectrum less one is off by a few u of ``s E|Y|``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.tilted_letters import TiltedLetters
from shuffle_accountant.lattice.waves import Complex, waves
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["Spectra", "spectra"]

_MOST_KEPT = 1 << 14
_BLOCK, _FEW = 32, 16
# Letters times frequencies at once.
_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Spectra:
    """Kept frequencies and their coefficients, those of several alpha one behind the other.

    Attributes:
        index: which alpha are tabulated, shape (k,).
        count: how many frequencies each has, shape (k,).
        log: logarithm of the spectrum, and i s times the tilted mean, shape (j,).
        terms: coefficients of ``E[T; A]``, of the density at 0, and of ``E[S1; A] / n``,
            shape (3, j).
        doubt: bounds of what these coefficients are off, shape (3, j).
        relative: what the spectrum is off, relative to it, shape (j,).
        phase: the size of logarithms and phases per message, shape (j,).
        dropped: what other frequencies can add to each of the three, shape (3, k).
        log_scale: logarithm of the moment generating function of one letter, shape (k,).
        log_smooth: the same of the normal, shape (k,).
        theta: the tilts, shape (k,).
        variance: that of the normal, shape (k,).
        per_letter: relative error of a letter's weight, shape (k,).
        sent: largest ratio r1, shape (k,).
        outside: tilted probability that the sum lies outside of its window, shape (k,).
        rare: with ``n rare`` times the profile, and
        rare_gain: with this, letters that are left out add no more to it, shape (k,) each.
        apart: letters that are added up by themselves, the fields of `LettersApart` as rows.
    """

    index: NDArray[np.intp]
    count: NDArray[np.intp]
    log: Complex
    terms: Complex
    doubt: Array
    relative: Array
    phase: Array
    dropped: Array
    log_scale: Array
    log_smooth: Array
    theta: Array
    variance: Array
    per_letter: Array
    sent: Array
    outside: Array
    rare: Array
    rare_gain: Array
    apart: Array

    def only(self, rows: NDArray[np.bool_]) -> Spectra:
        """Those of some of the alpha."""
        flat, names = np.repeat(rows, self.count), ("log", "terms", "doubt", "relative", "phase")
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        return Spectra(**{k: x[..., flat if k in names else rows] for k, x in values.items()})

    @classmethod
    def joined(cls, parts: list[Spectra]) -> Spectra:
        """One behind the other."""
        if len(parts) == 1:
            return parts[0]
        names = [x.name for x in fields(cls)]
        return cls(*(np.concatenate([getattr(x, k) for x in parts], axis=-1) for k in names))


def spectra(parts: Iterable[TiltedLetters], users: tuple[int, int]) -> Spectra:
    """Tabulate frequencies wherever they are not too many.

    Args:
        parts: the letters under their tilts.
        users: least and largest number of messages.
    """
    some = (rows for part in parts for rows in _batches(part))
    return Spectra.joined([found for rows in some for found in _frequencies(rows, users)])


def _batches(letters: TiltedLetters) -> Iterator[TiltedLetters]:
    """Rows that fit into a processor's own memory, with the letters that any of them has."""
    most = _BLOCK + _FEW + int(np.max(letters.last, initial=0.0)) // (_BLOCK * _FEW)
    size = max(_AT_ONCE // (most * max(letters.y.shape[1], 1)), 1)
    for first in range(0, max(letters.index.size, 1), size):
        yield letters[first : first + size].used()


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks of neighbouring frequencies.

    Attributes:
        near: waves less one at the starts of those that matter, shape (k, b, m).
        fine: waves less one within a block, shape (k, `_BLOCK`, m).
        s: their frequencies, shape (k, b * `_BLOCK`).
        there: which of them are any, of that shape.
    """

    near: Complex
    fine: Complex
    s: Array
    there: NDArray[np.bool_]

    def less_one(self, weight: Array) -> Complex:
        """Sums of waves less one, weighted by row, at all frequencies."""
        first = self.near * weight[:, None, :]
        both = np.matmul(first, self.fine.transpose(0, 2, 1))
        both += first.sum(axis=2)[:, :, None]
        both += np.matmul(self.fine, weight[:, :, None]).transpose(0, 2, 1)
        return np.asarray(both.reshape(self.s.shape))


@dataclass(frozen=True, eq=False)
class _Survey:
    """What starts and middles of blocks tell of all frequencies.

    Attributes:
        fine: waves less one within a block, shape (k, `_BLOCK`, m).
        few: the same for the starts of a few blocks, shape (k, `_FEW`, m).
        many: waves at multiples of these, shape (k, j, m).
        near: which blocks matter, shape (k, `_FEW` j).
        left_out: what all other blocks add to the three transforms, shape (3, k).
    """

    fine: Complex
    few: Complex
    many: Complex
    near: NDArray[np.bool_]
    left_out: Array

    def alike(self) -> list[slice | NDArray[np.intp]]:
        """Rows with about as many blocks that matter."""
        size = np.frexp(self.near.sum(axis=1))[1]
        sizes = np.unique(size)
        if sizes.size <= 1:
            return [slice(None)]  # no copies
        return [np.flatnonzero(size == one) for one in sizes]

    def blocks(self, rows: slice | NDArray[np.intp], step: Array) -> _Blocks:
        """The blocks of some rows that matter, with their steps of frequencies."""
        near, few, many = self.near[rows], self.few[rows], self.many[rows]
        # those that matter first, and as many in all rows
        most = int(near.sum(axis=1).max(initial=1))
        order = np.argsort(~near, axis=1, kind="stable")[:, :most]
        s = step[:, None, None] * np.add.outer(_BLOCK * order, np.arange(_BLOCK))
        there = np.repeat(np.take_along_axis(near, order, 1), _BLOCK, axis=1)
        which = np.arange(step.size)[:, None]
        near_few = few[which, order % _FEW]
        near_waves = many[which, order // _FEW] * (1.0 + near_few)
        near_waves += near_few
        return _Blocks(near_waves, self.fine[rows], s.reshape(there.shape), there)


def _survey(letters: TiltedLetters, users: tuple[int, int]) -> _Survey:
    """Find the blocks that matter."""
    step, y, weight = letters.step, letters.y, letters.weight
    numbers = letters.last // _BLOCK + 1.0
    starts = _BLOCK * np.arange(-(-np.max(numbers, initial=1.0) // _FEW) * _FEW)
    # starts of blocks are sums of a few and of multiples of so many
    fine, few = waves(step, _BLOCK, y), waves(_BLOCK * step, _FEW, y)
    many = waves(_BLOCK * _FEW * step, starts.size // _FEW, y)
    # within a block the spectrum moves by its slope at the middle and half of E y^2 at most, or by
    # E|y|
    middle = weight * (1.0 + fine[:, _BLOCK // 2])
    turned = np.stack([middle, middle * y], axis=1)
    here = np.stack([1.0 + np.sum(weight * fine[:, _BLOCK // 2], axis=1), turned[:, 1].sum(1)])
    moved = many[:, None] * turned[:, :, None]
    rows = many.shape[1]
    both = np.matmul(
        moved.reshape(step.size, 2 * rows, y.shape[1]), few.transpose(0, 2, 1)
    ).reshape(step.size, 2, rows, _FEW)
    both += moved.sum(axis=3)[..., None]
    both += np.matmul(turned, few.transpose(0, 2, 1))[:, :, None]
    far = both.transpose(1, 0, 2, 3).reshape(2, step.size, starts.size)
    value, slope = np.abs(here[:, :, None] + far)
    apart, end = (0.5 * _BLOCK * step)[:, None], np.multiply.outer(step, starts + _BLOCK)
    size = letters.size[:, None]
    blur = letters.rounding * size * (1.0 + end * np.max(np.abs(y), axis=1, initial=0.0)[:, None])
    bent = apart * (slope + blur + 0.5 * apart * np.sum(weight * y**2, axis=1)[:, None])
    most = value + np.minimum(bent, apart * size) * (1.0 + 1e-9) + letters.doubt(end)
    first = np.multiply.outer(step, starts)
    log_rest = letters.log_bound(most, first, users[0])
    valid = starts < _BLOCK * numbers[:, None]
    near = valid & (log_rest > -letters.level[:, None] - math.log(_BLOCK))
    others = np.where(valid & ~near, np.exp(log_rest), 0.0)
    return _Survey(
        fine=fine,
        few=few,
        many=many,
        near=near,
        left_out=np.einsum("akj,kj->ak", _transforms(letters, first), _BLOCK * others),
    )


def _transforms(letters: TiltedLetters, s: Array) -> Array:
    """Bounds of the moduli of the three transforms, at frequencies of shape (k, j)."""
    theta, high = letters.theta[:, None], letters.high[:, None]
    faded, size = np.exp(-theta * high), np.hypot(theta, s)
    first = (1.0 + (1.0 + size * high) * faded) / size**2
    return np.stack([first, np.ones(s.shape), (1.0 + faded) / size])


def _frequencies(letters: TiltedLetters, users: tuple[int, int]) -> Iterator[Spectra]:
    """The frequencies of some rows, where they are not too many."""
    survey = _survey(letters, users)
    for rows in survey.alike():
        some = letters[rows]
        blocks = survey.blocks(rows, some.step)
        yield _chosen(some, users, blocks, survey.left_out[:, rows])


def _chosen(
    letters: TiltedLetters, users: tuple[int, int], blocks: _Blocks, left_out: Array
) -> Spectra:
    """Those of the blocks that matter."""
    step = letters.step
    s, less = blocks.s, blocks.less_one(letters.weight)
    modulus = np.abs(1.0 + less)
    log_rest = letters.log_bound(modulus, s, users[0])
    held = blocks.there & (log_rest > -letters.level[:, None])
    own, limits = letters.doubt(s), _transforms(letters, s)
    others = np.where(blocks.there & ~held, np.exp(log_rest), 0.0)
    dropped = np.einsum("akj,kj->ak", limits, others) + left_out
    # beyond the last one s^2 grows by at least 2 s step each time
    out = step * _BLOCK * (letters.last // _BLOCK + 1.0)
    series = np.exp(-0.5 * out**2 * letters.smooth) / -np.expm1(-out * step * letters.smooth)
    dropped += series * _transforms(letters, out[:, None])[:, :, 0]
    # two of each, but for 0
    dropped *= 1.01 * step / math.pi
    dropped[2] *= users[1] * letters.total_sent
    count = held.sum(axis=1)
    worst = np.max(np.where(held, own / modulus, 0.0), axis=1, initial=0.0)
    good = (count > 0) & (count <= _MOST_KEPT) & (users[1] * worst <= 1.0)
    some, held = letters[good], held[good]
    kept = _Kept(*(x[good][held] for x in (s, less, blocks.less_one(letters.sent), own)))
    return _tabulated(some, count[good], kept, limits[:, good][:, held], dropped[:, good])


class _Kept(NamedTuple):
    """Frequencies one behind the other, shape (j,).

    Attributes:
        s: themselves.
        less: spectra less one.
        sent: the same with weights times r1, less their values at 0.
        own: what the spectra are off.
    """

    s: Array
    less: Complex
    sent: Complex
    own: Array


def _tabulated(
    letters: TiltedLetters,
    count: NDArray[np.intp],
    kept: _Kept,
    limits: Array,
    dropped: Array,
) -> Spectra:
    """The coefficients at kept frequencies, from spectra less their values at 0."""
    (s, less, sent, own), row = kept, np.repeat(np.arange(count.size), count)
    theta, high, smooth = (x[row] for x in (letters.theta, letters.high, letters.smooth))
    mean, total = (x[row] for x in (letters.mean, letters.sent.sum(axis=1)))
    z, spectrum = theta + 1j * s, 1.0 + less
    reach, modulus = np.abs(z) * high, np.abs(spectrum)
    relative = own / modulus
    ratio = (total + sent) / spectrum
    fading = _turned(-s * high, np.exp(-theta * high))
    box = (1.0 - fading) / z
    transforms = np.stack([(1.0 - fading * (1.0 + z * high)) / z**2, np.ones(z.size), box * ratio])
    share = (letters.step / (2.0 * math.pi))[row] * np.where(s > 0.0, 2.0, 1.0)
    share = share * np.exp(-0.5 * s**2 * smooth)
    terms = _turned(theta * smooth * s, share) * transforms
    doubt = share * limits * UNIT_ROUNDOFF * (64.0 + 16.0 * reach)
    doubt[2] *= np.abs(ratio)
    off = s * (letters.rounding * np.sum(letters.sent * np.abs(letters.y), axis=1))[row]
    most = letters.total_sent[row]
    off = off + most * (letters.rounding + 16.0 * UNIT_ROUNDOFF * s * np.abs(mean))
    doubt[2] += 2.0 * share * limits[2] * (off + most * relative) / modulus
    doubt += np.abs(terms) * UNIT_ROUNDOFF * (64.0 + 8.0 * theta * smooth * s)
    log = _log_one_more(less, modulus)
    return Spectra(
        index=letters.index,
        count=count,
        log=log + 1j * (s * mean),
        terms=terms,
        doubt=doubt,
        relative=relative,
        phase=np.abs(log) + np.abs(less.real) + np.abs(less) ** 2 + s * np.abs(mean),
        dropped=dropped,
        log_scale=letters.log_scale,
        log_smooth=0.5 * letters.theta**2 * letters.smooth,
        theta=letters.theta,
        variance=letters.smooth,
        per_letter=letters.per_letter,
        sent=letters.largest,
        outside=letters.outside,
        rare=letters.rare,
        rare_gain=letters.rare_gain,
        apart=np.stack([getattr(letters.apart, x.name) for x in fields(letters.apart)]),
    )


def _log_one_more(less: Complex, modulus: Array) -> Complex:
    """``log(1 + x)``: off by a few roundings of the parts of x near 0, else of the sum."""
    x, y = less.real, less.imag
    small = np.abs(less) < 0.5
    square = np.where(small, x * (2.0 + x) + y * y, 0.0)
    found = np.empty(x.shape, dtype=np.complex128)
    found.real = np.where(small, 0.5 * np.log1p(square), np.log(modulus))
    found.imag = np.arctan2(y, 1.0 + x)
    return found


def _turned(angle: Array, size: Array | float = 1.0) -> Complex:
    """``size e^(i angle)``: two real functions take less time than a complex exponential."""
    found = np.empty(angle.shape, dtype=np.complex128)
    np.multiply(size, np.cos(angle), out=found.real)
    np.multiply(size, np.sin(angle), out=found.imag)
    return found
