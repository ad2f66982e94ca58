"""Scores of runs on two neighbouring datasets against the certified claim of a protocol.

The claim: whatever the score, its rate x of being at least a threshold without the target and its
rate y with it satisfy ``y <= F(x)``, F being one less the certified trade-off curve. For counts TP
of n1 runs and FP of n0 runs the p-value of one threshold is ``sup_x g(Pr[Bin(n1, F(x)) >= TP]
Pr[Bin(n0, x) <= FP])`` with ``g(c) = c (1 - log c)``, the law of the product of two independent
p-values. Thresholds are chosen on a pilot, which is thrown away; with m of them the p-value is at
most m times the smallest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.rounds.base import certified_at
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol, trade_off_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Part of the runs that thresholds are chosen on, thresholds that are chosen, and those tried.
_PILOT, _THRESHOLDS, _TRIED = 0.25, 3, 24
# Fewest runs of each dataset.
_FEWEST = 20
# False positive rates at which the claim is evaluated, on each side of 1/2, and the smallest.
_RATES, _SMALLEST = 120, 1e-9
# Epsilons of the bets of a sequential audit, and bets relative to what may be lost.
_BETS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_STAKES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)

_p_value = attrgetter("p_value")

Claim = Callable[[Array], Array]
"""Upper bound of the true positive rate at false positive rates."""


@dataclass(frozen=True)
class Threshold:
    """A threshold of the scores, and how many runs were at or above it.

    Attributes:
        value: the threshold.
        with_target: number TP of runs with the target at or above it.
        without_target: number FP of runs without it.
        p_value: of this threshold alone.
    """

    value: float
    with_target: int
    without_target: int
    p_value: float


@dataclass(frozen=True, eq=False)
class Audit:
    """What runs on two neighbouring datasets say of a protocol's claim.

    Attributes:
        p_value: an upper bound of the probability, if the claim is true, of counts as far from it.
        confidence: one less the level at which the claim is rejected.
        thresholds: those chosen on the pilot.
        runs: number of runs with and without the target that were counted, without the pilot.
        protocol: whose claim is audited.
    """

    p_value: float
    confidence: float
    thresholds: tuple[Threshold, ...]
    runs: tuple[int, int]
    protocol: Protocol = field(repr=False)

    @property
    def consistent(self) -> bool:
        """Whether the claim is not rejected at the confidence; no proof that it is true."""
        return self.p_value > 1.0 - self.confidence

    def epsilon_lower(self, *, delta: float) -> float:
        """The largest epsilon at delta that the counts rule out, nats; 0 if they rule out none.

        It holds with the stated confidence, for a mechanism of which nothing is known.

        Args:
            delta: in [0, 1).
        """
        delta = validate.closed_unit(delta=delta)
        level = 1.0 - self.confidence
        if self._at(0.0, delta) > level:
            return 0.0
        low, high = 0.0, 1.0
        while self._at(high, delta) <= level and high < 700.0:
            low, high = high, 2.0 * high
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._at(middle, delta) <= level else (low, middle)
        return low

    def _at(self, epsilon: float, delta: float) -> float:
        """P-value of the claim (epsilon, delta)."""
        claim = pure_claim(epsilon, delta)
        return _joint(
            p_of(claim, one.with_target, one.without_target, self.runs) for one in self.thresholds
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the claim's curve and the audited points with 95 % intervals (Clopper-Pearson).

        Args:
            ax: where to draw; a new figure if left out.
        """
        from matplotlib import pyplot
        from scipy.stats import beta

        if ax is None:
            ax = pyplot.subplots()[1]
        rates = rates_of()
        ax.plot(rates, power_curve(self.protocol)(rates), label="claim: no score is above")

        def interval(count: int, of: int) -> tuple[float, list[list[float]]]:
            low = beta.ppf(0.025, count, of - count + 1) if count else 0.0
            high = beta.ppf(0.975, count + 1, of - count) if count < of else 1.0
            return count / of, [[count / of - low], [high - count / of]]

        for one in self.thresholds:
            x, across = interval(one.without_target, self.runs[1])
            y, along = interval(one.with_target, self.runs[0])
            ax.errorbar([x], [y], along, across, fmt="o")
        ax.set_xlabel("rate at or above the threshold without the target")
        ax.set_ylabel("with the target")
        ax.legend()
        return ax

    def __str__(self) -> str:
        found = "is consistent with" if self.consistent else "REJECTS"
        lines = [
            f"the audit {found} the claim at confidence {self.confidence:g}: "
            f"p = {self.p_value:.3g}",
            *(
                f"  score >= {one.value:.6g}: {one.with_target} of {self.runs[0]} runs with the "
                f"target, {one.without_target} of {self.runs[1]} without"
                for one in self.thresholds
            ),
        ]
        if self.consistent:
            lines.append("  that a claim is not rejected is no proof of it")
        return "\n".join(lines)


def runs(
    scores_with: ArrayLike,
    scores_without: ArrayLike,
    *,
    protocol: Rounds,
    confidence: float = 0.95,
) -> Audit:
    """Compare scores of runs with and without the target with a protocol's certified claim.

    Args:
        scores_with: one score for each independent run on a dataset with the target, in the order
            of the runs; larger means more likely with it. At least 20.
        scores_without: the same for a neighbouring dataset.
        protocol: a round, a `Protocol`, or a list of pairs (round, count): what is claimed to run.
        confidence: one less the level at which the claim is rejected, in (0, 1).

    Returns:
        The audit. The first quarter of the runs chooses thresholds and is not counted.
    """
    whole = as_protocol(protocol, name="protocol")
    confidence = validate.open_unit(confidence=confidence)
    p = _scores(scores_with, "scores_with")
    q = _scores(scores_without, "scores_without")
    claim = power_curve(whole)
    pilots, rest = zip(*(np.split(one, [int(_PILOT * one.size)]) for one in (p, q)), strict=True)
    values = np.unique(np.quantile(np.concatenate(pilots), np.linspace(0.0, 1.0, _TRIED)))
    tried = [_at_threshold(claim, value, *pilots) for value in values.tolist()]
    # the few that speak most against the claim on the pilot's scores
    ranked = sorted(tried, key=_p_value)
    found = tuple(_at_threshold(claim, one.value, *rest) for one in ranked[:_THRESHOLDS])
    counted = (rest[0].size, rest[1].size)
    return Audit(_joint(map(_p_value, found)), confidence, found, counted, whole)


