"""Composed grids under stress budgets: each source of error as large as what it is added to.

The grids are given, so that nothing but the error under test stands between the ends and the truth,
which is enumerated in fractions. Ends are compared strictly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracles import grids
from oracles.precision import MP, Real, exact

from shuffle_accountant.engine import composed_law as module
from shuffle_accountant.engine import composition as composition_module
from shuffle_accountant.engine import ends, stacked
from shuffle_accountant.engine.composed_law import _masses, _onto, _whole, composed_law
from shuffle_accountant.engine.composition import Composition, DeltaTerms
from shuffle_accountant.engine.rare_losses import DirectSum
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.stacked import StackedComposition
from shuffle_accountant.lattice.convolve import Factor, WindowedSum, power_sum
from shuffle_accountant.lattice.grid import PldAtoms, PldGrid
from shuffle_accountant.lattice.stack import Stack, stack_sum
from shuffle_accountant.losses.base import PROBABILISTIC_DP
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound

SPACING = 0.25
UNIT = 2.0**-20

BUDGETS = {
    "as it is": {},
    "much outside": {"outside": -0.7},
    "some outside": {"outside": -3.0},
    "little in reach": {"reach": 0.4},
    "roundings up": {"roundoff": UNIT, "adverse": 1.0},
    "roundings down": {"roundoff": UNIT, "adverse": -1.0},
}


def part(seed: int, side: Bound, infinite: float = 0.0, size: int = 7) -> PldGrid:
    """A random grid whose masses and infinite mass are exact in binary and add up to one."""
    rng = np.random.default_rng(seed)
    whole = int((1.0 - infinite) * 2**30)
    cuts = np.sort(rng.integers(1, whole, size - 1))
    mass = np.diff(np.concatenate([[0], cuts, [whole]])) / 2.0**30
    return PldGrid(side, SPACING, int(rng.integers(-5, 0)), mass, infinite, 0.0, 0.0, 0.0)


def truth_of(parts: list[tuple[PldGrid, int]]) -> grids.Sum:
    law = grids.product((grids.law_of(g.offset, g.mass.tolist()), count) for g, count in parts)
    infinite = grids.at_least_one((g.infinite, count) for g, count in parts)
    return grids.Sum(law, SPACING, infinite)


def epsilons(parts: list[tuple[PldGrid, int]]) -> list[float]:
    """On the grid, between its points, and beyond both of its ends."""
    top = sum(count * (g.offset + g.mass.size - 1) for g, count in parts)
    bottom = sum(count * g.offset for g, count in parts)
    return (SPACING * np.arange(bottom - 2, top + 2, 0.41)).tolist()


def cases(side: Bound) -> Iterator[list[tuple[PldGrid, int]]]:
    for seed in range(6):
        infinite = [0.0, 2.0**-6, 2.0**-30][seed % 3]
        yield [(part(seed, side, infinite), 2 + seed % 3)]
        yield [(part(seed, side, infinite), 2), (part(seed + 50, side, 0.0, 3), 1)]


def holds(found: DeltaTerms, truth: object, side: Bound) -> bool:
    value = exact(found.value)
    return bool(value >= truth if side is Bound.PESSIMISTIC else value <= truth)


@pytest.mark.slow
@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("name", BUDGETS)
def test_tilted_sums_contain_the_truth(name: str, side: Bound) -> None:
    for parts in cases(side):
        truth = truth_of(parts)
        asked = [(epsilon, truth.delta(epsilon)) for epsilon in epsilons(parts)]
        with stress(**BUDGETS[name]):
            composition = Composition(parts)
            for lam in (0.0, 0.3, 1.0, 3.0):
                tilted = composition.tilted(lam)
                for epsilon, delta in asked:
                    assert holds(tilted.delta(epsilon), delta, side), (lam, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("side", list(Bound))
def test_many_rounds_and_steep_tilts_whose_operations_err(side: Bound, adverse: float) -> None:
    """Errors of weights add up over rounds, those of exponents grow with the tilt."""
    lams = {(40, 0.0): 3, (40, 0.4): 3, (1, 30.0): 7, (2, 60.0): 7}
    for (count, lam), size in lams.items():
        parts = [(part(11, side, size=size), count)]
        truth = truth_of(parts)
        asked = [(x, truth.delta(x)) for x in epsilons(parts)[::2]]
        with stress(roundoff=2.0**-26, adverse=adverse):
            tilted = Composition(parts).tilted(lam)
            for epsilon, delta in asked:
                assert holds(tilted.delta(epsilon), delta, side), (lam, epsilon)


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("name", BUDGETS)
def test_tails_contain_the_truth(name: str, side: Bound) -> None:
    for parts in cases(side):
        truth = truth_of(parts)
        # between grid points: at one of them P(loss >= epsilon) jumps
        asked = [(x + 0.01, truth.tail(x + 0.01)) for x in epsilons(parts)]
        with stress(**BUDGETS[name]):
            composition = Composition(parts, PROBABILISTIC_DP)
            for lam in (0.0, 0.3, 1.0, 3.0):
                tilted = composition.tilted(lam)
                for epsilon, delta in asked:
                    assert holds(tilted.delta(epsilon), delta, side), (lam, epsilon)


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("name", ["as it is", "roundings up", "roundings down"])
def test_direct_sums_contain_the_truth(name: str, side: Bound) -> None:
    for parts in cases(side):
        truth = truth_of(parts)
        asked = [(epsilon, truth.delta(epsilon)) for epsilon in epsilons(parts)]
        with stress(**BUDGETS[name]):
            for top in (0.5, 2.0, 20.0):
                direct = DirectSum(Composition(parts), top)
                for epsilon, delta in asked:
                    assert holds(direct.delta(epsilon), delta, side), (top, epsilon)


@pytest.mark.parametrize("side", list(Bound))
def test_direct_sums_of_subnormal_masses(side: Bound) -> None:
    """Each product would be rounded by half of the smallest double: the ends are two apart."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        mass = rng.dirichlet(np.ones(4)) * [1e-158, 1e-157, 1.0, 1e-156]
        grid = PldGrid(side, SPACING, -1, mass, 0.0, 0.0, 0.0, 0.0)
        truth = truth_of([(grid, 2)]).delta(exact(2.5 * SPACING))
        found = DirectSum(Composition([(grid, 2)]), 20.0).delta(2.5 * SPACING)
        assert holds(found, truth, side)
        assert abs(exact(found.value) - truth) <= 1e-12 * truth + exact(2.0 * SMALLEST)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("side", list(Bound))
