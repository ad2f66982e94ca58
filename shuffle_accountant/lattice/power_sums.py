"""Sums of powers ``c z^n`` over frequencies, for one number of messages or for very many of them.

A sum is a function of n between the integers, too: ``z^n = e^(n L)`` with a fixed logarithm L of
the spectrum. Frequencies in a row whose angles are about phi make ``e^(i n phi)`` times a smooth
function of n, which the Chebyshev nodes of a range tell for all of it: with m nodes on an interval
of half-length h from a on, the polynomial through them is off by

    2 (h/2)^m / m! max |d^m/dn^m|  <=  2/m! sum of |c| |h (L - i phi) / 2|^m e^(a Re L)

at most, as no modulus is above 1.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.spectra import Spectra
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.numerics.turns import cosines_and_sines

__all__ = ["MANY_NUMBERS", "Interpolation", "PowerSums"]

MANY_NUMBERS = 24
"""From so many numbers of messages on, a few of them are made to tell all."""

# What a group costs for each number, in frequencies.
_GROUP_COST = 5.0

# Frequencies at once.
_AT_ONCE = 1 << 14
# Nodes, and over which range of angles, times half of the numbers, frequencies are taken together.
_NODES, _TURN = 16, 4.0
# So many times fewer groups than frequencies are worth it.
_FEWER = 4.0
# More than what nodes and the interval are rounded by makes of a bound.
_ROUNDED = 1.01


class PowerSums:
    """Three sums for each row of a table, and bounds of their errors, for any number n >= 1.

    Args:
        found: the frequencies; what was dropped is left out here.
    """

    def __init__(self, found: Spectra) -> None:
        self._found = found
        # where each row's frequencies start
        self._starts = np.cumsum(np.append(0, found.count))
        # rows whose frequencies fit into a processor's own memory together
        ends = np.append(np.arange(0, self._starts[-1], _AT_ONCE), self._starts[-1])
        self._blocks = np.unique(np.searchsorted(self._starts, ends))
        # real and imaginary parts: a complex exponential takes several times as long
        terms, size = found.terms, np.abs(found.terms)
        self._real, self._imag = terms.real.copy(), terms.imag.copy()
        self._log_modulus, self._angle = found.log.real.copy(), found.log.imag.copy()
        # ((m + e)^n - m^n) <= n e m^(n-1) e^(n e / m), and no n e / m is above 1
        own = UNIT_ROUNDOFF * (160.0 + 2.0 * float(found.count.max(initial=0)))
        each = math.e * found.relative + 64.0 * UNIT_ROUNDOFF * found.phase
        # what terms are off: once, and for each message
        self._off = own * size + (1.0 + own) * found.doubt
        self._off_each = each * (size + found.doubt)

    @property
    def frequencies(self) -> float:
        """How many there are for each row on average; one number of messages costs as much."""
        return float(self._starts[-1]) / max(self._starts.size - 1, 1)

    def at(self, n: float) -> tuple[Array, Array]:
        """The sums and bounds of their errors, shape (3, rows) each."""
        starts = self._starts
        value, error = np.zeros((2, 3, self._found.count.size))
        for first, last in itertools.pairwise(self._blocks.tolist()):
            some, own = slice(starts[first], starts[last]), starts[first:last] - starts[first]
            modulus = np.exp(n * self._log_modulus[some])
            cosine, sine = cosines_and_sines(n * self._angle[some])
            cosine *= modulus
            sine *= modulus
            terms = self._real[:, some] * cosine
            terms -= self._imag[:, some] * sine
            value[:, first:last] = np.add.reduceat(terms, own, axis=1)
            error[:, first:last] = self._errors(n, modulus, some, own)
        return value, error

    def _errors(self, n: float, modulus: Array, some: slice, starts: NDArray[np.intp]) -> Array:
        """Bounds of the errors of some rows' sums."""
        off = self._off_each[:, some] * n
        off += self._off[:, some]
        off *= modulus
        return np.asarray(np.add.reduceat(off, starts, axis=1))

    def interpolated(self, users: tuple[int, int]) -> Interpolation | None:
        """The sums for all numbers from the first to the second, if groups are few."""
        middle, half = 0.5 * (users[0] + users[1]), 0.5 * (users[1] - users[0])
        turn = _TURN / max(half, 1.0)
        key = np.floor(self._angle / turn)
        new = np.append(True, np.diff(key) != 0.0)[: key.size]
        new[self._starts[:-1]] = True
        firsts = np.flatnonzero(new)
        if not firsts.size or _FEWER * firsts.size > key.size:
            return None
        phase = (key[firsts] + 0.5) * turn
        group = np.cumsum(new) - 1
        angle = self._angle - phase[group]
        place = middle + half * np.cos(math.pi * (np.arange(_NODES) + 0.5) / _NODES)
        value, error = [], []
        everything, rows = slice(0, key.size), self._starts[:-1]
        for x in place.tolist():
            modulus = np.exp(x * self._log_modulus)
            cosine, sine = cosines_and_sines(x * angle)
            cosine *= modulus
            sine *= modulus
            real = self._real * cosine - self._imag * sine
            imag = self._real * sine + self._imag * cosine
            value.append(np.stack([np.add.reduceat(y, firsts, axis=1) for y in (real, imag)]))
            error.append(self._errors(x, modulus, everything, rows))
        return Interpolation(
            place=place,
            value=np.stack(value),
            # angles are rounded twice
            error=2.0 * np.stack(error),
            bent=self._bent(float(users[0]), half, angle),
            phase=phase,
            turn=turn,
            rows=np.searchsorted(firsts, rows),
        )

    def _bent(self, least: float, half: float, angle: Array) -> Array:
        """What polynomials are off at most, shape (3, rows)."""
        found = self._found
        # the logarithms are those of the spectrum itself, not of what it is computed as
        off = 2.0 * found.relative + 64.0 * UNIT_ROUNDOFF * found.phase
        with np.errstate(divide="ignore"):
            log = _NODES * np.log(0.5 * half * (np.hypot(self._log_modulus, angle) + off))
        log += least * (self._log_modulus + off) - math.lgamma(_NODES + 1.0)
        size = (np.abs(found.terms) + found.doubt) * (2.0 * np.exp(log))
        return np.asarray(_ROUNDED * np.add.reduceat(size, self._starts[:-1], axis=1))


