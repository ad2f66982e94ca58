"""Laws on points of one spacing: convex order, and errors within their bounds.

The oracles are the law of a sum by enumeration of all its values, and the same recursions in
fractions.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import doubling
from shuffle_accountant.sums.doubling import SumLaw, power
from shuffle_accountant.sums.even_cells import EvenCells, even_cells

# Of sums of a few hundred doubles of size 1e2.
DIGITS = 1e-12


def some_law(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    value = np.sort(rng.uniform(0.5, 4.0, size))
    return value, rng.dirichlet(np.full(size, 0.7))


def all_sums(value: np.ndarray, mass: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    total, chance = np.zeros(1), np.ones(1)
    for _ in range(count):
        total = np.add.outer(total, value).ravel()
        chance = np.multiply.outer(chance, mass).ravel()
    return total, chance


def excess(value: np.ndarray, mass: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``E(V - x)_+`` at each x."""
    return np.asarray(np.maximum(value[None, :] - x[:, None], 0.0) @ mass)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(1, 5),
    spacing=st.floats(0.01, 3.0),
    wider=st.floats(1.0, 2.5),
)
def test_points_are_above_and_means_below_in_convex_order(
    seed: int, size: int, spacing: float, wider: float
) -> None:
    """Five values: two and two, and one of another grid, moved twice in between."""
    value, mass = some_law(np.random.default_rng(seed), size)
    total, chance = all_sums(value, mass, 5)
    one = even_cells(value, mass, spacing, means=True)
    two = one.plus(one).spaced(spacing * wider)
    four = two.plus(two)
    five = four.plus(even_cells(value, mass, two.spacing, means=True)).spaced(two.spacing * wider)
    x = np.linspace(total.min() - 1.0, total.max() + 1.0, 101)
    truth = excess(total, chance, x)
    assert (excess(five.points, five.mass, x) >= truth - DIGITS).all()
    assert (excess(five.means, five.mass, x) <= truth + DIGITS).all()
    for where in (five.points, five.means):
        assert float(where @ five.mass) == pytest.approx(float(total @ chance), rel=1e-12)
    assert five.mass.sum() == pytest.approx(1.0, rel=1e-12)


Exact = tuple[dict[int, Fraction], dict[int, Fraction]]


def exact_placed(
    value: list[Fraction], mass: list[Fraction], moment: list[Fraction], spacing: Fraction
) -> Exact:
    masses: dict[int, Fraction] = {}
    moments: dict[int, Fraction] = {}
    for v, w, m in zip(value, mass, moment, strict=True):
        below = math.floor(v / spacing)
        share = v / spacing - below
        for point, part in ((below, 1 - share), (below + 1, share)):
            masses[point] = masses.get(point, Fraction(0)) + part * w
            moved = m + w * (v - point * spacing)
            moments[point] = moments.get(point, Fraction(0)) + part * moved
    return masses, moments


def exact_sum(a: Exact, b: Exact) -> Exact:
    masses: dict[int, Fraction] = {}
    moments: dict[int, Fraction] = {}
    for i, w in a[0].items():
        for j, v in b[0].items():
            masses[i + j] = masses.get(i + j, Fraction(0)) + w * v
            moment = a[1][i] * v + w * b[1][j]
            moments[i + j] = moments.get(i + j, Fraction(0)) + moment
    return masses, moments


def exact_spaced(a: Exact, spacing: float, wider: float) -> Exact:
    points = sorted(a[0])
    where = [Fraction(spacing) * point for point in points]
    columns = [[column[point] for point in points] for column in a]
    return exact_placed(where, *columns, Fraction(wider))