def test_errors_of_losses_add_up(side: Bound, direct: bool) -> None:
    """The truth has every loss further out by all of its error: more for an upper end."""
    moved = 0.03
    for parts in cases(side):
        truth = truth_of(parts)
        composition = Composition([(replace(g, loss_error=moved), count) for g, count in parts])
        shift = exact(moved) * sum(count for _, count in parts)
        shift = shift if side is Bound.PESSIMISTIC else -shift
        laws = [DirectSum(composition, 20.0)] if direct else [composition.tilted(x) for x in (0, 1)]
        for epsilon in epsilons(parts):
            delta = truth.delta(exact(epsilon) - shift)
            if delta == 1:
                continue
            for law in laws:
                # the error itself is a double, and the sums are good to 1e-13
                slack = exact("1e-13") * (1 if side is Bound.PESSIMISTIC else -1)
                assert holds(law.delta(epsilon), delta * (1 - slack), side), epsilon


@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("side", list(Bound))
def test_infinite_losses(side: Bound, adverse: float) -> None:
    """``1 - prod (1 - p)^T`` for chances of all sizes, strictly on its side."""
    for chances in ([(0.5, 3)], [(1e-9, 5), (0.25, 1)], [(1e-30, 7)], [(1 - 2**-20, 1), (0.1, 2)]):
        parts = [(replace(part(1, side), infinite=p), count) for p, count in chances]
        truth = grids.at_least_one(chances)
        with stress(roundoff=2.0**-20 if adverse else 2.0**-53, adverse=adverse):
            found = Fraction(Composition(parts).infinite)
        assert found >= truth if side is Bound.PESSIMISTIC else found <= truth
        assert abs(found - truth) <= (2.0**-10 if adverse else 1e-13) * truth


def test_truncated_mass_is_counted_as_often_as_it_is_left_out() -> None:
    one, other = replace(part(1, Bound.PESSIMISTIC), truncated=0.01), part(2, Bound.PESSIMISTIC)
    composition = Composition([(one, 3), (other, 2)])
    assert composition.truncated == pytest.approx(0.03)
    assert composition.tilted(1.0).delta(0.5).truncation == pytest.approx(0.03)


