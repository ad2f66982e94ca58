"""Rare large losses by themselves, against the law of the sum atom by atom in fractions."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from oracles import grids
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.engine import ends
from shuffle_accountant.engine.composition import Composition, DeltaTerms
from shuffle_accountant.engine.rare_losses import RareLosses, SplitSum, without_rare_losses
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.stacked import StackedComposition
from shuffle_accountant.lattice import convolve
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK, PROBABILISTIC_DP, Divergence
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.randomizers.vectors import PrivUnit

SPACING = 0.125
VECTORS = PrivUnit(dimension=16, eps0=5.0)
# Cells from which on losses of `part` are rare.
RARE = 30
BUDGETS = {
    "as it is": {},
    "roundings up": {"roundoff": 2.0**-26, "adverse": 1.0},
    "roundings down": {"roundoff": 2.0**-26, "adverse": -1.0},
    "windows": {"outside": -4.0, "reach": 3.0},
}


def part(seed: int, side: Bound, chance: float, infinite: float = 0.0) -> PldGrid:
    """Six losses of a spacing or so, and three far out."""
    rng = np.random.default_rng(seed)
    mass = np.zeros(RARE + 20)
    mass[:6] = rng.dirichlet(np.ones(6)) * (1.0 - chance - infinite)
    mass[[RARE + 2, RARE + 5, RARE + 19]] = rng.dirichlet(np.ones(3)) * chance
    return PldGrid(side, SPACING, -2, mass, infinite, 0.0, 0.0, 0.0)


def cases(side: Bound) -> list[list[tuple[PldGrid, int]]]:
    return [
        [(part(1, side, 2.0**-6), 3)],
        [(part(2, side, 2.0**-30, 2.0**-20), 4)],
        [(part(3, side, 2.0**-50), 2), (part(4, side, 2.0**-9), 2)],
        # two cuts apart, and one whose losses all are common
        [(part(5, side, 0.75), 2), (replace(part(6, side, 0.0), offset=-4), 1)],
    ]


def truth_of(parts: list[tuple[PldGrid, int]]) -> grids.Sum:
    law = grids.product([(grids.law_of(g.offset, g.mass.tolist()), n) for g, n in parts])
    infinite = grids.at_least_one([(g.infinite, n) for g, n in parts])
    return grids.Sum(law, SPACING, infinite)


def split(
    parts: list[tuple[PldGrid, int]], cell: int, near: float, lam: float, divergence: Divergence
) -> SplitSum:
    composition = Composition(parts, divergence)
    others = without_rare_losses(composition, SPACING * cell)
    assert others is not None
    return SplitSum(others.tilted(lam), RareLosses(composition, others, near))


def holds(found: DeltaTerms, truth: object, side: Bound) -> bool:
    value = exact(found.value)
    return bool(value >= truth if side is Bound.PESSIMISTIC else value <= truth)


@pytest.mark.parametrize("divergence", [HOCKEY_STICK, PROBABILISTIC_DP])
@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("name", BUDGETS)
def test_split_sums_contain_the_truth(name: str, side: Bound, divergence: Divergence) -> None:
    """At any epsilon, also above the cut, whatever epsilon the exponents were chosen for."""
    for parts in cases(side):
        truth = truth_of(parts)
        read = truth.delta if divergence is HOCKEY_STICK else truth.tail
        # not at grid points, where P(loss >= epsilon) jumps
        asked = [(x, min(read(x), 1)) for x in SPACING * np.arange(-20.0, 110.0, 3.7) + 0.01]
        with stress(**BUDGETS[name]):
            for cell, near in ((5, 0.3), (20, 0.0), (20, 2.0), (29, -3.0)):
                for lam in (0.0, 1.0, 4.0):
                    law = split(parts, cell, near, lam, divergence)
                    for epsilon, delta in asked:
                        assert holds(law.delta(epsilon), delta, side), (cell, lam, epsilon)


@pytest.mark.parametrize("divergence", [HOCKEY_STICK, PROBABILISTIC_DP])
@pytest.mark.parametrize("side", list(Bound))
def test_split_sums_are_close_far_below_the_cut(side: Bound, divergence: Divergence) -> None:
    """What other losses take away from a rare one is bounded by Chernoff: 4 rounds lose 1 nat."""
    for parts in cases(side)[:3]:
        truth = truth_of(parts)
        for epsilon in (-0.05, 0.2, 0.7):
            law = split(parts, 25, epsilon, 0.5, divergence)
            found = law.delta(epsilon)
            delta = (truth.delta if divergence is HOCKEY_STICK else truth.tail)(epsilon)
            assert abs(exact(found.value) - delta) <= 1e-11 * delta + found.aliasing
            assert found.aliasing <= 1e-2 * delta


@pytest.mark.parametrize("divergence", [HOCKEY_STICK, PROBABILISTIC_DP])
def test_what_is_missed_is_stated_on_either_side(divergence: Divergence) -> None:
    """Also where it does not move that side's end: it decides whether the cut is far enough out."""
    stated = []
    for side in Bound:
        composition = Composition([(part(1, side, 2.0**-6), 3)], divergence)
        others = without_rare_losses(composition, 25 * SPACING)
        assert others is not None
        rare = RareLosses(composition, others, 3.0)
        stated.append(rare.delta(3.0).aliasing)
        whole = SplitSum(others.tilted(0.5), rare).delta(3.0)
        assert whole.aliasing == others.tilted(0.5).delta(3.0).aliasing + stated[-1]
    assert stated[0] == pytest.approx(stated[1])
    assert stated[0] > 1e-9


