"""Each term of one end of delta of a tilted composition alone, from a law that is given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, Real, exact

from shuffle_accountant.engine import composition as module
from shuffle_accountant.engine.composition import Composition, TiltedSum
from shuffle_accountant.lattice.convolve import WindowedSum
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK, PROBABILISTIC_DP, Divergence
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound

UNIT, SPACING, START = 2.0**-30, 0.25, -3
MASS = np.array([0.25, 0.0, 0.125, 0.25, 0.0625, 0.125, 0.125, 0.0625])
LAST = START + MASS.size - 1


def made(
    side: Bound,
    lam: float,
    log_total: float,
    *,
    outside: tuple[float, float] = (0.0, 0.0),
    error: float = 0.0,
    divergence: Divergence = HOCKEY_STICK,
    truncated: float = 0.0,
) -> TiltedSum:
    """A sum whose tilted law is ``MASS``, whatever its parts are."""
    grid = PldGrid(side, SPACING, START, MASS, 0.0, truncated, 0.0, 0.0)
    law = WindowedSum(START, MASS, error)
    return TiltedSum(Composition([(grid, 1)], divergence), lam, log_total, law, *outside, LAST)


def places() -> list[Real]:
    return [exact(SPACING) * (START + i) for i in range(MASS.size)]


def delta_of(lam: float, log_total: float, epsilon: float) -> Real:
    """The hockey-stick divergence of the law itself, untilted."""
    level = exact(epsilon)
    return MP.fsum(
        exact(p) * MP.exp(exact(log_total) - exact(lam) * x) * -MP.expm1(level - x)
        for x, p in zip(places(), MASS.tolist(), strict=True)
        if x > level
    )


@pytest.mark.parametrize("log_total", [-400.0, -0.5, 90.0])
@pytest.mark.parametrize("lam", [0.0, 0.5, 40.0])
def test_untilted_masses(lam: float, log_total: float) -> None:
    """The logarithm of the total is off by a function's roundings, the tilt by two."""
    with stress(roundoff=UNIT):
        first, found = made(Bound.PESSIMISTIC, lam, log_total, error=2.0**-12).masses()
    assert first == START
    for x, p, bound in zip(places(), MASS.tolist(), found.tolist(), strict=True):
        true = (exact(p) + exact(2.0**-12)) * MP.exp(exact(log_total) - exact(lam) * x)
        moved = 8.0 * abs(log_total) + 2.0 * lam * abs(float(x)) + 10.0
        least, most = moved * UNIT, 16.0 * (moved + 10.0) * UNIT
        assert true * (1 + exact(least)) <= bound <= true * (1 + exact(most))


def test_masses_beyond_a_window_below_all_doubles() -> None:
    """What is left of a product that is no double is the smallest, and of each mass as well."""
    found = made(Bound.PESSIMISTIC, 0.0, -740.0, outside=(2.0**-60, 0.0)).beyond()
    assert found == (SMALLEST, 2.0 * MASS.size * SMALLEST)
    # all masses of the window are rounded to 0
    tiny = made(Bound.PESSIMISTIC, 0.0, -744.0, outside=(0.0, 2.0**-60))
    lost = MP.fsum(exact(p) * MP.exp(exact(-744.0)) for p in [*MASS.tolist(), 2.0**-60])
    held = MP.fsum(exact(p) for p in tiny.masses()[1].tolist())
    assert held + exact(tiny.beyond()[1]) >= lost > held