# ------------------------------------------------------------------------------- the composed law


def tails(first: int, mass: np.ndarray) -> list[float]:
    return np.cumsum(mass[::-1])[::-1].tolist()


@pytest.mark.parametrize("outside", [-40.0, -6.0, -3.0])
@pytest.mark.parametrize("top", [0.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_masses_of_the_composed_law_are_bounds(seed: int, top: float, outside: float) -> None:
    """Stochastically no smaller: at every grid point no less mass lies at or above it."""
    parts = [(part(seed, Bound.PESSIMISTIC), 4)]
    law = grids.product([(grids.law_of(parts[0][0].offset, parts[0][0].mass.tolist()), 4)])
    with stress(outside=outside):
        composition = Composition(parts)
        first, bound, lost = _masses(composition, top)
    for i in sorted(law):
        above = sum((p for j, p in law.items() if j >= i), Fraction(0))
        found = math.fsum(bound[max(i - first, 0) :].tolist()) + lost
        assert Fraction(found) >= above
    for i, p in law.items():
        if first < i < first + bound.size:
            assert Fraction(bound[i - first]) >= p


@pytest.mark.parametrize("adverse", [-1.0, 0.0])
@pytest.mark.parametrize("error", [0.0, 0.03, 0.4])
@pytest.mark.parametrize("steps", [1, 3])
def test_losses_are_raised_and_split_upwards(steps: int, error: float, adverse: float) -> None:
    """The divergence at each alpha is no less than that of the losses moved up by their error."""
    interval, first = 0.5, -7
    spacing = interval / steps
    mass = part(5, Bound.PESSIMISTIC, size=12).mass
    with stress(roundoff=2.0**-20 if adverse else 2.0**-53, adverse=adverse):
        start, split = _onto(first, mass, steps, interval, error)
    moved = [exact(spacing) * (first + i) + exact(error) for i in range(mass.size)]
    found = grids.Sum(grids.law_of(start, split.tolist()), interval, Fraction(0))
    for epsilon in np.linspace(-4.0, 4.0, 57).tolist():
        terms = [
            exact(p) * -MP.expm1(exact(epsilon) - x)
            for x, p in zip(moved, mass.tolist(), strict=True)
            if x > epsilon
        ]
        # spacings are quotients: off by a unit in the last place
        assert found.delta(epsilon) >= MP.fsum(terms) * (1 - exact("1e-14"))


@pytest.mark.parametrize("outside", [-2.0, -6.0])
def test_what_is_beyond_a_window_is_bounded(outside: float) -> None:
    for seed in range(6):
        parts = [(part(seed, Bound.PESSIMISTIC), 4)]
        law = grids.product([(grids.law_of(parts[0][0].offset, parts[0][0].mass.tolist()), 4)])
        with stress(outside=outside):
            composition = Composition(parts)
            for lam in (0.0, 0.5, 2.0):
                first, last, _, _ = composition.window(lam)
                below, above = composition.tilted(lam).beyond()
                assert Fraction(above) >= sum(p for i, p in law.items() if i > last)
                if lam > 0.0:
                    assert below == math.inf
                else:
                    assert Fraction(below) >= sum(p for i, p in law.items() if i < first)


def check_whole(mass: list[float], infinite: float) -> None:
    """Mass is taken away from the lower end alone, or added at infinity, until there is enough."""
    first, whole, found = _whole(-3, np.array(mass), infinite)
    total = sum(map(Fraction, [*whole.tolist(), found]))
    goal = sum(map(Fraction, mass)) + Fraction(infinite)
    # what falls short by less than a double can say is not added
    least = Fraction(1) if abs(goal - 1) > 2.0**-53 else min(goal, Fraction(1))
    assert least <= total <= 1 + 1e-14
    for i in range(len(mass)):
        wanted = min(sum(map(Fraction, mass[i:])) + Fraction(infinite), Fraction(1))
        kept = sum(map(Fraction, whole[max(i - 3 - first, 0) :].tolist())) + Fraction(found)
        assert kept >= wanted


def test_a_whole_law_takes_mass_away_from_its_lower_end_alone() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mass = rng.dirichlet(np.ones(9)) * rng.choice([0.7, 0.9999, 1.0, 1.0 + 1e-15, 1.1, 1.9])
        check_whole(mass.tolist(), float(rng.choice([0.0, 0.1, 1e-17])))
    # sums one after the other miss what an exact sum sees
    check_whole([1.0, *[2.0**-54] * 8], 1.0 - 2.0**-53)
    check_whole([0.0], 1.0)


@dataclass(frozen=True)
class Given:
    """A loss whose atoms are given."""

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float
    loss_error: float = 0.0
    largest: float = math.inf
    deviation: float = 1.0

    def atoms(self, side: Bound, edges: object, effort: object) -> PldAtoms:
        mass, loss = np.array(self.masses), np.array(self.losses)
        return PldAtoms(side, mass, loss, self.infinite, 0.0, 0.0, self.loss_error)


@pytest.mark.parametrize("outside", [-40.0, -3.0])
@pytest.mark.parametrize("error", [0.0, 0.07])
@pytest.mark.parametrize("count", [1, 3])
def test_the_composed_law_is_stochastically_no_smaller(
    count: int, error: float, outside: float
) -> None:
    """Every loss moved up by its error; what is infinite or beyond 650 is infinite."""
    one = Given((-1.0, -0.25, 0.5, 1.5, 800.0), (0.25, 0.25, 0.25, 0.125, 0.0625), 0.0625, error)
    composed_law.cache_clear()
    with stress(outside=outside):
        found = composed_law(((one, count),), 0.25, 1e-2)  # type: ignore[arg-type]
    composed_law.cache_clear()
    truth: dict[Fraction, Fraction] = {Fraction(0): Fraction(1)}
    for _ in range(count):
        added: dict[Fraction, Fraction] = {}
        for x, p in truth.items():
            for y, q in zip(one.losses[:4], one.masses[:4], strict=True):
                place = x + Fraction(y) + Fraction(error)
                added[place] = added.get(place, Fraction(0)) + p * Fraction(q)
        truth = added
    infinite = 1 - sum(truth.values())
    assert Fraction(found.infinite) >= infinite
    total = sum(map(Fraction, found.mass.tolist())) + Fraction(found.infinite)
    assert 1 <= total <= 1 + 1e-13  # masses are raised by some hundred roundings
    for epsilon in np.linspace(-4.0, 6.0, 41).tolist():
        terms = [
            _mp(p) * -MP.expm1(exact(epsilon) - _mp(x)) for x, p in truth.items() if x > epsilon
        ]
        kept = grids.Sum(
            grids.law_of(found.offset, found.mass.tolist()), 0.25, Fraction(found.infinite)
        )
        assert kept.delta(epsilon) >= MP.fsum(terms) + _mp(infinite)


def test_what_lies_above_the_last_window_is_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    """One window that ends where much is left: what was wrapped in must not stand for it."""
    monkeypatch.setattr(module, "SETTINGS", replace(SETTINGS, least_tail=0.9))
    one = Given((-0.5, 0.0, 0.5, 1.0), (0.25, 0.375, 0.25, 0.125), 0.0)
    law: dict[int, Fraction] = grids.product(
        [({-1: Fraction(1, 4), 0: Fraction(3, 8), 1: Fraction(1, 4), 2: Fraction(1, 8)}, 6)]
    )
    composed_law.cache_clear()
    with stress(outside=-0.3):
        found = composed_law(((one, 6),), 0.5, 1e-2)  # type: ignore[arg-type]
    composed_law.cache_clear()
    ends = range(found.offset, found.offset + found.mass.size + 1)
    for i in ends:
        above = sum((p for j, p in law.items() if j >= i), Fraction(0))
        kept = sum(map(Fraction, found.mass[i - found.offset :].tolist())) + Fraction(
            found.infinite
        )
        assert kept >= above


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("lam", [0.0, 2.0, 20.0])
def test_tilted_weights_state_their_error(
    lam: float, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Factor] = []

    def noted(factors: list[Factor], start: int, length: int) -> WindowedSum:
        made.extend(factors)
        return power_sum(factors, start, length)

    monkeypatch.setattr(composition_module, "power_sum", noted)
    parts = [(part(4, Bound.PESSIMISTIC), 2)]
    with stress(roundoff=UNIT, adverse=adverse):
        Composition(parts).tilted(lam)
    masses = map(exact, parts[0][0].mass.tolist())
    weights = [
        p * MP.exp(exact(lam) * x)
        for p, x in zip(masses, map(exact, parts[0][0].losses.tolist()), strict=True)
    ]
    total = MP.fsum(weights)
    wrong = MP.fsum(
        abs(exact(w) - t / total) for w, t in zip(made[0].mass.tolist(), weights, strict=True)
    )
    assert UNIT < wrong <= made[0].mass_error < 0.1


def _mp(value: Fraction) -> Real:
    return MP.mpf(value.numerator) / value.denominator


def test_ends_do_not_swallow_what_is_no_number() -> None:
    """An upper end of 0 where a sum went wrong would be the worst answer of all: it is 1."""
    grid = PldGrid(
        side=Bound.PESSIMISTIC,
        spacing=0.25,
        offset=0,
        mass=np.array([0.5, math.nan, 0.25]),
        infinite=0.0,
        truncated=0.0,
        round_off=0.0,
        loss_error=0.0,
    )
    direct = DirectSum(Composition([(grid, 1)]), 0.5)
    assert direct.delta(0.1).value == 1.0


@pytest.mark.parametrize("side", list(Bound))
@pytest.mark.parametrize("name", ["as it is", "roundings up", "roundings down"])
def test_sums_of_stacked_rows_contain_the_truth(name: str, side: Bound) -> None:
    """Rows of one matrix instead of losses one by one, steep tilts among them."""
    parts = [
        (part(seed, side, infinite), 1 + seed % 2)
        for seed, infinite in enumerate((0.0, 2.0**-6, 0.0, 2.0**-30, 0.0))
    ]
    truth = truth_of(parts)
    asked = [(x, truth.delta(x)) for x in epsilons(parts)[::3]]
    with stress(**BUDGETS[name]):
        composition = StackedComposition(parts)
        for lam in (0.0, 0.5, 3.0, 30.0):
            tilted = composition.tilted(lam)
            for epsilon, delta in asked:
                assert holds(tilted.delta(epsilon), delta, side), (lam, epsilon)


@pytest.mark.parametrize("adverse", [-1.0, 1.0])
@pytest.mark.parametrize("lam", [0.0, 2.0, 20.0])
def test_stacked_weights_state_their_error(
    lam: float, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Stack] = []

    def noted(stack: Stack, start: int, length: int) -> WindowedSum:
        made.append(stack)
        return stack_sum(stack, start, length)

    monkeypatch.setattr(stacked, "stack_sum", noted)
    parts = [(part(seed, Bound.PESSIMISTIC), 2) for seed in range(4)]
    with stress(roundoff=UNIT, adverse=adverse):
        StackedComposition(parts).tilted(lam)
    for (grid, _), found, error in zip(parts, made[0].mass, made[0].mass_error, strict=True):
        at = grid.offset - made[0].offset
        masses = zip(map(exact, grid.mass.tolist()), map(exact, grid.losses.tolist()), strict=True)
        weights = [p * MP.exp(exact(lam) * x) for p, x in masses]
        total, kept = MP.fsum(weights), found[at : at + len(weights)].tolist()
        wrong = MP.fsum(abs(exact(w) - t / total) for w, t in zip(kept, weights, strict=True))
        assert UNIT < wrong <= error < 0.1


def test_a_delta_below_the_infinite_losses_is_met_at_the_largest_loss() -> None:
    """The upper end need not look; the lower one looks, because not all that is cut off is true."""
    problem: Any = SimpleNamespace(
        query=SimpleNamespace(delta=1e-3), largest=7.0, tolerance=1e-3, deviation=1.0
    )
    plan: Any = SimpleNamespace(spacing=1e-3)

    class Law:
        """Delta falls through the one asked about at 2; nobody asks beyond the largest loss."""

        def delta(self, epsilon: float) -> Any:
            return SimpleNamespace(value=1e-3 * math.exp(2.0 - epsilon))

    law: Any = Law()
    for side, infinite, least, most in (
        (Bound.PESSIMISTIC, 0.25, 7.0, 7.0),
        (Bound.OPTIMISTIC, 0.25, 1.99, 2.0),
        (Bound.PESSIMISTIC, 0.0, 2.0, 2.01),
        (Bound.OPTIMISTIC, 0.0, 1.99, 2.0),
    ):
        composition: Any = SimpleNamespace(side=side, infinite=infinite)
        assert (
            least <= ends._epsilon(problem, plan, ends.Law(composition, law, 1.0, 1.0, 1)) <= most
        )
