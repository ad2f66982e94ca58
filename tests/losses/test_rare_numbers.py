"""Which numbers of messages matter, and how closely they have to be known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets import random_users
from shuffle_accountant.losses.alphabets.random_users import (
    MixedProfiles,
    RangeProfiles,
    every_sample,
    number_ranges,
    ranges_by_share,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound


@pytest.mark.parametrize("tail", [1e-20, 1e-114, 1e-310])
def test_points_of_rare_numbers_are_finite_and_close(tail: float) -> None:
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    one = sa.ShuffleRound(response, users=sa.Binomial(trials=10**5, probability=0.1))
    loss: Any = one.reduced().loss
    effort = Effort(tail, 2.5e-5)
    for numbers in number_ranges(loss.source, effort):
        assert 1.0 <= numbers.spread * effort.resolution / 2.5e-5 <= 0.05 / 2.5e-5
    for _, points in random_users._near_points(loss, 3, effort) or ():
        losses = np.frombuffer(points)
        assert np.isfinite(np.expm1(losses)).all()
        assert np.diff(losses).max() <= 1.0 + losses[1]


def test_shares_are_about_those_of_the_profile() -> None:
    """Of each fifth number, against the exact divergence among so many."""
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    one = sa.ShuffleRound(response, users=sa.Binomial(trials=1000, probability=0.1))
    loss: Any = one.reduced().loss
    effort, epsilon = Effort(1e-26, 1e-3), 0.08
    every = every_sample(loss.source, effort)
    found = random_users._shares(loss, every, math.expm1(epsilon), effort)
    some = [i for i in range(0, len(every), 5) if 75 <= every[i].users <= 160]
    exact = []
    for sample in (every[i] for i in some):
        alone: Any = sa.ShuffleRound(response, users=sample.users).reduced().loss
        place = math.log1p(math.expm1(epsilon) / sample.fraction)
        value = alone.delta(place, Bound.PESSIMISTIC, effort)
        exact.append(sample.weight * sample.fraction * value)
    ratio = found[some] / np.array(exact)
    # bounds from moments are too large by about the same everywhere
    assert ratio.min() >= 1.0
    assert ratio.max() <= 8.0 * ratio.min()


def test_ranges_are_coarser_where_their_share_is_small() -> None:
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    loss: Any = (
        sa.ShuffleRound(response, users=sa.Binomial(trials=1000, probability=0.1)).reduced().loss
    )
    every = every_sample(loss.source, Effort(1e-26, 1e-3))
    share = np.array([1.0 if one.users <= 70 else 1e-8 for one in every])
    ranges = ranges_by_share(every, share, 60, Effort(1e-26, 1e-4))
    assert all(any(one.users in numbers for numbers in ranges) for one in every)
    around = next(numbers for numbers in ranges if 60 in numbers)
    assert around.spread < 1.1
    assert all(numbers.spread > 20.0 for numbers in ranges if numbers.least > 70)


EXCESS = np.array([0.0, 0.1, 0.2, 0.4, 0.8])


def mixture(wide: int, upper: float) -> MixedProfiles:
    """A usual number whose bounds are close, and one whose bound is wide at one point."""
    usual = np.array([0.1, 0.05, 0.02, 0.004, 0.0])
    other, narrow = usual.copy(), np.ones((2, 5), dtype=bool)
    other[wide], narrow[1, wide] = upper, False
    other = np.maximum.accumulate(other[::-1])[::-1]
    # the profile's tangents are events of both
    q = -np.gradient(usual, EXCESS)
    q[-1] = 0.0
    q, d = (np.stack([x, x]) for x in (q, usual + EXCESS * q))
    rows, weight = np.array([0, 1]), np.array([1.0, 0.02])
    upper_of_both, drawn = np.stack([usual, other]), np.array([0.5, 0.5])
    part = RangeProfiles(EXCESS, weight, drawn, rows, upper_of_both, q, d, narrow)
    return MixedProfiles(Bound.PESSIMISTIC, (part,), missing=0.0)


@pytest.mark.parametrize(
    ("wide", "span", "matters"),
    [
        # questions at alpha - 1 from 0.12 to 0.15 are about points from 0.24 to 0.3 of a half
        (1, (0.12, 0.15), False),
        (2, (0.12, 0.15), True),
        (3, (0.12, 0.15), True),
        (4, (0.12, 0.15), False),
        (4, (0.12, 0.25), True),
        (1, (0.0, math.inf), True),
    ],
)
def test_wide_bounds_matter_where_they_are_asked_for(
    wide: int, span: tuple[float, float], matters: bool
) -> None:
    effort = Effort(1e-20, 1e-4)
    assert mixture(wide, 1.0).too_wide(effort, span) is matters
    # beside what may be cut off
    assert not mixture(wide, 1.0).too_wide(Effort(1e-4, 1e-4), span)


def test_wide_bounds_that_cost_nothing_do_not_matter() -> None:
    """As close as all others, though one of them was to be closer."""
    assert not mixture(2, 0.02).too_wide(Effort(1e-20, 1e-2), (0.0, math.inf))
