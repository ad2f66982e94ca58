"""Laws of sums: every single term of their errors and of what they leave out, one at a time.

Numbers are sums of a few powers of two, so that what is stated is exact but for large roundings.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import doubling, heavy_tails
from shuffle_accountant.sums.doubling import SumLaw, merged, pruned
from shuffle_accountant.sums.even_cells import EvenCells

UNIT = 2.0**-30
# Of stated terms: the rest is what they are rounded by.
NEARLY = 0.999
SIDES = pytest.mark.parametrize("side", list(Bound))


def check(found: Any, exact: Any, roundings: float, side: Bound) -> None:
    """A bound is above the exact value by this number of large roundings, or below it."""
    off = roundings * UNIT * (1.0 if side is Bound.PESSIMISTIC else -1.0)
    quotient = np.asarray(found) / np.asarray(exact)
    least, most = sorted((1.0 + NEARLY * off, 1.0 + off / NEARLY))
    assert np.all((quotient >= least) & (quotient <= most))


def law(value: list[float], mass: list[float], **stated: Any) -> SumLaw:
    known = {"count": 1, "lost_gain": 0.0, "lost": 0.0, "moved": 0.0, "reach": 4.0}
    return SumLaw(np.array(value), np.array(mass), **known | stated)


@SIDES
@pytest.mark.parametrize("swapped", [False, True])
def test_divergences_count_what_was_left_out(swapped: bool, side: Bound) -> None:
    """Its mean in the order (P, Q), its probability in the other one."""
    one = law([0.5, 2.0], [0.25, 0.5], lost_gain=0.0625, lost=0.03125)
    exact = 0.03125 + 0.25 * 0.5 if swapped else 0.0625 + 0.5
    assert one.divergence(0.0, side, swapped) == pytest.approx(exact, rel=1e-13)


@SIDES
def test_atoms_that_are_merged(side: Bound) -> None:
    """Sums of up to three masses, and of two more; each has two roundings of its own."""
    value, mass = np.array([1.0, 2.0, 3.0, 5.0, 7.0]), np.array([0.5, 0.125, 0.125, 0.125, 0.125])
    with stress(roundoff=UNIT):
        found, masses, slack = merged(value, mass, np.array([0, 3]), side)
    above = side is Bound.PESSIMISTIC
    # what lies between the first atoms of groups goes to these, by its distance from either
    truth = [0.5 + 0.09375 + 0.0625, 0.03125 + 0.0625 + 0.125, 0.125] if above else [0.75, 0.25]
    check(masses, truth, 3.0 + 1.0 + 2.0, side)
    assert np.allclose(found, [1.0, 5.0, 7.0] if above else [1.125 / 0.75, 6.0], rtol=1e-15)
    assert slack >= NEARLY * 6.0 * UNIT


@SIDES
@pytest.mark.parametrize("signed", [False, True])
def test_values_of_sums_in_cells(signed: bool, side: Bound) -> None:
    """The sum, the share of a split and the edge; and the means of cells, whose masses err.

    These take sixteen roundings of their own and one for each part, block and pair; a mean's
    distance from its cell's end is relative to the largest cell where values are negative.
    """
    value = [-2.0 if signed else 2.0**-6, 1.0]  # on no lattice, next to 0
    one, other = (law(value, [0.5, 0.5], moved=x, reach=2.0) for x in (2.0**-9, 2.0**-8))
    with stress(roundoff=UNIT):
        found = doubling.add(one, other, side, width=0.05, budget=0.0, users=2)
    part = np.max(np.diff(found.value)) / 4.0 if signed else 1.0
    least = 2.0**-8 + NEARLY * UNIT * (8.0 + 2.0 * 16.0 * part)
    assert least <= found.moved <= least + 1.01 * UNIT * 2.0 * 32.0


@SIDES
def test_values_and_masses_on_a_lattice(side: Bound) -> None:
    """Masses by what those of the lattice err, values by its means, relative to the smallest."""
    mass = np.array([0.25, 0.5, 0.125])
    cells = EvenCells(4, 0.5, mass, 0.125 * mass, 64.0 * UNIT, 2.0**-9)
    one = law([1.0, 2.0], [0.5, 0.5], moved=2.0**-9)
    step = doubling._Addition(side, 0.05, 0.0, 2)
    with stress(roundoff=UNIT):
        found = step._on_lattice(one, replace(one, moved=2.0**-8), cells)
    check(found.mass, mass, 64.0, side)
    assert np.array_equal(found.value, [2.125, 2.625, 3.125])
    least = 2.0**-8 + 8.0 * NEARLY * UNIT + 2.0**-9 / 2.125
    assert least <= found.moved <= least + 256.0 * UNIT
    assert found.cells is not None


def test_values_that_are_pruned() -> None:
    """At either end, with what was lost before; of a block of two of eight users."""
    value, mass = [0.5, 1.0, 2.0, 4.0], [2.0**-12, 0.5, 0.25, 2.0**-13]
    one = law(value, mass, count=2, lost_gain=2.0**-10, lost=2.0**-11)
    cells = EvenCells(1, 0.5, one.mass, None, 0.0, 0.0)
    found = pruned(replace(one, cells=cells), 2.0**-6, 8)
    assert np.array_equal(found.value, [1.0, 2.0])
    assert found.cells is not None
    assert (found.cells.first, found.cells.mass.size) == (2, 2)
    assert found.lost == 2.0**-11 + 2.0**-12 + 2.0**-13
    assert found.lost_gain == 2.0**-10 + (2.0**-12 * 0.5 + 2.0**-13 * 4.0) / 2.0


def test_what_two_summands_leave_out() -> None:
    """Of either its own gain and, with its probability, that of the other."""
    one = law([1.0], [1.0], count=1, lost_gain=2.0**-4, lost=2.0**-5, moved=2.0**-6)
    two = law([1.0], [1.0], count=3, lost_gain=2.0**-7, lost=2.0**-8, moved=2.0**-9)
    for a, b in ((one, two), (two, one)):
        with stress(roundoff=UNIT):
            found = doubling._sum_law(a, b, np.ones(1), np.ones(1))
        assert found.lost == 2.0**-5 + 2.0**-8
        # a part that is lost takes the others' gain along, which is at most one for each
        own = 0.25 * 2.0**-4 + 0.75 * 2.0**-7
        taken = 0.75 * 2.0**-5 + 0.25 * 2.0**-8
        assert found.lost_gain == own + taken
        assert found.moved >= 2.0**-6 + 8.0 * NEARLY * UNIT


# ------------------------------------------------------------------------------------ heavy tails


@SIDES
def test_values_that_are_gathered(side: Bound) -> None:
    """Each is moved by what a mean of masses errs, twice, and by eight roundings."""
    value, mass = np.array([1.0, 1.0 + 2.0**-10, -4.0]), np.full(3, 0.25)
    with stress(roundoff=UNIT):
        found, masses = heavy_tails._gathered(value, mass, value, 1e-300, 1.03, side)
    slack = 2.0 + 1.0 + 2.0
    above = side is Bound.PESSIMISTIC
    exact = [-4.0, 1.0, 1.0 + 2.0**-10] if above else [-4.0, 1.0 + 2.0**-11]
    off = (2.0 * slack + 8.0) * UNIT * np.abs(exact)
    moved = (found - exact) if above else (exact - found)
    assert np.all((moved >= NEARLY * off) & (moved <= off / NEARLY))
    assert masses.sum() == pytest.approx(0.75, rel=1e-7)


def test_sums_without_large_values_whose_roundings_err(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms are added up, each with a value and an exponential, for each of n factors."""
    monkeypatch.setattr(heavy_tails, "_EXPONENTS", np.ones(1))
    value, mass = np.array([-1.0, 0.5]), np.array([0.5, 0.375])
    grown = mass * np.expm1(2.0 * value)
    moment = math.log(1.0 + grown.sum() - 0.125)
    power = 10.0 * (moment + 0.125 * math.exp(-moment))
    exact = math.exp(power) / (2.0 * math.e)
    with stress(roundoff=UNIT):
        found = heavy_tails._without_large(value, mass, 10, 0.125)
    off = 10.0 * 258.0 * (1.0 + float(np.abs(grown).sum())) * UNIT
    # by Chernoff's bound, whose own rounding up is 1e-9
    assert exact * (1.0 + NEARLY * off) <= found <= exact * (1.0 + 1.01 * off + 1e-8)


