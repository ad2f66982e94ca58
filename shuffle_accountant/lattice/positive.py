"""Sums of independent grid losses by direct convolution, for laws that no tilt can resolve.

A transform knows a law up to a rounding error relative to its largest value, and a tilt moves the
largest value to where the question is asked; but only where the law's logarithm is concave. Where
rare large losses dominate (a subsampled round at a tiny delta: far fewer clones than expected
outweigh all ordinary rounds) there is a gap that no tilt reaches. Products and sums of
positive numbers keep relative accuracy everywhere. Direct convolution is quadratic in the number
of grid points, which is small here: in that regime a grid that resolves epsilon itself will do.

Masses are kept as multiples of a number so small that products of two far below all doubles are
not rounded to subnormal numbers, or to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Array,
    Bound,
    pairwise_sum,
    product,
    roundings,
)

# Masses at most one, and sums of products of two, are doubles when multiplied by it, and by its
# square.
SCALE = 2.0**500
# Bound on what underflow takes off or adds to all scaled masses together: each of fewer than 2^60
# products and quotients is off by half of 2^-1074, and weighs no more than one.
LOST = 2.0**-1010


@dataclass(frozen=True, eq=False)
class PositiveSum:
    """The law of a sum of losses on a window of the grid, in one direction.

    Attributes:
        offset: grid index of the first mass.
        scaled: P-masses times `SCALE`, shape (m,), all with a relative error of at most
            ``relative``, and an absolute one of at most `LOST`, together.
        scaled_infinite: P-mass at +inf, times `SCALE`.
        relative: bound on the relative error of every number here.
    """

    offset: int
    scaled: Array
    scaled_infinite: float
    relative: float

    @property
    def mass(self) -> Array:
        """P-masses, rounded once more where they are subnormal."""
        return self.scaled / SCALE

    @property
    def infinite(self) -> float:
        """P-mass of infinite losses, likewise."""
        return self.scaled_infinite / SCALE


def positive_sum(
    parts: Sequence[tuple[PldGrid, int]], side: Bound, first: int, last: int
) -> PositiveSum:
    """Law of the sum of all losses, each taken as often as its count says.

    Mass above the window goes to +inf (PESSIMISTIC) or down to its last point (OPTIMISTIC); mass
    below it goes up to its first point (PESSIMISTIC) or is dropped (OPTIMISTIC).

    Args:
        parts: pairs (loss, count >= 1), with one spacing.
        side: direction of the losses, and of the result.
        first: first grid index of the window.
        last: last one.
    """
    total: PositiveSum | None = None
    for grid, count in parts:
        one = PositiveSum(grid.offset, grid.mass * SCALE, grid.infinite * SCALE, 0.0)
        base = _clip(one, side, first, last)
        while True:
            if count & 1:
                total = base if total is None else _add(total, base, side, first, last)
            count >>= 1
            if count == 0:
                break
            base = _add(base, base, side, first, last)
    assert total is not None
    return total


def _add(a: PositiveSum, b: PositiveSum, side: Bound, first: int, last: int) -> PositiveSum:
    # no term of a pairwise sum goes through more additions than this
    mass_a, mass_b = (rounded(float(x.scaled.sum()), min(x.scaled.size - 1, 64)) for x in (a, b))
    infinite_a, infinite_b = a.scaled_infinite, b.scaled_infinite
    terms = convolution_roundings(a.scaled.size, b.scaled.size)
    infinite = (infinite_a * (mass_b + infinite_b) + mass_a * infinite_b) / SCALE
    law = PositiveSum(
        offset=a.offset + b.offset,
        scaled=rounded(convolved(a.scaled, b.scaled) / SCALE, terms),
        scaled_infinite=rounded(infinite, 2),
        # each output is a sum of positive products, each total a pairwise sum
        relative=product(a.relative, b.relative, roundings(terms), pairwise_sum()),
    )
    return _clip(law, side, first, last)


def convolved(a: Array, b: Array) -> Array:
    """The convolution of two sequences, shapes (m,) and (n,) to (m + n - 1,).

    It is made in pieces: they keep rounding small and let Ctrl-C through.
    """
    if a.size < b.size:
        a, b = b, a
    piece = _piece(a.size)
    result = np.zeros(a.size + b.size - 1)
    for first in range(0, b.size, piece):
        some = b[first : first + piece]
        result[first : first + a.size + some.size - 1] += np.convolve(a, some)
    return result


def convolution_roundings(m: int, n: int) -> float:
    """Bound on the number of roundings of a product in `convolved` of m and n numbers.

    It is rounded once itself, and goes through the additions of its own piece, in whatever order,
    and through those of pieces.
    """
    piece, terms = _piece(max(m, n)), min(m, n)
    return 1.0 + min(piece, terms) + math.ceil(terms / piece)


def _piece(size: int) -> int:
    """Length of the shorter law's pieces in `convolved`, where the longer has ``size`` numbers."""
    return max(LIMITS.at_once // size, 1)


def _clip(law: PositiveSum, side: Bound, first: int, last: int) -> PositiveSum:
    """Bring the law into the window."""
    size = law.scaled.size
    cut_low = min(max(first - law.offset, 0), size)
    stop = max(min(last + 1 - law.offset, size), 0)
    if cut_low == 0 and stop == size:
        return law
    below, above = float(law.scaled[:cut_low].sum()), float(law.scaled[stop:].sum())
    mass = law.scaled[cut_low:stop].copy() if cut_low < stop else np.zeros(1)
    infinite = law.scaled_infinite
    if side is Bound.PESSIMISTIC:
        mass[0] += below
        infinite += above
    else:
        mass[-1] += above
    return PositiveSum(min(max(law.offset, first), last), mass, infinite, law.relative)
