"""Trade-off curves, envelopes and groups: terms that whole curves do not show."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.engine import trade_off
from shuffle_accountant.engine.groups import group_loss
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.trade_off import (
    envelope_loss,
    refined_trade_off,
    trade_off_ends,
)
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.tabulated import PldTable
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30


def response(eps0: float, epsilon: float) -> tuple[float, float]:
    """Ends of the profile of binary randomized response, four roundings from it."""
    value = max(-math.expm1(epsilon - eps0), 0.0) / (1.0 + math.exp(-eps0))
    return value * (1.0 - 2.0**-51), min(value * (1.0 + 2.0**-51), 1.0)


def table_at(table: PldTable, epsilon: float) -> float:
    """The hockey-stick divergence of a table."""
    gain = -np.expm1(np.minimum(epsilon - table.losses, 0.0))
    return table.infinity_mass + float(np.sum(table.probabilities * gain))


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("rate", [2.0**-6, 0.25, 0.5])
def test_a_curve_with_its_kink_among_the_points(rate: float, adverse: float) -> None:
    """Nothing but roundings is between the upper end and the curve: lines lie on it.

    Next to the kink cells are narrow, so that lines from further away add nothing to it.
    """
    places = np.array([0.0, 0.5, 0.9, 0.999, 1.0, 1.001, 1.1, 2.0])
    low, high = np.array([response(1.0, x) for x in places.tolist()]).T
    with stress(roundoff=UNIT, adverse=adverse):
        lower, upper, _ = trade_off_ends(places, low, high, np.array([rate]))
    truth = max(1.0 - math.e * rate, (1.0 - rate) / math.e)
    # a point is an exponential, whose product with the rate takes three roundings more
    least = (8.0 + 3.0) * UNIT
    assert truth - 1000.0 * UNIT <= lower[0] <= truth - least
    assert truth + least <= upper[0] <= truth + 1000.0 * UNIT


@pytest.mark.parametrize("eps0", [37.5, 40.0, 80.0])
def test_a_curve_below_a_rounding_of_one(eps0: float) -> None:
    """No cell's upper end is less, though one less a probability of one is."""
    places = np.linspace(0.0, eps0 + 2.0, 9)
    low, high = np.array([response(eps0, x) for x in places.tolist()]).T
    lower, upper, _ = trade_off_ends(places, low, high, np.array([0.5]))
    truth = 0.5 * math.exp(-eps0)
    assert lower[0] <= truth <= upper[0] <= 1e-13


def test_the_rate_zero_takes_roundings_of_the_least_divergence() -> None:
    """One less a tiny number is rounded to one, which no curve is there."""
    least = 2.0**-60
    found, _ = refined_trade_off(
        lambda epsilon: (0.9, 0.9) if epsilon < 900.0 else (0.0, least), 1000.0, np.zeros(1), 1e-3
    )
    assert found[0] >= 1.0 - 1e-13
    assert Fraction(found[0]) <= 1 - Fraction(least)


def test_kinks_of_an_envelope_are_where_those_of_polygons_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Losses of the polygons below are smaller by all of their error: no chord is above a kink."""
    inner = trade_off.profile_atoms
    error = 0.125

    def atoms(losses: Any, forward: Any, *rest: Any) -> PldAtoms:
        if rest[-1] is Bound.PESSIMISTIC:
            return inner(losses, forward, *rest)
        masses = [0.5, 0.25] if forward[0][0] > 0.5 else [0.25, 0.125]
        return PldAtoms(
            Bound.OPTIMISTIC, np.array(masses), np.array([1.0, 2.0]), 0.0, 0.0, 0.0, error
        )

    monkeypatch.setattr(trade_off, "profile_atoms", atoms)
    losses = np.array([0.0, 0.5, 3.0])
    found = envelope_loss(
        [lambda x: (0.75 - 0.25 * x, 0.75 - 0.25 * x), lambda x: (0.5, 0.75)], losses
    )
    for epsilon in np.linspace(0.0, 2.5, 101).tolist():
        small = PldTable(np.array([1.0, 2.0]) - error, np.array([0.25, 0.125]), infinity_mass=0.0)
        truth = table_at(small, epsilon)
        low = table_at(found.bounds.lower, epsilon)
        assert truth * (1.0 - 1e-12) - 1e-15 <= low <= truth


def test_the_lower_envelope_ends_where_all_bounds_do() -> None:
    """Losses that roundings make smaller, in the table of a lower end."""
    last = math.log(3.0)
    with stress(roundoff=UNIT):
        found = envelope_loss([lambda x: response(last, x)], np.array([0.0, 0.5, last]))
    assert table_at(found.bounds.lower, last) == 0.0
    assert found.bounds.lower.losses.max() < last < found.bounds.upper.losses.max()


def test_a_group_s_loss_is_that_of_either_order() -> None:
    def ask(query: Query) -> tuple[float, float]:
        assert query.delta is None
        return response(1.0, query.required)

    found = group_loss(ask, Query(epsilon=1.0), 2, 1.0)
    assert found.backward == found.bounds
