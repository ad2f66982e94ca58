"""The profile by listing message histograms: one list answers for every alpha.

A histogram says how often each message was sent; n messages of m kinds have ``comb(n + m - 1, n)``.
If that is too many, those are listed in which every count but that of the commonest message is
likely, and Chernoff bounds the probability of all others, which upper ends add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import (
    LIMITS,
    SMALLEST,
    UNIT_ROUNDOFF,
    Array,
    exponential,
    roundings,
)


@dataclass(frozen=True)
class _Settings:
    """Limits and error bounds of lists of histograms.

    Attributes:
        most: at most this many histograms are listed.
        log_margin: logarithms of tail bounds are off by less than this.
        message_error: relative error of a message's probability.
        one_by_one: up to this many alpha times histograms, positive parts are added up for each
            alpha: ten times closer than differences of cumulated probabilities.
    """

    most: int = 1 << 17
    log_margin: float = 1.0
    message_error: float = roundings(16.0)
    one_by_one: int = 1 << 20


_SET = _Settings()


@dataclass(frozen=True, eq=False)
class Histograms:
    """Histograms of n messages drawn from q.

    Attributes:
        s0: sums of r0 over the messages, shape (h,).
        s1: sums of r1, shape (h,).
        mass: probabilities, shape (h,).
        slack: bound on the relative error of every mass and sum.
        sums: bound on the relative error of every sum.
        missing: bound of the probability of all histograms that are not listed, also when one
            message is the target's.
    """

    s0: Array
    s1: Array
    mass: Array
    slack: float
    sums: float
    missing: float = 0.0


def histogram_count(messages: int, users: int, most: int) -> int:
    """The largest number of messages, <= users, with at most ``most`` histograms."""
    low, high = 1, min(users, most)
    while low < high:
        middle = (low + high + 1) // 2
        few = math.comb(middle + messages - 1, messages - 1) <= most
        low, high = (middle, high) if few else (low, middle - 1)
    return low


def every_histogram(r0: Array, r1: Array, q: Array, users: int) -> Histograms:
    """All histograms of ``users`` messages."""
    from scipy.special import gammaln

    if users == 1:
        return Histograms(r0, r1, q, _SET.message_error, _SET.message_error)
    counts = np.arange(users + 1, dtype=np.float64)
    factorials = gammaln(counts + 1.0)
    left = np.array([users])
    s0, s1, log_mass = np.zeros(1), np.zeros(1), np.full(1, factorials[users])
    for a, b, chance in zip(r0[:-1], r1[:-1], q[:-1], strict=True):
        choices = left + 1
        owner = np.repeat(np.arange(left.size), choices)
        taken = np.arange(owner.size) - (np.cumsum(choices) - choices)[owner]
        s0, s1 = s0[owner] + a * taken, s1[owner] + b * taken
        log_mass = log_mass[owner] + taken * math.log(chance) - factorials[taken]
        left = left[owner] - taken
    s0, s1 = s0 + r0[-1] * left, s1 + r1[-1] * left
    log_mass = log_mass + left * math.log(q[-1]) - factorials[left]
    # a sum of this many terms that are not 0, each at most this large and off by a few units of it
    terms = 2.0 * min(users, q.size) + 4.0
    largest = 2.0 * factorials[users] + users * float(np.max(np.abs(np.log(q)))) + 1.0
    slack = exponential(roundings(4.0) * terms * largest + users * _SET.message_error)
    return Histograms(s0, s1, np.exp(log_mass), slack, _error_of_sums(q.size))


def likely_histograms(r0: Array, r1: Array, q: Array, users: int, tail: float) -> Histograms:
    """The likely histograms of ``users`` messages, few enough to be `listable`.

    Args:
        r0: likelihood ratios of the messages under X, shape (m,).
        r1: likelihood ratios of the messages under X'.
        q: probabilities of the messages among decoys, all > 0.
        users: number of messages n.
        tail: probability that may be left out.
    """
    if histogram_count(q.size, users, _SET.most) == users:
        return every_histogram(r0, r1, q, users)
    ranges = _likely_ranges(q, users, tail)
    counts = np.zeros((0, 1), dtype=np.int_)  # of one message alone there is one histogram
    if ranges:
        counts = np.stack([axis.ravel() for axis in np.meshgrid(*ranges, indexing="ij")])
    return counted_histograms((r0, r1, q), users, counts, tail)


def listable(q: Array, users: int, tail: float) -> bool:
    """Whether the likely histograms of ``users`` messages are few enough to be listed."""
    every = histogram_count(q.size, users, _SET.most) == users
    return every or _likely_ranges(q, users, tail) is not None


def _likely_ranges(q: Array, users: int, tail: float) -> list[NDArray[np.int_]] | None:
    """Ranges of likely counts, one for each message but the commonest; None if too many."""
    rare = np.delete(np.arange(q.size), int(np.argmax(q)))
    goal = math.log(tail) - _SET.log_margin - math.log(2.0 * max(rare.size, 1))
    ranges, size = [], 1
    for chance in q[rare].tolist():
        low, high = likely_counts(users - 1, chance, goal)
        size *= high - low + 1
        if size > _SET.most:
            return None
        ranges.append(np.arange(low, high + 1))
    return ranges


def likely_counts(count: int, chance: float, goal: float) -> tuple[int, int]:
    """Counts outside which a binomial variable, also one more than it, lies at most e^goal each.

    It is the number of successes of ``count`` trials, each with probability ``chance`` in (0, 1).
    """
    mean = count * chance

    def log_bound(k: int) -> float:
        """Chernoff's bound of a tail from k on, away from the mean."""
        up = k * math.log(k / mean) if k else 0.0
        rest = count - k
        down = rest * (math.log1p(-k / count) - math.log1p(-chance)) if rest else 0.0
        return -(up + down)

    def first(start: int, step: int, last: int) -> int:
        """The first count from the start whose tail is small enough, or the last."""
        distance = 1
        while (last - start - step * distance) * step > 0 and log_bound(
            start + step * distance
        ) > goal:
            distance *= 2
        near, far = distance // 2, min(distance, abs(last - start))
        while far - near > 1:
            middle = (near + far) // 2
            near, far = (middle, far) if log_bound(start + step * middle) > goal else (near, middle)
        return start + step * far

    if mean == 0.0 or count == 0:
        return 0, 1
    high = first(math.ceil(mean), 1, count + 1)
    low = first(math.floor(mean), -1, -1) + 1 if mean > 1.0 else 0
    return max(low, 0), min(high, count + 1)


