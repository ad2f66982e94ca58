"""Distributions of the number of runs of which the best is released.

Only the probability generating function phi matters: of its derivative, and of the probability
``phi(1) - phi(1 - s)`` that some run is among the best that one run is with probability s. Both are
given by s, with relative accuracy down to s = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

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


@singledispatch
def slope(runs: Runs, s: Array) -> Array:
    """``phi'(1 - s)``, for s in [0, 1]."""
    raise TypeError(f"runs must be a distribution of the number of runs, got {runs!r:.80}")


@slope.register
def _(runs: Geometric, s: Array) -> Array:
    p = 1.0 / runs.mean
    return np.asarray(p / (p + (1.0 - p) * s) ** 2)


@slope.register
def _(runs: Fixed, s: Array) -> Array:
    return np.asarray(runs.runs * (1.0 - s) ** (runs.runs - 1))


@slope.register
def _(runs: Poisson, s: Array) -> Array:
    return np.asarray(runs.mean * np.exp(-runs.mean * s))


@slope.register
def _(runs: Binomial, s: Array) -> Array:
    return np.asarray(runs.expectation * (1.0 - runs.probability * s) ** (runs.trials - 1))


@slope.register
def _(runs: NegativeBinomial, s: Array) -> Array:
    g, size = runs.probability, runs.size
    whole = -np.expm1(size * np.log(g))  # 1 - g^size
    return np.asarray(size * (1.0 - g) / g / whole * (1.0 + (1.0 - g) * s / g) ** (-size - 1.0))


@singledispatch
def some_run(runs: Runs, s: Array) -> Array:
    """``phi(1) - phi(1 - s)``: the probability that a run is among those of probability s."""
    raise TypeError(f"runs must be a distribution of the number of runs, got {runs!r:.80}")


@some_run.register
def _(runs: Geometric, s: Array) -> Array:
    p = 1.0 / runs.mean
    return np.asarray(s / (p + (1.0 - p) * s))


@some_run.register
def _(runs: Fixed, s: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(runs.runs * np.log1p(-s)))


@some_run.register
def _(runs: Poisson, s: Array) -> Array:
    return np.asarray(-np.expm1(-runs.mean * s))


@some_run.register
def _(runs: Binomial, s: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(runs.trials * np.log1p(-runs.probability * s)))


@some_run.register
def _(runs: NegativeBinomial, s: Array) -> Array:
    g, size = runs.probability, runs.size
    whole = -np.expm1(size * np.log(g))
    return np.asarray(-np.expm1(-size * np.log1p((1.0 - g) * s / g)) / whole)


def expected(runs: Runs) -> float:
    """Expected number of runs."""
    return float(slope(runs, np.zeros(1))[0])


def chances(runs: Runs, counts: Array) -> Array:
    """Probability of more than each of these numbers of runs."""
    from scipy import stats

    if isinstance(runs, Fixed):
        return np.asarray(np.where(counts < runs.runs, 1.0, 0.0))
    if isinstance(runs, Geometric):
        return np.asarray((1.0 - 1.0 / runs.mean) ** counts)
    if isinstance(runs, Poisson):
        return np.asarray(stats.poisson.sf(counts, runs.mean))
    if isinstance(runs, Binomial):
        return np.asarray(stats.binom.sf(counts, runs.trials, runs.probability))
    whole = -np.expm1(runs.size * np.log(runs.probability))
    return np.asarray(stats.nbinom.sf(counts, runs.size, runs.probability) / whole)
