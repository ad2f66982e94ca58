"""Single terms of the lattice's errors, each where nothing else covers it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.lattice import convolve, profile
from shuffle_accountant.lattice.convolve import Powers, invert
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.numerics.angles import TURN
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30
SIDES = pytest.mark.parametrize("side", list(Bound))


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
def test_inverse_transforms_err_in_one_place(
    adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All mass at one point, where exponentials, cosines and the transform err the same way."""

    def turned(angle: Array) -> tuple[Array, Array]:
        return np.cos(angle) * (1.0 + adverse * TURN * UNIT), np.sin(angle)

    monkeypatch.setattr(convolve, "cos_sin", turned)
    with stress(roundoff=UNIT, adverse=adverse):
        found = invert(Powers(*(np.zeros(9) for _ in range(4))), 0, 0, 16)
    found.mass[0] -= 1.0
    wrong = float(np.linalg.norm(found.mass))
    assert 0.5 * found.error < wrong <= found.error


@SIDES
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_masses_of_a_cell_are_rounded_outwards(offset: float, side: Bound) -> None:
    """Sums of seven masses, at a grid point or between two."""
    mass, loss = np.full(7, 0.125), np.full(7, 0.25 * (3.0 + offset))
    with stress(roundoff=UNIT):
        grid = discretize(PldAtoms(side, mass, loss, 0.125, 0.0, 0.0, 0.0), 0.25)
    moved = sum(map(Fraction, grid.mass.tolist())) / Fraction(0.875) - 1
    if side is Bound.OPTIMISTIC:
        moved = -moved
    # seven additions, and what shares and ends of chords take
    assert 7 * UNIT <= moved <= 64 * UNIT
    assert 7 * UNIT <= grid.round_off <= 64 * UNIT


def test_profiles_at_their_limit_below_one() -> None:
    """Half way between two points, and where it is ``(1 - alpha)_+`` that is at the limit."""
    first, second = (-0.5, 0.0, math.log(0.5)), (-0.25, 0.125, math.log(0.75))
    assert profile._at_limit(first, second, 0.4375) == (-0.375, 0.0625, pytest.approx(-0.4700036))
    first, second = (-0.75, -0.125, math.log(0.25)), (-0.5, -0.125, math.log(0.5))
    assert profile._at_limit(first, second, 0.5) == (-0.5, 0.0, math.log(0.5))


@SIDES
def test_what_is_infinite_of_an_upper_profile_may_be_less(side: Bound) -> None:
    place, value = np.array([-1.0, 0.0, 1.0, 3.0]), np.array([0.0, 0.5, 0.25, 0.125])
    loss = np.concatenate([[-math.inf], np.log1p(place[1:])])
    atoms = profile.polygon_atoms(place, value, loss, 0.125, side)
    assert atoms.truncated == (0.125 if side is Bound.PESSIMISTIC else 0.0)