@pytest.mark.parametrize("side", list(Bound))
def test_errors_of_losses_add_up(side: Bound) -> None:
    """The truth has every loss further out by all of its error: more for an upper end."""
    moved = 0.03
    for parts in cases(side):
        truth = truth_of(parts)
        off = [(replace(grid, loss_error=moved), count) for grid, count in parts]
        shift = exact(moved) * sum(count for _, count in parts)
        shift = shift if side is Bound.PESSIMISTIC else -shift
        for epsilon in (0.3, 2.0, 3.5, 5.1):
            found = split(off, 20, epsilon, 0.5, HOCKEY_STICK).delta(epsilon)
            slack = exact("1e-12") * (1 if side is Bound.PESSIMISTIC else -1)
            assert holds(found, truth.delta(exact(epsilon) - shift) * (1 - slack), side)


def test_rounds_whose_losses_are_all_but_always_rare() -> None:
    mass = np.zeros(RARE)
    mass[[0, -1]] = 1e-30, 1.0
    grid = PldGrid(Bound.PESSIMISTIC, SPACING, 0, mass, 0.0, 0.0, 0.0, 0.0)
    found = split([(grid, 3)], 20, 1.0, 0.0, HOCKEY_STICK).delta(1.0)
    assert 1.0 - math.exp(1.0 - 3 * (RARE - 1) * SPACING) <= found.value <= 1.0


@pytest.mark.parametrize("epsilon", [2.0, 2.3, 2.6, 2.9])
def test_the_error_is_the_least_of_its_bounds(epsilon: float) -> None:
    """Losses of 0, -1/2 and, rarely, 31/8, in six rounds: others take up to 20/8 off a rare one."""
    mass = np.array([0.5, 0.0, 0.0, 0.0, 0.5 - 2.0**-10, *[0.0] * 30, 2.0**-10])
    grid = PldGrid(Bound.PESSIMISTIC, SPACING, -4, mass, 0.0, 0.0, 0.0, 0.0)
    composition = Composition([(grid, 6)])
    others = without_rare_losses(composition, 30 * SPACING)
    assert others is not None
    bounds = []
    for s in np.geomspace(1.0, 30.0, 1000).tolist():
        common = 0.5 * math.exp(4 * s * SPACING) + mass[4]
        far = mass[-1] * math.exp(-31 * s * SPACING)
        at_least_one = common**6 * math.expm1(6 * math.log1p(far / common))
        bounds.append(math.exp(s * epsilon) * at_least_one)
    found = RareLosses(composition, others, epsilon).delta(epsilon).aliasing
    # exponents are a tenth apart where there are few of them
    assert 1.0 - 1e-9 <= found / min(bounds) <= 1.1


def test_cuts_that_leave_nothing_or_take_nothing() -> None:
    one, other = part(1, Bound.PESSIMISTIC, 0.01), part(2, Bound.PESSIMISTIC, 0.0)
    composition = Composition([(one, 2), (other, 3)])
    assert without_rare_losses(composition, 60 * SPACING) is None
    assert without_rare_losses(Composition([(other, 2)]), 10 * SPACING) is None
    assert without_rare_losses(Composition([(replace(one, offset=9), 2)]), 9 * SPACING) is None
    found = without_rare_losses(composition, 20 * SPACING)
    assert found is not None
    assert [int(np.flatnonzero(grid.mass)[-1]) for grid, _ in found.parts] == [5, 5]
    assert [count for _, count in found.parts] == [2, 3]


