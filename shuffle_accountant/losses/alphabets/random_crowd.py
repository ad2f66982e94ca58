"""Tables of a target's profile among a random number of messages, one for each range of numbers.

What `shuffle_accountant.losses.alphabets.random_users` mixes: see there for the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, users_range
from shuffle_accountant.losses.alphabets.letter_moments import LetterSource, source_letters
from shuffle_accountant.losses.alphabets.mixed_profiles import MixedProfiles, RangeProfiles
from shuffle_accountant.losses.alphabets.profiles import profile_table, ways_of
from shuffle_accountant.losses.alphabets.samples import (
    COARSEST,
    NumberRange,
    SampleSource,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.sums.choose import Way

__all__ = [
    "MOST_TERMS",
    "MOST_TERMS_OF_ALPHABETS",
    "Places",
    "RandomCrowd",
    "Tables",
    "mixture_of",
    "tables_of",
]

MOST_TERMS, MOST_TERMS_OF_ALPHABETS = 2.0**27, 2.0**30
"""Numbers of terms up to which tables are quicker than sums for each number of messages alone: of
message spaces with two messages that count, and of those with more."""

# With fewer messages than this on average, tables are not used: each number of messages has sums of
# its own; with fewer than the second if their histograms can be listed, which is exact.
_FEWEST_USERS, _FEWEST_UNLISTED = 16.0, 64.0
# Largest resolution of tables, in resolutions of the points.
_COARSER = 8.0
# Resolution of tables: the first number times the resolution of the points, but at least the second
# number; for one round, and for many. What discretized continuous messages lose there is a part of
# the bracket's width, of many rounds, whose tails go deeper, a larger one; and a few more messages
# in the message space cost little.
_CLOSE_OF_ONE, _CLOSE_OF_MANY = (1.2, 2e-4), (0.4, 1e-4)
# Number of points at which a table is tried first, and the share of them at which its bounds have
# to be narrow if the alternative (sums for each number of messages) is slow; otherwise all.
_TRIED, _TRIED_CLOSE = 5, 0.5

Places = tuple[tuple[NumberRange, bytes], ...]
"""Ranges of numbers of messages, each with the losses of its points, as bytes."""


@dataclass(frozen=True)
class RandomCrowd:
    """A target, given by its likelihood ratios, among a random number of messages.

    Attributes:
        pairs: the ordered pairs of inputs, each with its reverse or as hard to distinguish as that.
        source: distribution of the number of messages.
        largest: upper bound of the finite losses, nats.
        deviation: rough standard deviation of the loss, nats.
        most_terms: largest number of terms (numbers of messages times points times frequencies) for
            which tables are used; with more, sums for each number of messages are quicker.
            Likelihood ratios on a lattice have many frequencies.
    """

    pairs: tuple[LetterSource, ...]
    source: SampleSource
    largest: float
    deviation: float
    most_terms: float


class Tables(NamedTuple):
    """What the tables of a crowd start from.

    Attributes:
        blanket: the target among the fewest messages.
        cost: nodes that one more number of messages costs for each alpha.
    """

    blanket: BlanketLoss
    cost: float


@lru_cache(maxsize=16)
def tables_of(crowd: RandomCrowd, effort: Effort) -> Tables | None:
    """The tables of a crowd; None where each number of messages needs sums of its own."""
    if crowd.source.expected < _FEWEST_USERS:
        return None
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in crowd.pairs]
    usual = round(crowd.source.expected)
    few = crowd.source.expected < _FEWEST_UNLISTED
    if few and ways_of(crowd.pairs, 2 * usual, effort) == {Way.LISTS}:
        return None
    deviation = max(pair.deviation(usual) for pair in letters)
    largest = max(pair.largest for pair in letters)
    tried = np.linspace(0.0, min(4.0 * deviation, 0.5 * largest), _TRIED)
    part = _TRIED_CLOSE if crowd.most_terms > MOST_TERMS else 1.0
    table = profile_table(crowd.pairs, users_range(usual), tried.tobytes(), _coarser(effort))
    if np.mean(table.profile(usual).narrow) < part:
        return None
    samples, _ = crowd.source.samples(Bound.PESSIMISTIC, effort)
    numbers = {sample.users for sample in samples if sample.users}
    blanket = BlanketLoss(crowd.pairs, min(numbers), deviation, crowd.largest)
    return Tables(blanket, table.nodes)


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
    """The mixture at those points, for alpha - 1 in ``span``; None if its bounds are too wide."""
    samples, missing = crowd.source.samples(side, effort)
    terms = 0.0
    # those of one side, so that both go one way
    usual = {sample.users for sample in crowd.source.samples(Bound.PESSIMISTIC, effort)[0]}
    for numbers, own in places:
        terms += sum(users in numbers for users in usual) * (len(own) // 8)
    tables = tables_of(crowd, effort)
    if tables is None or terms * tables.cost > crowd.most_terms:
        return None
    parts = []
    for numbers, own in places:
        some = [sample for sample in samples if sample.users in numbers]
        if some:
            users, coarser = (numbers.least, numbers.most), _coarser(effort, numbers.spread)
            table = profile_table(crowd.pairs, users, own, coarser)
            every = dict.fromkeys(sample.users for sample in some)
            profiles = {number: table.profile(number) for number in every}
            parts.append(RangeProfiles.of(some, np.expm1(np.frombuffer(own)), profiles))
    found = MixedProfiles(side, tuple(parts), missing)
    slow = crowd.most_terms > MOST_TERMS  # are laws of each number
    return None if any(found.too_wide(effort, span, patient=slow)) else found