@pytest.mark.parametrize("log_total", [-400.0, -0.5, 90.0])
@pytest.mark.parametrize("lam", [0.0, 0.5, 40.0])
@pytest.mark.parametrize("side", list(Bound))
def test_roundings_of_delta(side: Bound, lam: float, log_total: float) -> None:
    """The logarithm of the total errs, and the exponents of all weights: nothing else is off."""
    upper = side is Bound.PESSIMISTIC
    for epsilon in (-0.6, 0.1, 0.8):
        true = delta_of(lam, log_total, epsilon)
        if true > 0.5:
            continue
        # logarithm and exponents, functions and a sum
        size = 8.0 * abs(log_total) + 8.0 * lam * (abs(epsilon) + SPACING * MASS.size) + 64.0
        for adverse in (-1.0, 1.0):
            with stress(roundoff=UNIT, adverse=adverse, reach=1e4):
                found = made(side, lam, log_total).delta(epsilon)
            value = exact(found.value)
            assert value > true if upper else value < true
            most = 2.0 * (size + 100.0) * UNIT
            assert abs(value - true) <= most * true
            assert size * UNIT * true * (1 - most) <= found.round_off <= most * true


@pytest.mark.parametrize("side", list(Bound))
def test_a_delta_below_all_doubles(side: Bound) -> None:
    found = made(side, 0.0, -744.0).delta(0.8).value
    assert found == (SMALLEST if side is Bound.PESSIMISTIC else 0.0)
    assert delta_of(0.0, -744.0, 0.8) > 0


@pytest.mark.parametrize("divergence", [HOCKEY_STICK, PROBABILISTIC_DP])
@pytest.mark.parametrize("epsilon", [-1.0, 0.1])
@pytest.mark.parametrize("side", list(Bound))
def test_what_an_end_names(side: Bound, epsilon: float, divergence: Divergence) -> None:
    """Aliasing and round-off in the unit of delta, and no more than what the end is moved by."""
    lam, log_total, error = 2.0, -2.0, 2.0**-9
    below, above = 2.0**-7, 2.0**-8
    with stress(reach=2.0):
        found = made(
            side,
            lam,
            log_total,
            outside=(below, above),
            error=error,
            divergence=divergence,
            truncated=2.0**-12,
        ).delta(epsilon)
    scale, largest = math.exp(log_total - lam * epsilon), divergence.largest(lam)
    if side is Bound.PESSIMISTIC:
        aliasing = above * math.exp(-lam * (SPACING * LAST - epsilon))
        aliasing += below * largest if epsilon < SPACING * START else 0.0
        # terms further than a distance of one above epsilon
        aliasing += 1.01 * math.exp(-2.0) if epsilon + 1.0 < SPACING * LAST else 0.0
    else:
        aliasing = (below + above) * largest
    rounding = error * divergence.norm(lam, SPACING, MASS.size)
    assert found.aliasing == pytest.approx(scale * aliasing, rel=1e-12)
    assert found.round_off == pytest.approx(scale * rounding, rel=1e-9)
    assert found.truncation == 2.0**-12


@pytest.mark.parametrize("side", list(Bound))
def test_beyond_the_window_all_is_aliased(side: Bound) -> None:
    with stress(roundoff=UNIT):
        law = made(side, 0.5, -2.0, outside=(0.0, 2.0**-8))
        found: Any = law.delta(SPACING * (LAST + 1))
    lost = law.beyond()[1] if side is Bound.PESSIMISTIC else 0.0
    assert lost > 0.0 or side is Bound.OPTIMISTIC
    assert (found.value, found.aliasing, found.round_off) == (lost, lost, 0.0)


def test_totals_of_many_different_rounds_are_added_up_exactly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One after the other, each addition would be rounded: 2^10 times 2^-54 of the sum here."""
    parts = [(PldGrid(Bound.PESSIMISTIC, SPACING, 0, np.ones(1), 0.0, 0.0, 0.0, 0.0), 1)] * 1025
    totals = iter([1.0, *[2.0**-53] * 1024])
    monkeypatch.setattr(module, "_log_total", lambda exponents: next(totals))
    monkeypatch.setattr(module, "power_sum", lambda *_: WindowedSum(0, np.ones(1), 0.0))
    monkeypatch.setattr(Composition, "window", lambda *_: (0, 0, 0.0, 0.0))
    assert Composition(parts).tilted(0.5)._log_total == 1.0 + 2.0**-43