@pytest.mark.parametrize("seed", range(6))
def test_errors_are_within_their_bounds(seed: int) -> None:
    """The same recursion in fractions; spacings and values are doubles, and so exact there."""
    rng = np.random.default_rng(seed)
    value, mass = some_law(rng, 6)
    mass = mass * 10.0 ** rng.uniform(-40.0, 0.0, 6)
    spacing, wider = 0.4375, 0.75
    fractions = [[Fraction(float(x)) for x in column] for column in (value, mass)]
    exact = exact_placed(*fractions, [Fraction(0)] * 6, Fraction(spacing))
    found = even_cells(value, mass, spacing, means=True)
    for step in range(3):
        compare(found, exact)
        exact, found = exact_sum(exact, exact), found.plus(found)
        compare(found, exact)
        if step == 1:
            exact, found = exact_spaced(exact, spacing, wider), found.spaced(wider)


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_operations_that_err_are_within_their_bounds(adverse: float) -> None:
    """Masses one way, moments the other way, by all that operations may."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        value, mass = some_law(rng, 12)
        spacing, wider = 0.125, 0.1875
        fractions = [[Fraction(float(x)) for x in column] for column in (value, mass)]
        exact = exact_placed(*fractions, [Fraction(0)] * 12, Fraction(spacing))
        with stress(roundoff=2.0**-30, adverse=adverse):
            one = found = even_cells(value, mass, spacing, means=True)
            alone = exact
            check_bounds(found, exact)
            for _ in range(2):
                exact, found = exact_sum(exact, alone), found.plus(one)
                check_bounds(found, exact)
            check_bounds(found.spaced(wider), exact_spaced(exact, spacing, wider))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("slack", "doubt"),
    [(2.0**-12, 0.0), (0.0, 2.0**-12), (2.0**-4, 0.0), (0.0, 2.0**-4), (2.0**-4, 2.0**-4)],
)
def test_what_laws_may_err_is_counted_in_their_sums(
    slack: float, doubt: float, sign: float
) -> None:
    """One of two laws errs by all it states: in its masses, or in its moments."""
    rng = np.random.default_rng(11)
    spacing, wider, nearly = 0.5, 0.75, 1.0 - 2.0**-9
    laws: list[tuple[EvenCells, EvenCells, Exact]] = []
    for first, size in ((3, 5), (2, 4)):
        mass = rng.integers(1, 2**20, size) / 2.0**22
        moment = mass * rng.integers(-32, 32, size) / 64.0
        exact = tuple(
            {first + i: Fraction(x) for i, x in enumerate(column.tolist())}
            for column in (mass, moment)
        )
        true = EvenCells(first, spacing, mass, moment, 0.0, 0.0)
        erring = EvenCells(
            first,
            spacing,
            mass * (1.0 + sign * nearly * slack),
            moment - sign * nearly * doubt * mass,
            slack,
            doubt,
        )
        laws.append((true, erring, exact))  # type: ignore[arg-type]
    (a, a_errs, exact_a), (b, b_errs, exact_b) = laws
    total = exact_sum(exact_a, exact_b)
    for one, other in ((a_errs, b), (a, b_errs), (b_errs, a), (b, a_errs)):
        check_bounds(one.plus(other), total)
        check_bounds(one.plus(other).spaced(wider), exact_spaced(total, spacing, wider))
    check_bounds(a_errs.plus(a_errs), exact_sum(exact_a, exact_a))
    check_bounds(a_errs.spaced(wider), exact_spaced(exact_a, spacing, wider))


def check_bounds(found: EvenCells, exact: Exact) -> None:
    """Masses, moments and means are off by no more than is stated, far above double rounding."""
    # shares of a value between points are those of a value a few roundings away
    near = Fraction(64.0 * 2.0**-53 * float(found.points.max()) / found.spacing)
    assert found.moment is not None
    for i, (mass, moment) in enumerate(zip(found.mass, found.moment, strict=True)):
        point = found.first + i
        truth, shift = exact[0].get(point, Fraction(0)), exact[1].get(point, Fraction(0))
        around = near * sum(exact[0].get(point + k, Fraction(0)) for k in (-1, 0, 1))
        assert abs(Fraction(mass) - truth) <= Fraction(found.slack) * truth + around
        spread = Fraction(found.spacing)
        assert abs(Fraction(moment) - shift) <= Fraction(found.doubt) * truth + around * spread
        if truth > 0:
            true_mean = spread * point + shift / truth
            allowed = Fraction(found.means_error) + around / truth * (abs(true_mean) + 1)
            assert abs(Fraction(found.means[i]) - true_mean) <= allowed


def compare(found: EvenCells, exact: Exact) -> None:
    # shares of a value between points are those of a value a few roundings away
    near = 64.0 * 2.0**-53 * float(found.points.max()) / found.spacing
    assert found.moment is not None
    assert 0.0 < found.slack < 1e-12
    means = found.means
    for i, (mass, moment) in enumerate(zip(found.mass, found.moment, strict=True)):
        point = found.first + i
        truth, shift = exact[0].get(point, Fraction(0)), exact[1].get(point, Fraction(0))
        if truth == 0:
            assert mass <= near * found.mass.max()
            continue
        neighbours = sum(float(exact[0].get(point + k, Fraction(0))) for k in (-1, 0, 1))
        assert abs(mass - float(truth)) <= found.slack * float(truth) + near * neighbours
        error = found.doubt * float(truth) + near * found.spacing * neighbours
        assert abs(moment - float(shift)) <= error
        if near * neighbours <= 1e-3 * found.slack * float(truth):
            true_mean = float(Fraction(found.spacing) * point + shift / truth)
            slack = found.means_error + 4.0 * 2.0**-53 * true_mean
            assert abs(means[i] - true_mean) <= slack


def lognormal(side: Bound, sigma: float) -> SumLaw:
    """A lognormal law of mean 1 in cells, its values rounded in the direction of convex order."""
    from shuffle_accountant.losses.steps.gaussian import GaussianRatio

    return GaussianRatio(sigma).ratios(side, users=1, width=0.012, tail=1e-14)


@pytest.mark.parametrize("count", [300, 1000, 4099, 10**6])
def test_sums_on_points_and_in_cells_of_their_own_agree(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways are brackets of one function, so each lower end is below each upper one."""
    ends: dict[tuple[str, Bound], np.ndarray] = {}
    x = count + math.sqrt(count) * np.linspace(-3.0, 4.0, 29)
    for way, most in (("points", doubling.DOUBLING.most_even), ("cells", 0)):
        monkeypatch.setattr(doubling, "DOUBLING", replace(doubling.DOUBLING, most_even=most))
        for side in Bound:
            law = power(lognormal(side, 2.0), count, side, width=0.012, tail=1e-14)
            assert (law.cells is not None) == (way == "points")
            ends[way, side] = excess(law.value, law.mass, x) + (side is Bound.PESSIMISTIC) * 1e-11
    for lower in ("points", "cells"):
        for upper in ("points", "cells"):
            low, high = ends[lower, Bound.OPTIMISTIC], ends[upper, Bound.PESSIMISTIC]
            assert (low <= high).all()
            assert (high - low <= 0.05 * high + 1e-9).all()


def test_the_variance_of_both_ends_is_close_to_the_true_one() -> None:
    """Additions add to the variance, or take from it, about width^2 / 6 of it each."""
    count, width = 2**20, 0.012
    truth = count * math.expm1(0.25)
    for side, sign in ((Bound.PESSIMISTIC, 1.0), (Bound.OPTIMISTIC, -1.0)):
        law = power(lognormal(side, 2.0), count, side, width=width, tail=1e-14)
        mean = float(law.mass @ law.value) / law.mass.sum()
        found = float(law.mass @ (law.value - mean) ** 2) / law.mass.sum()
        assert 0.0 < sign * (found / truth - 1.0) <= 20.0 * width**2 / 3.0


@pytest.mark.parametrize("factor", [1.0 + 2.0**-4, 1.0 / (1.0 + 2.0**-4)])
def test_means_of_masses_that_are_off(factor: float) -> None:
    mass, moment = np.array([0.5, 0.25]), np.array([0.125, -0.125])
    true = EvenCells(3, 0.5, mass, moment, 0.0, 0.0)
    found = EvenCells(3, 0.5, mass * factor, moment, 2.0**-4, 0.0)
    assert np.all(np.abs(found.means - true.means) <= found.means_error)
