"""PldAtoms on the grid: the direction of the bound, its second order, and what it keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice import discretize as discretize_module
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.numerics.rounding import Bound

fixed = settings(derandomize=True, deadline=None, max_examples=150)

# A few roundings of masses of order one, of sums of at most forty of them.
ROUND_OFF = 1e-12


def atoms_of(mass: Array, loss: Array, side: Bound, infinite: float = 0.0) -> PldAtoms:
    return PldAtoms(side, mass, loss, infinite, 0.0, 0.0, 0.0)


def divergence(mass: Array, loss: Array, infinite: float, log_alpha: float) -> float:
    """``sum (p - alpha q)_+`` term by term."""
    terms = mass * -np.expm1(np.minimum(log_alpha - loss, 0.0))
    return math.fsum(terms.tolist()) + infinite


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Array, Array]:
    """Masses and losses of a pair with P-mass one and Q-mass at most one."""
    size = draw(st.integers(1, 40))
    scale = 10 ** draw(st.floats(-9, 1))
    loss = scale * np.array(draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size)))
    weight = np.array(draw(st.lists(st.floats(1e-9, 1), min_size=size, max_size=size)))
    return weight / weight.sum(), loss


@pytest.mark.slow
@fixed
@given(pairs(), st.floats(-3, 1), st.integers(0, 2**32))
def test_upper_is_above_and_lower_is_below(
    pair: tuple[Array, Array], log_ratio: float, seed: int
) -> None:
    mass, loss = pair
    largest = float(np.abs(loss).max()) or 1.0
    spacing = largest * 10**log_ratio
    upper = discretize(atoms_of(mass, loss, Bound.PESSIMISTIC, 0.01), spacing)
    lower = discretize(atoms_of(mass, loss, Bound.OPTIMISTIC, 0.01), spacing)
    rng = np.random.default_rng(seed)
    for log_alpha in [0.0, *rng.uniform(-1.5 * largest, 1.5 * largest, 20)]:
        truth = divergence(mass, loss, 0.01, log_alpha)
        above = divergence(upper.mass, upper.losses, upper.infinite, log_alpha - upper.loss_error)
        below = divergence(lower.mass, lower.losses, lower.infinite, log_alpha + lower.loss_error)
        # sums rounded once, and the divergence of tiny losses inherits their size
        slack = 4e-16 * max(1.0, largest)
        assert below - slack <= truth <= above + slack


@fixed
@given(pairs(), st.floats(-3, 1))
def test_upper_keeps_both_masses(pair: tuple[Array, Array], log_ratio: float) -> None:
    mass, loss = pair
    spacing = (float(np.abs(loss).max()) or 1.0) * 10**log_ratio
    upper = discretize(atoms_of(mass, loss, Bound.PESSIMISTIC), spacing)
    assert (upper.mass >= 0).all()
    assert upper.mass.sum() == pytest.approx(1.0, abs=ROUND_OFF)
    q_before, q_after = np.sum(mass * np.exp(-loss)), np.sum(upper.mass * np.exp(-upper.losses))
    # a P-mass rounded at the lower end of a cell counts e^spacing times in Q; losing Q-mass, as
    # happens on absurdly wide cells, keeps the pair an upper one
    assert q_after <= q_before * (1 + ROUND_OFF * math.exp(spacing))
    if spacing <= 1.0:
        assert q_after == pytest.approx(q_before, rel=ROUND_OFF)


@pytest.mark.parametrize("side", list(Bound))
def test_atoms_on_the_grid_stay(side: Bound) -> None:
    spacing = 0.1
    loss = spacing * np.array([-3.0, -1.0, 0.0, 2.0, 7.0])  # 0.1 * 3 is not 0.3 in binary
    mass = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    grid = discretize(atoms_of(mass, loss, side), spacing)
    expected = np.zeros(grid.mass.size)
    expected[[0, 2, 3, 5, 10]] = mass
    assert grid.offset == -3
    assert grid.mass == pytest.approx(expected, abs=ROUND_OFF)


def test_both_sides_are_of_second_order() -> None:
    """Halving the spacing divides the gap of the divergence at 0 by about four."""
    loss = np.linspace(-1, 1, 4001) + 1e-4
    mass = np.exp(-8 * (loss - 0.05) ** 2)
    mass /= mass.sum()
    gaps = {}
    for side in Bound:
        gaps[side] = [
            abs(divergence(grid.mass, grid.losses, 0.0, 0.33) - divergence(mass, loss, 0.0, 0.33))
            for grid in (discretize(atoms_of(mass, loss, side), s) for s in (0.2, 0.02))
        ]
    for coarse, fine in gaps.values():
        # exactly 100 on average; 20 leaves room for where 0.33 falls between grid points
        assert fine <= coarse / 20


def test_no_atoms() -> None:
    empty = np.zeros(0)
    for side in Bound:
        grid = discretize(atoms_of(empty, empty, side, 0.5), 0.1)
        assert grid.mass.tolist() == [0.0]
        assert grid.infinite == 0.5


@fixed
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([0.5, 0.05, 0.004]))
def test_chords_from_below(seed: int, atoms: int, spacing: float) -> None:
    """Most of the mass at the lowest losses: of a step that few records take part in."""
    rng = np.random.default_rng(seed)
    loss = np.sort(-0.1 + rng.exponential(0.2, atoms) ** 2)
    mass = rng.dirichlet(np.full(atoms, 0.3)) * np.exp(-5.0 * (loss - loss[0]))
    given = atoms_of(mass, loss, Bound.OPTIMISTIC)
    merged = discretize_module._merge_subcells(given.mass, given.loss / spacing, spacing)
    offset, found, own = discretize_module._chords_from_below(*merged, spacing)
    assert own < 1000.0
    at = spacing * (offset + np.arange(found.size))
    # 1e-12: sums and exponentials of forty doubles
    assert found.sum() == pytest.approx(mass.sum(), rel=1e-12)
    for log_alpha in np.linspace(-0.5, 2.0, 41):
        truth = divergence(mass, loss, 0.0, log_alpha)
        assert divergence(found, at, 0.0, log_alpha) <= truth + 1e-12 * mass.sum()


def test_what_chords_leave_is_where_little_mass_is() -> None:
    """A step that one record in 1e4 takes part in: its mean loss is 1e-8, far below a spacing.

    The mean loss of the lower pair may be off to second order: by the spacing's square, times a
    half for chords of one cell, and not by a share of the spacing.
    """
    score = np.linspace(-8.0, 8.0, 20001)
    first = 1.0 + 1e-4 * np.expm1(score - 0.5)
    null = np.exp(-0.5 * score**2) / np.exp(-0.5 * score**2).sum()
    loss, mass = np.log(first), first * null
    spacing = 1e-5
    found = discretize(atoms_of(mass, loss, Bound.OPTIMISTIC), spacing)
    assert found.mass.sum() == pytest.approx(mass.sum(), rel=1e-9)
    lost = float(mass @ loss) - float(found.mass @ found.losses)
    assert 0.0 <= lost <= 0.5 * spacing**2
