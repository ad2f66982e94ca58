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

Where the bounds from tables are too wide, and the gap counts in the mixture, each number of
messages has a distribution of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.lattice.region import symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import largest_divergence
from shuffle_accountant.losses.alphabets.letter_moments import LetterSource
from shuffle_accountant.losses.alphabets.random_crowd import RandomCrowd, mixture_of, tables_of
from shuffle_accountant.losses.alphabets.random_questions import single_delta
from shuffle_accountant.losses.alphabets.samples import SampleSource, number_ranges, told_apart
from shuffle_accountant.losses.base import CellEdges, Effort, PrivacyLoss, SymmetricLoss
from shuffle_accountant.numerics.rounding import Array, sequential_sum

__all__ = ["RandomUsersLoss"]

# Distance of the profile's points near loss 0, in deviations times sqrt(resolution); the second
# where every number of messages has samples of its own, which leaves room.
_STEP, _STEP_APART = 1.9, 2.2
# Relative distance that no rounding of alpha reaches.
_BEYOND = 2.0**-40


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

    pairs: tuple[LetterSource, ...]
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

    @cached_property
    def _crowd(self) -> RandomCrowd:
        return RandomCrowd(self.pairs, self.source, self.largest, self.deviation, self.most_terms)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        """Bound at e^epsilon, epsilon >= 0."""
        plain = Effort(effort.tail, effort.resolution)
        found = single_delta(self._crowd, epsilon, side, plain)
        return self.listed.delta(epsilon, side, effort) if found is None else found

    def atoms(self, side: Bound, edges: CellEdges, effort: Effort) -> PldAtoms:
        """The polygon through (PESSIMISTIC) or below (OPTIMISTIC) the profile."""
        found = _whole(
            self._crowd, side, Effort(effort.tail, effort.resolution, rounds=effort.rounds)
        )
        if found is None:
            return self.listed.atoms(side, edges, effort)
        edges(float(np.max(np.abs(found.loss), initial=0.0)))  # whether such a grid is allowed
        return found


@lru_cache(maxsize=16)
def _whole(crowd: RandomCrowd, side: Bound, effort: Effort) -> PldAtoms | None:
    """The whole profile as atoms; None where the bounds from tables are too wide."""
    tables = tables_of(crowd, effort)
    if tables is None:
        return None
    inner = tables.blanket

    wide = _STEP_APART if told_apart(crowd.source, effort) else _STEP

    def points(spread: float) -> Array:
        wider = replace(effort, resolution=effort.resolution * spread)
        step = wide * math.sqrt(wider.resolution) * inner.deviation

        def edges(largest: float) -> Array:
            return np.arange(math.ceil(4.0 * largest / step) + 2, dtype=np.float64) * (0.25 * step)

        return inner.spaced_points(Bound.PESSIMISTIC, edges, wider, wide)

    ranges = number_ranges(crowd.source, effort)
    places = tuple((numbers, points(numbers.spread).tobytes()) for numbers in ranges)
    found = mixture_of(crowd, side, places, effort, (0.0, math.inf))
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
    users = int(max(sample.users for sample in crowd.source.samples(side, effort)[0]))
    limit = largest_divergence(crowd.pairs, users, math.inf, side, effort)
    share = float(np.sum(found.weight * found.fraction)) * (1.0 - sequential_sum(found.weight.size))
    q, d = found.events_at(np.expm1(np.log1p(excess)))
    return replace(symmetric_atoms(q, d, limit * share), truncated=found.missing)


def _apart(losses: Array) -> Array:
    """The losses without those too close to another: slopes between them would be round-off."""
    kept = np.append(True, np.diff(losses) > _BEYOND * losses[1:])
    kept[-1] = True
    if kept.size > 2 and losses[-1] - losses[-2] <= _BEYOND * losses[-1]:
        kept[-2] = False
    return np.asarray(losses[kept])
