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

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.power_sums import MANY_NUMBERS
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.lattice.region import symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letter_moments import (
    LetterSource,
    moment_bounds,
    source_letters,
)
from shuffle_accountant.losses.alphabets.mixed_profiles import MixedProfiles, RangeProfiles
from shuffle_accountant.losses.alphabets.samples import (
    COARSEST,
    NumberRange,
    Sample,
    SampleSource,
    every_sample,
    number_ranges,
    ranges_by_share,
    told_apart,
)
from shuffle_accountant.losses.alphabets.shared_profile import (
    MOST_COUNTED,
    Costs,
    counted_profile,
    shared_costs,
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

__all__ = ["MOST_TERMS", "MOST_TERMS_OF_ALPHABETS", "RandomUsersLoss"]

MOST_TERMS, MOST_TERMS_OF_ALPHABETS = 2.0**27, 2.0**30
"""With more terms than this, laws of each number of messages are quicker than tables: of messages
with two letters that count, and of those with more."""

# Fewer messages than this, on average, have laws of their own.
_FEWEST_USERS = 16.0
# Points of the whole profile are this many deviations times sqrt(resolution) apart near 0; or more,
# where numbers of messages are told apart, which leaves room.
_STEP, _STEP_APART = 1.9, 2.2
# The same near one question, at most so many points, and the steps that questions share points for.
_STEP_NEAR, _MOST_NEAR, _NEAR = 6.0, 600, 5.0
# Tables are this much coarser than points, up to a resolution, or beyond it: what letters of
# continuous messages lose there is a part of the bracket's width, and a few more cost little.
_COARSER, _COARSER_THEN, _COARSE = 40.0, 1.2, 3e-4
# The tables are tried at so many points first; where laws of each number are slow, that part of
# them has to be close.
_TRIED, _TRIED_CLOSE = 5, 0.5
# So many numbers of messages are looked at to find out which of them matter.
_LOOKED = 24
# Ranges where bounds are too wide are tabulated this often, ever finer.
_ATTEMPTS = 3
# Larger losses are not looked for in tables.
_LARGEST_LOSS = 50.0
# Single questions are asked of each number where points cost more than this, or numbers are few.
_COSTLY, _FEW_SAMPLES = 25.0, 64
# More than ``alpha - 1`` is off after an exponential, a logarithm and a quotient.
_ALPHA_ERROR = roundings(4 * ELEMENTARY)
# Relative distance that no rounding of alpha reaches.
_BEYOND = 2.0**-40

# Ranges of numbers of messages, each with the losses of its points, as bytes.
_Places = tuple[tuple[NumberRange, bytes], ...]


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
            if (found := _counted_delta(self, math.expm1(epsilon), side, plain)) is not None:
                return found
            part = math.floor(epsilon / _unit(self, plain))
            mixture = _near(self, part, side, plain)
            if mixture is not None:
                return mixture.delta(math.expm1(epsilon))
        return self.listed.delta(epsilon, side, effort)

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        found = _whole(self, side, Effort(effort.tail, effort.resolution, rounds=effort.rounds))
        if found is None:
            return self.listed.atoms(side, edges, effort)
        edges(float(np.max(np.abs(found.loss), initial=0.0)))  # whether such a grid is allowed
        return found


def _counted_delta(
    loss: RandomUsersLoss, excess: float, side: Bound, effort: Effort
) -> float | None:
    """Bound at ``alpha = 1 + excess`` by counts, if that is how numbers are asked: no chords."""
    way = _inner(loss, effort)
    if way is None or not way.counted:
        return None
    samples, missing = loss.source.samples(side, effort)
    if way.cost < _COSTLY and len(samples) > _FEW_SAMPLES:
        return None  # points that questions share are cheaper
    upper, total = side is Bound.PESSIMISTIC, 0.0
    for sample in samples:
        if not sample.users:
            continue
        # more than an exponential, a logarithm and a quotient are off
        place = outwards(excess / sample.fraction, _ALPHA_ERROR, upper=not upper)
        found = counted_profile(loss.pairs, sample.users, np.array([math.log1p(place)]), effort)
        if found is None or not found.narrow.all():
            return None
        if upper:
            value = float(found.profile.upper[0])
        else:
            most = raised(place, _ALPHA_ERROR)
            value = float(np.max(found.profile.d - most * found.profile.q, initial=0.0))
            value *= 1.0 - roundings(4)
        total += sample.weight * sample.fraction * value
    error = sequential_sum(len(samples), own=4.0)
    return min(raised(total, error) + missing, 1.0) if upper else lowered(total, error)


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
    way = _inner(loss, effort)
    if way is None:
        return None
    inner = way.blanket

    wide = _STEP_APART if told_apart(loss.source, effort) else _STEP

    def points(spread: float) -> Array:
        wider = replace(effort, resolution=effort.resolution * spread)
        step = wide * math.sqrt(wider.resolution) * inner.deviation

        def edges(largest: float) -> Array:
            return np.arange(math.ceil(4.0 * largest / step) + 2, dtype=np.float64) * (0.25 * step)

        return inner.spaced_points(Bound.PESSIMISTIC, edges, wider, wide)

    ranges = number_ranges(loss.source, effort)
    places = tuple((numbers, points(numbers.spread).tobytes()) for numbers in ranges)
    found = _mixture(loss, side, places, effort, (0.0, math.inf))
    if found is None:
        return None
    mean, most = np.average(found.fraction, weights=found.weight), found.fraction.max()
    excess = np.expm1(points(1.0)) * mean
    # what only numbers have where the target's message is likelier among them than usual
    further = excess * (most / mean)
    excess = np.append(excess, further[further > excess[-1]])
    if side is Bound.PESSIMISTIC:
        # from where on the profiles of all numbers are at their ends
        ends = [float(part.excess[-1] * part.fraction.max()) for part in found.parts]
        last = max(ends) * (1.0 + _BEYOND)
        losses = _apart(np.log1p(np.append(excess, last)))
        upper = found.upper_at(np.expm1(losses))
        return profile_atoms(losses, (upper, upper), (upper, upper), 0.0, side)
    users = int(max(sample.users for sample in loss.source.samples(side, effort)[0]))
    limit = largest_divergence(loss.pairs, users, math.inf, side, effort)
    share = float(np.sum(found.weight * found.fraction)) * (1.0 - sequential_sum(found.weight.size))
    q, d = found.events_at(np.expm1(np.log1p(excess)))
    return replace(symmetric_atoms(q, d, limit * share), truncated=found.missing)


def _apart(losses: Array) -> Array:
    """Losses that are apart: slopes between closer points would be round-off."""
    kept = np.append(True, np.diff(losses) > _BEYOND * losses[1:])
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] <= _BEYOND * losses[-1]:
        kept[-2] = False
    return np.asarray(losses[kept])


