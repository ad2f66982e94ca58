"""Ends and their refinement step by step, from laws and ends that are given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.engine import ends, refinement, stacked
from shuffle_accountant.engine.composition import DeltaTerms
from shuffle_accountant.engine.ends import End, Law, Plan, Problem, first_plan
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.refinement import lower_end, refine
from shuffle_accountant.engine.stacked import StackedComposition
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30
NO_ERROR = DeltaTerms(1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Stub:
    """A loss of which only sizes are known."""

    largest: float = 2.0
    deviation: float = 1.0
    divergence: Any = HOCKEY_STICK


def problem_of(query: Query, tolerance: float = 1e-3) -> Problem:
    above: Any = ((Stub(), 5),)
    below: Any = ((Stub(1.5), 5),)
    return Problem(above, below, query, tolerance, 2**30, 10.0)


def end_of(value: float, terms: DeltaTerms = NO_ERROR) -> End:
    return End(value, terms, lambda: 1.0)


def test_each_side_has_its_own_losses() -> None:
    problem = problem_of(Query(delta=1e-6))
    assert problem.on(Bound.PESSIMISTIC) is problem.losses
    assert problem.on(Bound.OPTIMISTIC) is problem.below


def test_the_slope_of_an_end() -> None:
    """That of delta a little further on; above the epsilon of the tilt it is no less than that."""
    law: Any = SimpleNamespace(
        delta=lambda epsilon: DeltaTerms(math.exp(-2.0 * epsilon), 0.0, 0.0, 0.0)
    )
    composition: Any = SimpleNamespace(limited=False)
    problem = problem_of(Query(epsilon=1.0))
    for tilt, near, slope in ((0.5, 3.0, 2.0), (0.5, 0.5, 2.0), (5.0, 3.0, 2.0), (5.0, 0.5, 5.0)):
        found = Law(composition, law, tilt, near, 1).end(problem, 1.0)
        assert found.slope() == pytest.approx(slope, rel=1e-9)


@pytest.mark.parametrize(
    ("side", "goal"), [(Bound.PESSIMISTIC, 0.25 - 0.125), (Bound.OPTIMISTIC, 0.25)]
)
def test_the_tilt_of_an_upper_end_is_for_finite_losses(side: Bound, goal: float) -> None:
    """A hundredth of delta at least, if it is no more than what is infinite."""
    for infinite, wanted in ((0.125, goal), (0.5, 0.0025 if side is Bound.PESSIMISTIC else 0.25)):
        asked: list[float] = []
        composition: Any = SimpleNamespace(
            side=side, infinite=infinite, saddle_for_delta=asked.append
        )
        ends._tilt(problem_of(Query(delta=0.25)), composition)
        assert asked == [wanted]


@pytest.mark.parametrize(
    ("round_off", "aliasing", "out"),
    [(0.15, 0.0, True), (0.0, 0.15, True), (0.04, 0.04, False), (0.06, 0.06, True)],
)
def test_noise_of_a_tenth_of_delta_is_out_of_reach(
    round_off: float, aliasing: float, out: bool
) -> None:
    noisy = end_of(1.0, DeltaTerms(1.0, 0.0, aliasing, round_off))
    assert refinement._out_of_reach(noisy) is out
    assert refinement._out_of_reach(end_of(0.5, replace(NO_ERROR, value=0.5)), noisy) is out


class Finder:
    """Stands for `find_end`: the next of some values of each side."""

    def __init__(self, **values: list[float]) -> None:
        self.values = {Bound.PESSIMISTIC: values["upper"], Bound.OPTIMISTIC: values["lower"]}

    def __call__(self, problem: Problem, plan: Plan, side: Bound) -> tuple[End, Plan]:
        return end_of(self.values[side].pop(0)), plan


def test_a_lower_end_is_the_best_of_a_few_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = Finder(upper=[9.0] * 9, lower=[1.0, 1.5, 1.25, 1.75, 1.875])
    monkeypatch.setattr(refinement, "find_end", finder)
    losses: Any = ((Stub(), 5),)
    assert lower_end(losses, Query(delta=1e-6), 1e-3, 2**30, 10.0) == 1.5
    assert len(finder.values[Bound.PESSIMISTIC]) == 9


def test_both_ends_are_on_one_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(Query(delta=1e-6))
    monkeypatch.setattr(refinement, "find_end", Finder(upper=[2.0], lower=[1.0]))
    found, _ = refinement._both(problem, first_plan(problem))
    assert (found.lower.value, found.upper.value) == (1.0, 2.0)


def test_the_scale_of_delta_is_that_of_a_lower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far below what is expected at first, where epsilon is far above the deviation."""
    problem = problem_of(Query(epsilon=60.0))
    problem = replace(problem, below=problem.losses)
    monkeypatch.setattr(refinement, "find_end", Finder(upper=[1e-80], lower=[1e-90]))
    assert refinement._with_scale(problem, first_plan(problem)).delta == 1e-90


