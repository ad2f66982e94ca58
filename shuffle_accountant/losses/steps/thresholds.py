"""Sampled reports of which rare values are suppressed: profiles, and moments for many rounds.

m others hold the value; each of m + 1 users reports with probability p, and counts below K are
dropped. P is the law of the count with the target, Q without, and a count c >= K has the ratio
``P/Q = (m + 1)(1 - p)/(m + 1 - c)``, which grows with c; what is suppressed has a ratio below 1. So
the hockey-stick divergences are differences of tails of binomial laws. Where no user holds more
than is scanned, one further report is a post-processing: the law without a threshold at the last m
bounds all larger ones.

Tables are made by a recursion of positive terms, so that each tail has a relative error that grows
with the number of additions only; what is below the range of doubles is charged as
`THRESHOLDS.lost`.

*Many rounds*, by moments of one round. In every round m may be another number. Let ``K(t)`` be the
largest over m of ``log E_P[e^(t L); L <= l]``, and tau the largest probability of losses above l.
Losses above l in any round cost their probability; for the rest, ``(1 - e^-x)_+ <= C e^(t x)`` with
``C = t^t / (1 + t)^(1 + t)``, so that T rounds have

    delta <= T tau + C e^(T K(t) - t epsilon)        for every t > 0 and l.

Numbers of others above those that are scanned are a post-processing of the last law without a
threshold, which lowers such moments (joint convexity) and keeps the cost of what was left out. The
composition of the worst profile of one round, `ThresholdPair`, is below this for few rounds only:
there m may differ from alpha to alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.settings import THRESHOLDS
from shuffle_accountant.losses.steps.profiled import ProfiledPair
from shuffle_accountant.numerics.budget import budget, disturbed, rounded
from shuffle_accountant.numerics.hockey_stick import difference_of
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    lowered,
    raised,
    roundings,
)

# Values of t and of the limit l, nats, that are tried.
_ORDERS = np.geomspace(0.3, 300.0, 80)
_LIMITS = np.geomspace(0.02, 30.0, 60)


@dataclass(frozen=True)
class ThresholdPair(ProfiledPair):
    """Profile of a count that is released if it is at least a threshold.

    Attributes:
        probability: p, with which each user reports, in (0, 1).
        threshold: K, the smallest count that is released, >= 1.
        others: number m of others who hold the value; None for the worst of all numbers.
    """

    probability: float
    threshold: int
    others: int | None = None

    @property
    def deviation(self) -> float:
        """Rough standard deviation of the loss, nats."""
        spread = math.sqrt(self.probability * float(self.forward(np.zeros(1))[1][0]))
        return max(THRESHOLDS.rare * spread, 1e-9)

    @property
    def limit(self) -> float:
        """Probability of a count that cannot be without the target: p^K at m = K - 1."""
        others = self.threshold - 1 if self.others is None else self.others
        return math.pow(self.probability, others + 1)

    @property
    def largest_reversed(self) -> float:
        """``-log(1 - p)``, that of no report."""
        return rounded(-math.log1p(-self.probability), 6.0) * (1.0 + roundings(8))

    @property
    def scanned(self) -> NDArray[np.int64]:
        """The numbers of others that are looked at one by one."""
        last = _last(self.probability, self.threshold)
        if self.others is not None:
            return np.array([self.others])
        return np.arange(self.threshold - 1, last + 1)

    @property
    def table(self) -> Array:
        """``P(Bin(m, p) >= c)`` from m = 0 and c = 0 on, with relative accuracy."""
        return _tails(self.probability, self.threshold)

    def forward(self, losses: Array) -> tuple[Array, Array]:
        """With the target's report against without."""
        return self._worst(losses, swapped=False)

    def backward(self, losses: Array) -> tuple[Array, Array]:
        """Without the target's report against with it."""
        beyond = losses >= self.largest_reversed
        low, high = self._worst(np.where(beyond, 0.0, losses), swapped=True)
        return np.where(beyond, 0.0, low), np.where(beyond, 0.0, high)

    def each(self, loss: float) -> Array:
        """Upper bounds of the larger order at one loss, for each number that is scanned."""
        orders = (False, True) if loss < self.largest_reversed else (False,)
        found = [
            self._bounds(self.scanned, self.threshold, np.array([loss]), swapped)[1][:, 0]
            for swapped in orders
        ]
        return np.asarray(np.max(found, axis=0))

    def rough(self, delta: float, rounds: int, *, replaced: bool, scale: float) -> Array:
        """Approximations of epsilon at delta of many rounds, for each number that is scanned.

        If a report is replaced, another count loses what this one gains. The scale is a rough
        epsilon, nats, > 0.
        """
        rows = LIMITS.at_once // (2 * THRESHOLDS.rough)
        parts = np.array_split(self.scanned, math.ceil(self.scanned.size / rows))
        found = [self._rough(part, delta, rounds, replaced, scale) for part in parts]
        return np.concatenate(found)

    def _rough(
        self, others: NDArray[np.int64], delta: float, rounds: int, replaced: bool, scale: float
    ) -> Array:
        half = THRESHOLDS.rough  # cells of losses of one sign
        table, width = self.table, THRESHOLDS.rough_top * scale / half
        counts = np.arange(table.shape[1] - 1)
        m = others[:, None].astype(np.float64)
        with np.errstate(divide="ignore"):
            loss = np.log((m + 1.0) * (1.0 - self.probability) / np.maximum(m + 1.0 - counts, 0.0))
            p, q = (np.maximum(-np.diff(table[row]), 0.0) for row in (others + 1, others))
            shown = counts >= self.threshold
            hidden = [1.0 - table[row, self.threshold] for row in (others + 1, others)]
            p, q = p * shown, q * shown
            p[:, 0], q[:, 0] = (np.maximum(one, 1e-300) for one in hidden)
            loss[:, 0] = np.log(p[:, 0] / q[:, 0])

        def spectrum(mass: Array, loss: Array) -> NDArray[np.complex128]:
            """Transform of masses on a lattice of losses; larger losses are left out."""
            place = np.floor(loss / width)
            far = ~(np.abs(place) < half)
            place = np.where(far, 0.0, place)
            mass = np.where(far, 0.0, mass)
            share = np.where(far, 0.0, loss) / width - place
            cells = np.zeros((others.size, 2 * half))
            row = np.broadcast_to(np.arange(others.size)[:, None], place.shape)
            at = place.astype(np.int64)
            np.add.at(cells, (row, at % (2 * half)), mass * (1.0 - share))
            np.add.at(cells, (row, (at + 1) % (2 * half)), mass * share)
            return np.fft.rfft(cells, axis=1)

        gained, costs = spectrum(p, loss), spectrum(q, -loss)
        asked = np.linspace(0.0, 0.9 * THRESHOLDS.rough_top * scale, half)
        at = width * np.fft.fftfreq(2 * half, 1.0 / (2 * half))
        order = np.argsort(at)
        best = np.zeros(others.size)
        for one in [gained * costs] if replaced else [gained, costs]:
            mass = np.maximum(np.fft.irfft(one**rounds, axis=1), 0.0)[:, order]
            rest = np.maximum(1.0 - np.real(one[:, 0]) ** rounds, 0.0)
            above = np.cumsum(mass[:, ::-1], axis=1)[:, ::-1]
            tilted = np.cumsum((mass * np.exp(-at[order]))[:, ::-1], axis=1)[:, ::-1]
            first = np.searchsorted(at[order], asked, side="right").clip(max=2 * half - 1)
            excess = above[:, first] - np.exp(asked) * tilted[:, first] + rest[:, None]
            best = np.maximum(best, asked[np.argmax(excess <= delta, axis=1)])
        return best

    def _worst(self, losses: Array, *, swapped: bool) -> tuple[Array, Array]:
        low, high = np.zeros(losses.size), np.zeros(losses.size)
        size = max(1 << 22, self.scanned.size) // self.scanned.size
        for start in range(0, losses.size, size):
            some = slice(start, start + size)
            found = self._bounds(self.scanned, self.threshold, losses[some], swapped)
            low[some], high[some] = found[0].max(axis=0), found[1].max(axis=0)
            if self.others is None:  # all larger numbers, by the last one without a threshold
                rest = self._bounds(self.scanned[-1:], 0, losses[some], swapped)
                high[some] = np.maximum(high[some], rest[1][0])
        return low, high

    def _bounds(
        self, others: NDArray[np.int64], threshold: int, losses: Array, swapped: bool
    ) -> tuple[Array, Array]:
        """Bounds of ``H_alpha(P‖Q)``, or of ``H_alpha(Q‖P)``, shape (others, losses).

        (P, Q): the counts whose ratio is above alpha. (Q, P): what is suppressed, and the smallest
        counts; ``Q(c <= s) - alpha P(c <= s) = alpha P(c > s) - Q(c > s) - (alpha - 1)``.
        """
        table, row, off = self.table, others[:, None], _off(others)
        users, last = row.astype(np.float64) + 1.0, table.shape[1] - 1.0
        asked = np.minimum(losses, 700.0)
        count = _errors(table)
        log_ratio = np.log1p(-self.probability) + (losses if swapped else -losses)
        # a count just at the place may be taken or not; no place is beyond the largest count
        place = np.clip(np.ceil(_crossed(users, log_ratio) - off), threshold, last)
        p, q = (table[one, place.astype(np.int64)] for one in (row + 1, row))
        if swapped:
            gain, cost = np.exp(asked) * p, q + np.expm1(asked)
        else:
            gain, cost = p, np.exp(asked) * q
        found = difference_of(rounded(gain, count), rounded(cost, -count), roundings(count) + off)
        low, high = found.value - found.error, found.value + found.error
        return np.clip(low - THRESHOLDS.lost, 0.0, 1.0), np.clip(high + THRESHOLDS.lost, 0.0, 1.0)


