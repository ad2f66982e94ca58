"""The loss of a target who takes part by chance, among a random number of messages.

Given m messages, m revealed, the target's is one of them with chance x_m. With the explicit pair of
`shuffle_accountant.losses.combined.subsampled`

    H_alpha = sum over m of w_m x_m D_m(1 + (alpha - 1)/x_m),

D_m the profile of a target among m messages. Numbers of messages enter the tables of
`shared_profile` by a power alone, so all of them are read off a few tables, one for each range of
numbers, at points of its own; what is rare is tabulated coarsely.

* Upper. D_m is convex and falls: it is below its chords between the points, and beyond the last
  one no larger than there. The mixture is convex too: its values are joined by chords once more.
* Lower. Each event of a table has ``d - (alpha' - 1) q <= D_m(alpha')`` for every alpha' >= 1. One
  event for each m, whichever, makes an event of the mixture: at ``alpha' = 1 + (alpha - 1)/x_m``

      H_alpha >= sum of w_m x_m d_m - (alpha - 1) sum of w_m q_m   for every alpha >= 1.

Where tables are not close enough, and what is not counts, each number has a law of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.lattice.region import symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letter_moments import LetterSource, source_letters
from shuffle_accountant.losses.alphabets.shared_profile import (
    Shared,
    ranges_of,
    shared_frequencies,
    shared_profile,
)
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss, SymmetricLoss
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    lowered,
    outwards,
    raised,
    roundings,
    sequential_sum,
)

__all__ = ["MOST_TERMS", "RandomUsersLoss", "Sample", "SampleSource"]

MOST_TERMS = 2.0**26
"""With more terms than this, laws of each number of messages are quicker than tables."""

# Fewer messages than this, on average, have laws of their own.
_FEWEST_USERS = 64.0
# Points are this many deviations times sqrt(resolution) apart, of the whole profile near 0, and
# near one question; there are at most so many of the latter.
_STEP, _STEP_NEAR, _MOST_NEAR = 1.0, 2.0, 600
# Questions within this many deviations share their points.
_NEAR = 0.25
# Tables are this much coarser than points, up to a resolution, or beyond it: what letters of
# continuous messages lose there is a part of the bracket's width, and a few more cost little.
_COARSER, _COARSER_THEN, _COARSE = 40.0, 1.2, 3e-4
# Of rare numbers they are as much coarser as this power of their weight is smaller, up to a
# resolution: what is rare may matter more than it weighs.
_RARE, _COARSEST = 0.25, 0.05
# The tables are tried at so many points first.
_TRIED = 5
# Larger losses are not looked for in tables.
_LARGEST_LOSS = 50.0
# Wide bounds may be this share of the resolution of the whole, together.
_NEXT_TO_NOTHING = 1e-2
# Events times points that are compared at once.
_AT_ONCE = 1 << 20
# More than products of probabilities that are too small for a double lose.
_UNDERFLOW = 1e-300
# Relative distance that no rounding of alpha reaches.
_BEYOND = 2.0**-40


@dataclass(frozen=True)
class Sample:
    """Messages in one number.

    Attributes:
        weight: probability of that number, rounded in the direction.
        users: the number; 0 tells nothing.
        fraction: chance that the target's is one of them, rounded in the direction; at most 1.
    """

    weight: float
    users: int
    fraction: float


class SampleSource(Protocol):
    """What the numbers of messages are."""

    def __hash__(self) -> int:
        """By value, so that answers can be remembered."""

    @property
    def expected(self) -> float:
        """Expected number of messages."""

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        """Samples whose mixture bounds the true one, and the probability of what is left out."""


@dataclass(frozen=True)
class RandomUsersLoss(SymmetricLoss):
    """The mixture over numbers of messages, for a target that is told by its letters.

    Attributes:
        pairs: the ordered pairs of inputs, each with its reverse or as hard to tell apart as that.
        source: the numbers of messages.
        listed: the same mixture, each number with a loss of its own.
        most_terms: with so many terms, numbers of messages times points times frequencies, the
            tables take longer than that: letters on a lattice have many frequencies.
    """

    pairs: tuple[LetterSource, ...]
    source: SampleSource
    listed: PrivacyLoss
    most_terms: float

    @property
    def largest(self) -> float:
        """No finite loss is larger, nats."""
        return self.listed.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.listed.deviation

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0."""
        plain = Effort(effort.tail, effort.resolution)
        if epsilon == math.inf and (found := _limit(self, side, plain)) is not None:
            return found
        if epsilon < min(self.largest, _LARGEST_LOSS):
            part = math.floor(epsilon / (_NEAR * self.deviation))
            mixture = _near(self, part, side, plain)
            if mixture is not None:
                return mixture.delta(math.expm1(epsilon))
        return self.listed.delta(epsilon, side, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        found = _whole(self, side, Effort(effort.tail, effort.resolution))
        if found is None:
            return self.listed.atoms(side, edges, effort)
        edges(float(np.max(np.abs(found.loss), initial=0.0)))  # whether such a grid is allowed
        return found


def _limit(loss: RandomUsersLoss, side: Bound, effort: Effort) -> float | None:
    """Bound for alpha to infinity, if numbers of messages hardly differ: few and many bound all."""
    samples, missing = loss.source.samples(side, effort)
    samples = tuple(sample for sample in samples if sample.users)
    if not samples:
        return None
    numbers = [sample.users for sample in samples]
    most, least = (
        largest_divergence(loss.pairs, users, math.inf, side, effort)
        for users in (min(numbers), max(numbers))
    )
    if most - least > effort.tail:
        return None
    share = float(np.sum([sample.weight * sample.fraction for sample in samples]))
    error = sequential_sum(len(samples), own=4.0)
    if side is Bound.OPTIMISTIC:
        return lowered(share * least, error)
    return min(raised(share * most, error) + (missing if loss.largest == math.inf else 0.0), 1.0)


@lru_cache(maxsize=16)
def _whole(loss: RandomUsersLoss, side: Bound, effort: Effort) -> PldAtoms | None:
    """All of the profile as atoms; None where tables are not close enough."""
    inner = _inner(loss, effort)[0]
    if inner is None:
        return None

    def points(spread: float) -> Array:
        wider = replace(effort, resolution=effort.resolution * spread)
        step = _STEP * math.sqrt(wider.resolution) * inner.deviation

        def edges(largest: float) -> Array:
            return np.arange(math.ceil(4.0 * largest / step) + 2, dtype=np.float64) * (0.25 * step)

        return inner.spaced_points(Bound.PESSIMISTIC, edges, wider, _STEP)

    own = tuple(points(numbers.spread).tobytes() for numbers in _ranges(loss.source, effort))
    found = _mixture(loss, side, own, effort)
    if found is None:
        return None
    excess = np.expm1(points(1.0))
    places = excess * float(np.average(found.fraction, weights=found.weight))
    if side is Bound.PESSIMISTIC:
        # from where on the profiles of all numbers are at their ends
        ends = [float(part.excess[-1] * part.fraction.max()) for part in found.parts]
        last = max(ends) * (1.0 + _BEYOND)
        losses = _apart(np.log1p(np.append(places, last)))
        upper = found.upper_at(np.expm1(losses))
        return profile_atoms(losses, (upper, upper), (upper, upper), 0.0, side)
    most = int(max(sample.users for sample in loss.source.samples(side, effort)[0]))
    limit = largest_divergence(loss.pairs, most, math.inf, side, effort)
    share = float(np.sum(found.weight * found.fraction)) * (1.0 - sequential_sum(found.weight.size))
    q, d = found.events_at(np.expm1(np.log1p(places)))
    return replace(symmetric_atoms(q, d, limit * share), truncated=found.missing)


def _apart(losses: Array) -> Array:
    """Losses that are apart: slopes between closer points would be round-off."""
    kept = np.append(True, np.diff(losses) > _BEYOND * losses[1:])
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] <= _BEYOND * losses[-1]:
        kept[-2] = False
    return np.asarray(losses[kept])


