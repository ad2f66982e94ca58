"""Generating functions of sums with a rare loss, term by term, from totals that are given."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, Real, exact

from shuffle_accountant.engine import rare_losses
from shuffle_accountant.engine.rare_losses import DirectSum, RareLosses
from shuffle_accountant.lattice.positive import LOST, SCALE, PositiveSum
from shuffle_accountant.losses.base import HOCKEY_STICK
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound

UNIT = 2.0**-30

# Of a round: how often it is taken, logarithms of the whole and of its rare losses.
Given = tuple[int, float, float]


def at_least_one(
    monkeypatch: pytest.MonkeyPatch, rounds: list[Given], whole: float, rare: float
) -> tuple[float, float]:
    """With errors of the logarithms of all wholes, and of what is rare."""
    monkeypatch.setattr(
        rare_losses, "_log_total", lambda logs, _: (logs[0], whole if logs.size == 2 else rare)
    )
    one: Any = object.__new__(RareLosses)
    one._rounds = [(n, np.zeros(2), np.array(logs), 1) for n, *logs in rounds]
    with stress(roundoff=UNIT):
        found: tuple[float, float] = one._at_least_one(0.0)
    return found


def truth(rounds: list[Given]) -> Real:
    """The logarithm, in fifty digits."""
    none = MP.fsum(n * MP.log1p(-MP.exp(exact(rare) - exact(log))) for n, log, rare in rounds)
    return MP.fsum(n * exact(log) for n, log, _ in rounds) + MP.log(-MP.expm1(none))


# Roundings of a chance: of its exponential, two functions of it and a sum.
OWN = 8.0 + 16.0 + 1.0

CASES: dict[str, tuple[list[Given], float]] = {
    # the logarithm of a chance, whose function takes eight roundings of it
    "one small chance": ([(1, 0.0, -30.0)], OWN + 8.0 * 30.0),
    # products whose sum is nothing: each is rounded for itself
    "wholes that cancel": ([(10**6, 5.0, 4.0), (10**6, -5.0, -6.0)], OWN + 1e7),
    # shares that are differences of large logarithms, and rounded by as much
    "many small chances": ([(1, 0.0, -0.5), (10**35, 0.0, -80.0)], OWN + 80.0),
    # a sum rounded once, of any number of products rounded once
    "many wholes": ([(3, 7.0 + i / 64.0, -3.0) for i in range(400)], OWN + 2.0 * 3 * 400 * 10.0),
}


@pytest.mark.parametrize("name", CASES)
def test_roundings_of_the_chance_of_a_rare_loss(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The stated error holds all roundings there are, and no more than some times them."""
    rounds, least = CASES[name]
    log_value, error = at_least_one(monkeypatch, rounds, 0.0, 0.0)
    assert least * UNIT <= error <= math.expm1(30.0 * (least + 100.0) * UNIT)
    if error < 0.1:
        # arithmetic as it is errs by far less
        assert abs(exact(log_value) - truth(rounds)) <= 1e-14 * least


def test_errors_of_totals_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole's error counts for each time it is taken and for its share, the worst of which."""
    rounds = [(3, 0.0, -2.0), (2, 0.0, -1.0)]
    before = at_least_one(monkeypatch, rounds, 0.0, 0.0)[1]
    small = 2.0**-12
    for whole, rare, times in ((small, 0.0, 5.0 + 1.0), (0.0, small, 1.0)):
        found = at_least_one(monkeypatch, rounds, whole, rare)[1]
        added = math.log1p(found) - math.log1p(before)
        assert added == pytest.approx(times * small, rel=1e-6)


def test_many_different_wholes_are_added_up_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, each addition would be rounded: 2^14 times 2^-54 of the sum here."""
    rounds = [(1, 1.0, -30.0), *[(1, 2.0**-53, -200.0)] * 2**14]
    log_value, _ = at_least_one(monkeypatch, rounds, 0.0, 0.0)
    exactly = truth(rounds)
    # a chance of e^-31 has a logarithm with a few roundings of 31
    assert abs(exact(log_value) - exactly) <= 100.0 * 2.0**-53


@pytest.mark.parametrize("log_p", [-744.2, -745.5])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("opposite", [0.0, 1.0])
def test_chances_below_all_doubles(
    monkeypatch: pytest.MonkeyPatch, log_p: float, upper: bool, opposite: float
) -> None:
    """Exponentials are good to four units in the last place, each of the smallest double there."""
    one: Any = object.__new__(RareLosses)
    one.upper, one._loss_error, one._opposite = upper, 0.0, opposite
    tiny, size = (log_p, 0.0), 40.0
    one._p = tiny if upper else (math.log(size) + math.log(2.0) * -1074.0, 0.0)
    one._q, one._missed = tiny, {1.0: tiny}
    found = one.delta(0.0)
    small, unit = MP.exp(exact(log_p)), exact(SMALLEST)
    assert exact(found.aliasing) >= small + 4 * unit
    if upper:
        true = small - (small if opposite else 0)
        assert true + 4 * unit <= exact(found.value)
        if not opposite:
            assert exact(found.value) - true <= exact(found.round_off)
    else:
        true = size * unit - (small if opposite else 0)
        assert 0 < exact(found.value) <= true - 8 * unit
        assert exact(found.round_off) >= 4 * unit


def direct(side: Bound, scaled: list[float], relative: float) -> DirectSum:
    """A direct sum whose law is given, with losses 0, 1/4, 1/2, …"""
    one: Any = object.__new__(DirectSum)
    one._composition = SimpleNamespace(
        side=side, loss_error=0.0, spacing=0.25, divergence=HOCKEY_STICK, truncated=2.0**-12
    )
    one._law = PositiveSum(0, np.array(scaled), 2.0**-9 * SCALE, relative)
    if max(scaled) <= LOST:
        one._law = PositiveSum(0, np.array(scaled), 0.0, relative)
    return one  # type: ignore[no-any-return]


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("relative", [0.0, 2.0**-12])
def test_terms_of_a_direct_sum(side: Bound, relative: float) -> None:
    """Of each weight eight roundings, of a block's sum 26, besides the error of the law."""
    masses = [0.25, 0.125, 0.25, 0.125, 0.0625]
    with stress(roundoff=UNIT):
        found = direct(side, [p * SCALE for p in masses], relative).delta(0.375)
    weights = [(exact(0.25 * i) - exact(0.375), exact(p)) for i, p in enumerate(masses)]
    true = MP.fsum(p * -MP.expm1(-above) for above, p in weights if above > 0) + exact(2.0**-9)
    moved = exact((8.0 + 26.0) * UNIT + relative)
    value = exact(found.value)
    if side is Bound.PESSIMISTIC:
        assert true * (1 + moved) <= value <= true * (1 + 10 * moved)
    else:
        assert true * (1 - 10 * moved) <= value <= true * (1 - moved)
    assert true * moved * (1 - moved) <= exact(found.round_off) <= 10 * true * moved
    assert (found.truncation, found.aliasing) == (2.0**-12, 0.0)


@pytest.mark.parametrize("scaled", [0.0, 0.5 * LOST, LOST])
def test_a_direct_sum_of_what_is_lost(scaled: float) -> None:
    """A mass that is no double is more than 0 from above, and 0 from below."""
    upper = direct(Bound.PESSIMISTIC, [0.0, 0.0, scaled], 0.0).delta(0.0).value
    assert 0.0 < upper <= 2.0 * SMALLEST
    assert direct(Bound.OPTIMISTIC, [0.0, 0.0, scaled], 0.0).delta(0.0).value == 0.0