def _near(loss: RandomUsersLoss, part: int, side: Bound, effort: Effort) -> MixedProfiles | None:
    """The profile near one question."""
    places, unit = _near_points(loss, part, effort), _unit(loss, effort)
    span = math.expm1(part * unit), math.expm1((part + 1) * unit)
    return None if places is None else _mixture(loss, side, places, effort, span)


def _unit(loss: RandomUsersLoss, effort: Effort) -> float:
    """Questions within this distance share their points."""
    return _NEAR * _STEP_NEAR * math.sqrt(effort.resolution) * loss.deviation


@lru_cache(maxsize=64)
def _near_points(loss: RandomUsersLoss, part: int, effort: Effort) -> _Places | None:
    """What answers questions between two losses."""
    way = _inner(loss, effort)
    if way is None:
        return None
    inner = way.blanket
    unit, usual = _unit(loss, effort), _STEP_NEAR * math.sqrt(effort.resolution)
    end = inner.largest * (1.0 + _BEYOND) + _BEYOND
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
        count = min(math.ceil((last - max(first, 0.0)) / step) + 1, _MOST_NEAR)
        points = np.linspace(max(first, 0.0), last, max(count, 2))
        points = points if points[0] == 0.0 else np.append(0.0, points)
        found.append((numbers, points.tobytes()))
    return tuple(found)


def _shares(loss: RandomUsersLoss, every: list[Sample], excess: float, effort: Effort) -> Array:
    """About what each number of messages has of the whole at ``alpha = 1 + excess``."""
    users, weight, fraction = (
        np.array(column)
        for column in zip(*((one.users, one.weight, one.fraction) for one in every), strict=True)
    )
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in loss.pairs]
    worst = max(letters, key=lambda pair: pair.deviation(int(users.max())))
    looked = np.unique(np.geomspace(users.min(), users.max(), _LOOKED).round().astype(int))
    order = np.argsort(users, kind="stable")
    drawn = np.interp(looked, users[order], fraction[order])
    value = [
        float(moment_bounds([worst], n, np.array([excess / x]))[0, 0])
        for n, x in zip(looked.tolist(), drawn.tolist(), strict=True)
    ]
    logs = np.log(np.maximum(value, 1e-300))
    return np.asarray(weight * fraction * np.exp(np.interp(users, looked, logs)))