def _near(loss: RandomUsersLoss, part: int, side: Bound, effort: Effort) -> _Mixture | None:
    """The profile near one question."""
    places = _near_points(loss, part, effort)
    return None if places is None else _mixture(loss, side, places, effort)


@lru_cache(maxsize=64)
def _near_points(loss: RandomUsersLoss, part: int, effort: Effort) -> tuple[bytes, ...] | None:
    """Points, as bytes, that answer questions between two losses, for each range of numbers."""
    inner = _inner(loss, effort)[0]
    if inner is None:
        return None
    unit, usual = _NEAR * loss.deviation, _STEP_NEAR * math.sqrt(effort.resolution)
    end = inner.largest * (1.0 + _BEYOND) + _BEYOND
    every = [sample for side in Bound for sample in loss.source.samples(side, effort)[0]]
    found = []
    for numbers in _ranges(loss.source, effort):
        step = usual * math.sqrt(numbers.spread) * inner.deviation
        fractions = [sample.fraction for sample in every if sample.users in numbers]
        first = math.log1p(math.expm1(part * unit) / max(fractions)) - step
        last = math.log1p(math.expm1((part + 1) * unit) / min(fractions)) + step
        if last >= end:
            first, last = min(first, end - step), end
        count = min(math.ceil((last - max(first, 0.0)) / step) + 1, _MOST_NEAR)
        points = np.linspace(max(first, 0.0), last, max(count, 2))
        found.append((points if points[0] == 0.0 else np.append(0.0, points)).tobytes())
    return tuple(found)


@lru_cache(maxsize=16)
def _inner(loss: RandomUsersLoss, effort: Effort) -> tuple[BlanketLoss | None, float]:
    """The target among the fewest messages, or None; and about how many frequencies tables have."""
    if loss.source.expected < _FEWEST_USERS:
        return None, math.inf
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in loss.pairs]
    usual = round(loss.source.expected)
    deviation = max(pair.deviation(usual) for pair in letters)
    largest = max(pair.largest for pair in letters)
    tried = np.linspace(0.0, min(4.0 * deviation, 0.5 * largest), _TRIED)
    frequencies = shared_frequencies(loss.pairs, usual, tried, _coarser(effort))
    if frequencies == math.inf:
        return None, frequencies
    samples, _ = loss.source.samples(Bound.PESSIMISTIC, effort)
    least = min(sample.users for sample in samples if sample.users)
    return BlanketLoss(loss.pairs, least, deviation, loss.largest), frequencies


