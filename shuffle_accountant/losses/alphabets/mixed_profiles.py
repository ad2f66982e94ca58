"""Bounds of a mixture of profiles tabulated range by range: chords above, events below.

`shuffle_accountant.losses.alphabets.random_users` has the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.alphabets.profiles import Profile
from shuffle_accountant.losses.alphabets.samples import Sample
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    lowered,
    outwards,
    raised,
    roundings,
    sequential_sum,
)

__all__ = ["MixedProfiles", "RangeProfiles"]

# Gaps between wide bounds are negligible if together they are at most this many resolutions,
# relative to the profile of the mixture.
_NEXT_TO_NOTHING = 0.3
# Or at most this many tails (`Effort.tail`): a composition's are at most a millionth of delta, over
# all of its rounds.
_TAILS = 1e3
# Largest number of samples times events times points that are compared at once.
_AT_ONCE = 1 << 20
# Upper bound of the rounding of alpha, relative to alpha - 1.
_CLOSE_BY = 1e-9
# Upper bound of what products of probabilities that are too small for a double lose.
_UNDERFLOW = 1e-300


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
            low = (1.0 - _CLOSE_BY) * span[0] / fractions.max()
            high = (1.0 + _CLOSE_BY) * span[1] / fractions.min()
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
        size = max(_AT_ONCE // (excess.size * self.q.shape[1]), 1)
        for start in range(0, self.weight.size, size):
            some = slice(start, start + size)
            row, fraction = self.row[some], self.fraction[some]
            place = excess / fraction[:, None]
            value = self.d[row][:, None, :] - place[:, :, None] * self.q[row][:, None, :]
            best = np.argmax(value, axis=2)
            q += self.weight[some] @ self.q[row[:, None], best]
            d += (self.weight[some] * fraction) @ self.d[row[:, None], best]
        error = sequential_sum(self.weight.size, own=4)
        return np.asarray(raised(q, error) + _UNDERFLOW), np.asarray(lowered(d, error))


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

    def too_wide(
        self, effort: Effort, span: tuple[float, float], *, patient: bool = False
    ) -> list[bool]:
        """Whether each range of numbers has wide bounds that are not negligible for the mixture.

        Args:
            effort: the requested accuracy, which says what is negligible.
            span: least and largest ``alpha - 1`` that will be asked for.
            patient: whether more is negligible, the more the deeper in the tail, where an epsilon
                of a smooth distribution depends on it less.
        """
        wide = [part.wide(span) for part in self.parts]
        number = sum(int(there.any(axis=1).sum()) for there in wide)
        return [
            any(
                self._counts(part, row, every[row], number, effort, span, patient)
                for row in np.flatnonzero(every.any(axis=1)).tolist()
            )
            for part, every in zip(self.parts, wide, strict=True)
        ]

    def _counts(
        self,
        part: RangeProfiles,
        row: int,
        wide: NDArray[np.bool_],
        number: int,
        effort: Effort,
        span: tuple[float, float],
        patient: bool,
    ) -> bool:
        """Whether one of ``number`` numbers of messages matters where its bounds are wide."""
        own = part.row == row
        fraction, share = float(part.fraction[own].max()), part.weight[own] @ part.fraction[own]
        place = np.clip(fraction * part.excess[wide], *span)
        inner = place / fraction
        lower = np.max(part.d[row] - np.multiply.outer(inner, part.q[row]), axis=1)
        value = share * (np.interp(inner, part.excess, part.upper[row]) - lower)
        whole = self.upper_at(place) - self.missing
        # the deeper in the tail, the less an epsilon depends on it
        deep = 1.0 - 2.0 * np.log(np.maximum(whole, _UNDERFLOW))
        part_of_it = effort.resolution * (deep if patient else _NEXT_TO_NOTHING)
        most = np.maximum(part_of_it * whole, _TAILS * effort.tail)
        return bool(np.any(number * value > most))
