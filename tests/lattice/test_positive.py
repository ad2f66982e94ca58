"""Direct convolution: against exact sums, in both directions, and where a transform gives up."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles import convolution

import shuffle_accountant as sa
from shuffle_accountant.lattice import positive
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.lattice.positive import (
    LOST,
    SCALE,
    convolution_roundings,
    convolved,
    positive_sum,
)
from shuffle_accountant.numerics.rounding import LIMITS, Bound, roundings


def grid_of(mass: list[float], offset: int, side: Bound, infinite: float) -> PldGrid:
    return PldGrid(side, 0.1, offset, np.array(mass), infinite, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_every_mass_keeps_relative_accuracy(count: int) -> None:
    """Masses from one to 1e-240 in one law: no transform could."""
    mass = [1e-20, 0.7, 0.2999, 1e-4, 0.0, 1e-12]
    law = positive_sum(
        [(grid_of(mass, -1, Bound.PESSIMISTIC, 0.0), count)], Bound.PESSIMISTIC, -99, 99
    )
    truth = convolution.power(mass, count)
    assert law.offset == -count
    for found, exact in zip(law.mass.tolist(), truth, strict=True):
        assert abs(Fraction(found) - exact) <= Fraction(law.relative) * exact
    assert law.relative < 1e-12


@pytest.mark.parametrize("count", [2, 4])
def test_products_below_all_doubles_are_kept(count: int) -> None:
    mass = [3e-158, 0.75, 0.25, 0.0, 7e-200]
    law = positive_sum(
        [(grid_of(mass, 0, Bound.PESSIMISTIC, 3e-310), count)], Bound.PESSIMISTIC, -99, 99
    )
    truth = convolution.power(mass, count)
    scaled = [Fraction(x) / Fraction(SCALE) for x in (*law.scaled.tolist(), law.scaled_infinite)]
    whole = sum(map(Fraction, mass))
    truth.append((whole + Fraction(3e-310)) ** count - whole**count)
    lost = Fraction(LOST) / Fraction(SCALE)
    assert lost < Fraction(2) ** -1500
    for found, exact in zip(scaled, truth, strict=True):
        assert abs(found - exact) <= Fraction(law.relative) * exact + lost
    if count == 2:  # 3e-158 * 7e-200 is rounded in the last digit only
        assert scaled[4] != 0
        assert abs(scaled[4] - truth[4]) <= Fraction(law.relative) * truth[4]
    # what is read as a double is rounded to the next
    assert law.mass.tolist() == [float(x) for x in scaled[:-1]]


@pytest.mark.parametrize("side", list(Bound))
def test_the_window_keeps_the_direction(side: Bound) -> None:
    mass, count, spacing = [0.1, 0.3, 0.4, 0.15, 0.05], 6, 0.1
    grid = grid_of(mass, -2, side, 0.01)
    law = positive_sum([(grid, count)], side, -3, 6)
    truth = convolution.power(mass, count)
    infinite = (sum(mass) + 0.01) ** count - sum(mass) ** count
    for epsilon in (-0.2, 0.0, 0.25, 0.5):
        exact = infinite + math.fsum(
            float(p) * max(-math.expm1(epsilon - spacing * (i - 2 * count)), 0.0)
            for i, p in enumerate(truth)
        )
        found = law.infinite + math.fsum(
            p * max(-math.expm1(epsilon - spacing * (law.offset + i)), 0.0)
            for i, p in enumerate(law.mass.tolist())
        )
        # 1e-13: the rounding of either sum
        if side is Bound.PESSIMISTIC:
            assert found >= exact * (1 - 1e-13)
        else:
            assert found <= exact * (1 + 1e-13)


@pytest.mark.parametrize(("first", "last"), [(-9, -5), (5, 9)])
def test_a_law_wholly_outside_the_window(first: int, last: int) -> None:
    for side in Bound:
        law = positive_sum([(grid_of([0.5, 0.5], 0, side, 0.0), 1)], side, first, last)
        upper, above = side is Bound.PESSIMISTIC, last < 0
        assert first <= law.offset <= last
        assert law.infinite == (1.0 if upper and above else 0.0)
        # what was above goes down to the last point, what was below up to the first
        assert law.mass.sum() == (1.0 if upper != above else 0.0)
        assert law.offset == (last if above else first)


def test_different_rounds_are_added() -> None:
    a, b = [0.5, 0.5], [0.25, 0.5, 0.25]
    parts = [
        (grid_of(a, 0, Bound.OPTIMISTIC, 0.0), 2),
        (grid_of(b, -1, Bound.OPTIMISTIC, 0.0), 1),
    ]
    law = positive_sum(parts, Bound.OPTIMISTIC, -50, 50)
    assert law.offset == -1
    assert law.mass.tolist() == [0.0625, 0.25, 0.375, 0.25, 0.0625]


@pytest.mark.parametrize(
    ("eps0", "users", "population", "rounds", "delta"),
    [(4.0, 10_000, 10**6, 2, 1e-50), (5.0, 33_000, 12 * 10**6, 2, 1e-100)],
)
def test_rare_small_crowds_are_resolved(
    eps0: float, users: int, population: int, rounds: int, delta: float
) -> None:
    """Sampled rounds at a tiny delta: the gap between ordinary and rare losses."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users, population=population)
    spent = sa.epsilon(one, delta=delta, rounds=rounds)
    assert spent.width <= 1e-3 * spent.upper
    # one round alone is exact: it costs less, and two of them with half of delta each cost more
    assert one.epsilon(delta=delta).lower <= spent.upper
    assert spent.lower <= rounds * one.epsilon(delta=delta / rounds).upper


@pytest.mark.parametrize("at_once", [200, 250, 1 << 22])
def test_laws_are_convolved_in_pieces(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact sums in fractions; pieces of a few terms are rounded as seldom as is stated."""
    rng = np.random.default_rng(0)
    a, b = rng.random(50), rng.random(37)
    monkeypatch.setattr(positive, "LIMITS", replace(LIMITS, at_once=at_once))
    truth = [Fraction(0)] * (a.size + b.size - 1)
    for i, x in enumerate(a.tolist()):
        for j, y in enumerate(b.tolist()):
            truth[i + j] += Fraction(x) * Fraction(y)
    allowed = roundings(convolution_roundings(a.size, b.size))
    for found in (convolved(a, b), convolved(b, a)):
        for x, exact in zip(found.tolist(), truth, strict=True):
            assert abs(Fraction(x) - exact) <= Fraction(allowed) * exact
    if at_once == 250:  # 5 in a piece, 8 pieces and a product
        assert convolution_roundings(37, 50) == 14.0
