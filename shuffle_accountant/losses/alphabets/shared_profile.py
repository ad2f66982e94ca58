"""The profiles of rounds that differ in their numbers of messages alone, from one table.

`shuffle_accountant.lattice.inversion` tabulates what serves a range of numbers; one more number
then costs a power of what is tabulated. Of several ordered pairs of inputs those that are never the
largest are told apart by coarse tables. A profile falls with the number of messages, so what bounds
such a pair for the least number bounds it for all; it joins the final maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.inversion import Ends, Inversion, inversion
from shuffle_accountant.losses.alphabets.anchored_profile import (
    OrderedLetters,
    Profile,
    with_exposed,
)
from shuffle_accountant.losses.alphabets.letter_moments import TINY, LetterSource
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["Shared", "ranges_of", "shared_frequencies", "shared_profile", "users_range"]

# Numbers of messages within this ratio share a table; within the other one those of one round: a
# window grows with the root of the ratio, and what points have to be is settled by the round.
_RATIO, _RATIO_OF_ROUND = 1.25, 2.0
# Share of the variance that laws are smoothed by, in resolutions.
_SMOOTHED = 0.25
# Coarse tables tell pairs apart at so many points.
_COARSE_POINTS = 48
_COARSE = 30.0
# Losses further above the largest than this, relative to their size, are above it.
_BEYOND = 2.0**-42


@dataclass(frozen=True, eq=False)
class Shared:
    """Bounds from a table.

    Attributes:
        profile: the bounds.
        narrow: at which losses they are as close as was asked for, shape (m,).
    """

    profile: Profile
    narrow: NDArray[np.bool_]


def users_range(users: int) -> tuple[int, int]:
    """The range that a number of messages shares a table with."""
    place = math.floor(math.log(users) / math.log(_RATIO))
    low, high = (math.ceil(_RATIO ** (place + end)) for end in (0, 1))
    return min(low, users), max(high - 1, users)


def ranges_of(least: int, most: int, usual: float) -> list[tuple[int, int]]:
    """Ranges of about one ratio that hold all numbers of messages, one of them around the usual.

    Args:
        least: the fewest messages, >= 1.
        most: the most.
        usual: the likeliest number.
    """
    step = math.log(_RATIO_OF_ROUND)
    low, high = (math.floor(math.log(end / usual) / step) for end in (least, most))
    cuts = (usual * _RATIO_OF_ROUND ** (k + 0.5) for k in range(low - 1, high + 2))
    firsts = sorted({least, *(math.ceil(cut) for cut in cuts if least < cut <= most)})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), most], strict=True))


def shared_profile(
    pairs: tuple[LetterSource, ...],
    users: int,
    losses: Array,
    effort: Effort,
    numbers: tuple[int, int] | None = None,
) -> Shared:
    """Bounds of the largest profile of all pairs, a set closed under exchanging the datasets.

    Args:
        pairs: ordered pairs of inputs.
        users: number n of messages.
        losses: ascending ``log(alpha) >= 0``, shape (m,).
        effort: how closely.
        numbers: least and most messages that the table is for; unless given, `users_range`.
    """
    return _profile(pairs, users, losses.tobytes(), effort, numbers or users_range(users))


# Both ends of a mixture ask for many of the same numbers.
@lru_cache(maxsize=1024)
def _profile(
    pairs: tuple[LetterSource, ...],
    users: int,
    losses: bytes,
    effort: Effort,
    numbers: tuple[int, int],
) -> Shared:
    return _table(pairs, numbers, losses, effort).profile(users)


def shared_frequencies(
    pairs: tuple[LetterSource, ...], users: int, losses: Array, effort: Effort
) -> float:
    """How many frequencies one more number of messages costs; inf where bounds are wide."""
    table = _table(pairs, users_range(users), losses.tobytes(), effort)
    if not shared_profile(pairs, users, losses, effort).narrow.all():
        return math.inf
    return max((pair.frequencies for pair in table.pairs), default=0)


@lru_cache(maxsize=64)
def _table(
    pairs: tuple[LetterSource, ...], users: tuple[int, int], losses: bytes, effort: Effort
) -> _Table:
    excess = np.expm1(np.frombuffer(losses))
    letters = [OrderedLetters(source, users[0], effort, users[1]) for source in pairs]
    largest = max(pair.high.largest for pair in letters)
    rest = np.zeros(excess.shape)
    if len(letters) > 1:
        letters, rest = _candidates(letters, users, excess)
    tables = [_Ordered.of(pair, users, excess) for pair in letters]
    return _Table(tables, rest, excess, largest)


@lru_cache(maxsize=64)
def _inversion(
    pair: LetterPair, users: tuple[int, int], excess: bytes, variance: float
) -> Inversion:
    return inversion(pair.decoyed, users, np.frombuffer(excess), variance)


@dataclass(frozen=True, eq=False)
class _Ordered:
    """One ordered pair, tabulated.

    Attributes:
        letters: the pair for the least number of messages.
        high: what bounds it from above.
        low: what bounds it from below.
        excess: ``alpha - 1``.
        bounds: bounds from moments for the least number, and so for all.
        exposed: what exposed letters add, from above.
    """

    letters: OrderedLetters
    high: Inversion
    low: Inversion
    excess: Array
    bounds: Array
    exposed: Array

    @classmethod
    def of(cls, letters: OrderedLetters, users: tuple[int, int], excess: Array) -> _Ordered:
        """The tables of a pair."""
        share = _SMOOTHED * letters.effort.resolution
        high, low = (
            _inversion(pair, users, excess.tobytes(), share) for pair in (letters.high, letters.low)
        )
        bounds, exposed = letters.bounds(excess), letters.exposed(excess)[1]
        return cls(letters, high, low, excess, bounds, exposed)

    @property
    def frequencies(self) -> float:
        """How many are kept for each alpha, on average."""
        return max(self.high.frequencies, self.low.frequencies)

    def ends(self, users: int) -> tuple[Array, Ends, NDArray[np.bool_]]:
        """Upper bounds with exposed letters, events without, and where both are close."""
        high = self.high.ends(users)
        low = high if self.low is self.high else self.low.ends(users)
        upper = np.where(np.isnan(high.upper), 2.0, high.upper)
        lower = np.where(np.isnan(low.lower), 0.0, low.lower)
        narrow = upper - lower <= self.letters.allowed(self.excess, upper)
        narrow |= self.bounds <= self.letters.effort.tail
        return np.minimum(upper, self.bounds) + self.exposed, low, narrow


@dataclass(frozen=True, eq=False)
class _Table:
    """All pairs that may be the largest somewhere.

    Attributes:
        pairs: their tables.
        rest: upper bounds of all others' profiles.
        excess: ``alpha - 1``.
        largest: no finite loss of any is larger, nats.
    """

    pairs: list[_Ordered]
    rest: Array
    excess: Array
    largest: float

    def profile(self, users: int) -> Shared:
        """The bounds for that many messages."""
        upper, events = self.rest, [(np.zeros(0), np.zeros(0))]
        narrow = np.ones(self.excess.shape, dtype=bool)
        for pair in self.pairs:
            high, low, close = pair.ends(users)
            upper, narrow = np.maximum(upper, high), narrow & close
            kept = (low.d > 0.0) & (low.q > 0.0)  # and no nan
            events.append(with_exposed(pair.letters.low, low.q[kept], low.d[kept]))
        if self.largest < math.inf:  # logarithms are off by far less
            beyond = np.log1p(self.excess) >= self.largest + _BEYOND * (1.0 + self.largest)
            upper = np.where(beyond, 0.0, upper)
        q, d = (np.concatenate(columns) for columns in zip(*events, strict=True))
        return Shared(Profile(np.minimum(upper, 1.0), q, d), narrow)


def _candidates(
    pairs: list[OrderedLetters], users: tuple[int, int], excess: Array
) -> tuple[list[OrderedLetters], Array]:
    """Pairs that may be the largest for some number of messages, and a bound of the others."""
    picked = np.unique(np.linspace(0, excess.size - 1, _COARSE_POINTS).round().astype(int))
    few = excess[picked]
    coarse = Effort(pairs[0].effort.tail, _COARSE * pairs[0].effort.resolution)
    least, bounds = np.zeros(few.shape), []
    for pair in pairs:
        table = _Ordered.of(pair.at(coarse), users, few)
        upper = np.minimum(np.nan_to_num(table.high.ends(users[0]).upper, nan=1.0), table.bounds)
        # profiles are convex, so below their chords
        chords = np.interp(excess, few, upper + table.exposed) * (1.0 + 16 * UNIT_ROUNDOFF)
        bounds.append(chords + TINY)
        lower = np.nan_to_num(table.low.ends(users[1]).lower)
        least = np.maximum(least, lower + pair.exposed(few)[0])
    # about the largest, which need not be certain here
    floor = np.exp(np.interp(excess, few, np.log(np.maximum(least, 0.25 * coarse.tail))))
    kept, rest = [], np.zeros(excess.shape)
    for pair, bound in zip(pairs, bounds, strict=True):
        if np.any(bound > floor):
            kept.append(pair)
        else:
            rest = np.maximum(rest, bound)
    return kept, rest
