"""Both ends of the privacy of releasing the best of several runs.

K runs of a mechanism are made, K random and independent of them; the one of the largest score is
released with its score, ties broken at random or for the first. With phi the probability generating
function of K, a run whose score is at its distribution's quantile u under P is released with the
density ``phi'(u)`` relative to one run.

* *Upper end.* Let ``F(y) = sup {P(A): Q(A) <= y}``. A set of scores of probability v under Q has at
  most F(v) under P, and phi' grows, so that the density under Q at that score is at least kappa
  times that under P, ``kappa = inf phi'(y) / phi'(F(y))``. Hence for ``alpha >= 1`` the divergence
  is at most ``E[K] h(alpha kappa)`` for the profile h of one run, and, with kappa_w the infimum
  over ``F(y) >= w``, at most ``phi'(0) h(alpha kappa_0) + int_0^1 phi''(w) h(alpha kappa_w) dw``.
  Another upper bound reveals K: the mean of the profiles of K-fold compositions.
* *Lower end.* Scores in the order of the likelihood ratio, or in the reverse order: the profile of
  the released rank, for a pair that the real one dominates.

Each holds for both orders of the neighbours, the larger of which counts.

Of K only phi matters: its derivative, and the probability ``phi(1) - phi(1 - s)`` that some run is
among the best that one run is with probability s, with relative accuracy down to s = 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.engine.evaluation import order_ends, symmetric
from shuffle_accountant.numerics.roots import bisected
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.count_laws import Binomial, NegativeBinomial, Poisson
from shuffle_accountant.rounds.base import certified_at, conditions_of, needed
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol

# Largest number of runs.
_MOST = 10**6
# Number of epsilons at which one run's profile is known, in each order.
_POINTS = 150
# Quantiles on each side at which curves are compared: few far out, and many in the bulk.
_SMALLEST, _BULK, _FEW, _MANY = 1e-18, 1e-3, 400, 4000
# What sums and products of this page may be off by, relative: a thousand times their round-off.
_ROUNDING = 1e-10
_CHOSEN = needed(
    "selection",
    "The number of runs is drawn from the law stated, independently of the data and of the runs, "
    "which all are made, and only the best one and its score are seen",
)
# Numbers of runs whose compositions are asked about: powers of this, and those in between go up.
_LADDER, _RUNGS = 1.5, 24


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


@dataclass(frozen=True, eq=False)
class _Profile:
    """One run's profile in one order: lower and upper ends at ascending alpha, shapes (m,)."""

    alpha: Array
    low: Array
    high: Array

    def above(self, alpha: Array) -> Array:
        """Upper bound at any alpha > 0: chords, as the profile is convex and no more than 1."""
        before = 1.0 - alpha * (1.0 - self.high[0]) / self.alpha[0]  # from 1 at alpha = 0
        found = np.interp(alpha, self.alpha, self.high)
        return np.asarray(np.where(alpha < self.alpha[0], before, found))

    def power_above(self, y: Array) -> Array:
        """Upper bound of ``F(y) = inf h(alpha) + alpha y``, at most 1."""
        each = self.high[:, None] + self.alpha[:, None] * y[None, :]
        return np.asarray(np.minimum(each.min(axis=0), 1.0))

    def power_below(self, y: Array) -> Array:
        """Lower bound of F, concave: over the corners of a polygon below the profile."""
        # at alpha = 0 a profile is 1
        a = np.append(0.0, self.alpha)
        low, high = np.append(1.0, self.low), np.append(1.0, self.high)
        # between two points it is above the lines through the points before and after them
        rise = (low[1:-2] - high[:-3]) / (a[1:-2] - a[:-3])
        fall = (high[3:] - low[2:-1]) / (a[3:] - a[2:-1])
        run = a[2:-1] - a[1:-2]
        gap, steep = low[2:-1] - fall * run - low[1:-2], rise - fall
        place = np.divide(gap, steep, out=np.zeros_like(gap), where=steep != 0.0)
        inside = (place > 0.0) & (place < run)
        # where those do not meet, and at both ends: no less than at the next point, and never
        # less than 1 - alpha
        corners = np.concatenate([a, (a[1:-2] + place)[inside], a[1:-2][~inside], a[[1, -2, -1]]])
        met = (low[1:-2] + rise * place)[inside]
        heights = np.concatenate([low, met, low[2:-1][~inside], [0.0, low[-1], 0.0]])
        heights = np.maximum(heights, 1.0 - corners)
        each = heights[:, None] + corners[:, None] * y[None, :]
        return np.asarray(np.clip(each.min(axis=0), y, 1.0))


