"""One target among decoys over a finite message space, seen through its likelihood ratios.

By the density lemma (see `shuffle_accountant.reductions.base`) everything depends on the ratios
``r0 = p0/q`` and ``r1 = p1/q`` of each message (called a letter) alone:

    H_alpha = E[ ((1/n) sum_i (r0(Y_i) - alpha r1(Y_i)))_+ ],   Y_i i.i.d. from q.

A letter that no decoy sends (q = 0) gives the target away: it adds ``(p0 - alpha p1)_+``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.hockey_stick import LARGEST_EXPONENT
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    SMALLEST,
    Array,
    Bound,
    log_ratio_above,
    lowered,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.lists import Histograms, every_histogram, histogram_count


@dataclass(frozen=True, eq=False)
class MessagePair:
    """Distributions of one message: the target's p0 (dataset X) and p1 (X'), the decoys' q.

    Compared and hashed by value. The masses may add up to less than one in p0 and p1 where the
    rest was moved to letters without decoys.

    Attributes:
        p0: shape (m,), >= 0.
        p1: shape (m,), >= 0.
        q: shape (m,), >= 0.
        eps0: local privacy parameter of the randomizer, nats, where no loss of the pair is larger:
            it decides where probabilities that were computed from it are too coarse to.
    """

    p0: Array
    p1: Array
    q: Array
    eps0: float = math.inf

    @cached_property
    def _key(self) -> bytes:
        return np.concatenate([self.p0, self.p1, self.q, [self.eps0]]).tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagePair) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def reversed(self) -> MessagePair:
        """The pair with the datasets exchanged."""
        return MessagePair(self.p1, self.p0, self.q, self.eps0)

    def letters(self, side: Bound, effort: Effort) -> MessagePair:
        """The pair itself: a finite message space is its own bound on either side."""
        return self

    @cached_property
    def decoyed(self) -> tuple[Array, Array, Array]:
        """``(r0, r1, q)`` of the letters that decoys send; equal ratios share a letter."""
        sent = self.q >= PROFILES.scarce
        q = self.q[sent]
        ratios = np.stack([self.p0[sent] / q, self.p1[sent] / q])
        unique, index = np.unique(ratios, axis=1, return_inverse=True)
        order = np.argsort(index.ravel(), kind="stable")
        starts = np.searchsorted(index.ravel()[order], np.arange(1, unique.shape[1]))
        mass = q[order]
        if unique.shape[1] < q.size:
            mass = np.array([math.fsum(group) for group in np.split(mass, starts)])
        return unique[0], unique[1], mass

    @cached_property
    def told_apart(self) -> MessagePair:
        """The messages that decoys send, those with equal p0 and p1 merged into one.

        For alpha = 1 alone the profile is the same: it depends on ``sum r0 - sum r1``.
        """
        sent = self.q >= PROFILES.scarce
        alike = sent & (self.p0 == self.p1)
        one = math.fsum(self.p0[alike].tolist()), math.fsum(self.q[alike].tolist())
        others = sent & ~alike
        p0, p1, q = (row[others] for row in (self.p0, self.p1, self.q))
        if alike.any():
            p0, p1, q = np.append(p0, one[0]), np.append(p1, one[0]), np.append(q, one[1])
        return MessagePair(p0, p1, q, self.eps0)

    @cached_property
    def scarce(self) -> tuple[Array, Array, Array]:
        """``(p0, p1, q)`` of the exposed letters, which decoys never or hardly ever send."""
        alone = self.q < PROFILES.scarce
        return self.p0[alone], self.p1[alone], self.q[alone]

    @cached_property
    def largest(self) -> float:
        """Upper bound of the pair's finite losses, nats: the largest log-ratio of one letter."""
        own = float(np.max(log_ratio_above(self.p0, self.p1), initial=0.0))
        return min(self.eps0, own + roundings(64) * (1.0 + own))

    @cached_property
    def plain(self) -> bool:
        """Whether decoys send letters never or often enough, and no ratio is subnormal.

        What is proved of relative errors holds for these alone.
        """
        masses = np.concatenate([self.p0, self.p1])
        small = bool(np.any((masses > 0.0) & (masses < PROFILES.plain)))
        return not small and not self.scarce[2].any()

    def settled(self, side: Bound, users: int) -> MessagePair:
        """The pair with plain letters, its profile on that side of this pair's; see `plain`.

        A profile grows with every p0 and falls with every p1, so what is too small is replaced by
        0 or by something larger. Letters that decoys all but never send are sent by some decoy with
        a probability of at most ``lost = users sum(q)``; else it is as if decoys never sent them.
        An adversary to whom it is revealed which of both is the case learns no less, and in the
        first case at most everything: PESSIMISTIC adds ``lost``. Distributions that differ by
        ``lost`` have profiles that differ by at most ``(1 + alpha) lost``: OPTIMISTIC takes that
        off each such letter. Where nothing is left of any, the other letters' part is not above the
        truth but for a factor ``1 - lost``, which is 1 to all digits of a double.
        """
        if self.plain:
            return self
        upper = side is Bound.PESSIMISTIC
        p0, p1, q = self.p0.copy(), self.p1.copy(), self.q.copy()
        rare = (q > 0.0) & (q < PROFILES.scarce)
        lost = raised(users * float(q[rare].sum()), sequential_sum(float(q.size), own=4.0))
        q[rare] = 0.0
        if upper and lost > 0.0:
            p0, p1, q = (np.append(row, x) for row, x in ((p0, lost), (p1, 0.0), (q, 0.0)))
        elif lost > 0.0:
            p0[rare] = np.maximum(lowered(p0[rare] - lost, roundings(4)), 0.0)
            p1[rare] = raised(p1[rare] + lost, roundings(4))
        for row, grows in ((p0, upper), (p1, not upper)):
            row[(row > 0.0) & (row < PROFILES.plain)] = PROFILES.plain if grows else 0.0
        return MessagePair(p0, p1, q, self.eps0)

    def exposure_bounds(self, excess: Array) -> tuple[Array, Array]:
        """Bounds, below and above, of what exposed letters add at ``alpha = 1 + excess``.

        Exposed letters are those that decoys never send; both bounds have the shape of ``excess``.
        """
        p0, p1, _ = self.scarce
        if p0.size == 0:
            return np.zeros(excess.shape), np.zeros(excess.shape)
        low, high = (
            np.sum(np.maximum(gains_above(p0, p1, excess[:, None], side), 0.0), axis=1)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        # any order of summation
        error = sequential_sum(float(p0.size), own=2.0)
        return lowered(low, error), raised(high, error)

    def kinks(self, users: int) -> Array:
        """The finite losses > 0 of a histogram of that many messages, nats; none if too many.

        The profile is a straight line in alpha between two of them.
        """
        size = self.decoyed[2].size
        if size == 0 or histogram_count(size, users, PROFILES.kinks) < users:
            return np.zeros(0)
        table = multisets(self, users)
        return log_ratio_above(
            *(np.append(a, b) for a, b in ((table.s0, self.scarce[0]), (table.s1, self.scarce[1])))
        )

    @cached_property
    def spread(self) -> float:
        """Standard deviation of ``r0 - r1`` under q."""
        r0, r1, q = self.decoyed
        return math.sqrt(float(np.sum(q * (r0 - r1) ** 2)))

    def deviation(self, users: int) -> float:
        """Rough standard deviation of the loss among that many messages, nats."""
        p0, p1, _ = self.scarce
        both = (p0 > 0.0) & (p1 > 0.0)
        told = float(np.sum(p0[both] * (np.log(p0[both]) - np.log(p1[both])) ** 2))
        # with heavy tails that of the ratios says little
        found = min(math.sqrt(self.spread**2 / users + told), self.largest, 40.0)
        return found if found > 0.0 else 1.0  # a loss that is 0 or infinite


def gains(p0: Array, p1: Array, epsilon: float, side: Bound) -> Array:
    """Bound of ``p0 - alpha p1``, ``alpha = e^epsilon``, letter by letter.

    Where the true value is below -1e200 a value that far down is returned instead: no sum that
    holds it is positive. Both arguments carry relative errors of at most 8 units of round-off.
    Quotients, the product with alpha - 1 and differences are off by a few more; where alpha is an
    exponential of a sum of logarithms, by the size of these, which is at most 2000 below the bound
    at which the sign is certain.

    Args:
        p0: probabilities or likelihood ratios, shape (m,), >= 0 and at most 1e190.
        p1: the same of the other dataset.
        epsilon: nats, >= 0; may be infinite.
        side: which side of the truth.
    """
    if epsilon <= LARGEST_EXPONENT:
        error = roundings(18 + ELEMENTARY)
        with np.errstate(over="ignore"):
            cost = np.minimum(math.expm1(epsilon) * p1, PROFILES.far)
    else:
        error = roundings(2000 * (ELEMENTARY + 2))
        with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf, and its exponential 0
            log = np.log(p1) + min(epsilon, 1e6)
        cost = np.exp(np.minimum(log, math.log(PROFILES.far)))
    return _moved(p0, p1, cost, error, side)


def gains_above(p0: Array, p1: Array, excess: Array | float, side: Bound) -> Array:
    """`gains` at ``alpha = 1 + excess``, which may be off by 16 units of round-off of itself."""
    with np.errstate(over="ignore"):
        cost = np.minimum(excess * p1, PROFILES.far)
    return _moved(p0, p1, cost, roundings(32 + ELEMENTARY), side)


def _moved(p0: Array, p1: Array, cost: Array, relative: float, side: Bound) -> Array:
    """``p0 - p1 - cost``, moved to one side by what it may be off.

    A number below the smallest normal double is off by the smallest one.
    """
    error = relative * (p0 + p1 + np.abs(cost))
    error += np.where(p0 + p1 > 0.0, 4 * SMALLEST, 0.0)
    # twice the smallest double in p1, as a share of it
    error += np.abs(cost) * (2.0 * SMALLEST / np.where(p1 > 0.0, p1, 1.0))
    return np.asarray((p0 - p1) - cost + (error if side is Bound.PESSIMISTIC else -error))


@lru_cache(maxsize=64)
def multisets(pair: MessagePair, users: int) -> Histograms:
    """All histograms of that many messages, drawn from q."""
    return every_histogram(*pair.decoyed, users)


class MessageSource(Protocol):
    """A target among decoys with a finite message space on either side of the truth."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    def letters(self, side: Bound, effort: Effort) -> MessagePair:
        """Messages whose profile bounds the true one, on that side, for any number of decoys."""


@lru_cache(maxsize=512)
def source_messages(source: MessageSource, side: Bound, effort: Effort) -> MessagePair:
    """The source's messages for one side, remembered: every point of a profile asks for them."""
    return source.letters(side, effort)


def moment_bounds(pairs: Sequence[MessagePair], users: int, excess: Array) -> Array:
    """Upper bounds of ``H_alpha`` from the moments of one message, shape ``(len(pairs), k)``.

    Args:
        pairs: message distributions of each ordered pair of inputs.
        users: number n of messages.
        excess: ``alpha - 1``, shape (k,).
    """
    r0, r1, q = np.repeat(stacked(tuple(pairs)), excess.size, axis=1)
    bound = row_bounds(r0, r1, q, users, np.tile(excess, len(pairs))[:, None])
    exposed = np.stack([pair.exposure_bounds(excess)[1] for pair in pairs])
    total = (bound.reshape(exposed.shape) + exposed) * (1.0 + roundings(8))
    return np.asarray(np.minimum(total, 1.0))


def far_bounds(pairs: Sequence[MessagePair], users: int, excess: Array) -> Array:
    """Upper bounds of the largest ``H_alpha`` where few messages may outweigh all others.

    The least of `moment_bounds`, shape (k,), and of the same with ratios r0 cut off at a share c of
    ``n (alpha - 1)``: a positive part grows by ``(r0 - c)_+`` for each message at most.
    """
    best = moment_bounds(pairs, users, excess).max(axis=0)
    r0, r1, q = np.repeat(stacked(tuple(pairs)), excess.size, axis=1)
    exposed = np.stack([pair.exposure_bounds(excess)[1] for pair in pairs])
    alpha = np.tile(excess, len(pairs))[:, None]
    for part in (2.0, 5.0, 12.0):
        if best.max() <= 2.0 * LIMITS.underflow:  # the least that bounds of moments can be
            break
        with np.errstate(over="ignore"):
            least = users * alpha / part
        own = row_bounds(np.minimum(r0, least), r1, q, users, alpha)
        own += np.sum(np.maximum(r0 - least, 0.0) * q, axis=1) * (1.0 + 1e-9)
        best = np.minimum(best, (own.reshape(exposed.shape) + exposed).max(axis=0))
    return np.asarray(best)


def lone_message(pair: MessagePair, users: int, epsilon: float) -> float:
    """Lower bound of ``H_alpha``, alpha = e^epsilon, from messages that outweigh all others.

    With values ``v = r0 - alpha r1`` and a threshold, the event that one message alone is above it
    gives, for each message, at least ``E[v + S]_+`` over the values above, where S is what the
    others add on average if none of them is (Jensen's inequality); these events exclude each other.

    Args:
        pair: messages, as `MessagePair.settled` leaves them.
        users: number n of messages.
        epsilon: nats, in [0, 700].
    """
    r0, r1, q = pair.decoyed
    value = gains(r0, r1, epsilon, Bound.OPTIMISTIC)
    # what is only known to be below -PROFILES.far
    value = np.where(value > -PROFILES.far, value, -1e5 * PROFILES.far)
    order = np.argsort(value)
    value, mass, others = value[order], q[order], users - 1
    size, moment = np.cumsum(mass * np.abs(value)), np.cumsum(mass * value)
    above = np.cumsum(mass[::-1])[::-1] * (1.0 + PROFILES.summed)
    best = 0.0
    if value.size < 2:
        return best
    for first in np.unique(np.linspace(1, value.size - 1, 400).astype(int)).tolist():
        if not 0.0 < above[first] < 1.0 or value[first] <= 0.0:
            continue
        light = others * (moment[first - 1] - PROFILES.summed * size[first - 1])
        light = min(light, light / (1.0 - above[first]))
        gain = float(np.sum(mass[first:] * np.maximum(value[first:] + light, 0.0)))
        best = max(best, gain * math.exp(others * math.log1p(-above[first])))
    return lowered(best, PROFILES.summed)


def row_bounds(r0: Array, r1: Array, q: Array, users: int, excess: Array) -> Array:
    """`moment_bounds` without exposed messages, for rows of messages, each at its own alpha.

    The least of three: positive parts of single messages; Scarf's bound from mean and variance; and
    ``(x)_+ <= e^(theta x) / (e theta)`` at about the best theta; a thousandth more for rounding.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cost = np.minimum(excess * r1, PROFILES.far)
        # more than ratios, alpha and values are off
        value = (r0 - r1) - cost + roundings(64) * (r0 + r1 + np.abs(cost))
        # no sum with a lower letter is positive
        top = np.max(np.maximum(value, 0.0), axis=1, keepdims=True)
        value = np.maximum(value, -2.0 * users * top)
        mean = np.sum(q * value, axis=1)
        mean += roundings(128.0 + q.shape[-1]) * np.sum(q * np.abs(value), axis=1)
        variance = np.sum(q * (value - mean[:, None]) ** 2, axis=1)
        alone = np.sum(q * np.maximum(value, 0.0), axis=1)
        root = np.sqrt(mean * mean + variance / users)
        scarf = np.where(mean > 0.0, 0.5 * (mean + root), 0.5 * variance / users / (root - mean))
        theta = np.maximum(-mean, 1e-3 * np.sqrt(variance / users)) / variance
        for factors in (2.0 ** np.arange(-5.0, 2.5, 0.5), 2.0 ** np.arange(-0.4, 0.5, 0.2)):
            logs = np.stack([_log_excess(value, q, users, theta * f) for f in factors.tolist()])
            logs = np.where(np.isnan(logs), math.inf, logs)
            best = np.argmin(logs, axis=0)
            theta = theta * factors[best]
        least = np.take_along_axis(logs, best[None, :], axis=0)[0]
    bound = np.where(np.isnan(scarf), alone, np.minimum(alone, scarf))
    bound = np.maximum(np.minimum(bound, np.exp(np.minimum(least, 1.0))), 0.0)
    return np.asarray(bound * 1.001 + LIMITS.underflow)


def _log_excess(value: Array, q: Array, users: int, theta: Array) -> Array:
    """Upper bound of the logarithm of ``E e^(theta L) / (e theta n)``."""
    grown = np.expm1(theta[:, None] * value)
    growth = np.sum(q * grown, axis=1)
    moved = roundings(128.0 + q.shape[-1])
    growth += moved * np.sum(q * (np.abs(grown) + np.abs(theta[:, None] * value)), axis=1)
    return np.asarray(users * np.log1p(growth) - 1.0 - np.log(theta * users))


@lru_cache(maxsize=16)
def stacked(pairs: tuple[MessagePair, ...]) -> Array:
    """r0, r1 and q of the messages of all pairs, 0 for padding, shape (3, pairs, messages)."""
    size = max(1, *(pair.decoyed[2].size for pair in pairs))
    result = np.zeros((3, len(pairs), size))
    for i, pair in enumerate(pairs):
        result[:, i, : pair.decoyed[2].size] = pair.decoyed
    return result
