"""Mixtures of a target's profiles among a random number of messages; see `random_users`.

Numbers of messages come as samples, whose mixture bounds the true one. They are put into ranges,
one table of profiles each, because the range of a sum grows with the root of the number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.losses.alphabets.profiles import Profile
from shuffle_accountant.losses.alphabets.settings import MIXTURES
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    lowered,
    outwards,
    raised,
    roundings,
    sequential_sum,
)

__all__ = [
    "MixedProfiles",
    "NumberRange",
    "RangeProfiles",
    "Sample",
    "SampleSource",
    "every_sample",
    "number_ranges",
    "ranges_by_share",
]


@dataclass(frozen=True)
class Sample:
    """One number of messages, its probability, and the target's chance to be among them.

    Attributes:
        weight: probability of that number, rounded in the direction.
        users: the number of messages; with 0 nothing is revealed.
        fraction: chance that the target's is one of them, rounded in the direction; at most 1.
    """

    weight: float
    users: int
    fraction: float


class SampleSource(Protocol):
    """Distribution of the number of messages."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    @property
    def expected(self) -> float:
        """Expected number of messages."""

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        """Samples whose mixture bounds the true one, and the probability of what is left out."""


@dataclass(frozen=True)
class NumberRange:
    """Numbers of messages that share a table.

    Attributes:
        least: the fewest.
        most: the most.
        spread: how many times coarser than usual the table may be, because these numbers are rare.
    """

    least: int
    most: int
    spread: float

    def __contains__(self, users: int) -> bool:
        return self.least <= users <= self.most


@lru_cache(maxsize=16)
def number_ranges(source: SampleSource, effort: Effort) -> tuple[NumberRange, ...]:
    """Ranges of numbers of messages, of both sides so that both share all."""
    every = every_sample(source, effort)
    weights = np.array([one.weight for one in every])
    return ranges_by_share(every, weights, source.expected, effort)


def every_sample(source: SampleSource, effort: Effort) -> list[Sample]:
    """Samples of both sides, with a message at least."""
    return [one for side in Bound for one in source.samples(side, effort)[0] if one.users]


def ranges_by_share(
    samples: list[Sample], share: Array, usual: float, effort: Effort
) -> tuple[NumberRange, ...]:
    """Ranges of numbers of messages, coarser where less of the whole is theirs.

    Args:
        samples: with a message at least.
        share: of the whole, for each of them, up to a factor.
        usual: the number that matters most.
        effort: requested accuracy of the whole mixture.
    """
    users = np.array([one.users for one in samples])
    coarsest, found = MIXTURES.coarsest / effort.resolution, []
    for least, most in ranges_of(int(users.min()), int(users.max()), usual):
        there = (least <= users) & (users <= most)
        if there.any():
            part = max(float(share[there].sum() / share.sum()), 1e-300)
            found.append(NumberRange(least, most, max(min(part**-0.3, coarsest), 1.0)))
    return tuple(found)


def ranges_of(least: int, most: int, usual: float) -> list[tuple[int, int]]:
    """Ranges of about one ratio that hold all numbers of messages, one of them around the usual.

    Args:
        least: the fewest messages, >= 1.
        most: the most.
        usual: the likeliest number.
    """
    step = math.log(MIXTURES.ratio)
    low, high = (math.floor(math.log(end / usual) / step) for end in (least, most))
    cuts = (usual * MIXTURES.ratio ** (k + 0.5) for k in range(low - 1, high + 2))
    firsts = sorted({least, *(math.ceil(cut) for cut in cuts if least < cut <= most)})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), most], strict=True))