@dataclass(frozen=True, eq=False)
class Selection:
    """The privacy of the best of several runs of a protocol.

    Attributes:
        protocol: one run.
        runs: the law of the number of runs.
    """

    protocol: Protocol
    runs: Runs

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of epsilon at delta: from what ranking by likelihood loses to an upper end.

        Args:
            delta: in (0, 1).
        """
        delta = validate.open_unit(delta=delta)
        # where profiles need no more epsilons
        profiles = _profiles(self.protocol, 1e-5 * delta / max(expected(self.runs), 1.0))
        _, upper = _crossing(partial(self._above, profiles), delta)
        lower, _ = _crossing(partial(self._below, profiles), delta)
        return self._bracket(lower, self._composed(upper, delta))

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of delta at epsilon.

        Args:
            epsilon: nats, finite, >= 0.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        profiles = _profiles(self.protocol, 1e-12)
        upper = self._above(profiles, epsilon)
        upper = min(upper, self._all_runs(epsilon, upper, defaultdict(dict)), 1.0)
        return self._bracket(self._below(profiles, epsilon), upper)

    def __repr__(self) -> str:
        return f"selection({self.protocol!r:.200}, runs={self.runs!r})"

    def _bracket(self, lower: float, upper: float) -> Bracket:
        lower, upper = in_order(lower, upper)
        return Bracket(
            lower=lower,
            upper=upper,
            ledger=ErrorLedger(discretisation=max(upper - lower, 0.0), method="sum"),
            reduction="selection",
            adjacency=self.protocol.adjacency,
            conditions=partial(
                conditions_of, tuple(one for one, _ in self.protocol.in_order), *_CHOSEN
            ),
        )

    def _above(self, profiles: tuple[_Profile, ...], epsilon: float) -> float:
        """Upper end of delta, in the worse order."""
        return max(self._one_order(profile, epsilon) for profile in profiles)

    def _one_order(self, profile: _Profile, epsilon: float) -> float:
        whole, part = self._ratios(profile)
        value = profile.above(math.exp(epsilon) * part)
        layered = float(whole[0] * value[0]) + float(np.diff(whole) @ value[:-1])
        return layered * (1.0 + _ROUNDING) + 1e-300

    @lru_cache(maxsize=8)  # noqa: B019 - as long as the selection itself
    def _ratios(self, profile: _Profile) -> tuple[Array, Array]:
        """``phi'(w)`` and lower bounds of kappa_w, for places w from 0 to 1."""
        y, s = _quantiles()
        power = profile.power_above(y) * (1.0 + _ROUNDING)
        # in a cell of y: phi' at its lower end, over phi' of the power at its upper end
        low = slope(self.runs, s[:-1])
        high = slope(self.runs, np.maximum(1.0 - power[1:], 0.0))
        ratio = np.divide(low, high, out=np.ones_like(low), where=high > 0.0)
        ratio = np.minimum(ratio, 1.0) * (1.0 - _ROUNDING)
        # kappa_w: over the cells whose power reaches w
        least = np.minimum.accumulate(ratio[::-1])[::-1]
        first = np.searchsorted(np.minimum(power[1:], 1.0), y, side="left")
        return slope(self.runs, s), least[np.minimum(first, least.size - 1)]

    def _below(self, profiles: tuple[_Profile, ...], epsilon: float) -> float:
        """Lower end of delta: the larger of both orders and both rankings."""
        alpha = math.exp(epsilon)
        y, _ = _quantiles()
        best = 0.0
        for profile in profiles:
            power = profile.power_below(y)
            for places in ((power, y), (1.0 - power[::-1], 1.0 - y[::-1])):
                one, other = (some_run(self.runs, x) for x in places)
                for p, q in ((one, other), (other, one)):
                    value = float(np.sum(np.maximum(np.diff(p) - alpha * np.diff(q), 0.0)))
                    best = max(best, value + max(float(p[0]) - alpha * float(q[0]), 0.0))
        return max(best * (1.0 - 1e-6) - 1e-14, 0.0)

    def _composed(self, upper: float, delta: float) -> float:
        """The upper end, or that of revealing the number of runs if it is smaller."""
        laws: dict[int, dict[Hashable, Any]] = defaultdict(dict)
        if self._all_runs(upper, delta, laws) > delta:
            return upper
        low, high = 0.0, upper
        for _ in range(12):
            middle = 0.5 * (low + high)
            more = self._all_runs(middle, delta, laws) > delta
            low, high = (middle, high) if more else (low, middle)
        return high

    def _all_runs(
        self, epsilon: float, enough: float, laws: Mapping[int, dict[Hashable, Any]]
    ) -> float:
        """Upper end of the mean, over the number of runs, of their compositions' delta.

        It stops where it is above ``enough``: many runs come first, which have the larger deltas.
        Laws of each number of runs are kept for the next epsilon.
        """
        rungs = sorted({0, *(math.floor(_LADDER**k) for k in range(_RUNGS))})
        if isinstance(self.runs, Fixed):
            rungs = [0, self.runs.runs]
        more = chances(self.runs, np.asarray(rungs, np.float64))
        total = float(more[-1])
        for place in range(len(rungs) - 1, 0, -1):
            if total > enough:
                break
            share = float(more[place - 1] - more[place]) + 1e-15
            if share < 1e-14:  # counted as if nothing were hidden
                total += share
                continue
            rounds = [(one, number * rungs[place]) for one, number in self.protocol.in_order]
            found, _ = certified_at(rounds, 1e-2, epsilon=epsilon, laws=laws[rungs[place]])
            total += share * found.upper
        return min(total * (1.0 + _ROUNDING), 1.0)