def test_direct_convolution_narrows_until_it_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """More cells do not hold what is beyond the window; what is there already is kept."""
    problem = problem_of(Query(delta=1e-6))
    plan, start = first_plan(problem), refinement._Ends(end_of(0.5), end_of(2.0))
    for upper, looks, best in (
        ([1.75, 1.5, 1.25], 3, 1.25),
        ([1.75, math.inf, 1.25], 2, 1.75),
        ([1.0005, 1.0004, 1.0003], 1, 1.0005),
    ):
        asked: list[int] = []

        def direct(*given: Any, upper: list[float] = upper, asked: list[int] = asked) -> list[End]:
            asked.append(given[3])
            assert given[4] == (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
            return [end_of(upper[given[3]]), end_of(1.0)]

        monkeypatch.setattr(refinement, "_direct_ends", direct)
        found = refinement._directly(problem, plan, start)
        assert asked == list(range(looks))
        assert (found.lower.value, found.upper.value) == (1.0, best)


@pytest.mark.parametrize(
    ("lower", "upper", "earlier"), [(0.25, 0.25003, True), (0.0, 1e-301, True), (0.25, 0.5, False)]
)
def test_an_earlier_question_s_laws_answer_if_they_are_close_enough(
    monkeypatch: pytest.MonkeyPatch, lower: float, upper: float, earlier: bool
) -> None:
    """Or if there is nothing to be found."""
    known = {Bound.OPTIMISTIC: end_of(lower), Bound.PESSIMISTIC: end_of(upper)}
    better = refinement._Ends(end_of(0.375), end_of(0.37501))
    plan = Plan(1e-3, 1e-3, 1e-6)
    monkeypatch.setattr(refinement, "earlier_end", lambda problem, side: known[side])
    monkeypatch.setattr(refinement, "_by_transforms", lambda problem: (better, plan))
    losses: Any = ((Stub(), 5),)
    found = refine(losses, Query(epsilon=0.5), 1e-3, 2**30, 10.0)
    assert (found.lower, found.upper) == ((lower, upper) if earlier else (0.375, 0.37501))


@pytest.mark.parametrize("lam", [0.0, 2.0, 40.0])
def test_stacked_weights_state_each_rounding(lam: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two functions, an exponent and its sum, a product and a quotient; totals cancel."""
    made: list[Any] = []
    inner = stacked.stack_sum

    def noted(stack: Any, start: int, length: int) -> Any:
        made.append(stack)
        return inner(stack, start, length)

    monkeypatch.setattr(stacked, "stack_sum", noted)
    mass = np.array([0.125, 0.25, 0.5, 0.125])
    parts = [
        (PldGrid(Bound.PESSIMISTIC, 0.25, start, mass, 0.0, 0.0, 0.0, 0.0), 2)
        for start in (-3, -1, 1)
    ]
    with stress(roundoff=UNIT):
        StackedComposition(parts).tilted(lam)
    for (grid, _), error in zip(parts, made[0].mass_error.tolist(), strict=True):
        pairs = zip(grid.mass.tolist(), grid.losses.tolist(), strict=True)
        total = MP.fsum(exact(p) * MP.exp(exact(lam) * exact(x)) for p, x in pairs)
        reach = shift = lam * 1.0  # of losses up to (1 + 3) / 4
        scale = float(MP.log(total))
        moved = 8.0 + 2.0 + reach + (reach + shift) + 8.0 * abs(scale - shift) + abs(scale)
        assert moved * UNIT <= error <= (200.0 + 40.0 * moved) * UNIT