def counted_histograms(
    ratios: tuple[Array, Array, Array],
    users: int,
    counts: NDArray[np.int_],
    missing: float = 0.0,
) -> Histograms:
    """Histograms with these counts, (m - 1, h), of all messages but the commonest, the rest.

    ``ratios`` are r0, r1 and q of the messages, shape (m,) each, and ``missing`` bounds the
    probability of what is not listed.
    """
    r0, r1, q = ratios
    common = int(np.argmax(q))
    rare = np.delete(np.arange(q.size), common)
    taken = counts.sum(axis=0)
    counts, taken = counts[:, taken <= users], taken[taken <= users]
    most = int(taken.max())
    steps = np.arange(most, dtype=np.float64)
    falling = np.append(0.0, np.cumsum(math.log(users) + np.log1p(-steps / users)))
    factorial = np.append(0.0, np.cumsum(np.log(steps + 1.0)))
    left = users - taken
    stays = math.log(float(q[common]))
    log_mass = falling[taken] + left * stays
    s0, s1 = r0[common] * left, r1[common] * left
    for message, count in zip(rare.tolist(), counts, strict=True):
        log_mass += count * math.log(float(q[message])) - factorial[count]
        s0, s1 = s0 + r0[message] * count, s1 + r1[message] * count
    # terms at most this large, each summed up from as many as there are rare messages
    rarest = float(np.max(np.abs(np.log(q[rare])), initial=0.0))
    largest = most * (math.log(users) + rarest) + factorial[-1]
    terms = 2.0 * q.size + most + 4.0
    size = terms * (largest + 1.0) + 4.0 * users * abs(stays)
    slack = exponential(roundings(4.0) * size + users * _SET.message_error)
    return Histograms(s0, s1, np.exp(log_mass), slack, _error_of_sums(q.size), missing)


def _error_of_sums(messages: int) -> float:
    """Relative error of sums of likelihood ratios times counts, over ``messages`` messages."""
    return _SET.message_error + roundings(messages + 4.0)


