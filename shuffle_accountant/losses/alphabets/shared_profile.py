"""The profiles of rounds that differ in their numbers of messages alone, from one table.

`shuffle_accountant.lattice.inversion` tabulates what serves a range of numbers; one more number
then costs a power of what is tabulated. Of several ordered pairs of inputs those that are all but
never the largest have coarse tables, whose upper bounds join the final maximum. Where few
combinations of messages count, or few single losses make smoothed bounds wide, the counts of each
number are summed up (`shuffle_accountant.losses.alphabets.counted_law`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.inversion import Ends, Inversion, inversion
from shuffle_accountant.losses.alphabets.anchored_profile import (
    OrderedLetters,
    Profile,
    with_exposed,
)
from shuffle_accountant.losses.alphabets.counted_law import (
    CountedBounds,
    CountedLaw,
    counted_law,
)
from shuffle_accountant.losses.alphabets.letter_moments import LetterSource
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = [
    "MOST_COUNTED",
    "Costs",
    "Shared",
    "closest_profile",
    "counted_profile",
    "ranges_of",
    "shared_costs",
    "shared_profile",
    "users_range",
]

# Numbers of messages within this ratio share a table; within the other one those of one round: a
# window grows with the root of the ratio, and what points have to be is settled by the round.
_RATIO, _RATIO_OF_ROUND = 1.25, 2.0
MOST_COUNTED = 1 << 14
"""Up to so many combinations of counts are summed up where bounds are wide otherwise."""

# What smoothing may add, in parts of the width that is narrow enough.
_SMOOTHED = 0.015
# Where that is too much, so many times less, and so often.
_FINER, _MOST_FINER = 1 / 4, 2
# What of the combinations of counts is left out takes this share of the tail; and what one of them
# costs, in frequencies.
_UNCOUNTED, _COUNTED_COST = 1e-2, 0.4
# Tails are tabulated for about so many alpha.
_USUAL_POINTS = 200.0
# Tables that tell pairs apart are so many times coarser, up to a resolution.
_COARSE, _COARSEST = 30.0, 0.02
# Pairs below this share of the tail everywhere are left out too.
_NOTHING = 0.25
# Losses further above the largest than this, relative to their size, are above it.
_BEYOND = 2.0**-42


@dataclass(frozen=True, eq=False)
class Shared:
    """Bounds from a table.

    Attributes:
        profile: the bounds.
        narrow: at which losses they are as close as was asked for, shape (m,).
        excess: ``alpha - 1`` there, shape (m,).
        part: how wide they may be, in parts of the upper bound, shape (m,).
        atoms: whether the losses are few single ones, more than smoothing spares.
    """

    profile: Profile
    narrow: NDArray[np.bool_]
    excess: Array
    part: Array
    atoms: bool = False

    def joined(self, other: Shared, at: NDArray[np.intp]) -> Shared:
        """The better one of two bounds at some of the alpha, with the events of both."""
        upper, narrow = self.profile.upper.copy(), self.narrow.copy()
        upper[at] = np.minimum(upper[at], other.profile.upper)
        narrow[at] |= other.narrow
        both = (self.profile, other.profile)
        q, d = (np.concatenate(x) for x in zip(*((p.q, p.d) for p in both), strict=True))
        return Shared(Profile(upper, q, d), narrow, self.excess, self.part, self.atoms)

    def bridged(self) -> Shared:
        """The same with chords between close bounds where they are wide: profiles are below."""
        if self.narrow.all() or not self.narrow.any():
            return self
        narrow, upper, excess = self.narrow.copy(), self.profile.upper.copy(), self.excess
        first, last = np.flatnonzero(narrow)[[0, -1]].tolist()
        wide = first + np.flatnonzero(~narrow[first:last])
        chords = np.interp(excess[wide], excess[narrow], upper[narrow])
        upper[wide] = np.minimum(upper[wide], chords * (1.0 + 16 * UNIT_ROUNDOFF))
        q, d = self.profile.q, self.profile.d
        lower = np.max(d - np.multiply.outer(excess[wide], q), axis=1, initial=0.0)
        narrow[wide] = upper[wide] - lower <= self.part[wide] * upper[wide]
        return Shared(Profile(upper, q, d), narrow, excess, self.part, self.atoms)


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
    finer: int = 0,
    most_counted: int = 0,
    *,
    many: bool = False,
) -> Shared:
    """Bounds of the largest profile of all pairs, a set closed under exchanging the datasets.

    Args:
        pairs: ordered pairs of inputs.
        users: number n of messages.
        losses: ascending ``log(alpha) >= 0``, shape (m,).
        effort: how closely.
        numbers: least and most messages that the table is for; unless given, `users_range`.
        finer: how many times it is smoothed less than usual.
        most_counted: up to so many combinations of counts are summed up instead.
        many: whether many of these numbers are asked for.
    """
    numbers = numbers or users_range(users)
    return _profile(pairs, users, losses.tobytes(), effort, numbers, finer, most_counted, many)


def closest_profile(
    pairs: tuple[LetterSource, ...], users: int, losses: Array, effort: Effort
) -> Shared:
    """Bounds for one number of messages alone, smoothed ever less where they are wide.

    The arguments are those of `shared_profile`.
    """
    both = users, users
    found = shared_profile(pairs, users, losses, effort, both)
    for finer in range(1, _MOST_FINER + 1):
        wide = np.flatnonzero(~found.narrow)
        if not wide.size:
            break
        closer = shared_profile(pairs, users, losses[wide], effort, both, finer, MOST_COUNTED)
        found = found.joined(closer, wide)
    return found.bridged()


# Both ends of a mixture ask for many of the same numbers.
@lru_cache(maxsize=1024)
def _profile(
    pairs: tuple[LetterSource, ...],
    users: int,
    losses: bytes,
    effort: Effort,
    numbers: tuple[int, int],
    finer: int,
    most_counted: int,
    many: bool,
) -> Shared:
    counted = _counted(pairs, users, losses, effort, most_counted)
    if counted is not None:
        return counted.profile(users, many)
    return _table(pairs, numbers, losses, effort, _SMOOTHED * _FINER**finer).profile(users, many)


def counted_profile(
    pairs: tuple[LetterSource, ...], users: int, losses: Array, effort: Effort
) -> Shared | None:
    """The same by counts alone, for any few losses; None if there are too many combinations."""
    found = _counted(pairs, users, losses.tobytes(), effort, MOST_COUNTED)
    return None if found is None else found.profile(users)


class Costs(NamedTuple):
    """What each of some numbers of messages costs for each alpha, in frequencies.

    Attributes:
        frequencies: by frequencies; inf where these are of no use.
        counts: by counts; inf where there are too many combinations.
    """

    frequencies: float
    counts: float


def shared_costs(
    pairs: tuple[LetterSource, ...],
    users: int,
    losses: Array,
    effort: Effort,
    part: float,
    numbers: int,
) -> Costs:
    """What numbers of messages cost, from trying one of them.

    Args:
        pairs: ordered pairs of inputs.
        users: a number of messages.
        losses: some ``log(alpha) >= 0``, ascending, shape (m,).
        effort: how closely.
        part: which part of them has to be close, in (0, 1]; if all, there may be no atoms.
        numbers: how many numbers of messages there are.
    """
    table = _table(pairs, users_range(users), losses.tobytes(), effort, _SMOOTHED)
    found = shared_profile(pairs, users, losses, effort)
    of_no_use = np.mean(found.narrow) < part or (found.atoms and part == 1.0)
    counted = _counted(pairs, users, losses.tobytes(), effort, MOST_COUNTED)
    return Costs(
        frequencies=math.inf if of_no_use else table.cost(numbers),
        counts=math.inf if counted is None else counted.cost(numbers),
    )


def _counted(
    pairs: tuple[LetterSource, ...], users: int, losses: bytes, effort: Effort, most: int
) -> _Table | None:
    """What counts make of one number of messages; None if there are more combinations than that."""
    if not most:
        return None
    excess, found = np.expm1(np.frombuffer(losses)), []
    for source in pairs:
        letters = OrderedLetters(source, users, effort)
        laws = [
            counted_law(pair, users, _UNCOUNTED * effort.tail)
            for pair in (letters.high, letters.low)
        ]
        high, low = laws
        if high is None or low is None:
            return None
        most -= max(high.weight.size, low.weight.size)
        if most < 0:
            return None
        found.append(_Counts(letters, high, low, excess))
    return _Table(found, None, excess, max(pair.letters.high.largest for pair in found))


@lru_cache(maxsize=64)
def _table(
    pairs: tuple[LetterSource, ...],
    users: tuple[int, int],
    losses: bytes,
    effort: Effort,
    smoothed: float,
) -> _Table:
    excess = np.expm1(np.frombuffer(losses))
    letters = [OrderedLetters(source, users[0], effort, users[1]) for source in pairs]
    largest = max(pair.high.largest for pair in letters)
    others = None
    if len(letters) > 1:
        letters, others = _candidates(letters, users, excess)
    tables = [_Ordered.of(pair, users, excess, smoothed) for pair in letters]
    return _Table(tables, others, excess, largest)


def _width(letters: OrderedLetters, excess: Array, bounds: Array, share: float) -> bytes:
    """What smoothing may add, relative to the profile: that share of the width it may have."""
    return np.minimum(share * letters.allowed(excess, bounds) / bounds, 1.0).tobytes()


@lru_cache(maxsize=64)
def _inversion(pair: LetterPair, users: tuple[int, int], excess: bytes, width: bytes) -> Inversion:
    return inversion(pair.decoyed, users, np.frombuffer(excess), np.frombuffer(width))


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
    def of(
        cls, letters: OrderedLetters, users: tuple[int, int], excess: Array, smoothed: float
    ) -> _Ordered:
        """The tables of a pair, smoothed by that part of the width they may have."""
        bounds, exposed = letters.bounds(excess), letters.exposed(excess)[1]
        width = _width(letters, excess, bounds, smoothed)
        high, low = (
            _inversion(pair, users, excess.tobytes(), width) for pair in (letters.high, letters.low)
        )
        return cls(letters, high, low, excess, bounds, exposed)

    def cost(self, numbers: int) -> float:
        """What each of so many numbers costs for each alpha, in frequencies."""
        return max(self.high.cost(numbers), self.low.cost(numbers))

    def ends(self, users: int, many: bool) -> tuple[Array, Ends, NDArray[np.bool_], bool]:
        """Upper bounds with exposed letters, events without, where both are close, and atoms.

        Whether alpha = 1 had to be summed over multisets.
        """
        high = self.high.ends(users, many=many)
        low = high if self.low is self.high else self.low.ends(users, many=many)
        upper = np.where(np.isnan(high.upper), 2.0, high.upper)
        lower = np.where(np.isnan(low.lower), 0.0, low.lower)
        narrow = upper - lower <= self.letters.allowed(self.excess, upper)
        atoms = bool(self.excess[0] == 0.0 and not narrow[0])
        if atoms:
            upper[0] = min(upper[0], self.letters.at_one(users))
            narrow[0] = upper[0] - lower[0] <= self.letters.allowed(self.excess, upper)[0]
        narrow |= self.bounds <= self.letters.effort.tail
        return np.minimum(upper, self.bounds) + self.exposed, low, narrow, atoms


@dataclass(frozen=True, eq=False)
class _Counts:
    """One ordered pair among one number of messages, by counts; see `_Ordered`."""

    letters: OrderedLetters
    high: CountedLaw
    low: CountedLaw
    excess: Array

    def cost(self, _: int) -> float:
        """What each alpha costs, in frequencies."""
        return _COUNTED_COST * max(
            law.weight.size + law.tails.size / _USUAL_POINTS for law in (self.high, self.low)
        )

    def ends(self, users: int, many: bool) -> tuple[Array, CountedBounds, NDArray[np.bool_], bool]:
        """The same as of tables; atoms and other numbers are no matter."""
        high = self.high.bounds(self.excess)
        low = high if self.low is self.high else self.low.bounds(self.excess)
        lower = np.maximum(low.d - self.excess * low.q, 0.0)
        narrow = high.upper - lower <= self.letters.allowed(self.excess, high.upper)
        narrow |= high.upper <= self.letters.effort.tail
        return high.upper + self.letters.exposed(self.excess)[1], low, narrow, False


@dataclass(frozen=True, eq=False)
class _Table:
    """All pairs that may be the largest somewhere.

    Attributes:
        pairs: their tables.
        others: coarse tables of all other pairs, if there are any.
        excess: ``alpha - 1``.
        largest: no finite loss of any is larger, nats.
    """

    pairs: Sequence[_Ordered | _Counts]
    others: _Coarse | None
    excess: Array
    largest: float

    def cost(self, numbers: int) -> float:
        """What each of so many numbers of messages costs for each alpha, in frequencies."""
        return max((pair.cost(numbers) for pair in self.pairs), default=0.0)

    def profile(self, users: int, many: bool = False) -> Shared:
        """The bounds for that many messages, one of many such numbers or not."""
        upper, events = np.zeros(self.excess.shape), [(np.zeros(0), np.zeros(0))]
        narrow, atoms = np.ones(self.excess.shape, dtype=bool), False
        for pair in self.pairs:
            high, low, close, listed = pair.ends(users, many)
            upper, narrow, atoms = np.maximum(upper, high), narrow & close, atoms or listed
            kept = (low.d > 0.0) & (low.q > 0.0)  # and no nan
            events.append(with_exposed(pair.letters.low, low.q[kept], low.d[kept]))
        if self.others is not None:
            rest = self.others.ends(users, many)[0].max(axis=0)
            narrow &= rest <= np.maximum(upper, self.others.tail)
            upper = np.maximum(upper, rest)
        if self.largest < math.inf:  # logarithms are off by far less
            beyond = np.log1p(self.excess) >= self.largest + _BEYOND * (1.0 + self.largest)
            upper = np.where(beyond, 0.0, upper)
        q, d = (np.concatenate(columns) for columns in zip(*events, strict=True))
        part = np.ones(self.excess.shape)
        for pair in self.pairs:
            part = np.minimum(part, pair.letters.allowed(self.excess, np.ones(part.shape)))
        return Shared(Profile(np.minimum(upper, 1.0), q, d), narrow, self.excess, part, atoms)


@dataclass(frozen=True, eq=False)
class _Coarse:
    """Coarse tables of several pairs.

    Attributes:
        tables: one for each pair.
        bounds: bounds from moments for the least number, and so for all, shape (pairs, k).
        exposed: what exposed letters add, from below and above, shape (pairs, k) each.
        tail: what may be given away.
    """

    tables: tuple[Inversion, ...]
    bounds: Array
    exposed: tuple[Array, Array]
    tail: float

    @classmethod
    def of(cls, pairs: list[OrderedLetters], users: tuple[int, int], excess: Array) -> _Coarse:
        """The tables of some pairs."""
        usual = pairs[0].effort.resolution
        share = _SMOOTHED * max(min(_COARSE, _COARSEST / usual), 1.0)
        exposed = [pair.exposed(excess) for pair in pairs]
        bounds = [pair.bounds(excess) for pair in pairs]
        tables = tuple(
            _inversion(pair.high, users, excess.tobytes(), _width(pair, excess, most, share))
            for pair, most in zip(pairs, bounds, strict=True)
        )
        return cls(
            tables,
            np.stack(bounds),
            (np.stack([low for low, _ in exposed]), np.stack([high for _, high in exposed])),
            pairs[0].effort.tail,
        )

    def only(self, kept: NDArray[np.bool_]) -> _Coarse:
        """Those of some of the pairs."""
        tables = tuple(itertools.compress(self.tables, kept))
        exposed = self.exposed[0][kept], self.exposed[1][kept]
        return _Coarse(tables, self.bounds[kept], exposed, self.tail)

    @cached_property
    def joined(self) -> Inversion:
        """All tables, one behind the other."""
        return Inversion.joined(self.tables)

    def ends(self, users: int, many: bool = False) -> tuple[Array, Array]:
        """Upper bounds and, if letters are the same for either end, lower ones, (pairs, k) each."""
        found = self.joined.ends(users, many=many)
        high, low = (x.reshape(self.bounds.shape) for x in (found.upper, found.lower))
        upper = np.minimum(np.nan_to_num(high, nan=1.0), self.bounds)
        return upper + self.exposed[1], np.nan_to_num(low) + self.exposed[0]


def _candidates(
    pairs: list[OrderedLetters], users: tuple[int, int], excess: Array
) -> tuple[list[OrderedLetters], _Coarse | None]:
    """Pairs that may be the largest for a number of messages, and coarse tables of the others."""
    tables, likely = _Coarse.of(pairs, users, excess), np.zeros(len(pairs), dtype=bool)
    for number in {users[0], round(math.sqrt(users[0] * users[1])), users[1]}:
        upper, lower = tables.ends(number)
        # about the largest, which need not be certain here
        floor = np.maximum(lower.max(axis=0), _NOTHING * pairs[0].effort.tail)
        likely |= np.any(upper > floor, axis=1)
    kept = list(itertools.compress(pairs, likely))
    return kept, None if likely.all() else tables.only(~likely)
