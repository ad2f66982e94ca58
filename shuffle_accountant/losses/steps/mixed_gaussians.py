"""Profiles of steps of DP-SGD with Gaussian noise that are no Poisson sampling of one record.

Masses of the normal law are taken on their small side, in logarithms where they may be below the
range of doubles. Thresholds of y are found in floating point: a threshold that is off moves the
difference of two masses by no more than the mass of the first law between both thresholds, which
is charged, with the round-off of every mass, to both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, log_ndtr

from shuffle_accountant.losses.settings import MIXED_GAUSSIANS
from shuffle_accountant.losses.steps.profiled import ProfiledPair
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.hockey_stick import difference_of, unsampled
from shuffle_accountant.numerics.rounding import Array, roundings


def _ends(gain: Array, cost: Array, score: Array) -> tuple[Array, Array]:
    """Bounds of the differences of masses that were cut at thresholds of these normal scores."""
    count = MIXED_GAUSSIANS.mass * (1.0 + score * score)
    found = rounded(gain, count) - rounded(cost, -count)
    slack = roundings(count) * (gain + cost)
    return np.clip(found - slack, 0.0, 1.0), np.clip(found + slack + 1e-300, 0.0, 1.0)


def _gaussian(distance: float, log_alpha: Array) -> tuple[Array, Array]:
    """Bounds of the profile of two normal laws of variance 1, at alphas >= 1."""
    score = log_alpha / distance - 0.5 * distance
    gain = np.exp(log_ndtr(-score))
    cost = np.exp(log_alpha + log_ndtr(-score - distance))
    return _ends(gain, cost, np.abs(score) + distance)


@dataclass(frozen=True)
class FixedSizePair(ProfiledPair):
    """Profile of one batch of a fixed size, drawn without replacement; zero-out.

    Given all other places, the last one is the target's with probability q = size/population, else
    it is another record's. Above 1: ``q N(1) + (1 - q) N(-1)`` against ``q N(0) + (1 - q) N(-1)``,
    whose record at -1 is the worst; and ``q N(0) + (1 - q) R`` against ``q N(1) + (1 - q) R``,
    at most q times the profile of N(0) against N(1) at 1 + (alpha - 1)/q.

    Attributes:
        sigma: noise multiplier.
        rate: q, in (0, 1].
        attained: whether the second is that of R = N(-1), which some data attain.
    """

    sigma: float
    rate: float
    attained: bool = False

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""
        far = math.sqrt(math.expm1(min(1.0 / self.sigma**2, 50.0)))
        return min(self.rate * far, 1.0 / self.sigma + 1.0)

    def forward(self, losses: Array) -> tuple[Array, Array]:
        """With the record against without it."""
        s, q = self.sigma, self.rate
        # of u = e^(y/sigma^2): q u^2 - alpha q c u - (alpha - 1)(1 - q) > 0, c = e^(1/(2 sigma^2))
        half = losses + 0.5 / s**2 - math.log(2.0)
        with np.errstate(divide="ignore"):
            other = math.log1p(-q) if q < 1.0 else -math.inf
            rest = np.log(np.expm1(np.minimum(losses, 700.0))) + other - math.log(q)
        root = half + np.log1p(np.sqrt(1.0 + np.exp(np.minimum(rest - 2.0 * half, 1400.0))))
        far = np.logaddexp(half, 0.5 * np.logaddexp(2.0 * half, rest))
        root = np.where(rest - 2.0 * half > 600.0, far, root)
        at = s * root
        gain = q * np.exp(log_ndtr(1.0 / s - at))
        cost = q * np.exp(losses + log_ndtr(-at))
        if q < 1.0:
            grown = np.where(losses < 700.0, np.expm1(np.minimum(losses, 700.0)), math.inf)
            with np.errstate(divide="ignore"):
                other = np.log(grown) + math.log1p(-q) + log_ndtr(-at - 1.0 / s)
            cost = cost + np.where(losses > 0.0, np.exp(other), 0.0)
        return _ends(gain, cost, np.abs(at) + 1.0 / s)

    def backward(self, losses: Array) -> tuple[Array, Array]:
        """Without the record against with it."""
        if self.attained:
            return self._attained(losses)
        q = self.rate
        inner = unsampled(losses, q)
        low, high = (rounded(q * end, 4.0) for end in _gaussian(1.0 / self.sigma, inner))
        return low * (1.0 - roundings(4)), high * (1.0 + roundings(4))

    def _attained(self, losses: Array) -> tuple[Array, Array]:
        """``q N(0) + (1 - q) N(-1)`` against ``q N(1) + (1 - q) N(-1)``: between two thresholds.

        Of u: -alpha q u^2 + q c u - (alpha - 1)(1 - q) > 0. Any interval gives a lower bound.
        """
        s, q = self.sigma, self.rate
        asked = np.minimum(losses, 700.0)
        alpha, growth = np.exp(asked), np.expm1(asked)
        c = math.exp(min(0.5 / s**2, 600.0))
        with np.errstate(over="ignore"):  # far out the interval is empty
            twice = 4.0 * q * (1.0 - q) * alpha * growth
        inside = difference_of(np.square(q * c), twice, 0.0).value
        square = np.sqrt(np.maximum(inside, 0.0))
        high = s * np.log((q * c + square) / (2.0 * alpha * q))
        with np.errstate(divide="ignore"):
            # the product of both thresholds of u, in logarithms
            low = s * (np.log(growth) + np.log((1.0 - q) / (alpha * q))) - high

        def mass(centre: float, err: float) -> Array:
            """The mass between both thresholds, off by ``err`` roundings of the masses beyond."""
            each = [
                rounded(np.exp(log_ndtr(score)), sign * err)
                for sign, score in (
                    *((1.0, centre - low), (-1.0, centre - high)),
                    *((1.0, high - centre), (-1.0, low - centre)),
                )
            ]
            right = low + high > 2.0 * centre
            return np.asarray(np.where(right, each[0] - each[1], each[2] - each[3]))

        gain = q * mass(0.0, MIXED_GAUSSIANS.mass)
        cost = q * alpha * mass(1.0 / s, -MIXED_GAUSSIANS.mass)
        cost = cost + (1.0 - q) * growth * mass(-1.0 / s, -MIXED_GAUSSIANS.mass)
        near = np.where(np.isfinite(low), np.abs(low), 0.0) + np.abs(high) + 1.0 / s
        found = _ends(gain, cost, near)
        # differences of masses: their absolute error is that of the larger ones
        lost = roundings(MIXED_GAUSSIANS.mass) * (q + q * alpha + growth)
        some = (inside > 0.0) & (losses < 700.0)
        lowest = difference_of(found[0], lost, 0.0).value
        return (
            np.where(some, np.maximum(lowest, 0.0), 0.0),
            np.where(some, np.minimum(found[1] + lost, 1.0), 0.0),
        )


@dataclass(frozen=True)
class MixturePair(ProfiledPair):
    """Profile of a mixture of normal laws to the right of 0 against the normal law at 0; zero-out.

    ``sum over j of p_j N(c_j, sigma^2)`` against ``N(0, sigma^2)``: the ratio grows with y.

    Attributes:
        sigma: deviation of the noise.
        places: c_j, ascending, >= 0, at least one of them positive.
        logs: of the p_j, whose sum is 1.
    """

    sigma: float
    places: tuple[float, ...]
    logs: tuple[float, ...]

    @classmethod
    def of(cls, sigma: float, places: tuple[float, ...], chances: tuple[float, ...]) -> MixturePair:
        """The mixture with these chances p_j, > 0."""
        return cls(sigma, places, tuple(np.log(np.asarray(chances)).tolist()))

    @classmethod
    def of_records(cls, sigma: float, rate: float, records: int) -> MixturePair:
        """A Poisson-sampled step in which a user owns several records, each of norm 1.

        Args:
            sigma: noise multiplier, for one record.
            rate: q, in (0, 1), at which every record is drawn.
            records: number m of records, >= 1; how many are drawn is binomial.
        """
        count = np.arange(records + 1, dtype=np.float64)
        choices = gammaln(records + 1.0) - gammaln(count + 1.0) - gammaln(records - count + 1.0)
        logs = choices + count * math.log(rate) + (records - count) * math.log1p(-rate)
        return cls(sigma, tuple(count.tolist()), tuple(logs.tolist()))

    @property
    def _law(self) -> tuple[Array, Array]:
        """Logarithms of the chances, and the places in deviations."""
        return np.asarray(self.logs), np.asarray(self.places) / self.sigma

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""
        weights, shifts = self._law
        mean = float(np.exp(weights) @ shifts) * self.sigma
        far = math.sqrt(math.expm1(min(1.0 / self.sigma**2, 50.0)))
        return min(max(mean * far, mean / self.sigma), float(shifts[-1]) + 1.0)

    @property
    def largest_reversed(self) -> float:
        """The loss where y is far to the left: minus the logarithm of the chance of 0, if any."""
        weights, shifts = self._law
        chance = rounded(-float(weights[0]), 6.0)
        return chance * (1.0 + roundings(8)) if shifts[0] == 0.0 else math.inf

    def forward(self, losses: Array) -> tuple[Array, Array]:
        """With the records against without them."""
        weights, shifts = self._law
        at = self._threshold(losses)
        gain = np.exp(_log_sum(weights + log_ndtr(shifts - at[:, None])))
        cost = np.exp(losses + log_ndtr(-at))
        return _ends(gain, cost, np.abs(at) + shifts[-1])

    def backward(self, losses: Array) -> tuple[Array, Array]:
        """Without the records against with them."""
        weights, shifts = self._law
        beyond = losses >= self.largest_reversed
        at = self._threshold(-np.where(beyond, 0.0, losses))
        gain = np.exp(log_ndtr(at))
        cost = np.exp(losses + _log_sum(weights + log_ndtr(at[:, None] - shifts)))
        low, high = _ends(gain, cost, np.abs(at) + shifts[-1])
        return np.where(beyond, 0.0, low), np.where(beyond, 0.0, high)

    def _threshold(self, logs: Array) -> Array:
        """Normal score y/sigma at which the logarithm of the ratio has these values."""
        weights, steps = self._law
        terms = weights - 0.5 * steps**2
        # the last term alone is the value asked for at this score, so the ratio is there before
        top = (np.maximum(logs, 0.0) - terms[-1]) / max(steps[-1], 1e-300) + 1.0
        low, high = np.full(logs.shape, -1e4), np.maximum(top, 1.0)
        for _ in range(MIXED_GAUSSIANS.halvings):
            middle = 0.5 * (low + high)
            both = np.concatenate([high, middle])
            each = terms + both[:, None] * steps
            found = _log_sum(each)
            # the logarithm is convex: its tangent in a place to the right leads to one there
            slope = np.exp(each - found[:, None]) @ steps
            excess = found - np.concatenate([logs, logs])
            tangent = both - excess / np.maximum(slope, 1e-300)
            above = excess[logs.size :] > 0.0
            low = np.where(above, low, middle)
            nearer = np.where(above, np.minimum(middle, tangent[logs.size :]), high)
            nearer = np.maximum(np.minimum(nearer, tangent[: logs.size]), low)
            gain, high = high - nearer, np.minimum(nearer, high)
            if np.all(gain <= 1e-15 * (1.0 + np.abs(high))):
                break
        return np.asarray(high)


def _log_sum(terms: Array) -> Array:
    """Logarithms of the sums of exponentials of rows."""
    top = terms.max(axis=1)
    return np.asarray(top + np.log(np.sum(np.exp(terms - top[:, None]), axis=1)))
