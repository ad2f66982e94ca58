"""The law of a sum of very many different grid variables.

The same as `shuffle_accountant.lattice.convolve`, for factors that are rows of one matrix. A sum of
many variables has a smooth law: but for a few hundred low frequencies its spectrum is negligible.
So the transform is taken at those alone, by a product of matrices, and the others are bounded
together. With m the entrywise minimum of some rows of total mass at most 1,

    |spectrum of a row| <= |spectrum of m| + (1 - total of m),

because what the row has more than m is a positive vector: one transform bounds all of them. Rows
whose spreads differ by less than a factor of 2 share a minimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.convolve import (
    Powers,
    WindowedSum,
    invert,
    per_level,
    place_on_circle,
)
from shuffle_accountant.lattice.settings import LATTICE
from shuffle_accountant.numerics.angles import TURN, cos_sin
from shuffle_accountant.numerics.budget import disturbed
from shuffle_accountant.numerics.fft import good_length, real_fft
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    roundings,
    sequential_sum,
)


@dataclass(frozen=True, eq=False)
class Stack:
    """Probability vectors on the integers, row by row, each to be added up ``count`` times.

    Attributes:
        offset: integer of the first column.
        mass: probabilities, shape (rows, m), >= 0, sums about 1.
        count: numbers of independent copies, shape (rows,), >= 1.
        mass_error: bounds on the 1-norm of the error of each row, shape (rows,).
    """

    offset: int
    mass: Array
    count: Array
    mass_error: Array


def rows_times(matrix: Array, columns: Array) -> Array:
    """The product of a matrix with a few columns, row by row, which wakes no second thread."""
    return np.array([row @ columns for row in matrix])


def stack_sum(stack: Stack, start: int, length: int) -> WindowedSum:
    """Law of the sum of all rows, modulo the window's length; see `convolve.power_sum`."""
    size = good_length(length)
    columns = np.arange(stack.mass.shape[1], dtype=np.float64)
    total = stack.mass.sum(axis=1)
    moments = rows_times(stack.mass, np.stack([columns, columns**2], axis=1))
    mean = moments[:, 0] / total
    middle = stack.offset + np.rint(mean).astype(np.int64)
    counts = [int(count) for count in stack.count]
    centre = sum(count * int(at) for count, at in zip(counts, middle, strict=True))
    second = np.maximum(moments[:, 1] / total - mean**2, 0.0)
    noise = per_level() * (math.log2(size) + 1) + float(stack.mass_error.max())
    bound = _bounds(stack, total, np.sqrt(second), size, noise)
    kept = np.flatnonzero(bound > LATTICE.unresolved)
    # ... and 0 is what is computed for the others
    powers = Powers(np.full(bound.size, -np.inf), bound, np.zeros(bound.size), np.zeros(bound.size))
    _resolve(stack, total, middle - stack.offset, size, kept, powers)
    return invert(powers, start, centre, size)


def _bounds(stack: Stack, total: Array, deviation: Array, size: int, noise: float) -> Array:
    """Logarithms of bounds on the modulus of the sum's spectrum, at all frequencies."""
    result = np.zeros(size // 2 + 1)
    order = np.argsort(deviation)
    spread = np.log2(np.maximum(deviation[order], 1e-3))
    edges = np.flatnonzero(np.diff(np.floor(spread - spread[0]), prepend=-1.0))
    for some in np.split(order, edges[1:]):
        least = stack.mass[some].min(axis=0)
        spectrum = np.abs(real_fft(place_on_circle(least, stack.offset, size)))
        rest = float(total[some].max()) - float(least.sum())
        # the minimum's own transform and the sums of two positive vectors are rounded
        rest = max(rest, 0.0) + 2.0 * noise + 4.0 * sequential_sum(least.size)
        result += float(stack.count[some].sum()) * np.log(spectrum + rest)
    return result + roundings(64) * np.abs(result)


def _resolve(
    stack: Stack,
    total: Array,
    middle: NDArray[np.int64],
    size: int,
    kept: NDArray[np.intp],
    powers: Powers,
) -> None:
    """Fill in ``powers``, the sum's spectrum, at the frequencies ``kept``."""
    rows, width = stack.mass.shape
    # nanoseconds: a product of matrices with the waves it needs, or a transform of every row
    by_rows = width * kept.size * (0.8 + 60.0 / rows) > 25.0 * size
    if by_rows:
        levels = math.log2(size) + 1
        own = per_level() * levels + roundings(ELEMENTARY + 4)
        piece = max(LIMITS.at_once // size, 1)
        pieces = [(slice(first, first + piece), kept) for first in range(0, rows, piece)]
    else:
        own = sequential_sum(width, own=TURN + 4)
        piece = max(LIMITS.at_once // max(rows, width), 1)
        pieces = [
            (slice(None), kept[first : first + piece]) for first in range(0, kept.size, piece)
        ]
    noise = own * np.maximum(total, 1.0) + stack.mass_error
    powers.log_bound[kept] = 0.0
    powers.log_modulus[kept] = 0.0
    for part, some in pieces:
        count = stack.count[part]
        if by_rows:
            spectrum = real_fft(place_on_circle(stack.mass[part], 0, size))[:, kept]
            spectrum = disturbed(spectrum, lambda: per_level() * levels)
        else:
            spectrum = _waves(stack.mass, size, some)
        back = (np.outer(middle[part], some) % size) * (2.0 * math.pi / size)
        modulus = np.abs(spectrum)
        turn = disturbed(np.angle(spectrum) + back, lambda: roundings(32.0))
        turn = np.where(turn > math.pi, turn - 2.0 * math.pi, turn)
        powers.log_bound[some] += count @ np.log(modulus + noise[part, None])
        with np.errstate(divide="ignore"):
            modulus = disturbed(np.log(modulus), lambda: roundings(ELEMENTARY))
        zero = np.isneginf(modulus).any(axis=0)
        modulus = np.maximum(modulus, -1e3)
        powers.log_modulus[some] += np.where(zero, -np.inf, count @ modulus)
        powers.angle[some] += count @ turn
        # both angles, of which each is at most 2 pi, and their sum
        powers.moved[some] += (count * roundings(ELEMENTARY + 32 + stack.count.size)) @ (
            1.0 + np.abs(turn) - np.minimum(modulus, 0.0)
        )


def _waves(mass: Array, size: int, some: NDArray[np.intp]) -> NDArray[np.complex128]:
    """Spectra of rows at some frequencies, by a product of matrices."""
    rows, width = mass.shape
    # exact products of integers, reduced before they are rounded
    angle = (np.outer(np.arange(width), some) % size) * (-2.0 * math.pi / size)
    spectrum = np.empty((rows, some.size), dtype=np.complex128)
    cosine, sine = cos_sin(np.asarray(angle, np.float64))
    spectrum.real, spectrum.imag = mass @ cosine, mass @ sine
    return disturbed(spectrum, lambda: sequential_sum(width, own=TURN))
