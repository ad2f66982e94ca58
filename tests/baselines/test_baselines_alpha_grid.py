"""The gridded pair comes down to the explicit one: Figure 2 of 'Numerical Accounting ...'.

eps0 = 3, n = 10,000 users of a round, sampling rate 1/100, alpha in [e^-0.25, e^0.25]. The explicit
pair's delta is that of `ShuffleRound.delta`, whose sampled pairs are enumerated elsewhere.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.baselines import alpha_grid
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound

FIGURE_2 = sa.ShuffleRound(sa.GeneralRandomizer(3.0), users=10_000, population=1_000_000)


def divergence(atoms: PldAtoms, epsilon: float) -> float:
    """``E_P[(1 - e^(epsilon - L))_+]``."""
    above = np.maximum(atoms.loss - epsilon, 0.0)
    return math.fsum((atoms.mass * -np.expm1(-above)).tolist()) + atoms.infinite


@pytest.mark.slow
def test_growing_grids_come_down_to_the_explicit_pair() -> None:
    epsilons = np.linspace(3e-4, 2e-3, 40).tolist()
    explicit = np.array([FIGURE_2.delta(epsilon=epsilon).lower for epsilon in epsilons])
    gaps = []
    before = np.full(len(epsilons), np.inf)
    for points in (40, 160, 640, 2560):
        # the middle of the figure's grid: what is known of alpha elsewhere does not matter
        atoms = alpha_grid.pair(FIGURE_2, points=points, reach=0.02)
        gridded = np.array([divergence(atoms, epsilon) for epsilon in epsilons])
        # each grid is part of the next, so the polygon comes down; rounding of 1e-12, relative
        assert np.all(gridded <= before * (1 + 1e-10))
        assert np.all(gridded >= explicit * (1 - 1e-10))
        gaps.append(float(np.max(gridded / explicit - 1.0)))
        before = gridded
    assert gaps[0] > 1.0
    assert gaps[-1] < 1e-3
    # second order: four times as many points, about a sixteenth of the gap
    assert gaps[-2] / gaps[-1] == pytest.approx(16.0, rel=0.2)


def test_the_figure_s_own_grid_is_above() -> None:
    atoms = alpha_grid.pair(FIGURE_2, points=500)
    for epsilon in (0.0, 3e-4, 1.3e-3, 1e-2):
        explicit = FIGURE_2.delta(epsilon=epsilon)
        assert divergence(atoms, epsilon) >= explicit.lower * (1 - 1e-10)
    # 500 intervals are a thousandth of alpha each, too coarse for losses as small as these
    assert divergence(atoms, 1.3e-3) > 2.0 * FIGURE_2.delta(epsilon=1.3e-3)


def test_it_is_exact_at_its_points() -> None:
    for points in (20, 100):
        for k in (0, 1, 3):
            epsilon = k * 0.25 / (points // 2)
            explicit = FIGURE_2.delta(epsilon=epsilon).upper
            found = alpha_grid.delta(FIGURE_2, epsilon=epsilon, points=points)
            # a thousand masses, each a difference of slopes
            assert found == pytest.approx(explicit, rel=1e-9, abs=1e-15)


def test_both_laws_have_mass_one() -> None:
    atoms = alpha_grid.pair(FIGURE_2, points=500)
    assert math.fsum(atoms.mass.tolist()) + atoms.infinite == pytest.approx(1.0, abs=1e-12)
    assert math.fsum((atoms.mass * np.exp(-atoms.loss)).tolist()) <= 1.0 + 1e-12
    assert atoms.loss.min() >= -0.25 - 1e-15
    assert atoms.loss.max() <= 0.25 + 1e-15


class Uncertain:
    """A symmetric loss whose delta is known to within a fifth."""

    @property
    def reversed(self) -> Uncertain:
        return self

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        return math.exp(-0.25 * epsilon) * (0.3 if side is Bound.PESSIMISTIC else 0.25)


def test_the_polygon_goes_through_upper_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = Uncertain()
    monkeypatch.setattr(
        sa.ShuffleRound, "reduced", lambda self: SimpleNamespace(loss=loss, name="stub")
    )
    for epsilon in (0.0, 0.05, 0.1):
        found = alpha_grid.delta(FIGURE_2, epsilon=epsilon, points=10)
        assert found == pytest.approx(0.3 * math.exp(-0.25 * epsilon), rel=1e-9)


def test_what_a_pair_is_off_by_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses may be larger by their error, and an eighth is infinite."""
    atoms = PldAtoms(Bound.PESSIMISTIC, np.full(1, 0.5), np.full(1, 0.2), 0.125, 0.0, 0.0, 0.01)
    monkeypatch.setattr(alpha_grid, "pair", lambda *_, **__: atoms)
    for epsilon in (0.0, 0.15, 0.205):
        found = alpha_grid.delta(FIGURE_2, epsilon=epsilon, points=10)
        truth = 0.125 - 0.5 * math.expm1(epsilon - 0.2 - 0.01)
        assert truth <= found <= truth * (1.0 + 1e-13)


@pytest.mark.slow
def test_an_asymmetric_round() -> None:
    one = sa.ShuffleRound(sa.GaussianRandomizer(2.0), users=3, reduction="example")
    for epsilon in (0.05, 0.3):
        certified = one.delta(epsilon=epsilon)
        found = alpha_grid.delta(one, epsilon=epsilon, points=40, reach=1.0)
        assert certified.lower <= found <= 1.05 * certified


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"points": 0}, ValueError, "points"),
        ({"points": 3}, ValueError, "points"),
        ({"points": 2.5}, TypeError, "points"),
        ({"reach": 0.0}, ValueError, "reach"),
        ({"epsilon": -1.0}, ValueError, "epsilon"),
        ({"round": 1}, TypeError, "round"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    arguments = {"round": FIGURE_2, "epsilon": 0.1, "points": 10, "reach": 0.25} | change
    with pytest.raises(error, match=rf"^{named} must ") as caught:
        alpha_grid.delta(arguments.pop("round"), **arguments)
    assert "\n" not in str(caught.value)