def _coarser(effort: Effort, spread: float = 1.0) -> Effort:
    least = max(_COARSER_THEN * effort.resolution, _COARSE)
    usual = min(least, _COARSER * effort.resolution)
    return replace(effort, resolution=max(min(spread * usual, _COARSEST), usual))


@lru_cache(maxsize=16)
def _mixture(
    loss: RandomUsersLoss, side: Bound, points: tuple[bytes, ...], effort: Effort
) -> _Mixture | None:
    """The mixture at points of each range, as bytes; None if tables are not close enough."""
    samples, missing = loss.source.samples(side, effort)
    ranges, parts, terms = _ranges(loss.source, effort), [], 0.0
    # those of one side, so that both go one way
    usual = {sample.users for sample in loss.source.samples(Bound.PESSIMISTIC, effort)[0]}
    for numbers, own in zip(ranges, points, strict=True):
        terms += sum(users in numbers for users in usual) * (len(own) // 8)
    if terms * _inner(loss, effort)[1] > loss.most_terms:
        return None
    for numbers, own in zip(ranges, points, strict=True):
        some = [sample for sample in samples if sample.users in numbers]
        if some:
            losses, both = np.frombuffer(own), (numbers.least, numbers.most)
            coarser = _coarser(effort, numbers.spread)
            tables = {
                users: shared_profile(loss.pairs, users, losses, coarser, both)
                for users in dict.fromkeys(sample.users for sample in some)
            }
            parts.append(_Part.of(some, np.expm1(losses), tables))
    found = _Mixture(side, tuple(parts), missing)
    return found if found.close(effort) else None


@dataclass(frozen=True)
class _Range:
    """Numbers of messages that share a table.

    Attributes:
        least: the fewest.
        most: the most.
        spread: how many times coarser than usual what is tabulated may be: it is rare.
    """

    least: int
    most: int
    spread: float

    def __contains__(self, users: int) -> bool:
        return self.least <= users <= self.most


@lru_cache(maxsize=16)
def _ranges(source: SampleSource, effort: Effort) -> tuple[_Range, ...]:
    """Ranges of numbers of messages, of both sides so that both share all."""
    every = [one for side in Bound for one in source.samples(side, effort)[0] if one.users]
    numbers = [one.users for one in every]
    found = []
    for least, most in ranges_of(min(numbers), max(numbers), source.expected):
        weights = [one.weight for one in every if least <= one.users <= most]
        if weights:
            # of two sides
            weight = max(0.5 * math.fsum(weights), 1e-300)
            coarsest = _COARSEST / effort.resolution
            found.append(_Range(least, most, max(min(weight**-_RARE, coarsest), 1.0)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class _Part:
    """Profiles of the numbers of messages of one range, at the same points.

    Attributes:
        excess: ``alpha' - 1`` of the points, ascending from 0, shape (k,).
        weight: of the samples, shape (m,).
        fraction: of the samples, shape (m,).
        row: which number of messages each sample has, shape (m,).
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
    def of(cls, samples: list[Sample], excess: Array, tables: dict[int, Shared]) -> _Part:
        """Those samples, with tables of their numbers of messages."""
        rows = {users: row for row, users in enumerate(tables)}
        profiles = [table.profile for table in tables.values()]
        most = max(profile.q.size for profile in profiles)
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
class _Mixture:
    """Profiles of all numbers of messages.

    Attributes:
        side: which side of the truth.
        parts: those of each range of numbers.
        missing: probability of numbers that are left out.
    """

    side: Bound
    parts: tuple[_Part, ...]
    missing: float

    @cached_property
    def weight(self) -> Array:
        """Of all samples."""
        return np.concatenate([part.weight for part in self.parts])

    @cached_property
    def fraction(self) -> Array:
        """Of all samples."""
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

    def close(self, effort: Effort) -> bool:
        """Whether bounds that are wide are next to nothing beside the whole."""
        wide = sum(int((~part.narrow).any(axis=1).sum()) for part in self.parts)
        for part in self.parts:
            rows = np.flatnonzero((~part.narrow).any(axis=1))
            if not rows.size:
                continue
            mean = float(np.average(part.fraction, weights=part.weight))
            whole = self.upper_at(mean * part.excess) - self.missing
            share = np.bincount(part.row, part.weight * part.fraction, part.upper.shape[0])
            for row in rows.tolist():
                there = ~part.narrow[row]
                fraction = float(part.fraction[part.row == row].max())
                total = np.interp(fraction * part.excess[there], mean * part.excess, whole)
                most = np.maximum(_NEXT_TO_NOTHING * effort.resolution * total, 100.0 * effort.tail)
                if np.any(wide * share[row] * part.upper[row, there] > most):
                    return False
        return True