@dataclass(frozen=True, eq=False)
class RangeProfiles:
    """Profiles of the numbers of messages of one range, at the same points.

    Attributes:
        excess: ``alpha' - 1`` of the points, ascending from 0, shape (k,).
        weight: probabilities of the samples, shape (m,); see `Sample`.
        fraction: chances of the target to take part in them, shape (m,).
        row: index of each sample's number of messages, shape (m,).
        upper: bounds of the profiles, falling, shape (numbers, k).
        q: Q-probabilities of events, shape (numbers, events).
        d: what their P-probabilities are above these, of the same shape.
        narrow: where the profiles' bounds are close, shape (numbers, k).
    """

    excess: Array
    weight: Array
    fraction: Array
    row: NDArray[np.intp]
    upper: Array
    q: Array
    d: Array
    narrow: NDArray[np.bool_]

    @classmethod
    def of(cls, samples: list[Sample], excess: Array, tables: dict[int, Profile]) -> RangeProfiles:
        """The profiles of those samples, from the tables of their numbers of messages."""
        rows = {users: row for row, users in enumerate(tables)}
        profiles = list(tables.values())
        most = 1 + max(profile.q.size for profile in profiles)  # one where nothing happens
        q, d = (
            np.stack([np.append(x, np.zeros(most - x.size)) for x in column])
            for column in ([p.q for p in profiles], [p.d for p in profiles])
        )
        return cls(
            excess=excess,
            weight=np.array([sample.weight for sample in samples]),
            fraction=np.array([sample.fraction for sample in samples]),
            row=np.array([rows[sample.users] for sample in samples]),
            # a profile falls
            upper=np.minimum.accumulate(np.stack([p.upper for p in profiles]), axis=1),
            q=q,
            d=d,
            narrow=np.stack([table.narrow for table in tables.values()]),
        )

    def wide(self, span: tuple[float, float]) -> NDArray[np.bool_]:
        """Mask of bounds that are wide and used between two alpha of the mixture, (numbers, k)."""
        found = ~self.narrow
        for row in range(found.shape[0]):
            fractions = self.fraction[self.row == row]
            # up to the point on either side
            low = (1.0 - MIXTURES.rounded) * span[0] / fractions.max()
            high = (1.0 + MIXTURES.rounded) * span[1] / fractions.min()
            found[row, : max(int(np.searchsorted(self.excess, low, side="right")) - 1, 0)] = False
            found[row, int(np.searchsorted(self.excess, high)) + 1 :] = False
        return found

    def upper_at(self, excess: Array) -> Array:
        """Upper bounds at ``alpha = 1 + excess``, by the chords of each number's profile."""
        place = excess / self.fraction[:, None] * (1.0 - roundings(4))  # larger at a smaller alpha
        first = np.searchsorted(self.excess, place, side="right") - 1
        first = np.clip(first, 0, self.excess.size - 2)
        left, right = self.excess[first], self.excess[first + 1]
        share = np.clip((place - left) / (right - left), 0.0, 1.0) * (1.0 - roundings(8))
        row = self.row[:, None]
        value = self.upper[row, first] * (1.0 - share) + self.upper[row, first + 1] * share
        total = (self.weight * self.fraction) @ value
        return np.asarray(raised(total, sequential_sum(self.weight.size, own=8)))

    def events_at(self, excess: Array) -> tuple[Array, Array]:
        """For each ``alpha = 1 + excess`` about the best event: q from above, d from below."""
        q, d = np.zeros(excess.size), np.zeros(excess.size)
        size = max(LIMITS.at_once // (excess.size * self.q.shape[1]), 1)
        for start in range(0, self.weight.size, size):
            some = slice(start, start + size)
            row, fraction = self.row[some], self.fraction[some]
            place = excess / fraction[:, None]
            value = self.d[row][:, None, :] - place[:, :, None] * self.q[row][:, None, :]
            best = np.argmax(value, axis=2)
            q += self.weight[some] @ self.q[row[:, None], best]
            d += (self.weight[some] * fraction) @ self.d[row[:, None], best]
        error = sequential_sum(self.weight.size, own=4)
        return np.asarray(raised(q, error) + LIMITS.underflow), np.asarray(lowered(d, error))


@dataclass(frozen=True, eq=False)
class MixedProfiles:
    """The mixture of the profiles of all numbers of messages.

    Attributes:
        side: which side of the truth.
        parts: those of each range of numbers.
        missing: probability of numbers that are left out.
    """

    side: Bound
    parts: tuple[RangeProfiles, ...]
    missing: float

    @cached_property
    def weight(self) -> Array:
        """Probabilities of all samples."""
        return np.concatenate([part.weight for part in self.parts])

    @cached_property
    def fraction(self) -> Array:
        """Chance of the target to take part, of all samples."""
        return np.concatenate([part.fraction for part in self.parts])

    def delta(self, excess: float) -> float:
        """The bound at ``alpha = 1 + excess``."""
        upper = self.side is Bound.PESSIMISTIC
        # as an exponential, it is off by some roundings
        place = np.array([outwards(excess, roundings(ELEMENTARY + 4), upper=not upper)])
        if upper:
            return min(float(self.upper_at(place)[0]), 1.0)
        q, d = (float(x[0]) for x in self.events_at(place))
        return max(d - raised(q * float(place[0]), roundings(4)), 0.0) * (1.0 - roundings(2))

    def upper_at(self, excess: Array) -> Array:
        """Upper bounds at ``alpha = 1 + excess``."""
        total = np.sum([part.upper_at(excess) for part in self.parts], axis=0)
        return np.asarray(raised(total, sequential_sum(len(self.parts))) + self.missing)

    def events_at(self, excess: Array) -> tuple[Array, Array]:
        """For each ``alpha = 1 + excess`` about the best event: q from above, d from below."""
        q, d = np.sum([part.events_at(excess) for part in self.parts], axis=0)
        error = sequential_sum(len(self.parts))
        return np.asarray(raised(q, error)), np.asarray(lowered(d, error))

    def too_wide(self, effort: Effort, span: tuple[float, float]) -> bool:
        """Whether the mixture's bounds are too far apart at one of the points with wide bounds.

        Args:
            effort: the requested accuracy.
            span: least and largest ``alpha - 1`` that will be asked for.
        """
        places = [
            np.clip(part.excess[some.any(axis=0)] * part.fraction.max(), *span)
            for part in self.parts
            if (some := part.wide(span)).any()
        ]
        if not places:
            return False
        place = np.unique(np.concatenate(places))
        q, d = self.events_at(place)
        whole = self.upper_at(place) - self.missing
        # the deeper in the tail, the less an epsilon depends on it
        share = (
            MIXTURES.wide
            * effort.resolution
            * (1.0 - 2.0 * np.log(np.maximum(whole, LIMITS.underflow)))
        )
        gap = whole - (d - place * q)
        return bool(np.any(gap > share * whole + MIXTURES.tails * effort.tail))
