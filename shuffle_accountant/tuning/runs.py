"""Distributions of the number of runs of which the best is released.

Only the probability generating function phi matters: of its derivative, and of the probability
``phi(1) - phi(1 - s)`` that some run is among the best that one run is with probability s. Both are
given by s, with relative accuracy down to s = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.count_laws import Binomial, NegativeBinomial, Poisson

__all__ = ["Fixed", "Geometric", "Runs", "chances", "expected", "slope", "some_run"]

_MOST = 10**6


@dataclass(frozen=True, kw_only=True)
class Geometric:
    """The geometric distribution on 1, 2, …: runs go on with a fixed probability.

    Args:
        mean: expected number of runs, in [1, 1e6].
    """

    mean: float

    def __post_init__(self) -> None:
        mean = validate.positive(mean=self.mean)
        if not 1.0 <= mean <= _MOST:
            raise ValueError(f"mean must be a number in [1, {_MOST:,}], got {mean!r}")
        object.__setattr__(self, "mean", mean)


@dataclass(frozen=True)
class Fixed:
    """A number of runs that is fixed beforehand.

    Args:
        runs: in 1 … 1e6.
    """

    runs: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", validate.integer(minimum=1, maximum=_MOST, runs=self.runs))


Runs = Geometric | Fixed | Poisson | Binomial | NegativeBinomial
"""Laws of the number of runs; the negative binomial is that of 1, 2, …, given at least one run."""


def slope(runs: Runs, s: Array) -> Array:
    """``phi'(1 - s)``, for s in [0, 1]."""
    match runs:
        case Geometric():
            p = 1.0 / runs.mean
            found = p / (p + (1.0 - p) * s) ** 2
        case Fixed():
            found = runs.runs * (1.0 - s) ** (runs.runs - 1)
        case Poisson():
            found = runs.mean * np.exp(-runs.mean * s)
        case Binomial():
            found = runs.expectation * (1.0 - runs.probability * s) ** (runs.trials - 1)
        case NegativeBinomial():
            g, size = runs.probability, runs.size
            found = size * (1.0 - g) / g / _whole(runs) * (1.0 + (1.0 - g) * s / g) ** (-size - 1.0)
    return np.asarray(found)


@np.errstate(divide="ignore")
def some_run(runs: Runs, s: Array) -> Array:
    """``phi(1) - phi(1 - s)``: the probability that a run is among those of probability s."""
    match runs:
        case Geometric():
            p = 1.0 / runs.mean
            found = s / (p + (1.0 - p) * s)
        case Fixed():
            found = -np.expm1(runs.runs * np.log1p(-s))
        case Poisson():
            found = -np.expm1(-runs.mean * s)
        case Binomial():
            found = -np.expm1(runs.trials * np.log1p(-runs.probability * s))
        case NegativeBinomial():
            g = runs.probability
            found = -np.expm1(-runs.size * np.log1p((1.0 - g) * s / g)) / _whole(runs)
    return np.asarray(found)


def _whole(runs: NegativeBinomial) -> float:
    """Probability ``1 - g^size`` of a run at least."""
    return float(-np.expm1(runs.size * np.log(runs.probability)))


def expected(runs: Runs) -> float:
    """Expected number of runs."""
    return float(slope(runs, np.zeros(1))[0])


def chances(runs: Runs, counts: Array) -> Array:
    """Probability of more than each of these numbers of runs."""
    from scipy import stats

    match runs:
        case Fixed():
            found = np.where(counts < runs.runs, 1.0, 0.0)
        case Geometric():
            found = (1.0 - 1.0 / runs.mean) ** counts
        case Poisson():
            found = stats.poisson.sf(counts, runs.mean)
        case Binomial():
            found = stats.binom.sf(counts, runs.trials, runs.probability)
        case NegativeBinomial():
            found = stats.nbinom.sf(counts, runs.size, runs.probability) / _whole(runs)
    return np.asarray(found)
