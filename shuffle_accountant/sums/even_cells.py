"""Sums of independent values on points of one spacing: direct convolution of positive masses.

Far faster than gathering all pairs in cells, with the same relative accuracy everywhere, for laws
that cells of one width resolve: sums of enough values to be nearly normal.

A value between two points is moved to one of them at random, so that its mean is kept. The points T
are then above the true values L in convex order, and so are sums of them. The means E[L | T] are
below L, because conditional means are, whatever T was made of: they are kept as moments, masses
times E[L - T | T], which add up like masses do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.positive import convolution_roundings, convolved
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import Array, product, sequential_sum


@dataclass(frozen=True, eq=False)
class EvenCells:
    """A law on the points ``(first + i) * spacing``.

    Attributes:
        first: index of the first point.
        spacing: distance of points.
        mass: probabilities, shape (m,).
        moment: mass times the mean of what the true value is above the point, shape (m,); None if
            it is not needed.
        slack: bound on the relative error of masses.
        doubt: bound on the error of moments, relative to the mass.
    """

    first: int
    spacing: float
    mass: Array
    moment: Array | None
    slack: float
    doubt: float

    @property
    def points(self) -> Array:
        """The lattice points that carry the masses, shape (m,)."""
        return self.spacing * np.arange(self.first, self.first + self.mass.size, dtype=np.float64)

    @property
    def means(self) -> Array:
        """Mean of the true values at each point; at points without mass the point."""
        if self.moment is None:
            return self.points
        return self.points + self._shifts

    @property
    def means_error(self) -> float:
        """Bound on the errors of the means."""
        return (1.0 + 4.0 * self.slack) * (self.doubt + 2.0 * self.slack * self.largest_shift)

    @property
    def largest_shift(self) -> float:
        """No mean is further from its point."""
        return 0.0 if self.moment is None else float(np.max(np.abs(self._shifts)))

    @property
    def _shifts(self) -> Array:
        assert self.moment is not None
        return np.divide(
            self.moment, self.mass, out=np.zeros_like(self.mass), where=self.mass > 0.0
        )

    def between(self, start: int, stop: int) -> EvenCells:
        """Only the points from the start-th to before the stop-th."""
        moment = None if self.moment is None else self.moment[start:stop]
        return replace(self, first=self.first + start, mass=self.mass[start:stop], moment=moment)

    def spaced(self, spacing: float) -> EvenCells:
        """The law on points of another spacing."""
        found = _moved(self.points, self.mass, self.moment, spacing, self.slack)
        slack, shift = found.slack, self.largest_shift + spacing
        return replace(found, doubt=(1.0 + 4.0 * slack) * (self.doubt + 2.0 * slack * shift))

    def plus(self, other: EvenCells) -> EvenCells:
        """The law of the sum with another value, of the same spacing."""
        terms = convolution_roundings(self.mass.size, other.mass.size)
        moment = None
        if self.moment is not None and other.moment is not None:
            if self is other:
                moment = 2.0 * convolved(self.moment, self.mass)
            else:
                moment = convolved(self.moment, other.mass)
                moment += convolved(self.mass, other.moment)
            # against the masses, so that means err as well
            moment = rounded(moment, -terms)
        # sums of positive products; moments are no larger than the largest shift times such
        slack = product(self.slack, other.slack, sequential_sum(terms, own=4))
        doubt = self.doubt + other.doubt
        doubt += 2.0 * slack * (self.largest_shift + other.largest_shift)
        return EvenCells(
            first=self.first + other.first,
            spacing=self.spacing,
            mass=rounded(convolved(self.mass, other.mass), terms),
            moment=moment,
            slack=slack,
            doubt=(1.0 + 4.0 * slack) * doubt,
        )


def even_cells(value: Array, mass: Array, spacing: float, *, means: bool) -> EvenCells:
    """The law of some values on points of that spacing.

    A computed share of a value between two points is the exact one of a value that is off by a few
    roundings of its own.

    Args:
        value: shape (m,).
        mass: their probabilities, shape (m,).
        spacing: distance of points, > 0.
        means: whether the means of the values at each point will be asked for.
    """
    found = _moved(value, mass, np.zeros_like(mass) if means else None, spacing, 0.0)
    return replace(found, doubt=4.0 * found.slack * spacing)


def _moved(
    value: Array, mass: Array, moment: Array | None, spacing: float, slack: float
) -> EvenCells:
    """Each value at the points below and above it, with its mean kept; ``doubt`` is not known."""
    scaled = value / spacing
    below = np.floor(scaled)
    share = scaled - below
    first = int(below[0])
    index = (below - below[0]).astype(np.intp)
    size = int(index[-1]) + 2

    def total(low: Array, high: Array) -> Array:
        return np.asarray(
            np.bincount(index, weights=low, minlength=size)
            + np.bincount(index + 1, weights=high, minlength=size)
        )

    rest = 1.0 - share
    most = float(np.bincount(index).max())
    if moment is not None:
        low = rest * (moment + (spacing * share) * mass)
        moment = rounded(total(low, share * (moment - (spacing * rest) * mass)), -2.0 * most)
    return EvenCells(
        first=first,
        spacing=spacing,
        mass=rounded(total(rest * mass, share * mass), 2.0 * most),
        moment=moment,
        slack=product(slack, sequential_sum(2.0 * most, own=12)),
        doubt=0.0,
    )
