"""Delta at a single epsilon of a target among a random number of messages; see `random_users`."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.alphabets.blanket import largest_divergence
from shuffle_accountant.losses.alphabets.letter_moments import moment_bounds, source_letters
from shuffle_accountant.losses.alphabets.mixed_profiles import MixedProfiles
from shuffle_accountant.losses.alphabets.random_crowd import (
    Places,
    RandomCrowd,
    mixture_of,
    tables_of,
)
from shuffle_accountant.losses.alphabets.samples import Sample, every_sample, ranges_by_share
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import (
    Array,
    lowered,
    raised,
    sequential_sum,
)

__all__ = ["single_delta"]

# For one epsilon: distance of the profile's points, in deviations times sqrt(resolution); their
# largest number; and the range of epsilon, in such distances, that shares its points.
_STEP_NEAR, _MOST_NEAR, _NEAR = 6.0, 600, 5.0
# Number of numbers of messages at which moments are computed, to find out which of them matter.
_LOOKED = 24
# Largest epsilon that tables answer, nats.
_LARGEST_LOSS = 50.0
# Relative distance that no rounding of alpha reaches.
_BEYOND = 2.0**-40


def single_delta(crowd: RandomCrowd, epsilon: float, side: Bound, effort: Effort) -> float | None:
    """Bound of delta at epsilon >= 0; None where each number of messages needs sums of its own."""
    if epsilon == math.inf:
        return _limit(crowd, side, effort)
    if epsilon >= min(crowd.largest, _LARGEST_LOSS):
        return None
    mixture = _near(crowd, math.floor(epsilon / _unit(crowd, effort)), side, effort)
    return None if mixture is None else mixture.delta(math.expm1(epsilon))


def _limit(crowd: RandomCrowd, side: Bound, effort: Effort) -> float | None:
    """Bound for alpha to infinity, if numbers of messages hardly differ: few and many bound all."""
    samples, missing = crowd.source.samples(side, effort)
    samples = tuple(sample for sample in samples if sample.users)
    if not samples:
        return None
    numbers = [sample.users for sample in samples]
    most, least = (
        largest_divergence(crowd.pairs, users, math.inf, side, effort)
        for users in (min(numbers), max(numbers))
    )
    if most - least > effort.tail:
        return None
    share = float(np.sum([sample.weight * sample.fraction for sample in samples]))
    error = sequential_sum(len(samples), own=4.0)
    if side is Bound.OPTIMISTIC:
        return lowered(share * least, error)
    return min(raised(share * most, error) + (missing if crowd.largest == math.inf else 0.0), 1.0)


def _near(crowd: RandomCrowd, part: int, side: Bound, effort: Effort) -> MixedProfiles | None:
    """The mixture of profiles near one epsilon, range number ``part``; None if too wide."""
    places, unit = _near_points(crowd, part, effort), _unit(crowd, effort)
    span = math.expm1(part * unit), math.expm1((part + 1) * unit)
    return None if places is None else mixture_of(crowd, side, places, effort, span)


def _unit(crowd: RandomCrowd, effort: Effort) -> float:
    """Width of the ranges of epsilon that share their points, nats."""
    return _NEAR * _STEP_NEAR * math.sqrt(effort.resolution) * crowd.deviation


@lru_cache(maxsize=64)
def _near_points(crowd: RandomCrowd, part: int, effort: Effort) -> Places | None:
    """Points that answer every epsilon in range number ``part``; None without tables."""
    tables = tables_of(crowd, effort)
    if tables is None:
        return None
    inner = tables.blanket
    unit, usual = _unit(crowd, effort), _STEP_NEAR * math.sqrt(effort.resolution)
    end = inner.largest * (1.0 + _BEYOND) + _BEYOND
    every, found = every_sample(crowd.source, effort), []
    share = _shares(crowd, every, math.expm1((part + 0.5) * unit), effort)
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


def _shares(crowd: RandomCrowd, every: list[Sample], excess: float, effort: Effort) -> Array:
    """Rough share of each number of messages in the profile at ``alpha = 1 + excess``."""
    users, weight, fraction = (
        np.array(column)
        for column in zip(*((one.users, one.weight, one.fraction) for one in every), strict=True)
    )
    letters = [source_letters(pair, Bound.OPTIMISTIC, effort) for pair in crowd.pairs]
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
