"""What several people lose: splits and powers against exact ones, where arithmetic errs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from shuffle_accountant.engine.groups import _above, _below, _powers, _splits, group_loss
from shuffle_accountant.engine.question import Query
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import disturbed, stress
from shuffle_accountant.numerics.rounding import Bound

Points = tuple[tuple[Fraction, Fraction], ...]
EFFORT = Effort(tail=1e-30, resolution=1e-3)
# Roundings large enough to be seen beside those of doubles.
ROUNDOFF = 2.0**-30


def curve(losses: list[float], masses: list[float], infinite: float = 0.0) -> Points:
    """The power of the best test at each rate, by its corners: one direction of a pair."""
    points = [(Fraction(0), Fraction(infinite))]
    for loss, mass in sorted(zip(losses, masses, strict=True), reverse=True):
        x, y = points[-1]
        points.append((x + Fraction(mass) / Fraction(math.exp(loss)), y + Fraction(mass)))
    return tuple(points)


def applied(points: Points, x: Fraction) -> Fraction:
    """A concave curve through points, at x; constant beyond the last."""
    for (a, low), (b, high) in itertools.pairwise(points):
        if x <= b:
            return low + (high - low) * (x - a) / (b - a)
    return points[-1][1]


def power(points: Points, group: int, x: Fraction) -> Fraction:
    for _ in range(group):
        x = applied(points, x)
    return x


def kinks(points: Points, group: int) -> set[Fraction]:
    """Rates at which the curve, applied several times, has kinks."""
    back = tuple((y, x) for x, y in points)
    every = {x for x, _ in points}
    for _ in range(group - 1):
        every |= {applied(back, x) for x in every if back[0][0] <= x <= back[-1][0]}
    return every


@lru_cache
def corners(points: Points, group: int) -> Points:
    return tuple((x, power(points, group, x)) for x in kinks(points, group))


def divergence(points: Points, group: int, epsilon: float) -> Fraction:
    alpha = Fraction(math.exp(epsilon))
    return max(value - alpha * x for x, value in corners(points, group))


def symmetric(odds: float) -> tuple[Points, float]:
    """Of binary randomized response, whose profile is a line in alpha, and its largest loss."""
    largest = math.log(odds)
    p, q = Fraction(odds) / (1 + Fraction(odds)), 1 / (1 + Fraction(odds))
    return ((Fraction(0), Fraction(0)), (q, p), (Fraction(1), Fraction(1))), largest


@pytest.mark.parametrize("adverse", [0.0, -1.0, 1.0])
@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize(("odds", "places"), [(3.0, 9), (3.0, 5), (1.2, 9)])
def test_splits_are_above_where_arithmetic_errs(
    odds: float, places: int, group: int, adverse: float
) -> None:
    points, largest = symmetric(odds)
    losses = np.linspace(0.0, largest, places)
    high = np.maximum((odds - np.exp(losses)) / (1.0 + odds), 0.0)
    with stress(roundoff=ROUNDOFF, adverse=adverse):
        at, found = _splits(losses, high, group)
    truth = np.array([float(divergence(points, group, place)) for place in at.tolist()])
    # doubles themselves, in the profile at the places and in e^largest
    assert np.all(found >= truth - 1e-15)
    if adverse == 0.0:  # few roundings are charged
        assert np.all(found <= truth + 2000 * ROUNDOFF)
    assert at[0] == 0.0
    assert found[0] <= 1.0


@pytest.mark.parametrize("error", [0.0, 1e-7])
@pytest.mark.parametrize("infinite", [0.0, 0.125])
@pytest.mark.parametrize("adverse", [0.0, -1.0, 1.0])
@pytest.mark.parametrize("group", [2, 3, 5])
def test_powers_are_below_where_arithmetic_errs(
    group: int, adverse: float, infinite: float, error: float
) -> None:
    losses, masses = [math.log(3.0), 0.0, -math.log(2.0)], [0.5, 0.25, 0.125]
    with stress(roundoff=ROUNDOFF, adverse=adverse):
        moved = disturbed(np.array(losses), error)
        atoms = PldAtoms(
            side=Bound.OPTIMISTIC,
            mass=np.array(masses),
            loss=moved,
            infinite=infinite,
            truncated=0.0,
            round_off=0.0,
            loss_error=error,
        )
        rates, gain, start = _powers(atoms, group, 1e-6)
    points = curve(losses, masses, infinite)
    truth = [power(points, group, Fraction(x)) - Fraction(x) for x in rates.tolist()]
    inside = rates <= float(points[-1][0])
    assert np.count_nonzero(inside) > 50
    assert np.all(gain[inside] <= np.array([float(one) for one in truth])[inside] + 1e-15)
    assert start <= float(power(points, group, Fraction(0))) + 1e-15
    if adverse == 0.0:  # and not far below, but for the error of the losses
        near = np.array([float(one) for one in truth])[inside] - 20 * error - 1e-6
        assert np.all(gain[inside] >= near)
        assert start >= float(power(points, group, Fraction(0))) * (1.0 - 1e-5)


@pytest.mark.parametrize("group", [2, 5, 12])
def test_both_ends_contain_the_curve_applied_many_times(group: int) -> None:
    """Also between the places that splits are found for, of which 12 people have too many."""
    lines = [(0.0, 0.3), (0.2, 0.22), (0.5, 0.12), (0.9, 0.03), (1.3, 0.0)]
    losses, values = map(np.array, zip(*lines, strict=True))
    heights = [Fraction(one) for one in values.tolist()]
    alphas = [Fraction(math.exp(one)) for one in losses.tolist()]
    # alpha x + h(alpha) with the order exchanged as well, and the best of all lines at a rate
    every = [(Fraction(0), Fraction(1))]
    every += [(1 / a, 1 - 1 / a + h / a) for a, h in zip(alphas, heights, strict=True)]
    every += list(zip(alphas, heights, strict=True))

    def best(x: Fraction) -> Fraction:
        return min(slope * x + height for slope, height in every)

    crossings = {
        (b - d) / (c - a)
        for (a, b), (c, d) in itertools.combinations(every, 2)
        if a != c and 0 < (b - d) / (c - a) < 1
    }
    points = tuple((x, best(x)) for x in sorted({Fraction(0), Fraction(1), *crossings}))
    above = _above(losses, values, group)
    below = _below(losses, values, values, group)
    for epsilon in np.linspace(0.0, 1.3 * group, 60).tolist():
        alpha = math.exp(epsilon)
        truth = float(divergence(points, group, epsilon))
        high = above.infinite + float(
            np.sum(above.mass * np.maximum(-np.expm1(epsilon - above.loss - above.loss_error), 0))
        )
        low = below.infinite + float(
            np.sum(below.mass * np.maximum(-np.expm1(epsilon - below.loss + below.loss_error), 0))
        )
        assert high >= truth - 4e-16 * (1.0 + alpha * truth)
        assert low <= high
    assert above.side is Bound.PESSIMISTIC
    assert below.side is Bound.OPTIMISTIC


@pytest.mark.parametrize("group", [2, 3])
def test_the_loss_contains_the_exact_one(group: int) -> None:
    points, largest = symmetric(3.0)

    def ask(query: Query) -> tuple[float, float]:
        value = max(0.75 - 0.25 * math.exp(query.required), 0.0)
        return value, value

    for epsilon in (0.0, 0.4, 1.3, 2.0):
        loss = group_loss(ask, Query(epsilon=epsilon), group, largest)
        truth = float(divergence(points, group, epsilon))
        low = loss.delta(epsilon, Bound.OPTIMISTIC, EFFORT)
        assert low <= truth <= loss.delta(epsilon, Bound.PESSIMISTIC, EFFORT)
        assert low >= 0.999 * truth