USERS = 3


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What nodes are asked, and the ends that they give, for one large value."""
    found: dict[str, Any] = {"upper": 0.5, "lower": 0.25}

    def node_table(rows: Any, users: Any, width: Any) -> Any:
        found["spaces"] = rows.spaces
        ends = SimpleNamespace(**{x: np.array([found[x]]) for x in ("upper", "lower")})
        return SimpleNamespace(ends=lambda n: ends)

    monkeypatch.setattr(heavy_tails, "node_table", node_table)
    monkeypatch.setattr(heavy_tails, "_without_large", lambda *_: 2.0**-20)
    return found


def one_large(side: Bound) -> float | None:
    """A value of 64 of probability 2^-12, others are -1."""
    value, mass = np.array([-1.0, 64.0]), np.array([1.0 - 2.0**-12, 2.0**-12])
    with stress(roundoff=UNIT):
        return heavy_tails.one_large(value, mass, USERS, side, width=0.5)


@SIDES
def test_one_large_value_whose_roundings_err(side: Bound, asked: dict[str, Any]) -> None:
    """Ratios by eight roundings, so that sums are as much larger; and the sum of all answers."""
    found = one_large(side)
    assert found is not None
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    ratios = asked["spaces"][:2, 0, 0]
    up = (ratios / [32.0, 1.0] - 1.0) * [sign, -sign]
    assert np.all((up >= NEARLY * 8.0 * UNIT) & (up <= 8.0 * UNIT / NEARLY))
    each = USERS * (USERS - 1.0) * 2.0**-12
    # of the others: those without a large value, and with several
    others = 2.0**-20 + USERS * 2.0**-6 * (USERS - 1.0) * 2.0**-12
    exact = each * asked["upper"] + others * (1.0 + 1e-9) if sign > 0.0 else each * asked["lower"]
    check(found, exact, 26.0 + 38.0 + 128.0, side)


def test_one_large_value_that_nodes_do_not_answer(asked: dict[str, Any]) -> None:
    asked["upper"] = math.nan
    assert one_large(Bound.PESSIMISTIC) is None


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What doubling is asked for a heavy law of scale one, and half of it as the answer."""
    found: dict[str, Any] = {}

    def positive_part(one: SumLaw, n: int, side: Bound, resolution: float, tail: float) -> float:
        found["one"] = one
        return 0.5

    monkeypatch.setattr(heavy_tails, "_positive_part", positive_part)
    return found