def _last(probability: float, threshold: int) -> int:
    """The largest number of others that is scanned."""
    wanted = math.ceil(THRESHOLDS.reach * threshold / probability)
    return min(wanted, max(THRESHOLDS.rows, 4 * threshold))


@lru_cache(maxsize=4)
def _tails(probability: float, threshold: int) -> Array:
    """``P(Bin(m, p) >= c)``, shape (m, c), m = 0 … last + 1 and c = 0 … the number of counts."""
    rows = _last(probability, threshold) + 2
    # means are up to ``reach K + 2``: of counts above ``2 reach K + x`` there are less than e^-x
    counts = math.ceil(2.0 * THRESHOLDS.reach * threshold - math.log(THRESHOLDS.lost))
    counts = min(counts, rows + 1)
    tails = np.zeros((rows, counts + 1))
    mass = np.zeros(counts)
    mass[0] = 1.0
    for row in range(rows):
        tails[row, :-1] = np.cumsum(mass[::-1])[::-1]
        moved = mass * (1.0 - probability)
        moved[1:] += probability * mass[:-1]
        mass = moved
    tails[:, 0] = 1.0
    tails.setflags(write=False)
    return tails


def _errors(table: Array) -> float:
    """Roundings of a tail and of a product with alpha: three a row and one for each count."""
    return float(3 * table.shape[0] + table.shape[1] + 16)