@dataclass(frozen=True, eq=False)
class ListedProfile:
    """Listed histograms by descending likelihood ratio P/Q: the best event at each alpha.

    Attributes:
        ratio: P/Q of each, descending, shape (h,).
        d: P- less Q-probability of all down to each, shape (h,).
        q: Q-probability of all down to each, shape (h,).
        slack: bound on the relative error of each.
        lost: bound on what underflow may take from the P- and Q-probabilities of all down to each,
            shape (2, h).
        missing: bound of the probability of what is not listed.
        table: the histograms.
        users: number of messages n.
    """

    ratio: Array
    d: Array
    q: Array
    slack: float
    lost: Array
    missing: float
    table: Histograms
    users: int

    @classmethod
    def of(cls, table: Histograms, users: int) -> ListedProfile:
        """Sort the histograms of ``users`` messages by their likelihood ratios."""
        # infinite where it is beyond the range of doubles, as all alpha are within it
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = table.s0 / table.s1
        ratio = np.where(table.s1 > 0.0, ratio, math.inf)
        order = np.argsort(-ratio, kind="stable")
        d = np.cumsum((table.mass * (table.s0 - table.s1))[order]) / users
        q = np.cumsum((table.mass * table.s1)[order]) / users
        slack = table.slack + UNIT_ROUNDOFF * (4.0 * users + 2.0 * d.size + 64.0)
        sums = np.stack([table.s0, table.s1])[:, order]
        small = sums * table.mass[order] < LIMITS.underflow
        lost = np.cumsum(2.0 * SMALLEST * (sums + 4.0 * small), axis=1)
        return cls(ratio[order], d, q, slack, lost, table.missing, table, users)

    def _best(self, excess: Array) -> tuple[Array, Array, Array, Array]:
        """The best event at each alpha: d, q, what is lost of both, shape (2, k), and the error."""
        count = np.searchsorted(-self.ratio, -(1.0 + excess))
        d, q = np.append(0.0, self.d)[count], np.append(0.0, self.q)[count]
        lost = np.append(np.zeros((2, 1)), self.lost, axis=1)[:, count]
        error = 2.0 * self.slack * (np.abs(d) + (2.0 + excess) * q)
        return d, q, lost, error + lost[0] + (1.0 + excess) * lost[1]

    def upper(self, excess: Array) -> Array:
        """Upper bounds of the profile at ``alpha = 1 + excess``.

        Taken at an alpha that is smaller by more than ratios are off: no histogram that is left
        out by its computed ratio is positive at the one asked for.
        """
        if excess.size * self.q.size <= _SET.one_by_one:
            return self._positive_parts(excess, 1.0) + self.missing + LIMITS.underflow
        excess = excess - (8.0 * self.slack + 256 * UNIT_ROUNDOFF) * (1.0 + excess)
        d, q, _, error = self._best(excess)
        return np.asarray(np.maximum(d - excess * q, 0.0) + error + self.missing + LIMITS.underflow)

    def lower(self, excess: Array) -> Array:
        """Lower bounds of it."""
        if excess.size * self.q.size <= _SET.one_by_one:
            return self._positive_parts(excess, -1.0)
        excess = excess + 64 * UNIT_ROUNDOFF * (1.0 + excess)
        d, q, _, error = self._best(excess)
        return np.asarray(np.maximum(d - excess * q - error, 0.0))

    def _positive_parts(self, excess: Array, sign: float) -> Array:
        """Sums of positive parts, from above or below: errors of masses are relative to these."""
        table, alpha = self.table, 1.0 + excess[:, None]
        with np.errstate(over="ignore"):  # a sum with a cost beyond 1e300 is not positive
            cost = np.minimum(excess[:, None] * table.s1, 1e300)
            both = np.minimum(alpha * table.s1, 1e300)
        value = (table.s0 - table.s1) - cost
        error = (2.0 * table.sums + 8 * UNIT_ROUNDOFF) * (table.s0 + both)
        positive = np.maximum(value + sign * error, 0.0)
        slack = table.slack + UNIT_ROUNDOFF * (math.log2(table.mass.size + 1.0) + 160.0)
        found = np.sum(table.mass * positive, axis=1) * (1.0 + sign * slack)
        lost = np.sum(positive, axis=1) * (2.0 * SMALLEST)
        return np.asarray(np.maximum(found + sign * lost, 0.0) / self.users)

    def events(self, excess: Array) -> tuple[Array, Array]:
        """Q-probabilities q from above, and d from below, of the best events at these alpha."""
        d, q, lost, _ = self._best(excess)
        low = d - 2.0 * self.slack * (np.abs(d) + 2.0 * q) - lost[0] - lost[1]
        return q * (1.0 + 2.0 * self.slack) + lost[1], low
