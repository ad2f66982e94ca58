"""Terms of errors that matter only at the edge: wide cells, long laws, profiles cut short."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice import stack as module
from shuffle_accountant.lattice.convolve import Powers
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms, PldGrid
from shuffle_accountant.lattice.positive import positive_sum
from shuffle_accountant.lattice.profile import polygon_atoms, profile_atoms, symmetric_atoms
from shuffle_accountant.lattice.stack import Stack
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-20
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])


def divergence(mass: Array, loss: Array, infinite: float, epsilon: Real) -> Real:
    terms = (
        exact(p) * -MP.expm1(epsilon - exact(x))
        for p, x in zip(mass.tolist(), loss.tolist(), strict=True)
        if exact(x) > epsilon
    )
    return MP.fsum(terms) + exact(infinite)


def test_subcells_so_wide_that_an_exponential_is_lost() -> None:
    """Subcells of 100 nats with a loss 90 above their lower end: ``expm1(-90)`` is -1."""
    loss, mass = np.array([90.0, 190.0, 290.0]), np.array([0.25, 0.5, 0.125])
    atoms = PldAtoms(Bound.OPTIMISTIC, mass, loss, 0.0, 0.0, 0.0, 0.0)
    grid = discretize(atoms, 400.0)
    assert np.isfinite(grid.mass).all()
    for epsilon in (-10.0, 0.0, 50.0, 100.0, 200.0, 300.0, 399.0):
        moved = exact(epsilon) + exact(grid.loss_error)
        found = divergence(grid.mass, grid.losses, grid.infinite, moved)
        assert found <= divergence(mass, loss, 0.0, exact(epsilon))


@ADVERSE
def test_direct_sums_of_many_points_are_within_their_error(adverse: float) -> None:
    """More additions in one point than in a total."""
    weight = np.arange(1, 301) % 7 + 1  # integers, so that the truth is one of int64
    mass = weight / 2.0**11
    grid = PldGrid(Bound.PESSIMISTIC, 0.1, 0, mass, 0.0, 0.0, 0.0, 0.0)
    with stress(roundoff=UNIT, adverse=adverse):
        law = positive_sum([(grid, 2)], Bound.PESSIMISTIC, 0, 999)
    truth = np.convolve(weight, weight)
    for found, p in zip(law.mass.tolist(), truth.tolist(), strict=True):
        p = Fraction(p, 2**22)
        assert 0 < abs(Fraction(found) - p) <= Fraction(law.relative) * p


@ADVERSE
def test_totals_of_many_points_are_within_the_error_of_a_sum(adverse: float) -> None:
    """The other law is a single point: no addition but those of the total."""
    mass = np.full(512, 2.0**-10)
    long = PldGrid(Bound.PESSIMISTIC, 0.1, 0, mass, 0.0, 0.0, 0.0, 0.0)
    short = PldGrid(Bound.PESSIMISTIC, 0.1, 0, np.array([0.5]), 0.25, 0.0, 0.0, 0.0)
    with stress(roundoff=UNIT, adverse=adverse):
        law = positive_sum([(long, 1), (short, 1)], Bound.PESSIMISTIC, 0, 999)
    truth = Fraction(1, 8)  # a quarter of the half that the long law has
    assert UNIT < abs(Fraction(law.infinite) / truth - 1) <= Fraction(law.relative)


@pytest.mark.parametrize("side", list(Bound))
def test_what_is_allowed_for_rounding_of_a_profile_is_told(side: Bound) -> None:
    place, value = np.array([-1.0, 0.0, 1.0, 3.0]), np.array([0.0, 0.5, 0.25, 0.125])
    loss = np.concatenate([[-math.inf], np.log1p(place[1:])])
    with stress(roundoff=UNIT):
        atoms = polygon_atoms(place, value, loss, 0.125, side)
    # changes of the slope times alpha: at 1, from -1 + 1/2 to -1/4; at 2, to -1/16; at 4, to 0
    truth = 0.25 + 2.0 * 0.1875 + 4.0 * 0.0625
    off = abs(float(atoms.mass.sum()) - truth)
    assert 8.0 * UNIT < off <= atoms.round_off * (1.0 + 4.0 * UNIT)


@pytest.mark.parametrize("infinite", [0.0625, 0.125])
def test_profiles_cut_short_above_their_limit(infinite: float) -> None:
    """Straight from the last but one loss to the largest, and the limit is known."""
    p = np.array([infinite, 0.3 - infinite, 0.25, 0.25, 0.2])
    q = np.array([0.0, 0.001, 0.199, 0.3, 0.5])
    losses = np.array([0.0, 0.25, 0.5])
    forward, backward = (
        np.array([float(np.maximum(one - a * other, 0.0).sum()) for a in np.exp(losses)])
        for one, other in ((p, q), (q, p))
    )
    assert forward[-1] > infinite
    atoms = profile_atoms(
        losses, (forward, forward), (backward, backward), infinite, Bound.OPTIMISTIC
    )
    for epsilon in np.linspace(0.0, 6.0, 49).tolist():
        alpha = MP.exp(exact(epsilon))
        truth = MP.fsum(
            max(exact(a) - alpha * exact(b), exact(0))
            for a, b in zip(p.tolist(), q.tolist(), strict=True)
        )
        moved = exact(epsilon) + exact(atoms.loss_error)
        found = divergence(atoms.mass, atoms.loss, atoms.infinite, moved)
        # the bounds that were given are doubles
        assert found <= truth + exact("1e-14")


def test_what_is_allowed_for_rounding_of_a_region_is_told() -> None:
    """The laws of the corners have total 1, but for what their masses are lowered by."""
    atoms = symmetric_atoms(np.array([0.0625, 0.125]), np.array([0.5, 0.53125]), 0.375)
    left = 1 - Fraction(0.375) - sum(map(Fraction, atoms.mass.tolist()))
    assert 0 < left <= Fraction(atoms.round_off)


# Two rows that share less than all of their mass; at frequency 0 a spectrum is the total.
ROWS = Stack(0, np.array([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]), np.full(2, 3.0), np.zeros(2))


@pytest.mark.parametrize(("off", "noise"), [(0.0, 2.0**-8), (3.0 * UNIT, 0.0)])
def test_bounds_of_spectra_of_rows_that_are_off(off: float, noise: float) -> None:
    """Rows have more than is known, or their totals were rounded down."""
    with stress(roundoff=UNIT):
        found = module._bounds(ROWS, np.full(2, 1.0 - off), np.full(2, 1.0), 8, noise)
    assert found[0] >= 6.0 * math.log1p(noise)


def test_spectra_by_products_of_matrices_that_err() -> None:
    """What is computed at frequency 0 is below the total, its bound is not."""
    nothing, zero = np.full(33, -np.inf), np.zeros(33)
    powers = Powers(nothing.copy(), nothing.copy(), zero.copy(), zero.copy())
    middle = np.ones(2, dtype=np.int64)
    with stress(roundoff=UNIT, adverse=-1.0):
        module._resolve(ROWS, np.ones(2), middle, 64, np.arange(1), powers)
    assert powers.log_modulus[0] < -6.0 * UNIT
    assert powers.log_bound[0] >= 0.0
