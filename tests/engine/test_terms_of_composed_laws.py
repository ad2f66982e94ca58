"""Each term of a composed law alone: what is infinite, moved, split or taken away."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.engine import composed_law as module
from shuffle_accountant.engine.composed_law import _masses, _onto, _whole, composed_law
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.lattice.grid import PldAtoms, PldGrid
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound

UNIT = 2.0**-30


class Given:
    """A loss whose atoms are given, with an infinite mass and an error of its losses."""

    largest, deviation = 2.0, 1.0

    def __init__(self, losses: list[float], masses: list[float], infinite: float, error: float):
        self.made = PldAtoms(
            Bound.PESSIMISTIC, np.array(masses), np.array(losses), infinite, 0.0, 0.0, error
        )

    def atoms(self, *_: Any) -> PldAtoms:
        return self.made


def composed(loss: Given, count: int) -> PldGrid:
    """On multiples of 0.25, in steps of that."""
    composed_law.cache_clear()
    found = composed_law(((loss, count),), 0.25, 1e6)  # type: ignore[arg-type]
    composed_law.cache_clear()
    return found


@pytest.mark.parametrize("infinite", [0.5, 1e-9])
def test_parts_of_a_composed_law(monkeypatch: pytest.MonkeyPatch, infinite: float) -> None:
    """Two sums of what is infinite are rounded, and so are a grid point's quotient and product.

    What is lost above all windows is no less than a rounding of what is infinite, or far less.
    """
    loss = Given([-1.5, 0.25, 1.5], [0.25, 0.5, 0.25 - 2.0**-20], infinite, 2.0**-20)
    seen: list[Any] = []

    def masses(composition: Any, top: float) -> tuple[int, Any, float]:
        seen.extend([Fraction(composition.infinite), composition.loss_error])
        return -12, np.array([0.5, 0.0, 0.5, 0.25]), 1e-17

    def onto(*given: Any) -> tuple[int, Any]:
        seen.append(given[-1])
        return -12, given[1]

    monkeypatch.setattr(module, "_masses", masses)
    monkeypatch.setattr(module, "_onto", onto)
    for size in (2.0**-53, UNIT):
        seen.clear()
        with stress(roundoff=size):
            found = composed(loss, 2)
        assert found.side is Bound.PESSIMISTIC
        assert found.truncated == 1e-17
        whole = seen[0] + Fraction(1e-17)
        assert whole < Fraction(found.infinite) <= whole * (1 + Fraction(16.0 * size))
        if size == UNIT:
            assert Fraction(found.infinite) >= seen[0] * (1 + Fraction(2.0 * UNIT))
        # the furthest grid point is 12 steps below 0
        moved = Fraction(seen[2]) - Fraction(seen[1])
        assert 2.0 * size * 3.0 <= moved <= 20.0 * size * 3.0


def test_the_smallest_masses_are_not_split_upwards() -> None:
    """A share of the smallest double is rounded down; what is infinite makes up for it."""
    masses = [0.25, 0.75, SMALLEST]
    found = composed(Given([-0.5, 0.25, 1.0], masses, 0.0, 0.03), 1)
    for level in (0.9, 1.0):
        truth = exact(SMALLEST) * -MP.expm1(exact(level) - exact(1.03))
        terms = [
            exact(p) * -MP.expm1(exact(level) - exact(x))
            for x, p in zip(found.losses.tolist(), found.mass.tolist(), strict=True)
            if x > level
        ]
        assert MP.fsum(terms) + exact(found.infinite) >= truth


@pytest.mark.parametrize("furthest", range(SETTINGS.tilts + 1))
def test_windows_of_a_ladder_of_tilts(furthest: int) -> None:
    """Masses are the least bounds; what lies above is that of the furthest window."""

    def tilted(lam: float) -> Any:
        i = round(lam * SETTINGS.tilts)
        size = 4 if i < furthest else 6 if i == furthest else 5
        return SimpleNamespace(
            masses=lambda: (3, np.full(size, 1.0 - i / 64.0)),
            beyond=lambda: (0.5 if i == 0 else math.inf, (1.0 + i) * 1e-30),
        )

    composition: Any = SimpleNamespace(tilted=tilted)
    first, bound, lost = _masses(composition, 1.0)
    assert first == 3
    assert lost == (1.0 + furthest) * 1e-30
    least = 1.0 - SETTINGS.tilts / 64.0
    assert bound.tolist() == [least + 0.5, *[least] * 3, least, 1.0 - furthest / 64.0]


@pytest.mark.parametrize("steps", [1, 3])
def test_roundings_of_a_split_loss(steps: int) -> None:
    """What goes up takes those of a quotient of two functions, of a product and of all sums."""
    interval = 0.5
    mass, error = np.zeros(7), 0.0625
    mass[3] = 0.5
    with stress(roundoff=UNIT):
        start, found = _onto(3 * steps - 3, mass, steps, interval, error)
    share = MP.expm1(-exact(error)) / MP.expm1(-exact(interval))
    high = found[4 - start]
    moved = (8.0 + 8.0 + 1.0) + 1.0 + 2.0 * steps
    assert high >= 0.5 * share * (1 + exact(moved * UNIT))
    assert high <= 0.5 * share * (1 + exact(3.0 * moved * UNIT))


@pytest.mark.parametrize("above", [0.9, 0.7])
def test_mass_that_sums_one_after_the_other_miss(above: float) -> None:
    """Each rounds the sum of all before to itself: half a unit in the last place is lost."""
    mass = [1.0, *[2.0**-54] * 64, above]
    infinite = 0.4
    total = sum(map(Fraction, mass)) + Fraction(infinite)
    assert total > 1
    first, found, at_infinity = _whole(-3, np.array(mass), infinite)
    assert at_infinity == infinite
    assert first + found.size == len(mass) - 3
    assert sum(map(Fraction, found.tolist())) + Fraction(infinite) >= 1
