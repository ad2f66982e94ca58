"""The loss of a target who takes part by chance, among a random number of messages.

Given m messages, m revealed, the target's is one of them with chance x_m. With the explicit pair of
`shuffle_accountant.losses.combined.subsampled`

    H_alpha = sum over m of w_m x_m D_m(1 + (alpha - 1)/x_m),

D_m the profile of a target among m messages. The number of messages is only a power in the tables
of `losses.alphabets.profiles`, so all are read off a few tables, one for each range of numbers, at
points of its own; rare numbers are tabulated coarsely.

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

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms, symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, largest_divergence
from shuffle_accountant.losses.alphabets.letters import (
    MessageSource,
    moment_bounds,
    source_messages,
)
from shuffle_accountant.losses.alphabets.mixed_profiles import (
    MixedProfiles,
    NumberRange,
    RangeProfiles,
    Sample,
    SampleSource,
    every_sample,
    number_ranges,
    ranges_by_share,
)
from shuffle_accountant.losses.alphabets.profiles import profile_table, ways_of
from shuffle_accountant.losses.alphabets.settings import MIXTURES, PROFILES
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss, SymmetricLoss, way_of
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Array,
    Bound,
    lowered,
    raised,
    sequential_sum,
)
from shuffle_accountant.sums.survey import Way

__all__ = ["RandomUsersLoss"]


Places = tuple[tuple[NumberRange, bytes], ...]


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
    """The mixture at those points, for ``alpha - 1`` in ``span``; None if its bounds are too wide.

    None as well where it would take more than ``most_terms`` terms.
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
    mean, most = np.average(found.fraction, weights=found.weight), found.fraction.max()
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
    share = float(np.sum(found.weight * found.fraction)) * (1.0 - sequential_sum(found.weight.size))
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