class _Inner(NamedTuple):
    """What profiles are read off.

    Attributes:
        blanket: the target among the fewest messages.
        costs: of one more number of messages for each alpha.
    """

    blanket: BlanketLoss
    costs: Costs

    @property
    def cost(self) -> float:
        """That of the cheaper way."""
        return min(self.costs)

    @property
    def counted(self) -> bool:
        """Whether that is by counts."""
        return self.costs.counts < self.costs.frequencies


@lru_cache(maxsize=16)
def _inner(loss: RandomUsersLoss, effort: Effort) -> _Inner | None:
    """The target among the fewest messages; None where each number has to have a law of its own."""
    if loss.source.expected < _FEWEST_USERS:
        return None
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in loss.pairs]
    usual = round(loss.source.expected)
    deviation = max(pair.deviation(usual) for pair in letters)
    largest = max(pair.largest for pair in letters)
    tried = np.linspace(0.0, min(4.0 * deviation, 0.5 * largest), _TRIED)
    part = _TRIED_CLOSE if loss.most_terms > MOST_TERMS else 1.0
    samples, _ = loss.source.samples(Bound.PESSIMISTIC, effort)
    numbers = {sample.users for sample in samples if sample.users}
    costs = shared_costs(loss.pairs, usual, tried, _coarser(effort), part, len(numbers))
    if min(costs) == math.inf:
        return None
    blanket = BlanketLoss(loss.pairs, min(numbers), deviation, loss.largest)
    return _Inner(blanket, costs)


def _coarser(effort: Effort, spread: float = 1.0) -> Effort:
    least = max(_COARSER_THEN * effort.resolution, _COARSE)
    usual = min(least, _COARSER * effort.resolution)
    return replace(effort, resolution=max(min(spread * usual, COARSEST), usual))


@lru_cache(maxsize=16)
def _mixture(
    loss: RandomUsersLoss,
    side: Bound,
    places: _Places,
    effort: Effort,
    span: tuple[float, float],
) -> MixedProfiles | None:
    """The mixture at those points, for alpha - 1 in a span; None if it is too wide."""
    samples, missing = loss.source.samples(side, effort)
    terms = 0.0
    # those of one side, so that both go one way
    usual = {sample.users for sample in loss.source.samples(Bound.PESSIMISTIC, effort)[0]}
    for numbers, own in places:
        terms += sum(users in numbers for users in usual) * (len(own) // 8)
    way = _inner(loss, effort)
    if way is None or terms * way.cost > loss.most_terms:
        return None
    parts: list[RangeProfiles | None] = [None] * len(places)
    slow = loss.most_terms > MOST_TERMS  # are laws of each number
    counts = [MOST_COUNTED if way.counted else 0]
    if not way.counted and terms * way.costs.counts <= loss.most_terms:
        counts.append(MOST_COUNTED)  # where frequencies are of no use
    attempts = (
        [(finer, counts[0]) for finer in range(_ATTEMPTS)] if slow else [(0, x) for x in counts]
    )
    for finer, counted in attempts:
        for i, (numbers, own) in enumerate(places):
            some = [sample for sample in samples if sample.users in numbers]
            if some and parts[i] is None:
                coarser = _coarser(effort, numbers.spread)
                points = np.frombuffer(own)
                parts[i] = _tabulated(loss, some, numbers, points, coarser, finer, counted)
        there = [i for i, part in enumerate(parts) if part is not None]
        found = MixedProfiles(side, tuple(part for part in parts if part is not None), missing)
        wide = list(itertools.compress(there, found.too_wide(effort, span, patient=slow)))
        if not wide:
            return found
        for i in wide:
            parts[i] = None
    return None


def _tabulated(
    loss: RandomUsersLoss,
    some: list[Sample],
    numbers: NumberRange,
    losses: Array,
    effort: Effort,
    finer: int,
    most_counted: int,
) -> RangeProfiles:
    """The profiles of one range of numbers of messages, closer where bounds are wide."""
    both = numbers.least, numbers.most
    every = list(dict.fromkeys(sample.users for sample in some))
    many = len(every) >= MANY_NUMBERS
    tables = {
        users: shared_profile(loss.pairs, users, losses, effort, both, 0, most_counted, many=many)
        for users in every
    }
    if loss.most_terms <= MOST_TERMS:
        return RangeProfiles.of(some, np.expm1(losses), tables)
    for step in range(1, finer + 1):
        rest = np.flatnonzero(~np.all([table.narrow for table in tables.values()], axis=0))
        for users, table in tables.items():
            if table.narrow.all():
                continue
            closer = shared_profile(
                loss.pairs, users, losses[rest], effort, both, step, MOST_COUNTED, many=many
            )
            tables[users] = table.joined(closer, rest)
    bridged = {users: table.bridged() for users, table in tables.items()}
    return RangeProfiles.of(some, np.expm1(losses), bridged)
