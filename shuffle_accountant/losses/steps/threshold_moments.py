"""Bounds of many rounds of sampled reports with a threshold, by moments of one round.

In every round some number m of others hold the value, which may differ from round to round. Let
``K(t)`` be the largest over m of ``log E_P[e^(t L); L <= l]``, and tau the largest probability of
losses above l. Losses above l in any round cost their probability; for the rest, ``(1 - e^-x)_+ <=
C e^(t x)`` with ``C = t^t / (1 + t)^(1 + t)``, so that T rounds have

    delta <= T tau + C e^(T K(t) - t epsilon)        for every t > 0 and l.

Numbers of others above those that are scanned are a post-processing of the last law without a
threshold, which lowers such moments (joint convexity) and keeps the cost of what was left out. The
composition of the worst profile of one round, `ThresholdPair`, is below this for few rounds only:
there m may differ from alpha to alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.steps.thresholds import LOST, ThresholdPair
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import LIMITS, Array, lowered, raised, roundings

# Values of t and of the limit l, nats, that are tried.
_ORDERS = np.geomspace(0.3, 300.0, 80)
_LIMITS = np.geomspace(0.02, 30.0, 60)
# Most numbers in a table of tails; with larger ones there are no moments, so as not to take long.
_MOST = 4_000_000
# Errors in roundings: of tails, relative, with those of a moment's sum, which are _SUM; and of a
# bound made of moments.
_MASS, _SUM, _ERROR = 2.0**20, 2.0**14, 2.0**26


@dataclass(frozen=True, eq=False)
class ThresholdMoments:
    """Log moments of one round, for each number of others; shape (orders, limits, others).

    Attributes:
        gained: of the order (P, Q), with the target's report against without.
        lost: of the order (Q, P), which has no losses above the limits; shape (orders, others).
        beyond: probability of losses above the limits in the order (P, Q); shape (limits, others).
    """

    gained: Array
    lost: Array
    beyond: Array

    def epsilon(self, delta: float, rounds: int, *, replaced: bool) -> Array:
        """Bounds of epsilon at delta, for each number of others in every round; inf if none."""
        found = []
        for log_moment, beyond in self._sides(replaced):
            left = rounded(delta, _ERROR) * (1.0 - roundings(_ERROR)) - rounds * beyond
            with np.errstate(divide="ignore", invalid="ignore"):
                cost = (rounds * log_moment + _constant() - np.log(left)) / _ORDERS[:, None, None]
            cost = np.where(left > 0.0, cost, np.inf)
            found.append(np.min(cost, axis=(0, 1)))
        worst = rounded(np.maximum(np.max(found, axis=0), 0.0), _ERROR)
        return np.asarray(raised(worst, roundings(_ERROR)))

    def delta(self, epsilon: float, rounds: int, *, replaced: bool) -> Array:
        """Bounds of delta at epsilon, for each number of others in every round."""
        found = []
        for log_moment, beyond in self._sides(replaced):
            power = rounds * log_moment + _constant() - _ORDERS[:, None, None] * epsilon
            cost = np.exp(np.minimum(power, 1.0)) + rounds * beyond
            found.append(np.min(cost, axis=(0, 1)))
        worst = rounded(np.max(found, axis=0), _ERROR)
        return np.asarray(np.minimum(raised(worst, roundings(_ERROR)), 1.0))

    def _sides(self, replaced: bool) -> list[tuple[Array, Array]]:
        """Log moments and probabilities beyond the limits that have to be bounded."""
        if replaced:  # one count gains a report, another one loses it
            return [(self.gained + self.lost[:, None, :], self.beyond)]
        nothing = np.zeros((1, self.lost.shape[1]))
        return [(self.gained, self.beyond), (self.lost[:, None, :], nothing)]

    def worst(self) -> ThresholdMoments:
        """The moments of others whose number may differ from round to round."""
        parts = self.gained, self.lost, self.beyond
        return ThresholdMoments(*(np.max(one, axis=-1, keepdims=True) for one in parts))


@lru_cache(maxsize=2)  # up to 120 MB each
def threshold_moments(probability: float, threshold: int) -> ThresholdMoments | None:
    """Moments of one round of a `ThresholdPair` for all numbers of others that are scanned.

    The last ones are for all larger numbers. None for thresholds of several hundred.
    """
    pair = ThresholdPair(probability, threshold)
    if pair.table.size > _MOST:
        return None
    parts = [_moments(pair, threshold, pair.scanned), _moments(pair, 0, pair.scanned[-1:])]
    return ThresholdMoments(*(np.concatenate(one, axis=-1) for one in zip(*parts, strict=True)))


def _moments(
    pair: ThresholdPair, threshold: int, others: NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """The three fields of `ThresholdMoments` with a threshold, 0 for none."""
    table = pair.table
    counts = np.arange(table.shape[1] - 1)
    # neighbouring tails may be off in opposite ways
    ways = 1.0 - 2.0 * (np.arange(table.shape[1]) % 2)
    tail_p, tail_q = (rounded(table[row], (_MASS - _SUM) * ways) for row in (others + 1, others))
    off = roundings(_MASS)
    p, q = (
        np.maximum(raised(tail[:, :-1], off) - lowered(tail[:, 1:], off), 0.0)
        for tail in (tail_p, tail_q)
    )
    m = others[:, None].astype(np.float64)
    with np.errstate(divide="ignore"):
        loss = np.log((m + 1.0) * (1.0 - pair.probability) / np.maximum(m + 1.0 - counts, 0.0))
    kept = (counts >= threshold) & (counts <= m)
    p, q, loss = np.where(kept, p, 0.0), np.where(kept, q, 0.0), np.where(kept, loss, 0.0)
    hidden_p, hidden_q = (1.0 - table[row, threshold] for row in (others + 1, others))
    if threshold:
        hidden_p, hidden_q = hidden_p + off, hidden_q + off
    # the first count beyond each limit, of losses that grow with the count
    ratio = np.exp(-_LIMITS) * (1.0 - pair.probability)
    above = np.floor((m + 1.0) * (1.0 - ratio) * (1.0 + 1e-12)) + 1.0
    above = np.clip(above, threshold, np.minimum(m + 1.0, counts.size))
    first: NDArray[np.int64] = above.astype(np.int64)
    beyond = raised(np.take_along_axis(tail_p, first, axis=1).T, off) + LOST
    # suppressed counts have a ratio of at most 1 in this order, and of 1/(1 - p) in the other
    least = np.maximum(np.stack([hidden_p, hidden_q]) - 2.0 * off, 1e-300)
    down = np.minimum(np.log(np.maximum(hidden_p, 1e-300) / least[1]), 0.0)
    up = np.minimum(np.log(np.maximum(hidden_q, 1e-300) / least[0]), -np.log1p(-pair.probability))
    gained = np.empty((_ORDERS.size, _LIMITS.size, others.size))
    reverse = np.empty((_ORDERS.size, others.size))
    for place, order in enumerate(_ORDERS):
        power = order * loss
        term = p * np.exp(np.minimum(power, LIMITS.largest_log))
        grown = np.cumsum(np.where((power > LIMITS.largest_log) & (p > 0.0), np.inf, term), axis=1)
        grown = np.concatenate([np.zeros((others.size, 1)), grown], axis=1)
        hidden = hidden_p * np.exp(order * down)
        with np.errstate(divide="ignore"):
            whole = np.take_along_axis(grown, first, axis=1) + hidden[:, None]
            gained[place] = np.log(rounded(whole, _SUM)).T
        with np.errstate(over="ignore"):  # to infinity, which bounds nothing
            fallen = np.sum(q * np.exp(-power), axis=1)
            reverse[place] = np.log(rounded(fallen + hidden_q * np.exp(order * up), _SUM))
    return gained, reverse, beyond


def _constant() -> Array:
    """Logarithm of ``t^t / (1 + t)^(1 + t)``, shape (orders, 1, 1)."""
    t = _ORDERS[:, None, None]
    return np.asarray(t * np.log(t) - (1.0 + t) * np.log1p(t))