def _noise(counts: int) -> float:
    """Roundings of a sum of moments, one term for each count."""
    # of exponents above -745, of ratios times an order in them, of exponentials, of their sum
    return (ELEMENTARY + 1) * 745.0 + 8.0 * float(_ORDERS[-1]) + 2.0 * ELEMENTARY + counts


def _crossed(users: Array, log_ratio: Array) -> Array:
    """Where the ratio of counts crosses alpha, ``users (1 - e^log_ratio)``; see `_off`."""
    return disturbed(users * -np.expm1(log_ratio), lambda: 120.0 * budget().roundoff * users)


def _off(others: NDArray[np.int64]) -> Array:
    """Error of the place where the ratio of counts crosses alpha, shape (others, 1).

    Events of counts from a place on, or below it, take the place this much smaller. They differ
    from the best event by at most one count, which is not below the place and whose ratio differs
    from alpha by a relative error of at most as much: so the same relative error of both tails is
    enough.
    """
    # log(1 - p) is above -37, so that its sum with a loss near its negative is off by 80 roundings
    return np.asarray((others[:, None] + 1.0) * roundings(128.0) + 1e-12)


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
        found, error = [], THRESHOLDS.bound_error
        for log_moment, beyond in self._sides(replaced):
            left = rounded(delta, error) * (1.0 - roundings(error)) - rounds * beyond
            with np.errstate(divide="ignore", invalid="ignore"):
                cost = (rounds * log_moment + _constant() - np.log(left)) / _ORDERS[:, None, None]
            cost = np.where(left > 0.0, cost, np.inf)
            found.append(np.min(cost, axis=(0, 1)))
        worst = rounded(np.maximum(np.max(found, axis=0), 0.0), error)
        return np.asarray(raised(worst, roundings(error)))

    def delta(self, epsilon: float, rounds: int, *, replaced: bool) -> Array:
        """Bounds of delta at epsilon, for each number of others in every round."""
        found, error = [], THRESHOLDS.bound_error
        for log_moment, beyond in self._sides(replaced):
            power = rounds * log_moment + _constant() - _ORDERS[:, None, None] * epsilon
            cost = np.exp(np.minimum(power, 1.0)) + rounds * beyond
            found.append(np.min(cost, axis=(0, 1)))
        worst = rounded(np.max(found, axis=0), error)
        return np.asarray(np.minimum(raised(worst, roundings(error)), 1.0))

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
    if pair.table.size > THRESHOLDS.most:
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
    noise = _noise(counts.size)
    tail_p, tail_q = (rounded(table[row], _errors(table) * ways) for row in (others + 1, others))
    off = roundings(_errors(table) + noise)
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
    beyond = raised(np.take_along_axis(tail_p, first, axis=1).T, off) + THRESHOLDS.lost
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
            gained[place] = np.log(rounded(whole, noise)).T
        with np.errstate(over="ignore"):  # to infinity, which bounds nothing
            fallen = np.sum(q * np.exp(-power), axis=1)
            reverse[place] = np.log(rounded(fallen + hidden_q * np.exp(order * up), noise))
    return gained, reverse, beyond


def _constant() -> Array:
    """Logarithm of ``t^t / (1 + t)^(1 + t)``, shape (orders, 1, 1)."""
    t = _ORDERS[:, None, None]
    return np.asarray(t * np.log(t) - (1.0 + t) * np.log1p(t))
