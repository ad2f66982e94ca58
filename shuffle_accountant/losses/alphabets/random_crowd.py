"""Tables of a target's profile among a random number of messages, one for each range of numbers.

What `shuffle_accountant.losses.alphabets.random_users` mixes: see there for the formulas.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.power_sums import MANY_NUMBERS
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letter_moments import LetterSource, source_letters
from shuffle_accountant.losses.alphabets.mixed_profiles import MixedProfiles, RangeProfiles
from shuffle_accountant.losses.alphabets.samples import (
    COARSEST,
    NumberRange,
    Sample,
    SampleSource,
)
from shuffle_accountant.losses.alphabets.shared_profile import (
    MOST_COUNTED,
    Costs,
    shared_costs,
    shared_profile,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Array

__all__ = [
    "MOST_TERMS",
    "MOST_TERMS_OF_ALPHABETS",
    "Places",
    "RandomCrowd",
    "Way",
    "mixture_of",
    "way_of",
]

MOST_TERMS, MOST_TERMS_OF_ALPHABETS = 2.0**27, 2.0**30
"""With more terms than this, laws of each number of messages are quicker than tables: of messages
with two letters that count, and of those with more."""

# Fewer messages than this, on average, have laws of their own.
_FEWEST_USERS = 16.0
# Tables are at most so many times coarser than points.
_COARSER = 8.0
# Nor are they closer than points by the first factor, or than the second: what letters of
# continuous messages lose there is a part of the bracket's width, of many rounds, whose tails go
# deeper, a larger one; and a few more letters cost little.
_CLOSE_OF_ONE, _CLOSE_OF_MANY = (1.2, 2e-4), (0.4, 1e-4)
# The tables are tried at so many points first; where laws of each number are slow, that part of
# them has to be close.
_TRIED, _TRIED_CLOSE = 5, 0.5
# Ranges where bounds are too wide are tabulated this often, ever finer.
_ATTEMPTS = 3

Places = tuple[tuple[NumberRange, bytes], ...]
"""Ranges of numbers of messages, each with the losses of its points, as bytes."""


@dataclass(frozen=True)
class RandomCrowd:
    """A target that is told by its letters, among a random number of messages.

    Attributes:
        pairs: the ordered pairs of inputs, each with its reverse or as hard to tell apart as that.
        source: the numbers of messages.
        largest: no finite loss is larger, nats.
        deviation: rough standard deviation of the loss, nats.
        most_terms: with so many terms, numbers of messages times points times frequencies, the
            tables take longer than laws of each number: letters on a lattice have many frequencies.
    """

    pairs: tuple[LetterSource, ...]
    source: SampleSource
    largest: float
    deviation: float
    most_terms: float


class Way(NamedTuple):
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
def way_of(crowd: RandomCrowd, effort: Effort) -> Way | None:
    """The target among the fewest messages; None where each number has to have a law of its own."""
    if crowd.source.expected < _FEWEST_USERS:
        return None
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in crowd.pairs]
    usual = round(crowd.source.expected)
    deviation = max(pair.deviation(usual) for pair in letters)
    largest = max(pair.largest for pair in letters)
    tried = np.linspace(0.0, min(4.0 * deviation, 0.5 * largest), _TRIED)
    part = _TRIED_CLOSE if crowd.most_terms > MOST_TERMS else 1.0
    samples, _ = crowd.source.samples(Bound.PESSIMISTIC, effort)
    numbers = {sample.users for sample in samples if sample.users}
    costs = shared_costs(crowd.pairs, usual, tried, _coarser(effort), part, len(numbers))
    if min(costs) == math.inf:
        return None
    blanket = BlanketLoss(crowd.pairs, min(numbers), deviation, crowd.largest)
    return Way(blanket, costs)


def _coarser(effort: Effort, spread: float = 1.0) -> Effort:
    part, least = _CLOSE_OF_ONE if effort.rounds == 1.0 else _CLOSE_OF_MANY
    usual = min(max(part * effort.resolution, least), _COARSER * effort.resolution)
    return replace(effort, resolution=max(min(spread * usual, COARSEST), usual))


@lru_cache(maxsize=16)
def mixture_of(
    crowd: RandomCrowd,
    side: Bound,
    places: Places,
    effort: Effort,
    span: tuple[float, float],
) -> MixedProfiles | None:
    """The mixture at those points, for alpha - 1 in a span; None if it is too wide."""
    samples, missing = crowd.source.samples(side, effort)
    terms = 0.0
    # those of one side, so that both go one way
    usual = {sample.users for sample in crowd.source.samples(Bound.PESSIMISTIC, effort)[0]}
    for numbers, own in places:
        terms += sum(users in numbers for users in usual) * (len(own) // 8)
    way = way_of(crowd, effort)
    if way is None or terms * way.cost > crowd.most_terms:
        return None
    parts: list[RangeProfiles | None] = [None] * len(places)
    slow = crowd.most_terms > MOST_TERMS  # are laws of each number
    counts = [MOST_COUNTED if way.counted else 0]
    if not way.counted and terms * way.costs.counts <= crowd.most_terms:
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
                parts[i] = _tabulated(crowd, some, numbers, points, coarser, finer, counted)
        there = [i for i, part in enumerate(parts) if part is not None]
        found = MixedProfiles(side, tuple(part for part in parts if part is not None), missing)
        wide = list(itertools.compress(there, found.too_wide(effort, span, patient=slow)))
        if not wide:
            return found
        for i in wide:
            parts[i] = None
    return None


def _tabulated(
    crowd: RandomCrowd,
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
        users: shared_profile(crowd.pairs, users, losses, effort, both, 0, most_counted, many=many)
        for users in every
    }
    if crowd.most_terms <= MOST_TERMS:
        return RangeProfiles.of(some, np.expm1(losses), tables)
    for step in range(1, finer + 1):
        rest = np.flatnonzero(~np.all([table.narrow for table in tables.values()], axis=0))
        for users, table in tables.items():
            if table.narrow.all():
                continue
            closer = shared_profile(
                crowd.pairs, users, losses[rest], effort, both, step, MOST_COUNTED, many=many
            )
            tables[users] = table.joined(closer, rest)
    bridged = {users: table.bridged() for users, table in tables.items()}
    return RangeProfiles.of(some, np.expm1(losses), bridged)