def selection(protocol: Rounds, *, runs: Runs) -> Selection:
    """The privacy of the best of several runs, whatever the score: a bracket for any delta.

    Tuning hyperparameters is such a selection: each run trains with parameters drawn at random, the
    model with the best score is kept. Runs with different parameters count as one mechanism whose
    pair bounds each of them.

    Args:
        protocol: one run: a round, a `Protocol`, or a list of pairs (round, count).
        runs: law of the number of runs, drawn before and independently of them: `Geometric`,
            `Poisson`, `Binomial`, `NegativeBinomial` (given at least one run), or `Fixed`.

    Returns:
        What answers ``epsilon(delta=)`` and ``delta(epsilon=)``. Lower ends are attained by a score
        that is the likelihood ratio; upper ends hold for every score.
    """
    if not isinstance(runs, Runs):
        raise TypeError(
            "runs must be Geometric, Poisson, Binomial, NegativeBinomial or Fixed, got "
            f"{validate.shown(runs)} of type {type(runs).__name__}"
        )
    if expected(runs) > 1e6 or not expected(runs) > 0.0:
        raise ValueError(f"runs must have a mean in (0, 1e6], got {runs!r}")
    whole = as_protocol(protocol, name="protocol")
    if not len(whole):
        raise ValueError("protocol must have a round at least, got none")
    return Selection(whole, runs)


@lru_cache(maxsize=16)
def _profiles(protocol: Protocol, least: float) -> tuple[_Profile, ...]:
    """One run's profile, in one order or in both, up to where it is no more than ``least``."""
    rounds = protocol.in_order
    parts = tuple((one.reduced(), count) for one, count in rounds)
    end = 1e-6
    near: dict[Hashable, Any] = {}
    while certified_at(rounds, 1e-1, epsilon=end, laws=near)[0].upper > least and end < 700.0:
        end *= 1.5
    epsilons = end * np.linspace(0.0, 1.0, _POINTS)
    alpha, ends = np.exp(epsilons[1:]), []
    for swapped in (False,) if symmetric(parts) else (False, True):
        laws: dict[Hashable, Any] = {}
        # the smallest delta first: its law serves larger ones
        found = [order_ends(parts, x, swapped=swapped, laws=laws) for x in epsilons[::-1].tolist()]
        ends.append(np.asarray(found[::-1]).T)
    profiles = []
    for forth, back in zip(ends, ends[::-1], strict=True):
        # H_(1/alpha)(P‖Q) = 1 - 1/alpha + H_alpha(Q‖P) / alpha
        mirrored = -np.expm1(-epsilons[:0:-1]) + back[:, :0:-1] / alpha[::-1]
        low, high = np.concatenate([mirrored, forth], axis=1)
        profiles.append(_Profile(np.concatenate([1.0 / alpha[::-1], [1.0], alpha]), low, high))
    return tuple(profiles)


def _quantiles() -> tuple[Array, Array]:
    """Places y from 0 to 1, and ``1 - y``, close together near both ends."""
    far = np.geomspace(_SMALLEST, _BULK, _FEW)[:-1]
    small = np.concatenate([far, np.geomspace(_BULK, 0.5, _MANY)])
    y = np.concatenate([[0.0], small, 1.0 - small[-2::-1], [1.0]])
    return y, np.concatenate([[1.0], 1.0 - small, small[-2::-1], [0.0]])


def _crossing(delta_at: Callable[[float], float], delta: float) -> tuple[float, float]:
    """Ends, a billionth apart, of the epsilon at which a falling delta reaches a value."""

    def above(epsilon: float) -> bool:
        return delta_at(epsilon) > delta

    return bisected(above, (0.0, 1.0), 1e-9, most=700.0) if above(0.0) else (0.0, 0.0)