@dataclass(frozen=True, eq=False)
class Interpolation:
    """The sums of all numbers of messages in a range, from those of a few.

    Attributes:
        place: the nodes, shape (m,).
        value: real and imaginary parts of the groups' smooth sums there, shape (m, 2, 3, groups).
        error: bounds of the errors of all of a row's groups, shape (m, 3, rows).
        bent: what the polynomials of a row are off, shape (3, rows).
        phase: angle of each group, shape (groups,).
        turn: over which range of angles frequencies are taken together.
        rows: where each row's groups start, shape (rows,).
    """

    place: Array
    value: Array
    error: Array
    bent: Array
    phase: Array
    turn: float
    rows: NDArray[np.intp]

    @property
    def cost(self) -> float:
        """What one more number costs for each row, in frequencies."""
        return _GROUP_COST * self.phase.size / max(self.rows.size, 1)

    @cached_property
    def _size(self) -> Array:
        """The sizes of a row's sums added up, shape (m, 3, rows)."""
        size = np.add.reduceat(np.hypot(self.value[:, 0], self.value[:, 1]), self.rows, axis=2)
        return np.asarray(size)

    def at(self, n: float) -> tuple[Array, Array]:
        """The sums and bounds of their errors, shape (3, rows) each."""
        apart = n - self.place
        # all but one of the distances, over those of that one node
        factors = np.tile(apart, (apart.size, 1))
        np.fill_diagonal(factors, 1.0)
        between = self.place[:, None] - self.place
        np.fill_diagonal(between, 1.0)
        weight = np.prod(factors / between, axis=1)
        real, imag = np.tensordot(weight, self.value, 1)
        cosine, sine = cosines_and_sines(n * self.phase)
        value = np.add.reduceat(real * cosine - imag * sine, self.rows, axis=1)
        # weights, sums over nodes and groups, and how far angles of a group are apart
        own = 64.0 + 8.0 * weight.size + 2.0 * self.phase.size + 8.0 * n * self.turn
        own *= UNIT_ROUNDOFF
        size = np.abs(weight)
        error = np.tensordot(size, self.error, 1) + own * np.tensordot(size, self._size, 1)
        return value, error * (1.0 + own) + self.bent
