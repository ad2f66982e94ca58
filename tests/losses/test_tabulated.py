"""Losses between two tables, against sums in 50 digits; nothing is added to what tables say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Bound

SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
UNIT = 2.0**-34
EFFORT = Effort(1e-300, 0.0)
LOSSES = [-1.0, -0.25, 0.5, 1.5]
UPPER = PldTable(LOSSES, [0.0625, 0.25, 0.25, 0.25], infinity_mass=0.125)  # 1/16 is missing
LOWER = PldTable(LOSSES, [0.125, 0.25, 0.25, 0.125], infinity_mass=0.0625)  # 3/16 are missing
WHOLE = PldTable([0.0, 0.5], [0.5, 0.5])


def edges(largest: float) -> Any:
    return np.linspace(0.0, largest, 3)


def truth(table: PldTable, epsilon: float, side: Bound) -> Real:
    """What is missing is infinite for the upper end alone."""
    total = exact(table.infinity_mass)
    if side is Bound.PESSIMISTIC:
        masses = MP.fsum(map(exact, table.probabilities.tolist()))
        total = 1 - masses
    for x, p in zip(table.losses.tolist(), table.probabilities.tolist(), strict=True):
        if x > epsilon:
            total += exact(p) * -MP.expm1(exact(epsilon) - exact(x))
    return total


@SIDES
@ADVERSE
def test_each_end_is_that_of_its_own_table(adverse: float, side: Bound) -> None:
    upper = side is Bound.PESSIMISTIC
    table = UPPER if upper else LOWER
    loss = TabulatedLoss(LossBounds(UPPER, LOWER), LossBounds(WHOLE, WHOLE))
    with stress(roundoff=UNIT, adverse=adverse):
        atoms = loss.atoms(side, edges, EFFORT)
    assert (atoms.loss_error, atoms.truncated) == (0.0, 0.0)
    assert atoms.loss.tolist() == LOSSES
    assert 60 * UNIT < atoms.round_off < 100 * UNIT
    for epsilon in (0.0, 0.25, 0.75, 2.0):
        with stress(roundoff=UNIT, adverse=adverse):
            found = [exact(loss.delta(epsilon, side, EFFORT)), divergence(atoms, epsilon)]
        true = truth(table, epsilon, side)
        for value in found:
            assert value >= true if upper else value <= true
            assert abs(value - true) <= 200 * UNIT
    masses = [exact(p) for p in table.probabilities.tolist()]
    for mass, true in zip(atoms.mass.tolist(), masses, strict=True):
        assert mass >= true if upper else mass <= true


@SIDES
def test_tails_that_are_cut_are_counted(side: Bound) -> None:
    """A sixteenth below goes up by one loss, an eighth above is infinite; or both are dropped."""
    table = PldTable(LOSSES, [0.0625, 0.5, 0.25, 0.125], infinity_mass=0.0625)
    loss = TabulatedLoss(LossBounds(table, table), LossBounds(table, table))
    atoms = loss.atoms(side, edges, Effort(0.26, 0.0))
    assert atoms.loss.tolist() == LOSSES[1:3]
    assert atoms.truncated == 0.1875
    expected = [0.5625, 0.25, 0.1875] if side is Bound.PESSIMISTIC else [0.5, 0.25, 0.0625]
    assert [*atoms.mass.tolist(), atoms.infinite] == pytest.approx(expected, rel=1e-13)
    atoms = loss.atoms(side, edges, Effort(2.0, 0.0))  # all of it
    assert atoms.mass.size == 0
    assert atoms.infinite == pytest.approx(1.0 if side is Bound.PESSIMISTIC else 0.0625, rel=1e-13)


def test_what_rounding_explains_is_not_missing() -> None:
    """Totals are short by a few units of round-off; more than eight are missing."""
    for units, missing in ((0, 0.0), (4, 0.0), (32, 32.0)):
        table = PldTable([0.0, 0.5], [0.5, 0.5 - units * UNIT_ROUNDOFF])
        assert table.missing == missing * UNIT_ROUNDOFF
        assert (table.largest == math.inf) == (missing > 0.0)
    assert PldTable([0.0, 0.5], [0.5, 0.5 + 2.0**-20]).missing == 0.0


def test_a_lower_table_that_is_above_the_upper_one_gives_no_more_than_it() -> None:
    """Two libraries' worth of rounding may do that in far tails."""
    larger = LossBounds(WHOLE, PldTable([0.0, 0.6], [0.5, 0.5]))
    loss = TabulatedLoss(larger, larger)
    for epsilon in (0.0, 0.25, 0.55):
        upper = loss.delta(epsilon, Bound.PESSIMISTIC, EFFORT)
        assert loss.delta(epsilon, Bound.OPTIMISTIC, EFFORT) == upper
        assert upper == pytest.approx(max(-0.5 * math.expm1(epsilon - 0.5), 0.0), abs=1e-14)


def test_a_symmetric_loss_is_its_own_reverse() -> None:
    same = TabulatedLoss(LossBounds(UPPER, LOWER), LossBounds(UPPER, LOWER))
    other = TabulatedLoss(LossBounds(UPPER, LOWER), LossBounds(WHOLE, WHOLE))
    assert same.reversed is same
    assert other.reversed == TabulatedLoss(LossBounds(WHOLE, WHOLE), LossBounds(UPPER, LOWER))


@pytest.mark.parametrize("mass", [-0.1, 1.1, math.nan])
def test_masses_that_are_no_probabilities(mass: float) -> None:
    with pytest.raises(ValueError, match=r"^probabilities must be numbers in \[0, 1\], got"):
        PldTable([0.0, 0.5], [0.0, mass])


def test_totals_above_one() -> None:
    with pytest.raises(ValueError, match=r"^probabilities and infinity_mass must sum to <= 1"):
        PldTable([0.0], [0.9], infinity_mass=0.2)
