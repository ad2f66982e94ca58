"""Questions before any node, pairs of atoms and statistics, where what is stated to err does."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF
from shuffle_accountant.sums import settings as chosen
from shuffle_accountant.sums.pairs import pair_sums
from shuffle_accountant.sums.question import MessageRows
from shuffle_accountant.sums.statistic import Hypotheses

OFF, UNIT = 2.0**-8, 2.0**-20


def test_the_alpha_of_events_allows_for_ratios_that_are_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message whose ratio is alpha but for both ratios' errors is in the event."""
    monkeypatch.setattr(chosen, "NODES", replace(chosen.NODES, ratio_error=OFF))
    excess = np.array([0.0, 0.5, 20.0])
    rows = MessageRows.of((np.ones(1), np.ones(1), np.ones(1)), excess)
    assert np.all(1.0 + rows.anchor <= (1.0 + excess) * (1.0 - OFF) / (1.0 + OFF))


def test_ratios_have_room_for_their_roundings() -> None:
    assert chosen.NODES.ratio_error >= 16.0 * UNIT_ROUNDOFF


def test_sums_of_many_rows_lose_nothing() -> None:
    """Each is half of what a sum of one can hold, and there are thousands."""
    value = np.arange(2.0**16)
    mass = np.full(2**16, 2.0**-58)
    mass[0] = 1.0
    found, _, error = pair_sums(value, mass, np.zeros(1), np.ones(1), np.zeros(1))
    truth = 1 + (2**16 - 1) * Fraction(1, 2**58)
    assert abs(Fraction(float(found[0])) - truth) <= Fraction(error) * truth


def statistic(**more: float) -> Hypotheses:
    null, first, second = np.array([0.0625, 0.875, 0.0625]), np.full(3, 0.25), np.full(3, 0.125)
    stated = {"error": 0.0, "lost": 0.0} | more
    return Hypotheses(np.arange(3.0), null, first, second, 1, **stated)


def test_what_two_statistics_lost_is_lost() -> None:
    one, two = statistic(lost=0.125), statistic(lost=0.25)
    assert one.add(two, 0.05).lost >= 0.375
    # of two halves of one sum it was counted for both
    assert one.add(one, 0.05).lost >= 0.125


def test_outcomes_that_the_common_law_has_not_are_lost() -> None:
    null, other = np.array([0.0, 0.5, 0.5]), np.array([0.5, 0.25, 0.25])
    found = Hypotheses(np.array([0.0, 8.0, 9.0]), null, other, other, 1, 0.0)
    found = found.add(replace(found), 0.05)
    assert float(found.first.sum()) + found.lost >= 1.0 - 1e-12
    assert float(found.first.sum()) < 0.6


def test_dropped_outcomes_whose_probabilities_are_off() -> None:
    """By their error, and by what their sum is rounded."""
    with stress(roundoff=UNIT, adverse=-1.0):
        found = statistic(error=0.0625).pruned(1, 0.45)
    assert found.value.size == 1
    assert Fraction(found.lost) >= Fraction(0.875) * Fraction(1.0625)