@SIDES
def test_heavy_positive_parts_of_a_scale(side: Bound, answer: dict[str, Any]) -> None:
    """The scale divides all values, and multiplies the answer."""
    value, mass = np.array([-2.0, 1.0]), np.array([0.5, 0.5])
    with stress(roundoff=UNIT):
        found = heavy_tails.heavy_positive_part(value, mass, 2, side, resolution=0.1, tail=1e-9)
    check(found, 0.25, 4.0, side)
    assert answer["one"].moved >= 8.0 * NEARLY * UNIT


@SIDES
def test_heavy_positive_parts_that_are_not_worth_a_sum(side: Bound) -> None:
    """From above all positive values count, whose sum is rounded, and twice more."""
    value, mass = np.array([-2.0, 1.0]), np.array([0.5, 0.5])
    with stress(roundoff=UNIT):
        found = heavy_tails.heavy_positive_part(value, mass, 2, side, resolution=0.1, tail=1.0)
    if side is Bound.OPTIMISTIC:
        assert found == 0.0
    else:
        check(found, 1.0, 26.0 + 38.0 + 2.0, side)


@SIDES
@pytest.mark.parametrize("signed", [False, True])
def test_positive_parts_of_a_law(
    signed: bool, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values err relative to themselves or to the reach; above counts what was left out."""
    value, mass = np.array([-1.0 if signed else 0.5, 2.0]), np.array([0.5, 0.25])
    summed = law([*value], [*mass], count=4, lost_gain=2.0**-6, lost=0.5, moved=2.0**-8)
    monkeypatch.setattr(heavy_tails, "power", lambda *_, **__: summed)
    with stress(roundoff=UNIT):
        found = heavy_tails._positive_part(law([1.0], [1.0]), 4, side, 0.1, 1e-9)
    above = side is Bound.PESSIMISTIC
    off = 2.0**-8 * (np.full(2, 4.0) if signed else value) * (1.0 if above else -1.0)
    exact = float(mass @ np.maximum(value + off, 0.0)) + (4.0 * 2.0**-6 if above else 0.0)
    check(found, exact, 26.0 + 38.0 + 6.0, side)
