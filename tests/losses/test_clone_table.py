"""Tabulated clones: on the right side of the exact pair, and close to it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort, EqualCells
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.two_letters import clone_table as clone_table_module
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.clone_table import block_edges, clone_table
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.reductions.clones import clones
from tests.oracles import rational


def source(eps0: float, users: int) -> NumberOfClones:
    loss = clones(eps0, users).loss
    assert isinstance(loss, BinaryLoss)
    assert isinstance(loss.source, NumberOfClones)
    return loss.source


def atoms(eps0: float, users: int, side: Bound, step: float, tail: float = 1e-14) -> PldAtoms:
    loss = BinaryLoss(source(eps0, users))
    cell = step if side is Bound.PESSIMISTIC else 0.25 * step

    def edges(largest: float) -> np.ndarray:
        return np.arange(math.ceil(largest / cell) + 2) * cell

    table = clone_table(step, loss.source.gap, 1e-3, tail)  # type: ignore[attr-defined]
    assert table is not None
    found = loss.source.tabled(side, edges, Effort(tail, 1e-3, many=True))
    assert found is not None
    return found


def divergence(found: PldAtoms, epsilon: float) -> float:
    """With the losses moved as far as they may be off."""
    upper = found.side is Bound.PESSIMISTIC
    loss = found.loss + (found.loss_error if upper else -found.loss_error)
    gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
    return math.fsum((found.mass * gain).tolist()) + found.infinite


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([Fraction(3, 2), Fraction(3), Fraction(20)]),
    st.integers(2, 24),
    st.floats(0.0, 1.0),
    st.sampled_from([0.3, 0.02]),
)
def test_they_enclose_the_enumeration(
    ratio: Fraction, users: int, place: float, step: float
) -> None:
    eps0 = math.log(ratio)
    exact = rational.clones(ratio, users).divergence(place * eps0)
    upper = divergence(atoms(eps0, users, Bound.PESSIMISTIC, step), place * eps0)
    lower = divergence(atoms(eps0, users, Bound.OPTIMISTIC, step), place * eps0)
    # eps0 is rounded, and so are the sums here: a few units in the last place of numbers up to 1
    assert exact.may_reach(lower - 1e-14)
    assert exact.may_stay_below(upper + 1e-14)


@pytest.mark.parametrize("users", [50, 3000, 200_000])
@pytest.mark.parametrize("eps0", [0.01, 1.0, 5.0])
def test_they_agree_with_sums_over_single_counts(users: int, eps0: float) -> None:
    loss = BinaryLoss(source(eps0, users))
    step = 0.05 * loss.deviation
    pair = [atoms(eps0, users, side, step) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)]
    for times in (0.0, 0.5, 2.0, 4.0):
        epsilon = min(times * loss.deviation, 0.9 * loss.largest)
        fine = Effort(1e-18, 1e-5)
        least = loss.delta(epsilon, Bound.OPTIMISTIC, fine)
        most = loss.delta(epsilon, Bound.PESSIMISTIC, fine)
        lower, upper = (divergence(found, epsilon) for found in pair)
        assert lower <= most * (1 + 1e-12) + 1e-16
        assert upper >= least * (1 - 1e-12) - 1e-16
        # blocks and cells cost about (step / deviation)^2 of a slope of 4, twice
        assert upper - lower <= 0.05 * most + 1e-13


def test_blocks_begin_at_every_count_and_widen() -> None:
    edges = block_edges(1e-2)
    assert np.array_equal(edges[:100], np.arange(100))
    assert np.all(np.diff(edges) >= 1.0)
    assert np.all(np.diff(edges)[100:] <= 0.011 * edges[100:-1] + 1.0)


def test_what_does_not_pay_is_left_to_others() -> None:
    one = source(1.0, 10**6)
    everyone = Effort(1e-14, 1e-3, many=True)
    assert clone_table(1e-12, one.gap, 1e-3, 1e-14) is None
    assert clone_table(1e-2, one.gap, 0.0, 1e-14) is None
    assert clone_table(1e-2, one.gap, 1e-3, 1e-250) is None
    far = source(math.log(1e12), 10**6)  # no digits are left in 1 - gap y
    assert far.tabled(Bound.PESSIMISTIC, lambda _: np.arange(3) * 0.1, everyone) is None


@pytest.mark.parametrize("side", list(Bound))
def test_one_round_of_many_atoms_takes_rows_that_other_numbers_of_users_share(
    side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, effort = 1e-4, Effort(1e-14, 1e-3)
    cells = EqualCells(step if side is Bound.PESSIMISTIC else step / 4.0)
    made = []
    rows = clone_table_module._rows
    monkeypatch.setattr(
        clone_table_module, "_rows", lambda table, piece: made.append(piece) or rows(table, piece)
    )
    pieces = []
    for users in (200_000, 200_100):
        made.clear()
        found = BinaryLoss(source(1.0, users)).atoms(side, cells, effort)
        pieces.append(set(made))
        listed = BinaryLoss(source(1.0, users)).atoms(side, cells, replace(effort, most_atoms=1000))
        for epsilon in (0.0, 0.003, 0.01):
            # both bound one truth, on cells of a hundredth of a deviation
            assert divergence(found, epsilon) == pytest.approx(
                divergence(listed, epsilon), rel=0.02
            )
    assert pieces[0]
    assert pieces[0] == pieces[1]
    # a law of few atoms is listed
    made.clear()
    BinaryLoss(source(1.0, 50)).atoms(side, cells, effort)
    assert not made
