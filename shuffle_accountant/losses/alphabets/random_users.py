"""The loss of a target who takes part by chance, among a random number of messages.

Given m messages, m revealed, the target's is one of them with chance x_m. With the explicit pair of
`shuffle_accountant.losses.combined.subsampled`

    H_alpha = sum over m of w_m x_m D_m(1 + (alpha - 1)/x_m),

D_m the profile of a target among m messages. The number of messages is only a power in the tables
of `losses.alphabets.profiles`, so all are read off a few tables, one for each range of numbers (a
sum's range grows with the root of its number), at points of its own; rare numbers are tabulated
coarsely.

* Upper. D_m is convex and falls: it is below its chords between the points, and beyond the last
  one no larger than there. The mixture is convex too: its values are joined by chords once more.
* Lower. Each event of a table has ``d - (alpha' - 1) q <= D_m(alpha')`` for every alpha' >= 1. One
  event for each m, whichever, makes an event of the mixture: at ``alpha' = 1 + (alpha - 1)/x_m``

      H_alpha >= sum of w_m x_m d_m - (alpha - 1) sum of w_m q_m   for every alpha >= 1.

Where the mixture's bounds from tables are too wide, each number of messages has a loss of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms, symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letters import (
    MessageSource,
    moment_bounds,
    source_messages,
)
from shuffle_accountant.losses.alphabets.profiles import Profile, profile_table, ways_of
from shuffle_accountant.losses.alphabets.settings import MIXTURES, PROFILES
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss, SymmetricLoss, way_of
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
from shuffle_accountant.sums.survey import Way


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
    """Ranges of about one ratio that hold all numbers of messages, one of them around the usual."""
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
        profiles = tables.values()
        q, d = np.zeros((2, len(profiles), 1 + max(one.q.size for one in profiles)))
        for row, one in enumerate(profiles):  # the last event is that nothing happens
            q[row, : one.q.size], d[row, : one.d.size] = one.q, one.d
        return cls(
            excess=excess,
            weight=np.array([sample.weight for sample in samples]),
            fraction=np.array([sample.fraction for sample in samples]),
            row=np.array([rows[sample.users] for sample in samples]),
            # a profile falls
            upper=np.minimum.accumulate([one.upper for one in profiles], axis=1),
            q=q,
            d=d,
            narrow=np.stack([one.narrow for one in profiles]),
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
        """Whether bounds are too far apart at a point in ``span`` where those of a part are wide.

        The span is that of ``alpha - 1``.
        """
        wide = [part.excess[part.wide(span).any(axis=0)] for part in self.parts]
        fractions = [part.fraction.max() for part in self.parts]
        places = [np.clip(x * most, *span) for x, most in zip(wide, fractions, strict=True)]
        place = np.unique(np.concatenate(places))
        if not place.size:
            return False
        q, d = self.events_at(place)
        whole = self.upper_at(place) - self.missing
        # the deeper in the tail, the less an epsilon depends on it
        depth = 1.0 - 2.0 * np.log(np.maximum(whole, LIMITS.underflow))
        gap = whole - (d - place * q)
        allowed = MIXTURES.wide * effort.resolution * depth * whole + MIXTURES.tails * effort.tail
        return bool(np.any(gap > allowed))


@dataclass(frozen=True)
class RandomUsersLoss(SymmetricLoss):
    """Privacy loss of a target, given by its likelihood ratios, among a random number of messages.

    Attributes:
        pairs: the ordered pairs of inputs, each with its reverse or as hard to distinguish as that.
        source: distribution of the number of messages.
        listed: the same mixture, each number of messages with a loss of its own.
        most_terms: largest number of terms (numbers of messages times points times frequencies) for
            which tables are used; with more, ``listed`` is quicker. Likelihood ratios on a lattice
            have many frequencies.
    """

    pairs: tuple[MessageSource, ...]
    source: SampleSource
    listed: PrivacyLoss
    most_terms: float

    @property
    def largest(self) -> float:
        """Upper bound of the finite losses, nats."""
        return self.listed.largest

    @property
    def deviation(self) -> float:
        """Rough standard deviation, nats."""
        return self.listed.deviation

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0."""
        plain = Effort(effort.tail, effort.resolution)
        found = None
        if epsilon == math.inf:
            found = _limit(self, side, plain)
        elif epsilon < min(self.largest, MIXTURES.largest):
            mixture = _near(self, math.floor(epsilon / _unit(self, plain)), side, plain)
            found = None if mixture is None else mixture.delta(math.expm1(epsilon))
        return self.listed.delta(epsilon, side, effort) if found is None else found

    def way(self, epsilon: float, effort: Effort) -> str:
        """Name of the way that answers at epsilon: nodes where tables do."""
        plain = Effort(effort.tail, effort.resolution)
        if epsilon < min(self.largest, MIXTURES.largest):
            part = math.floor(epsilon / _unit(self, plain))
            if _near(self, part, Bound.PESSIMISTIC, plain) is not None:
                return Way.NODES.value
        return way_of(self.listed, epsilon, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        plain = Effort(effort.tail, effort.resolution, rounds=effort.rounds)
        found = _whole(self, side, plain)
        if found is None:
            return self.listed.atoms(side, edges, effort)
        edges(float(np.max(np.abs(found.loss), initial=0.0)))  # whether such a grid is allowed
        return found


Places = tuple[tuple[NumberRange, bytes], ...]


@lru_cache(maxsize=16)
def _fewest(loss: RandomUsersLoss, effort: Effort) -> BlanketLoss | None:
    """The target among the fewest messages; None where each number has a loss of its own."""
    expected = loss.source.expected
    few = expected < MIXTURES.fewest_unlisted
    if expected < MIXTURES.fewest or (
        few and ways_of(loss.pairs, 2 * round(expected), effort) == {Way.LISTS}
    ):
        return None
    samples, _ = loss.source.samples(Bound.PESSIMISTIC, effort)
    deviation = max(
        source_messages(pair, Bound.OPTIMISTIC, effort).deviation(round(expected))
        for pair in loss.pairs
    )
    least = min(sample.users for sample in samples if sample.users)
    return BlanketLoss(loss.pairs, least, deviation, loss.largest)


@lru_cache(maxsize=16)
def _mixture(
    loss: RandomUsersLoss, side: Bound, places: Places, effort: Effort, span: tuple[float, float]
) -> MixedProfiles | None:
    """The mixture at those points, for ``alpha - 1`` in ``span``.

    None if its bounds are too wide, or it would take more than ``most_terms`` terms.
    """
    samples, missing = loss.source.samples(side, effort)
    # those of one side, so that both go one way
    usual = {sample.users for sample in loss.source.samples(Bound.PESSIMISTIC, effort)[0]}
    parts, terms = [], 0.0
    for numbers, own in places:
        some = [sample for sample in samples if sample.users in numbers]
        if some:
            # finer than the mixture: discretized messages lose a part of the bracket's width there
            least = min(max(0.4 * effort.resolution, 1e-4), 8.0 * effort.resolution)
            coarse = max(min(numbers.spread * least, MIXTURES.coarsest), least)
            ends, coarser = (numbers.least, numbers.most), replace(effort, resolution=coarse)
            table = profile_table(loss.pairs, ends, own, coarser)
            terms += sum(n in numbers for n in usual) * (len(own) // 8) * table.nodes
            if terms > loss.most_terms:
                return None
            profiles = {n: table.profile(n) for n in dict.fromkeys(one.users for one in some)}
            parts.append(RangeProfiles.of(some, np.expm1(np.frombuffer(own)), profiles))
    found = MixedProfiles(side, tuple(parts), missing)
    return None if found.too_wide(effort, span) else found


@lru_cache(maxsize=16)
def _whole(loss: RandomUsersLoss, side: Bound, effort: Effort) -> PldAtoms | None:
    """The whole profile as atoms; None where tables do not answer."""
    inner = _fewest(loss, effort)
    if inner is None:
        return None

    def points(spread: float) -> Array:
        wider = replace(effort, resolution=effort.resolution * spread)
        step = MIXTURES.step * math.sqrt(wider.resolution) * inner.deviation

        def edges(largest: float) -> Array:
            return np.arange(math.ceil(4.0 * largest / step) + 2, dtype=np.float64) * (0.25 * step)

        return inner.spaced_points(Bound.PESSIMISTIC, edges, wider, MIXTURES.step)

    ranges = number_ranges(loss.source, effort)
    places = tuple((numbers, points(numbers.spread).tobytes()) for numbers in ranges)
    found = _mixture(loss, side, places, effort, (0.0, math.inf))
    if found is None:
        return None
    weight, fraction = np.hstack([(part.weight, part.fraction) for part in found.parts])
    mean, most = np.average(fraction, weights=weight), fraction.max()
    excess = np.expm1(points(1.0)) * mean
    # what only numbers have where the target's message is likelier among them than usual
    further = excess * (most / mean)
    excess = np.append(excess, further[further > excess[-1]])
    if side is Bound.PESSIMISTIC:
        # from where on the profiles of all numbers are at their ends
        ends = [float(part.excess[-1] * part.fraction.max()) for part in found.parts]
        losses = _apart(np.log1p(np.append(excess, max(ends) * (1.0 + PROFILES.beyond))))
        upper = found.upper_at(np.expm1(losses))
        return profile_atoms(losses, (upper, upper), (upper, upper), 0.0, side)
    users = int(max(sample.users for sample in loss.source.samples(side, effort)[0]))
    limit = largest_divergence(loss.pairs, users, math.inf, side, effort)
    share = float(np.sum(weight * fraction)) * (1.0 - sequential_sum(weight.size))
    q, d = found.events_at(np.expm1(np.log1p(excess)))
    return replace(symmetric_atoms(q, d, limit * share), truncated=found.missing)


def _apart(losses: Array) -> Array:
    """The losses without those too close to another: slopes between them would be round-off."""
    kept = np.append(True, np.diff(losses) > PROFILES.beyond * losses[1:])
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] <= PROFILES.beyond * losses[-1]:
        kept[-2] = False
    return np.asarray(losses[kept])


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


def _near(loss: RandomUsersLoss, part: int, side: Bound, effort: Effort) -> MixedProfiles | None:
    """The mixture of profiles near one epsilon, range number ``part``; None without tables."""
    places, unit = _near_points(loss, part, effort), _unit(loss, effort)
    span = math.expm1(part * unit), math.expm1((part + 1) * unit)
    return None if places is None else _mixture(loss, side, places, effort, span)


def _unit(loss: RandomUsersLoss, effort: Effort) -> float:
    """Width of the ranges of epsilon that share their points, nats."""
    return 5.0 * MIXTURES.step_near * math.sqrt(effort.resolution) * loss.deviation


@lru_cache(maxsize=64)
def _near_points(loss: RandomUsersLoss, part: int, effort: Effort) -> Places | None:
    """Points that answer every epsilon in range number ``part``; None without tables."""
    inner = _fewest(loss, effort)
    if inner is None:
        return None
    unit, usual = _unit(loss, effort), MIXTURES.step_near * math.sqrt(effort.resolution)
    end = inner.largest * (1.0 + PROFILES.beyond) + PROFILES.beyond
    every, found = every_sample(loss.source, effort), []
    share = _shares(loss, every, math.expm1((part + 0.5) * unit), effort)
    most = every[int(np.argmax(share))].users
    for numbers in ranges_by_share(every, share, most, effort):
        step = usual * math.sqrt(numbers.spread) * inner.deviation
        fractions = [sample.fraction for sample in every if sample.users in numbers]
        first = math.log1p(math.expm1(part * unit) / max(fractions)) - step
        last = math.log1p(math.expm1((part + 1) * unit) / min(fractions)) + step
        if last >= end:
            first, last = min(first, end - step), end
        count = math.ceil((last - max(first, 0.0)) / step) + 1
        points = np.linspace(max(first, 0.0), last, max(count, 2))
        points = points if points[0] == 0.0 else np.append(0.0, points)
        found.append((numbers, points.tobytes()))
    return tuple(found)


def _shares(loss: RandomUsersLoss, every: list[Sample], excess: float, effort: Effort) -> Array:
    """Rough share of each number of messages in the profile at ``alpha = 1 + excess``."""
    users, weight, fraction = (
        np.array(column)
        for column in zip(*((one.users, one.weight, one.fraction) for one in every), strict=True)
    )
    letters = [source_messages(pair, Bound.OPTIMISTIC, effort) for pair in loss.pairs]
    worst = max(letters, key=lambda pair: pair.deviation(int(users.max())))
    looked = np.geomspace(users.min(), users.max(), 24)
    looked = np.unique(looked.round().astype(int))
    order = np.argsort(users, kind="stable")
    drawn = np.interp(looked, users[order], fraction[order])
    value = [
        float(moment_bounds([worst], n, np.array([excess / x]))[0, 0])
        for n, x in zip(looked.tolist(), drawn.tolist(), strict=True)
    ]
    logs = np.log(np.maximum(value, LIMITS.underflow))
    return np.asarray(weight * fraction * np.exp(np.interp(users, looked, logs)))
