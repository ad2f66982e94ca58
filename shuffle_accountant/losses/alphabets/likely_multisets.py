"""The multisets of messages that are likely enough to count, where most send one and the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.alphabets.letters import (
    LETTER_ERROR,
    LetterPair,
    Multisets,
    largest_multisets,
    multisets,
)
from shuffle_accountant.numerics.rounding import exponential, roundings

__all__ = ["LikelyMultisets", "likely_counts", "likely_multisets"]

# Up to so many multisets are listed.
_MOST = 1 << 17
# Logarithms of tails are off by far less.
_LOG_MARGIN = 1.0


@dataclass(frozen=True, eq=False)
class LikelyMultisets:
    """Multisets of messages, and how likely the others are.

    Attributes:
        table: those that are listed.
        missing: bound of the probability of all others, also when one message is the target's.
    """

    table: Multisets
    missing: float


@lru_cache(maxsize=8)
def likely_multisets(pair: LetterPair, users: int, tail: float) -> LikelyMultisets | None:
    """The likely multisets of that many messages, or None if they are too many.

    Args:
        pair: the letters.
        users: number n of messages.
        tail: probability that may be left out.
    """
    q = pair.decoyed[2]
    if largest_multisets(q.size, users, _MOST) == users:
        return LikelyMultisets(multisets(pair, users), 0.0)
    common = int(np.argmax(q))
    rare = np.delete(np.arange(q.size), common)
    goal = math.log(tail) - _LOG_MARGIN - math.log(2.0 * max(rare.size, 1))
    ranges, size = [], 1
    for chance in q[rare].tolist():
        low, high = likely_counts(users - 1, chance, goal)
        size *= high - low + 1
        if size > _MOST:
            return None
        ranges.append(np.arange(low, high + 1))
    return LikelyMultisets(_listed(pair, users, common, ranges), tail)


def likely_counts(count: int, chance: float, goal: float) -> tuple[int, int]:
    """Counts outside which a binomial variable, also one more than it, lies at most e^goal each.

    Args:
        count: number of trials.
        chance: of each, in (0, 1).
        goal: logarithm of what may lie outside, on either side.
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


def _listed(pair: LetterPair, users: int, common: int, ranges: list[NDArray[np.int_]]) -> Multisets:
    """All combinations of counts of the rare letters; the rest of the messages are common."""
    r0, r1, q = pair.decoyed
    rare = np.delete(np.arange(q.size), common)
    # of one letter alone there is one multiset
    counts = np.zeros((rare.size, 1), dtype=np.int_)
    if ranges:
        counts = np.stack([axis.ravel() for axis in np.meshgrid(*ranges, indexing="ij")])
    taken = counts.sum(axis=0)
    possible = taken <= users
    counts, taken = counts[:, possible], taken[possible]
    most = int(taken.max())
    steps = np.arange(most, dtype=np.float64)
    falling = np.append(0.0, np.cumsum(math.log(users) + np.log1p(-steps / users)))
    factorial = np.append(0.0, np.cumsum(np.log(steps + 1.0)))
    left = users - taken
    others = math.fsum(q[rare].tolist())
    stays = math.log1p(-others) if others < 0.5 else math.log(float(q[common]))
    log_mass = falling[taken] + left * stays
    s0, s1 = r0[common] * left, r1[common] * left
    for letter, count in zip(rare.tolist(), counts, strict=True):
        log_mass += count * math.log(float(q[letter])) - factorial[count]
        s0, s1 = s0 + r0[letter] * count, s1 + r1[letter] * count
    # terms at most this large, each summed up from as many as there are rare messages
    largest = (
        most * (math.log(users) + float(np.max(np.abs(np.log(q[rare])), initial=0.0)))
        + factorial[-1]
    )
    terms = 2.0 * q.size + most + 4.0
    size = terms * (largest + 1.0) + 4.0 * users * abs(stays)
    slack = exponential(roundings(4) * size + users * LETTER_ERROR)
    return Multisets(s0, s1, np.exp(log_mass), slack)