def _scores(values: ArrayLike, name: str) -> Array:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size < _FEWEST or np.any(np.isnan(scores)):
        raise ValueError(
            f"{name} must be at least {_FEWEST} numbers, none of them NaN, got "
            f"{validate.shown(values)}"
        )
    return scores


def _at_threshold(claim: Claim, value: float, p: Array, q: Array) -> Threshold:
    tp, fp = (int(np.count_nonzero(one >= value)) for one in (p, q))
    return Threshold(value, tp, fp, p_of(claim, tp, fp, (p.size, q.size)))


def _joint(p_values: Iterable[float]) -> float:
    """The p-value of several thresholds together."""
    every = list(p_values)
    return min(1.0, len(every) * min(every))


def rates_of() -> Array:
    """False positive rates from 0 to 1, close together near both ends."""
    small = np.geomspace(_SMALLEST, 0.5, _RATES)
    return np.concatenate([[0.0], small, 1.0 - small[-2::-1], [1.0]])


@lru_cache(maxsize=16)
def power_curve(protocol: Protocol) -> Claim:
    """The claim of a protocol: linear between rates, rounded up."""
    rates = rates_of()
    lower, _, _ = trade_off_of(protocol, rates, 1e-3)
    power = np.minimum(1.0 - lower + 1e-12, 1.0)

    def claim(x: Array) -> Array:
        # a concave curve is above its chords: the next rate's value is above it
        place = np.minimum(np.searchsorted(rates, x, side="left"), rates.size - 1)
        return np.asarray(power[place])

    return claim


def pure_claim(epsilon: float, delta: float) -> Claim:
    """The claim of a mechanism of which only (epsilon, delta) is known."""

    def claim(x: Array) -> Array:
        rising = math.exp(min(epsilon, 700.0)) * x + delta
        falling = 1.0 - math.exp(-epsilon) * np.maximum(1.0 - delta - x, 0.0)
        return np.asarray(np.minimum(np.minimum(rising, falling), 1.0))

    return claim


def p_of(claim: Claim, tp: int, fp: int, sizes: tuple[int, int]) -> float:
    """P-value of one threshold: a supremum over the unknown rate x, cell by cell.

    In a cell the claim is taken at its right end and the count without the target at its left.
    """
    from scipy.stats import binom

    rates = np.union1d(rates_of(), np.linspace(0.0, 1.0, 200))
    above = binom.sf(tp - 1, sizes[0], claim(rates[1:]))
    below = binom.cdf(fp, sizes[1], rates[:-1])
    product = float(np.max(above * below))
    return min(product * (1.0 - math.log(product)), 1.0) if product > 0.0 else 0.0


class Sequential:
    """An audit one pair of runs at a time, which may stop at any time.

    For a slope ``a = e^epsilon`` the claim bounds ``y - a x`` by its delta at epsilon, so that a
    bet on the two runs' outcomes wins nothing on average if the claim is true. The mean wealth of
    several bets is a nonnegative supermartingale from 1: it ever reaches ``1 / level`` with at most
    the level's probability (Ville's inequality).

    Args:
        protocol: whose claim is audited.
        threshold: of the scores, fixed beforehand: on a pilot, say.
        confidence: one less the level at which the claim is rejected, in (0, 1).
    """

    def __init__(self, protocol: Rounds, *, threshold: float, confidence: float = 0.95) -> None:
        self.protocol = as_protocol(protocol, name="protocol")
        self.threshold = validate.real(threshold=threshold)
        self.confidence = validate.open_unit(confidence=confidence)
        laws: dict[Hashable, Any] = {}
        bets = [
            (math.exp(x), certified_at(self.protocol.distinct, 1e-2, epsilon=x, laws=laws)[0].upper)
            for x in _BETS
        ]
        self._slope, above = np.asarray(bets).T[:, :, None]
        self._bound = np.minimum(above, 1.0)
        # a bet may lose a + h at most
        self._stake = np.asarray(_STAKES)[None, :] / (self._slope + self._bound)
        self._wealth: NDArray[np.float64] = np.ones(self._stake.shape)
        self._largest = 1.0
        self.pairs = 0

    @property
    def p_value(self) -> float:
        """Valid at all times at once: one over the largest wealth so far."""
        return min(1.0, 1.0 / self._largest)

    @property
    def consistent(self) -> bool:
        """Whether the claim has not been rejected so far."""
        return self.p_value > 1.0 - self.confidence

    def step(self, score_with: float, score_without: float) -> float:
        """Record one run with the target and one without it; returns the p-value so far."""
        won = float(validate.real(score_with=score_with) >= self.threshold)
        lost = float(validate.real(score_without=score_without) >= self.threshold)
        gain = won - self._slope * lost - self._bound
        self._wealth = self._wealth * np.maximum(1.0 + self._stake * gain, 0.0)
        self._largest = max(self._largest, float(self._wealth.mean()) * (1.0 - 1e-9))
        self.pairs += 1
        return self.p_value

    def __repr__(self) -> str:
        return f"Sequential(threshold={self.threshold!r}, pairs={self.pairs}, p={self.p_value:.3g})"
