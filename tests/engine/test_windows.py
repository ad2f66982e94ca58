"""Windows of sums of losses, rare large ones among them.

The truth is the law atom by atom in fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles import grids

import shuffle_accountant as sa
from shuffle_accountant.engine import composition as module
from shuffle_accountant.engine.composition import Composition
from shuffle_accountant.lattice import convolve
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

SPACING = 0.125
ROUNDS = 6


def with_rare_losses(side: Bound, chance: float, where: int, offset: int = -1) -> PldGrid:
    """Losses of about a spacing, and with a small chance one that is far out."""
    mass = np.zeros(where + 3)
    mass[[0, 1, 2, -1]] = 0.25, 0.5 - chance, 0.25, chance
    return PldGrid(
        side=side,
        spacing=SPACING,
        offset=offset,
        mass=mass,
        infinite=0.0,
        truncated=0.0,
        round_off=0.0,
        loss_error=0.0,
    )


@pytest.mark.parametrize("outside", [-40.0, -12.0, -3.0])
@pytest.mark.parametrize("chance", [2.0**-4, 2.0**-10, 2.0**-40])
@pytest.mark.parametrize(("where", "offset"), [(40, -1), (40, -4), (300, -1), (5000, -1)])
def test_windows_hold_all_but_what_is_stated(
    where: int, offset: int, chance: float, outside: float
) -> None:
    """The tilted masses beyond either end, at tilts that favour rare losses and at others."""
    grid = with_rare_losses(Bound.PESSIMISTIC, chance, where, offset)
    composition = Composition([(grid, ROUNDS)])
    law = grids.product([(grids.law_of(grid.offset, grid.mass.tolist()), ROUNDS)])
    for lam in (0.0, 0.01, 0.3, 1.5, 6.0):
        if lam * SPACING * where * ROUNDS > 600.0:
            continue
        with stress(outside=outside):
            first, last, below, above = composition.window(lam)
        tilted = {i: Fraction(math.exp(lam * SPACING * i)) * p for i, p in law.items()}
        total = sum(tilted.values())
        # exponentials are off by a few units of their exponents
        for beyond, stated in (
            (sum(p for i, p in tilted.items() if i < first), below),
            (sum(p for i, p in tilted.items() if i > last), above),
        ):
            assert beyond <= Fraction(stated) * total * (1 + Fraction(1, 10**10))


@pytest.mark.parametrize("first", [2.0**power for power in range(-10, 3)])
def test_windows_hold_it_wherever_bounds_begin(
    first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the best tilt, above it, and below, where smaller ones are worse."""
    monkeypatch.setattr(module, "_STEPS", np.array([first]))
    test_windows_hold_all_but_what_is_stated(40, -1, 2.0**-4, -3.0)
    test_windows_hold_all_but_what_is_stated(300, -4, 2.0**-10, -12.0)


def test_rare_large_losses_are_few_in_a_window() -> None:
    """Without a tilt, no more of them than are as likely as what is left out; not all rounds'."""
    rounds, where = 100, 1 << 14
    grid = with_rare_losses(Bound.PESSIMISTIC, 2.0**-33, where)
    first, last, _, _ = Composition([(grid, rounds)]).window(0.0)
    # three have a chance of 1.7e5 2^-99 = 2.6e-25, two of 6.7e-17, and e^-40 is 4.2e-18; Chernoff's
    # bound is above these chances
    assert 2 * where <= last <= 5 * where
    assert -120 * rounds <= first <= 0


def test_a_billion_users_close_to_a_null_law_take_short_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []
    good_length = convolve.good_length
    monkeypatch.setattr(
        convolve, "good_length", lambda size: lengths.append(size) or good_length(size)
    )
    one = sa.ShuffleRound(sa.ApproximateRandomizer(eps0=2.0, delta0=1e-19), users=10**9)
    found = sa.epsilon(one, delta=1e-6, rounds=100)
    assert found.upper - found.lower <= 1e-3 * found.upper
    # with rare losses it takes twelve million points
    assert max(lengths) <= 1 << 16
