"""Whole profiles of messages with a null law, against sums over multisets and over K and L."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.letter_pairs import Truth

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.two_letters import zero_out
from shuffle_accountant.losses.two_letters.zero_out import NullTarget, ZeroOutLoss

EFFORT = Effort(tail=1e-13, resolution=1e-3)


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("eps0", "delta0"), [(1.0, 0.0), (0.5, 2.0**-10), (3.0, 1e-9)])
def test_letters_of_the_target(eps0: float, delta0: float, swapped: bool, side: Bound) -> None:
    """In fractions, with odds that are the double nearest to e^eps0: which way each is rounded."""
    odds, last = Fraction(math.exp(eps0)), Fraction(delta0)
    near = Fraction(1, 10**14)  # that double is not e^eps0 itself
    null = [Fraction(0), (1 - last) / (1 + odds), (1 - last) * odds / (1 + odds), last]
    first, second = (null, null[::-1]) if swapped else (null[::-1], null)
    found = NullTarget(eps0, delta0, swapped).letters(side, EFFORT)
    up = 1 if side is Bound.PESSIMISTIC else -1
    for i in range(4):
        for got, true, sign in (
            (found.p0[i], first[i], up),
            (found.p1[i], second[i], -up),
            (found.q[i], null[i] / odds, -up),
        ):
            off = sign * (Fraction(float(got)) - true)
            assert 0 <= off <= near * true or (off == 0 and true == 0)
    assert found.p0[4] == found.p1[4] == 0.0
    assert math.fsum(found.q.tolist()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("eps0", "delta0"), [(1.0, 0.0), (0.6, 1e-4), (0.5, 1e-12)])
def test_profiles_contain_the_sum_over_all_multisets(eps0: float, delta0: float) -> None:
    loss = ZeroOutLoss(eps0, delta0, 59)
    points = zero_out._points(loss, EFFORT.resolution)
    found = zero_out._profiles(loss, EFFORT.tail, EFFORT.resolution)
    assert found is not None
    for order, swapped in enumerate((False, True)):
        letters = NullTarget(eps0, delta0, swapped).letters(Bound.PESSIMISTIC, EFFORT)
        for i in range(0, points.size, 7):
            value, error = Truth(letters, 60).whole(math.expm1(points[i]))
            low, high = (bounds[order, i] for bounds in found)
            assert low - error - 1e-13 * value <= value <= high + error
            assert high - low <= 0.02 * value + 1e-12


@pytest.mark.parametrize("others", [10**3, 10**6])
@pytest.mark.parametrize("delta0", [0.0, 1e-13])
def test_profiles_agree_with_sums_over_numbers_of_draws(others: int, delta0: float) -> None:
    """Two brackets of one profile, by two ways."""
    loss = ZeroOutLoss(1.5, delta0, others)
    few = Effort(1e-13, 2.5e-4)
    found = zero_out._profiles(loss, few.tail, few.resolution)
    assert found is not None
    points = zero_out._points(loss, few.resolution)
    some = slice(0, points.size, 25)
    exact = [
        zero_out._bounds(loss, points[some], side, 1e-14, 1e-4)[0]
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    ]
    charged = [
        zero_out._with_charge(loss, points, x, side, 1e-14)[0]
        for x, side in zip(found, (Bound.OPTIMISTIC, Bound.PESSIMISTIC), strict=True)
    ]
    assert (charged[0][:, some] <= exact[1]).all()
    assert (charged[1][:, some] >= exact[0]).all()
    wide = charged[1] - charged[0]
    share = np.minimum(2e-3 * (1.0 + (points / loss.deviation) ** 2), 1.0)
    assert (wide <= share * charged[1] + 1e-12).all()
