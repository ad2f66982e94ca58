"""The profile by the counts of rare letters, and of the two commonest by binomial tails.

With ``S0 = sum r0(Y_i)`` and ``S1 = sum r1(Y_i)`` over n i.i.d. messages the profile is
``n H_alpha = E(S0 - alpha S1)_+``. Given how often each rare letter is there, all other messages
send one of two letters, and with c of them the second one the sum is ``B + D c``: its positive part
is made of ``P(c >= k)`` and ``E[c; c >= k]``, which serve every alpha. So there is a term for each
combination of counts of rare letters only, however many messages there are, and nothing is
smoothed: losses may be few single ones.

Errors, all of them part of both ends:

* Counts outside of their windows, and combinations that are left out: S0/n is at most the largest
  ratio, so that they add at most that times their probability.
* Rounding: the event ``{B + D c > 0}`` is found with B and D from above, and with a quotient that
  is moved by more than it is off. What it holds by mistake is as small as what rounding makes.
* Binomial tails add up to one by construction, which they do but for what is outside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.alphabets.letter_moments import TINY
from shuffle_accountant.losses.alphabets.letters import LETTER_ERROR, LetterPair
from shuffle_accountant.losses.alphabets.likely_multisets import likely_counts
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array, exponential, roundings

__all__ = ["CountedBounds", "CountedLaw", "counted_law"]

# Up to so many combinations of counts are looked at, so many kept, and so many tails for them.
_MOST_LOOKED, _MOST_COMBINATIONS, _MOST_TAILS = 1 << 18, 1 << 14, 1 << 17
# Letters that are there more often than this are not rare.
_MOST_COUNT = 1 << 10
# Probabilities with smaller logarithms would not be normal numbers.
_LEAST_GOAL = -600.0
# Combinations times alpha at once.
_AT_ONCE = 1 << 15
# More than sums of ratios, alpha, and what is made of both are off, relative to their parts.
_VALUE_ERROR = 128 * UNIT_ROUNDOFF


class CountedBounds(NamedTuple):
    """Bounds at each alpha, without exposed letters, shape (k,) each.

    Attributes:
        upper: of the profile.
        q: Q-probabilities of events, from above.
        d: what their P-probabilities are above these, from below.
    """

    upper: Array
    q: Array
    d: Array


@dataclass(frozen=True, eq=False)
class CountedLaw:
    """Combinations of counts of rare letters, and tails of one of the two others.

    Attributes:
        users: number n of messages.
        weight: probability of each combination, shape (m,).
        fewest: sums of r0 and of r1 with the fewest of the second letter, shape (2, m).
        step: what one more of these instead of the first adds to each, shape (2,).
        start: where the tails of each combination start, shape (m,).
        tails: from the fewest on, probability of at least so many, and the mean of how many more
            than the fewest there are then, shape (2, j); behind all of them those of less.
        size: the largest number of counts.
        slack: relative error of a weight times a tail.
        missing: what is left out adds at most.
    """

    users: int
    weight: Array
    fewest: Array
    step: Array
    start: Array
    tails: Array
    size: int
    slack: float
    missing: float

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        parts = self.weight, self.fewest, self.start, self.tails
        return int(sum(part.nbytes for part in parts))

    def bounds(self, excess: Array) -> CountedBounds:
        """The bounds at ``alpha = 1 + excess``, excess >= 0."""
        size = max(_AT_ONCE // self.weight.size, 1)
        parts = [self._sums(excess[i : i + size]) for i in range(0, max(excess.size, 1), size)]
        at_fewest, more = (np.concatenate(part) for part in zip(*parts, strict=True))
        p, q = (at_fewest + np.multiply.outer(more, self.step)).T / self.users
        off = self.slack + 4.0 * _VALUE_ERROR
        p_off, q_off = off * (at_fewest + np.multiply.outer(more, np.abs(self.step))).T / self.users
        value = (p - q) - excess * q
        return CountedBounds(
            upper=np.maximum(value, 0.0) + p_off + (1.0 + excess) * q_off + self.missing + TINY,
            q=q + q_off + TINY,
            d=(p - q) - p_off - q_off,
        )

    def _sums(self, excess: Array) -> tuple[Array, Array]:
        """Sums of r0 and r1 where they decide, as if the second letter was fewest, and its mean.

        How many more than the fewest there are; shape (k, 2) and (k,).
        """
        (r0, r1), (d0, d1) = self.fewest, self.step
        least = ((r0 - r1) + _VALUE_ERROR * (r0 + r1)) - np.multiply.outer(
            excess, (1.0 - _VALUE_ERROR) * r1
        )
        slope = (d0 - d1) - excess * d1
        slope += _VALUE_ERROR * (abs(d0) + (1.0 + excess) * abs(d1))
        rising = (slope >= 0.0)[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            place = -least / slope[:, None]
        # no number for 0/0, where nothing is positive
        place = np.fmax(np.fmin(place, self.size + 1.0), -1.0)
        moved = _VALUE_ERROR * np.abs(place)
        first = np.where(rising, np.floor(place - moved) + 1.0, np.ceil(place + moved))
        index = np.clip(first, 0.0, self.size).astype(np.intp) + self.start
        index += np.where(rising, 0, self.tails.shape[1] // 2)
        chance, more = (row[index] for row in self.tails)
        at_fewest = np.einsum("km,am->ka", chance, self.weight * self.fewest)
        return at_fewest, np.einsum("km,m->k", more, self.weight)


@kept(1 << 27, lambda found: 0 if found is None else found.nbytes)
def counted_law(pair: LetterPair, users: int, tail: float) -> CountedLaw | None:
    """The law of that many messages, or None if combinations or counts are too many.

    Args:
        pair: the letters, plain.
        users: number n of messages.
        tail: what may be left out of the profile.
    """
    r0, r1, q = pair.decoyed
    if q.size < 2 or tail <= 0.0:
        return None
    order = np.argsort(-q, kind="stable")
    common, rare = order[:2], order[2:]
    # what is outside, of each letter, on either side, is as likely as that from one input at most
    goal = math.log(tail) - math.log(8.0 * (rare.size + 1.0) * max(float(r0.max()), 1.0))
    if goal < _LEAST_GOAL:
        return None
    both = math.fsum(q[common].tolist())
    found = _combinations(users, q[rare], both, goal)
    if found is None:
        return None
    counts, weight, slack, left_out = found
    rest = users - counts.sum(axis=0)
    every, row = np.unique(rest, return_inverse=True)
    first, second = (q[common] / both).tolist()
    tails = _tails(every, first, second, goal)
    if tails is None:
        return None
    fewest, table, error = tails
    size, least = table.shape[3] - 1, fewest[row.ravel()]
    return CountedLaw(
        users=users,
        weight=weight,
        fewest=np.stack(
            [
                r[rare] @ counts + r[common[0]] * (rest - least) + r[common[1]] * least
                for r in (r0, r1)
            ]
        ),
        step=np.array([r[common[1]] - r[common[0]] for r in (r0, r1)]),
        start=row.ravel() * (size + 1),
        tails=table.reshape(2, -1),
        size=size,
        slack=slack + 2.0 * error,
        # half of it for windows
        missing=0.5 * tail + max(float(r0.max()), 1.0) * left_out,
    )


def _combinations(
    users: int, rare: Array, others: float, goal: float
) -> tuple[NDArray[np.int_], Array, float, float] | None:
    """Counts of rare letters that are likely enough, letter by letter.

    Args:
        users: number n of messages.
        rare: how likely each rare letter is, shape (l,).
        others: how likely all others are together.
        goal: logarithm of what may lie outside of each letter's window, on either side.

    Returns:
        The counts, shape (l, m), and their probabilities, what these are off, and the probability
        of combinations that are left out; None if these are too many.
    """
    # of all that are looked at not more is left out than outside of a window
    least = goal - math.log(_MOST_LOOKED)
    counts, log_weight = np.zeros((0, 1), dtype=np.int_), np.zeros(1)
    left = np.full(1, users)
    gone = largest = 0.0
    for chance in rare.tolist():
        low, high = likely_counts(users, chance, goal)
        if high > _MOST_COUNT or (high - low + 1) * left.size > _MOST_LOOKED:
            return None
        more = np.arange(low, min(high, users) + 1)
        # of the messages that are left, ever fewer are this letter or one to come
        steps = np.log(np.maximum(left[:, None] - np.arange(high), 1.0))
        falling = np.concatenate([np.zeros((left.size, 1)), np.cumsum(steps, axis=1)], axis=1)
        factorial = np.append(0.0, np.cumsum(np.log(np.arange(1.0, high + 1.0))))
        own = more * math.log(chance) - factorial[more]
        weight = log_weight[:, None] + falling[:, more] + own
        largest += high * (math.log(users) + abs(math.log(chance))) + float(factorial[-1])
        gone += chance
        rest = left[:, None] - more
        stays = math.log1p(-gone) if gone < 0.5 else math.log(max(1.0 - gone, others))
        kept_ones = (rest >= 0) & (weight + rest * stays > least)
        counts = np.concatenate(
            [np.repeat(counts, kept_ones.sum(axis=1), axis=1), np.nonzero(kept_ones)[1][None] + low]
        )
        left, log_weight = rest[kept_ones], weight[kept_ones]
    stays = math.log1p(-gone) if gone < 0.5 else math.log(others)
    # terms at most this large, each summed up from as many as there are rare messages
    terms = 2.0 * rare.size + float(np.max(users - left, initial=0)) + 4.0
    size = terms * (largest + 1.0) + 4.0 * users * abs(stays)
    slack = exponential(roundings(4) * size + users * LETTER_ERROR, own=16.0)
    left_out = rare.size * _MOST_LOOKED * math.exp(least)
    weight = np.exp(log_weight + left * stays)
    # and of those that are there
    order = np.argsort(weight)
    lost = np.append(0.0, np.cumsum(weight[order]))
    first = int(np.searchsorted(lost, math.exp(goal), side="right")) - 1
    some = np.sort(order[first:])
    if some.size > _MOST_COMBINATIONS:
        return None
    return counts[:, some], weight[some], slack, 1.01 * (left_out + float(lost[first]))


def _tails(
    numbers: NDArray[np.int_], first: float, second: float, goal: float
) -> tuple[NDArray[np.int_], Array, float] | None:
    """Binomial tails for ascending numbers of messages that are one of two letters.

    Args:
        numbers: of messages, shape (r,).
        first: how likely one of these is the first letter, up to a few roundings.
        second: the same of the second one.
        goal: logarithm of what may lie outside, on either side.

    Returns:
        The fewest of the second letter, shape (r,); the probabilities of so many more than that and
        more, and of less, for every number but the last, and their means, shape (2, 2, r, size);
        and the relative error of each. None if these are too many.
    """
    mean, spread = numbers * second, numbers * first * second
    level = math.log(2.0) - goal
    # Bernstein
    far = level / 3.0 + np.sqrt((level / 3.0) ** 2 + 2.0 * level * spread) + 1.0
    fewest = np.maximum(np.floor(mean - far), 0.0)
    size = int(np.max(np.minimum(np.ceil(mean + far), numbers) - fewest)) + 1
    if numbers.size * size > _MOST_TAILS:
        return None
    more = np.arange(size, dtype=np.float64)
    count, number = fewest[:, None] + more, numbers[:, None].astype(np.float64)
    odds = math.log(second) - math.log(first)
    with np.errstate(divide="ignore"):
        growth = np.log(np.maximum(number - count, 0.0) / (count + 1.0)) + odds
    # -inf where there are no more messages
    log = np.cumsum(np.concatenate([np.zeros((numbers.size, 1)), growth[:, :-1]], axis=1), axis=1)
    mass = np.exp(log - log.max(axis=1)[:, None])
    mass /= mass.sum(axis=1)[:, None]
    both = np.stack([mass, mass * more])
    none = np.zeros((2, numbers.size, 1))
    above = np.concatenate([np.cumsum(both[..., ::-1], axis=2)[..., ::-1], none], axis=2)
    below = np.concatenate([none, np.cumsum(both, axis=2)], axis=2)
    # each step is off by a few roundings of itself, and each sum by one of what it is at most
    step, most = (float(np.max(np.abs(x[np.isfinite(x)]), initial=0.0)) for x in (growth, log))
    moved = roundings(8) * (step + abs(odds) + 1.0) + roundings(1) * most + 2.0 * LETTER_ERROR
    error = exponential(size * moved, own=64.0)
    error = 2.0 * error + roundings(4.0 * size) + 4.0 * math.exp(goal)
    return fewest.astype(np.int_), np.stack([above, below], axis=1), error
