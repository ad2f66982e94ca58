"""Poisson probabilities around their mean, each with a relative error of a few units."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.binomial import deviance, stirling_error
from shuffle_accountant.numerics.rounding import Array


class Side(enum.Enum):
    """Direction of a tail: the counts above or below a threshold."""

    ABOVE = "above"
    BELOW = "below"


def log_pmf(counts: Array, mean: float | Array) -> Array:
    """Log-probabilities of counts under Poisson laws, in the saddle-point form (C. Loader, 2000).

    The form with a log-gamma loses nine digits at a mean of a million; here the exponent is made of
    terms of one sign.

    Args:
        counts: integers >= 0, as floats.
        mean: means >= 0; broadcasts with ``counts``.

    Returns:
        Natural logarithms, -inf for a positive count of mean 0.
    """
    counts, mean = np.broadcast_arrays(counts, np.asarray(mean, dtype=np.float64))
    inside = (counts > 0) & (mean > 0)
    some = np.where(inside, counts, 1.0)
    with np.errstate(over="ignore"):  # of a mean so small that its positive counts do not count
        body = -stirling_error(some) - deviance(some, np.where(inside, mean, 1.0))
    body -= 0.5 * np.log(2.0 * math.pi * some)
    return np.asarray(np.where(inside, body, np.where(counts == 0, -mean, -np.inf)))


@dataclass(frozen=True, slots=True)
class Window:
    """The probabilities of a Poisson distribution on a window that holds nearly all of it.

    Attributes:
        mean: mean of the distribution, > 0.
        first: the count of the first entry.
        masses: probabilities of the counts ``first``, ``first + 1``, …
        above: ``P(X > first + i)``, each summed from its small end.
        below: ``P(X < first + i)``, likewise.
    """

    mean: float
    first: int
    masses: Array
    above: Array
    below: Array

    def tail(self, thresholds: NDArray[np.int64], side: Side) -> Array:
        """``P(X > m)`` or ``P(X < m)`` for each threshold m, shape of ``thresholds``."""
        place = thresholds - self.first
        inside = np.clip(place, 0, self.masses.size - 1)
        if side is Side.ABOVE:
            tails = np.where(place < 0, 1.0, self.above[inside])
            return np.where(place >= self.masses.size, 0.0, tails)
        tails = np.where(place < 0, 0.0, self.below[inside])
        return np.where(place >= self.masses.size, 1.0, tails)


def window(mean: float) -> Window:
    """The window of a Poisson distribution up to ``15 sqrt(mean) + 75`` from its mean.

    By Bernstein's inequality less than e^-112 lies outside on each side, so that even a trillion
    bins leave less than 1e-36.

    Args:
        mean: > 0; the window has about 30 sqrt(mean) entries.
    """
    reach = 15.0 * math.sqrt(mean) + 75.0
    first = max(math.floor(mean - reach), 0)
    counts = np.arange(first, math.ceil(mean + reach) + 1, dtype=np.float64)
    masses = np.exp(log_pmf(counts, mean))
    above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)
    below = np.append(0.0, np.cumsum(masses[:-1]))
    return Window(mean, first, masses, above, below)