@pytest.mark.parametrize("side", list(Bound))
def test_rows_of_a_matrix_are_split_alike(side: Bound) -> None:
    parts = [(part(seed, side, 2.0**-12), 1 + seed % 3) for seed in range(5)]
    plain, stacked = Composition(parts), StackedComposition(parts)
    values = []
    for whole in (plain, stacked):
        others = without_rare_losses(whole, 20 * SPACING)
        assert type(others) is type(whole)
        law = SplitSum(others.tilted(1.0), RareLosses(whole, others, 1.0))
        values.append(law.delta(1.0).value)
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("count", [10**3, 10**6])
@pytest.mark.parametrize("chance", [1e-3, 1e-12, 1e-200, 1e-300])
def test_chances_of_any_size_in_many_rounds(chance: float, count: int) -> None:
    """One loss of 0 and one of 40: P and Q are powers that mpmath knows."""
    mass = np.zeros(321)
    mass[[0, -1]] = 1.0 - chance, chance
    none = exact(mass[0])
    at_least_one = [
        none**count * MP.expm1(count * MP.log1p(exact(chance) * MP.exp(lam * 40) / none))
        for lam in (0, -1)
    ]
    truth = at_least_one[0] - MP.exp(1) * at_least_one[1]
    for side in Bound:
        grid = PldGrid(side, SPACING, 0, mass, 0.0, 0.0, 0.0, 0.0)
        composition = Composition([(grid, count)])
        others = without_rare_losses(composition, 20.0)
        assert others is not None
        found = RareLosses(composition, others, 1.0).delta(1.0)
        assert holds(found, truth, side)
        # a power of a number near one, each of whose factors is good to 1e-14
        assert abs(exact(found.value) / truth - 1) <= 1e-13 * count + 1e-12


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize(
    ("one", "rounds"),
    [
        (sa.ShuffleRound(sa.ApproximateRandomizer(eps0=2.0, delta0=1e-16), users=10**4), 100),
        pytest.param(
            *(sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=2.0), users=10**6), 30),
            marks=pytest.mark.release,
        ),
        (sa.ShuffledBatches(noise_multiplier=1.0, steps=10**3), 20),
        # others' losses reach as far down as a rare one is above epsilon
        (sa.ShuffleRound(VECTORS, users=sa.Binomial(trials=281361, probability=0.01)), 1000),
    ],
)
def test_brackets_with_and_without_agree(
    one: sa.ShuffleRound, rounds: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    good_length = convolve.good_length
    monkeypatch.setattr(
        convolve, "good_length", lambda size: lengths.append(size) or good_length(size)
    )
    monkeypatch.setattr(ends, "SETTINGS", replace(SETTINGS, long_window=1 << 10))
    found = sa.epsilon(one, delta=delta, rounds=rounds)
    short = max(lengths)
    lengths.clear()
    monkeypatch.setattr(ends, "SETTINGS", replace(SETTINGS, long_window=1 << 60))
    plain = sa.epsilon(one, delta=delta, rounds=rounds)
    assert short <= max(lengths)
    assert max(found.lower, plain.lower) <= min(found.upper, plain.upper)
    for bracket in (found, plain):
        assert bracket.upper - bracket.lower <= 1.1e-3 * bracket.upper
    epsilon = found.upper
    for least in (1 << 10, 1 << 60):
        monkeypatch.setattr(ends, "SETTINGS", replace(SETTINGS, long_window=least))
        there = sa.delta(one, epsilon=epsilon, rounds=rounds)
        assert there.lower <= delta * (1.0 + 1e-9)


@pytest.mark.parametrize("probability", [1e-20, 1e-60, 1e-150, 1e-200])
def test_messages_rarer_than_any_grid_resolves(probability: float) -> None:
    """One user, whose two inputs send one message this rarely: rounds are counts of it."""
    rows = [[1.0 - probability, probability], [1.0 - 3.0 * probability, 3.0 * probability]]
    one = sa.ShuffleRound(sa.DiscreteRandomizer(rows), users=1)
    few, more = MP.mpf(probability), MP.mpf(3.0 * probability)
    with MP.workdps(700):  # complements of the rarest
        for rounds, epsilon in ((2, 0.5), (5, 0.01)):
            alpha = MP.exp(MP.mpf(epsilon))
            truth = MP.mpf(0)
            for p, q in ((few, more), (more, few)):
                terms = (
                    MP.binomial(rounds, k)
                    * ((1 - p) ** (rounds - k) * p**k - alpha * (1 - q) ** (rounds - k) * q**k)
                    for k in range(rounds + 1)
                )
                truth = max(truth, MP.fsum(max(term, 0) for term in terms))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sa.LooseBracketWarning)
                found = sa.delta(one, epsilon=epsilon, rounds=rounds)
            assert found.lower <= truth <= found.upper <= 2.0 * truth
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        found = sa.epsilon(one, delta=1e-6, rounds=5)
    # less than delta differs at all; a grid of such losses has no digits left
    assert found.lower == 0.0 <= found.upper <= 1e-30
