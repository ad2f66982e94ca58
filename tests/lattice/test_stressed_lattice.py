"""Rooms of the lattice under stress budgets: one source of error at a time, as large as it gets.

Inputs are exact in binary, the truth is enumerated in fractions or has 50 digits, and containment
is strict unless a line says what its tolerance is for.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np
import pytest
from oracles import blanket as exact_blanket
from oracles import convolution, grids
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.convolve import Factor, power_sum
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import Array, PldAtoms, PldGrid
from shuffle_accountant.lattice.positive import positive_sum
from shuffle_accountant.lattice.profile import polygon_atoms, profile_atoms, symmetric_atoms
from shuffle_accountant.lattice.stack import Stack, stack_sum
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import pairs
from shuffle_accountant.sums.doubling import SumLaw, add, power
from shuffle_accountant.sums.heavy_tails import heavy_positive_part
from shuffle_accountant.sums.pairs import pair_sums
from shuffle_accountant.sums.statistic import Hypotheses, power_of

UNIT = 2.0**-20
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
SIDES = pytest.mark.parametrize("side", list(Bound))

Law = dict[Fraction, Fraction]


def dyadic(rng: np.random.Generator, size: int, total: float = 1.0) -> Array:
    """Masses that are exact in binary and add up to the total exactly."""
    whole = int(total * 2**30)
    cuts = np.sort(rng.integers(1, whole, size - 1))
    return np.asarray(np.diff(np.concatenate([[0], cuts, [whole]])) / 2.0**30)


def exact_law(value: Array, mass: Array) -> Law:
    law: Law = defaultdict(Fraction)
    for x, p in zip(value.tolist(), mass.tolist(), strict=True):
        law[Fraction(x)] += Fraction(p)
    return law


def added(a: Law, b: Law) -> Law:
    total: Law = defaultdict(Fraction)
    for (x, p), (y, q) in itertools.product(a.items(), b.items()):
        total[x + y] += p * q
    return total


def exact_power(law: Law, count: int) -> Law:
    total: Law = {Fraction(0): Fraction(1)}
    for _ in range(count):
        total = added(total, law)
    return total


def positive_part(law: Law, strike: Fraction) -> Fraction:
    return sum((p * max(x - strike, Fraction(0)) for x, p in law.items()), Fraction(0))


def above_or_below(found: float, truth: object, side: Bound) -> bool:
    value = exact(found)
    return bool(value >= truth if side is Bound.PESSIMISTIC else value <= truth)


# ---------------------------------------------------------------------------------- discretisation


def divergence(mass: Array, loss: Array, infinite: float, epsilon: object) -> object:
    """Of atoms as they stand, in 50 digits."""
    terms = (
        exact(p) * -MP.expm1(exact(epsilon) - exact(x))
        for p, x in zip(mass.tolist(), loss.tolist(), strict=True)
        if exact(x) > exact(epsilon)
    )
    return MP.fsum(terms) + exact(infinite)


DISCRETE = {
    "as it is": {},
    "snapped": {"snap": 0.02},
    "snapped far": {"snap": 0.1},
    "roundings up": {"roundoff": UNIT, "adverse": 1.0},
    "roundings down": {"roundoff": UNIT, "adverse": -1.0},
}


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize("name", DISCRETE)
def test_grids_contain_the_atoms(name: str, side: Bound) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        loss = rng.uniform(-2.0, 2.0, 12)
        if "snapped" in name:  # as far from grid points as can be
            loss = 0.25 * rng.integers(1, 8, 12) * (1.0 + rng.choice([-1, 1], 12) * 0.0199)
        mass = dyadic(rng, 12, 0.875)
        if seed % 2:  # nearly all at the lowest losses: chords begin there
            mass = np.where(loss < np.median(loss), mass, mass * 2.0**-20)
        atoms = PldAtoms(side, mass, loss, 0.125, 0.0, 0.0, 0.0)
        with stress(**DISCRETE[name]):
            grid = discretize(atoms, 0.25)
        sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
        for epsilon in np.linspace(-2.2, 2.2, 45).tolist():
            truth = divergence(mass, loss, 0.125, epsilon)
            moved = exact(epsilon) + sign * exact(grid.loss_error)
            assert above_or_below_exactly(
                divergence(grid.mass, grid.losses, grid.infinite, moved), truth, side, name
            ), (seed, epsilon)


def above_or_below_exactly(found: object, truth: object, side: Bound, name: str) -> bool:
    """Strictly; grid points, 0.25 times integers, are exact, and nothing else is left."""
    # roundings of shares are injected, those of the expm1 of a share are not relative to its size
    slack = exact("1e-15")
    return bool(found >= truth - slack if side is Bound.PESSIMISTIC else found <= truth + slack)


@SIDES
def test_what_atoms_carry_reaches_the_grid(side: Bound) -> None:
    rng = np.random.default_rng(1)
    atoms = PldAtoms(side, dyadic(rng, 5, 0.5), rng.uniform(-1, 1, 5), 0.25, 0.125, 0.0625, 0.03)
    grid = discretize(atoms, 0.25)
    assert (grid.side, grid.infinite, grid.truncated) == (side, 0.25, 0.125)
    assert 0.0625 < grid.round_off < 0.0625 + 1e-12
    assert 0.03 < grid.loss_error < 0.03 + 1e-12


# -------------------------------------------------------------------------------------- transforms


def wrong(found: Array, truth: list[Fraction], first: int = 0) -> float:
    """2-norm of what a window is off by."""
    wrapped = [Fraction(0)] * found.size
    for i, p in enumerate(truth):
        wrapped[(first + i) % found.size] += p
    return math.sqrt(
        sum(float(Fraction(x) - p) ** 2 for x, p in zip(found.tolist(), wrapped, strict=True))
    )


@ADVERSE
@pytest.mark.parametrize("count", [1, 2, 9])
def test_sums_are_within_their_error_if_all_operations_err(count: int, adverse: float) -> None:
    mass = dyadic(np.random.default_rng(count), 8)
    truth = convolution.power(mass.tolist(), count)
    with stress(roundoff=UNIT, adverse=adverse):
        found = power_sum([Factor(-4, mass, count, 0.0)], -4 * count, len(truth))
    off = wrong(found.mass, truth)
    assert UNIT < off <= found.error < 0.1


@ADVERSE
@pytest.mark.parametrize("count", [1, 30])
def test_errors_of_powers_add_up_in_one_place(count: int, adverse: float) -> None:
    """Nearly all mass at one point, where every error of every round is as well."""
    mass = np.array([2.0**-7, 1.0 - 2.0**-6, 2.0**-7])
    truth = convolution.power(mass.tolist(), count)
    with stress(roundoff=UNIT, adverse=adverse):
        found = power_sum([Factor(-1, mass, count, 0.0)], -count, len(truth))
    off = wrong(found.mass, truth)
    assert 0.5 * found.error < off <= found.error


@pytest.mark.parametrize("counts", [(1,), (6,), (3, 2)])
def test_errors_of_factors_are_counted_as_often_as_they_are_added(counts: tuple[int, ...]) -> None:
    """The truth is another vector, as far off as the factor says, in its worst place."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        factors, laws = [], [Fraction(1)]
        for count in counts:
            mass = dyadic(rng, 6)
            other = mass.copy()
            other[int(rng.integers(6))] += 2.0**-8
            factors.append(Factor(0, mass, count, 2.0**-8))
            laws = convolution.product(laws, convolution.power(other.tolist(), count))
        found = power_sum(factors, 0, len(laws))
        assert 2.0**-9 < wrong(found.mass, laws) <= found.error


@ADVERSE
def test_stacks_are_within_their_error_if_all_operations_err(adverse: float) -> None:
    rng = np.random.default_rng(7)
    mass = np.array([dyadic(rng, 9) for _ in range(3)])
    truth = [Fraction(1)]
    for row in mass:
        truth = convolution.product(truth, convolution.power(row.tolist(), 2))
    with stress(roundoff=UNIT, adverse=adverse):
        found = stack_sum(Stack(0, mass, np.full(3, 2.0), np.zeros(3)), 0, len(truth))
    assert UNIT < wrong(found.mass, truth) <= found.error < 0.2


@ADVERSE
@pytest.mark.parametrize("count", [1, 64])
def test_a_row_of_a_stack_errs_in_one_place(count: int, adverse: float) -> None:
    """Nearly all mass at one point, where the errors of all rounds add up."""
    mass = np.array([[2.0**-12, 1.0 - 2.0**-11, 2.0**-12]])
    truth = convolution.power(mass[0].tolist(), count)
    with stress(roundoff=UNIT, adverse=adverse):
        found = stack_sum(
            Stack(-1, mass, np.full(1, float(count)), np.zeros(1)), -count, len(truth)
        )
    assert 0.2 * found.error < wrong(found.mass, truth) <= found.error


@ADVERSE
def test_rounding_counts_where_a_row_s_spectrum_is_nothing(adverse: float) -> None:
    """All points alike, so that the transform is 0 but at one frequency, and its error is not."""
    size = 1 << 12
    mass = np.full((1, size), 1.0 / size)
    with stress(roundoff=UNIT, adverse=adverse):
        found = stack_sum(Stack(0, mass, np.ones(1), np.zeros(1)), 0, size)
    assert found.mass.size == size
    assert 0.1 * found.error < wrong(found.mass, [Fraction(1, size)] * size) <= found.error


def test_errors_of_rows_of_a_stack_are_counted() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        mass = np.array([dyadic(rng, 6) for _ in range(3)])
        truth = [Fraction(1)]
        for row in mass:
            row = row.copy()
            row[int(rng.integers(6))] += 2.0**-8
            truth = convolution.product(truth, convolution.power(row.tolist(), 4))
        found = stack_sum(Stack(0, mass, np.full(3, 4.0), np.full(3, 2.0**-8)), 0, len(truth))
        assert 2.0**-9 < wrong(found.mass, truth) <= found.error


@ADVERSE
@SIDES
def test_direct_sums_are_within_their_error(side: Bound, adverse: float) -> None:
    mass = dyadic(np.random.default_rng(3), 7, 0.75)
    grid = PldGrid(side, 0.1, -2, mass, 0.25, 0.0, 0.0, 0.0)
    truth = convolution.power(mass.tolist(), 6)
    with stress(roundoff=UNIT, adverse=adverse):
        law = positive_sum([(grid, 6)], side, -99, 99)
    assert law.relative < 0.01
    for found, p in zip(law.mass.tolist(), truth, strict=True):
        assert abs(Fraction(found) - p) <= Fraction(law.relative) * p
    infinite = grids.at_least_one([(0.25, 6)])
    # the better known of two laws does not make the sum as good
    with stress(roundoff=UNIT, adverse=adverse):
        other = PldGrid(side, 0.1, 0, np.array([0.5, 0.5]), 0.0, 0.0, 0.0, 0.0)
        both = [
            positive_sum(parts, side, -99, 99)
            for parts in ([(grid, 6), (other, 1)], [(other, 1), (grid, 6)])
        ]
    whole = convolution.product(truth, [Fraction(1, 2)] * 2)
    for law in both:
        for found, p in zip(law.mass.tolist(), whole, strict=True):
            assert abs(Fraction(found) - p) <= Fraction(law.relative) * p
    assert 0 < abs(Fraction(law.infinite) - infinite) <= Fraction(law.relative) * infinite


@ADVERSE
def test_errors_of_direct_sums_add_up(adverse: float) -> None:
    """One point, doubled twelve times: every doubling doubles the error."""
    grid = PldGrid(Bound.PESSIMISTIC, 0.1, 0, np.ones(1), 0.0, 0.0, 0.0, 0.0)
    with stress(roundoff=UNIT, adverse=adverse):
        law = positive_sum([(grid, 4096)], Bound.PESSIMISTIC, -9, 9)
    assert UNIT < abs(float(law.mass.sum()) - 1.0) <= law.relative


# ---------------------------------------------------------------------------------------- doubling


def ratios(seed: int, letters: int = 4) -> tuple[Array, Array]:
    """Positive values of mean at most one, and probabilities, exact in binary."""
    rng = np.random.default_rng(seed)
    value = np.sort(np.exp(2.0 * rng.standard_normal(letters)))
    mass = dyadic(rng, letters)
    value = np.floor(value / (mass @ value) * 2**20) / 2**20
    return value, mass


@dataclass(frozen=True)
class Prices:
    """Calls and puts on a law, from the sums below each value."""

    values: list[Fraction]  # ascending
    moved: list[Fraction]  # sums of mass times value of those below an index
    mass: list[Fraction]

    @staticmethod
    def of(law: Law) -> Prices:
        """On an exact law."""
        atoms, zero = sorted(law.items()), Fraction(0)
        moved = accumulate((x * p for x, p in atoms), initial=zero)
        return Prices(
            [x for x, _ in atoms],
            list(moved),
            list(accumulate((p for _, p in atoms), initial=zero)),
        )

    @staticmethod
    def on(law: SumLaw, sign: float) -> Prices:
        """On a law whose values are moved up (or down) by their error."""
        factor, held = 1 + Fraction(sign * law.moved), defaultdict(Fraction)
        for x, p in zip(law.value.tolist(), law.mass.tolist(), strict=True):
            held[Fraction(x) * factor] += Fraction(p)
        return Prices.of(held)

    def call(self, strike: float) -> Fraction:
        """``E(sum - strike)_+``."""
        k = bisect_left(self.values, strike)
        return self.moved[-1] - self.moved[k] - Fraction(strike) * (self.mass[-1] - self.mass[k])

    def put(self, strike: float) -> Fraction:
        """``E(strike - sum)_+``."""
        k = bisect_left(self.values, strike)
        return Fraction(strike) * self.mass[k] - self.moved[k]


def check_sum(law: SumLaw, truth: Law, side: Bound) -> None:
    """Calls and puts at many strikes, strictly."""
    upper = side is Bound.PESSIMISTIC
    sign, exactly = 1.0 if upper else -1.0, Prices.of(truth)
    higher, lower = Prices.on(law, sign), Prices.on(law, -sign)
    for strike in [0.0, *np.geomspace(0.02, 30.0, 12).tolist()]:
        if upper:
            gain = Fraction(law.count) * Fraction(law.lost_gain)
            assert higher.call(strike) + gain >= exactly.call(strike)
            lost = Fraction(strike) * Fraction(law.lost)
            assert lower.put(strike) + lost >= exactly.put(strike)
        else:
            assert higher.call(strike) <= exactly.call(strike)
            assert lower.put(strike) <= exactly.put(strike)


@pytest.mark.slow
@SIDES
@pytest.mark.parametrize(
    "budget", [{}, *({"roundoff": UNIT, "adverse": a} for a in (-1.0, 1.0))], ids=str
)
@pytest.mark.parametrize("tail", [1e-30, 0.2])
@pytest.mark.parametrize("count", [2, 5])
def test_sums_of_ratios_that_leave_much_out(
    count: int, tail: float, budget: dict[str, float], side: Bound
) -> None:
    left = 0.0
    for seed in range(3):
        value, mass = ratios(seed)
        with stress(**budget):
            one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
            law = power(one, count, side, width=0.05, tail=tail)
        check_sum(law, exact_power(exact_law(value, mass), count), side)
        left = max(left, law.lost)
    assert tail < 0.1 or left > 1e-3


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
def test_sums_on_a_lattice_whose_roundings_err(adverse: float, side: Bound) -> None:
    """Values that are near enough to each other; the whole range is known to a rounding."""
    upper = side is Bound.PESSIMISTIC
    sign = 1.0 if upper else -1.0
    for seed, count in itertools.product(range(3), (2, 3, 4)):
        rng = np.random.default_rng(seed)
        value, mass = np.sort(rng.integers(2**9, 2**11, 4)) / 2.0**10, dyadic(rng, 4)
        with stress(roundoff=2.0**-36, adverse=adverse):
            one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
            law = power(one, count, side, width=0.05, tail=1e-30)
        assert law.cells is not None
        truth = exact_power(exact_law(value, mass), count)
        # no mean is below the least sum nor above the largest one
        ends = [float(min(truth)), float(max(truth))]
        inner = np.linspace(ends[0], ends[1], 9).tolist()
        higher, lower, exactly = Prices.on(law, sign), Prices.on(law, -sign), Prices.of(truth)
        for strike in (0.0, *ends, *inner, 2.0 * ends[1]):
            call, put = exactly.call(strike), exactly.put(strike)
            if upper:
                assert higher.call(strike) + Fraction(count * law.lost_gain) >= call
                assert lower.put(strike) + Fraction(strike * law.lost) >= put
            else:
                assert higher.call(strike) <= call
                assert lower.put(strike) <= put


@ADVERSE
@pytest.mark.parametrize("count", [16, 64, 256])
def test_no_mean_of_a_sum_is_beyond_the_extreme_sums(count: int, adverse: float) -> None:
    """Means on a lattice after many additions, moved towards the middle by their error."""
    value, mass = np.array([0.6875, 0.8125, 1.3125]), np.array([0.25, 0.25, 0.5])
    with stress(roundoff=2.0**-36, adverse=adverse):
        one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
        law = power(one, count, Bound.OPTIMISTIC, width=0.05, tail=1e-300)
    assert law.cells is not None
    low, high = float(count * value[0]), float(count * value[-1])
    # far within what cells are apart
    assert Prices.on(law, 1.0).put(low) == 0
    assert Prices.on(law, -1.0).call(high) == 0
    assert law.moved <= 1e-3


def test_means_that_are_in_doubt_may_be_smaller() -> None:
    """Calls and puts of a sum are below those of all laws that its parts may stand for."""
    value, mass = np.array([0.6875, 0.8125, 1.3125]), np.array([0.25, 0.25, 0.5])
    one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, float(value[-1]))
    law = power(one, 16, Bound.OPTIMISTIC, width=0.05, tail=1e-30)
    assert law.cells is not None
    doubt = 1.0 / 64.0  # of each part's means; far more than what rounding does
    doubtful = replace(law, cells=replace(law.cells, doubt=doubt))
    exactly, found = (
        add(x, x, Bound.OPTIMISTIC, width=0.05, budget=1e-30, users=32) for x in (law, doubtful)
    )
    known, calls, puts = Prices.on(exactly, 0.0), Prices.on(found, -1.0), Prices.on(found, 1.0)
    for strike in np.linspace(24.0, 40.0, 9).tolist():
        assert calls.call(strike) <= known.call(strike + 2.0 * doubt)
        assert puts.put(strike) <= known.put(strike - 2.0 * doubt)


@SIDES
def test_what_two_laws_lost_takes_the_other_s_gain_along(side: Bound) -> None:
    """Each law lacks an atom, its largest or its smallest one: the truth has it."""
    for seed, at in itertools.product(range(3), (0, -1)):
        value, mass = ratios(seed)
        other, weight = ratios(seed + 100)
        kept = np.arange(4) != at % 4
        gains = float(value[at] * mass[at]), float(other[at] * weight[at])
        a = SumLaw(value[kept], mass[kept], 1, gains[0], float(mass[at]), 0.0, 9.0)
        b = SumLaw(other[kept], weight[kept], 1, gains[1], float(weight[at]), 0.0, 9.0)
        law = add(a, b, side, width=0.05, budget=0.0, users=2)
        check_sum(law, added(exact_law(value, mass), exact_law(other, weight)), side)
        # of sums of two and of one
        three = add(law, a, side, width=0.05, budget=0.0, users=3)
        truth = added(exact_power(exact_law(value, mass), 2), exact_law(other, weight))
        check_sum(three, truth, side)


@SIDES
@pytest.mark.parametrize("swapped", [False, True])
def test_divergences_count_what_is_lost_and_moved(side: Bound, swapped: bool) -> None:
    """Of a law of dP/dQ that lacks an atom and whose values are off by a hundredth."""
    upper = side is Bound.PESSIMISTIC
    for seed, at in itertools.product(range(6), (0, -1)):
        value, mass = ratios(seed)
        kept = np.arange(4) != at % 4
        worse = upper != swapped
        true = value * (1.0 + (2.0**-7 if worse else -(2.0**-7)))
        lost = float(mass[at]), float(mass[at] * true[at])
        if not upper:
            kept, lost = np.full(4, True), (0.0, 0.0)
        law = SumLaw(value[kept], mass[kept], 1, lost[1], lost[0], 2.0**-7, 9.0)
        for epsilon in (0.0, 0.2, 1.0, 3.0):
            alpha = MP.exp(exact(epsilon))
            terms = (
                exact(p) * max(1 - alpha * exact(x) if swapped else exact(x) - alpha, exact(0))
                for x, p in zip(true.tolist(), mass.tolist(), strict=True)
            )
            truth = min(MP.fsum(terms), exact(1))
            assert above_or_below(law.divergence(epsilon, side, swapped), truth, side)


def test_a_divergence_beyond_all_doubles_is_what_is_lost() -> None:
    value, mass = np.array([0.0, 1.25]), np.array([0.25, 0.75])
    law = SumLaw(value, mass, 1, 0.01, 0.02, 0.0, 2.0)
    assert law.divergence(800.0, Bound.PESSIMISTIC, False) == pytest.approx(0.01)
    assert law.divergence(800.0, Bound.PESSIMISTIC, True) == pytest.approx(0.27)
    assert law.divergence(800.0, Bound.PESSIMISTIC, False) >= 0.01


@ADVERSE
@pytest.mark.parametrize("compiled", [False, True])
def test_sums_of_pairs_state_their_error(
    compiled: bool, adverse: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(pairs, "compiled", lambda loop, *_: loop)
    rng = np.random.default_rng(5)
    u, f = np.sort(rng.random(6)), dyadic(rng, 6)
    with stress(roundoff=UNIT, adverse=adverse):
        mass, _, error = pair_sums(u, f, u, f, np.array([0.0, 0.9]))
    assert 0 < abs(Fraction(mass.sum()) - sum(map(Fraction, f.tolist())) ** 2) <= Fraction(error)


@pytest.mark.slow
@SIDES
def test_values_of_two_laws_may_be_moved(side: Bound) -> None:
    """By a hundredth each, the worse way; the sum's are off by as much at least."""
    for seed in range(4):
        value, mass = ratios(seed)
        other, weight = ratios(seed + 100)
        for first, second in ((2.0**-7, 0.0), (0.0, 2.0**-7)):
            a = SumLaw(value, mass, 1, 0.0, 0.0, first, 9.0)
            b = SumLaw(other, weight, 1, 0.0, 0.0, second, 9.0)
            law = add(a, b, side, width=0.005, budget=0.0, users=2)
            for sign in (-1.0, 1.0):
                true = added(
                    exact_law(value * (1.0 + sign * first), mass),
                    exact_law(other * (1.0 + sign * second), weight),
                )
                check_sum(law, true, side)


@SIDES
@pytest.mark.parametrize("tail", [1e-30, 0.05, 0.3])
def test_heavy_positive_parts_that_leave_much_out(tail: float, side: Bound) -> None:
    for seed in range(8):
        value, mass = ratios(seed)
        value = value - 1.25 * value[np.random.default_rng(seed).permutation(4)]
        for count in (1, 3, 5):
            truth = positive_part(exact_power(exact_law(value, mass), count), Fraction(0))
            found = heavy_positive_part(value, mass, count, side, resolution=1e-3, tail=tail)
            assert (
                Fraction(found) >= truth if side is Bound.PESSIMISTIC else Fraction(found) <= truth
            )


@SIDES
def test_heavy_positive_parts_of_values_that_are_off(side: Bound) -> None:
    """Values that err by four roundings, where these are large."""
    unit = 2.0**-20
    upper = side is Bound.PESSIMISTIC
    for seed in range(8):
        value, mass = ratios(seed)
        value = value - 1.25 * value[np.random.default_rng(seed).permutation(4)]
        true = value + (4.0 if upper else -4.0) * unit * np.abs(value)
        for count in (1, 2, 5):
            truth = positive_part(exact_power(exact_law(true, mass), count), Fraction(0))
            with stress(roundoff=unit):
                found = heavy_positive_part(value, mass, count, side, resolution=1e-3, tail=1e-30)
            assert Fraction(found) >= truth if upper else Fraction(found) <= truth


@SIDES
@ADVERSE
def test_losses_of_a_profile_that_are_off(side: Bound, adverse: float) -> None:
    """Logarithms of alpha that err by ten roundings, where they are large."""
    unit = 2.0**-26
    place = np.array([-1.0, 0.0, 1e4, 1e8])
    value = np.array([0.0, 0.5, 0.2, 0.1])
    loss = np.concatenate([[-math.inf], np.log1p(place[1:]) * (1.0 + 10.0 * adverse * unit)])
    with stress(roundoff=unit, adverse=adverse):
        atoms = polygon_atoms(place, value, loss, 0.1, side)
    sign = -1 if side is Bound.PESSIMISTIC else 1
    kinks = [
        (exact(x), exact(k)) for x, k in zip(place[1:].tolist(), value[1:].tolist(), strict=True)
    ]
    # at the kinks, and half way from there to where they were put
    asked = [MP.log1p(x) for x, _ in kinks]
    asked += [0.5 * (x + exact(y)) for x, y in zip(asked, loss[1:].tolist(), strict=True)]
    for epsilon in asked:
        excess = MP.expm1(epsilon)
        # a convex polygon is the maximum of its sides' lines
        truth = max(
            exact(0.1),
            *(k + (excess - x) * (h - k) / (y - x) for (x, k), (y, h) in itertools.pairwise(kinks)),
        )
        moved = epsilon + sign * exact(atoms.loss_error)
        found = divergence(atoms.mass, atoms.loss, atoms.infinite, moved)
        assert found >= truth if side is Bound.PESSIMISTIC else found <= truth


# ----------------------------------------------------------------------------------------- profiles


def test_masses_of_almost_straight_profiles_are_within_their_slack() -> None:
    """Slopes that differ in their last digits: the mass of a kink is what cancellation leaves."""
    bent = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        place = np.cumsum(np.append([-1.0, 1.0], rng.uniform(0.1, 0.4, 6)))
        bend = 10.0 ** rng.uniform(-15.0, -8.0) * np.arange(8) * np.arange(8)
        value = 0.5 - 0.25 * (place + 1.0) / (place[-1] + 1.0) + bend
        value[0] = 0.0
        loss = np.concatenate([[-math.inf], np.log1p(place[1:])])
        atoms = polygon_atoms(place, value, loss, float(value[-1]), Bound.PESSIMISTIC)
        masses = dict(zip(atoms.loss.tolist(), atoms.mass.tolist(), strict=True))
        points = [
            (Fraction(x), Fraction(k) + max(-Fraction(x), Fraction(0)), x1)
            for x, k, x1 in zip(place.tolist(), value.tolist(), loss.tolist(), strict=True)
            if x == -1.0 or x1 in masses
        ]
        slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
        for (x, _, at), before, after in zip(
            points[1:], slopes, [*slopes[1:], Fraction(0)], strict=True
        ):
            truth = (after - before) * (1 + x)
            # the loss is a logarithm and the mass an exponential of it
            assert Fraction(masses[at]) >= truth * (1 - Fraction(1e-15))
            bent += 0 < truth < 1e-10
    assert bent > 50


@ADVERSE
@SIDES
@pytest.mark.parametrize("blur", [0.0, 0.02])
@pytest.mark.parametrize("certain", [0.0, 0.125])
def test_profiles_whose_roundings_err(
    certain: float, side: Bound, blur: float, adverse: float
) -> None:
    p = np.array([certain, 0.3 - certain, 0.25, 0.25, 0.2])
    q = np.array([0.0, 0.05, 0.15, 0.3, 0.5])
    losses = np.array([0.0, 0.3, 1.0, 2.5])

    def bounds(one: Array, other: Array) -> tuple[Array, Array]:
        values = [float(np.maximum(one - a * other, 0.0).sum()) for a in np.exp(losses)]
        return np.array(values) * (1.0 - blur), np.array(values) * (1.0 + blur)

    with stress(roundoff=2.0**-26, adverse=adverse):
        atoms = profile_atoms(losses, bounds(p, q), bounds(q, p), certain, side)
    sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
    for epsilon in np.linspace(-3.0, 3.0, 61).tolist():
        truth = sum(
            max(exact(a) - MP.exp(exact(epsilon)) * exact(b), exact(0))
            for a, b in zip(p.tolist(), q.tolist(), strict=True)
        )
        moved = exact(epsilon) + sign * exact(atoms.loss_error)
        found = divergence(atoms.mass, atoms.loss, atoms.infinite, moved)
        # the profile's own points, which are given, are rounded to doubles
        slack = exact("1e-15")
        assert found >= truth - slack if side is Bound.PESSIMISTIC else found <= truth + slack


@SIDES
@pytest.mark.parametrize("infinite", [0.0, 0.125])
def test_profiles_of_every_function_between_the_bounds(infinite: float, side: Bound) -> None:
    """The truth is at the upper bound here and at the lower one there."""
    p = np.array([infinite, 0.3 - infinite, 0.25, 0.25, 0.2])
    q = np.array([0.0, 0.05, 0.15, 0.3, 0.5])
    losses = np.array([0.0, 0.2, 0.6, 1.1, 1.4])
    ways = [
        np.array([float(np.maximum(one - a * other, 0.0).sum()) for a in np.exp(losses)])
        for one, other in ((p, q), (q, p))
    ]
    asked = [
        (
            epsilon,
            sum(
                max(exact(a) - MP.exp(exact(epsilon)) * exact(b), exact(0))
                for a, b in zip(p.tolist(), q.tolist(), strict=True)
            ),
        )
        for epsilon in np.linspace(-2.0, 3.0, 41).tolist()
    ]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        off = rng.choice([0.0, 1e-3, 0.3], (2, 2, losses.size))
        bounds = [(v * (1.0 - o[0]), v * (1.0 + o[1])) for v, o in zip(ways, off, strict=True)]
        atoms = profile_atoms(losses, bounds[0], bounds[1], infinite, side)
        assert atoms.truncated == (atoms.infinite if side is Bound.PESSIMISTIC else 0.0)
        sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
        for epsilon, truth in asked:
            moved = exact(epsilon) + sign * exact(atoms.loss_error)
            found = divergence(atoms.mass, atoms.loss, atoms.infinite, moved)
            # the bounds that were given are doubles
            slack = exact("1e-14")
            if side is Bound.PESSIMISTIC:
                assert found >= truth - slack, (seed, epsilon)
            else:
                assert found <= truth + slack, (seed, epsilon)


# ------------------------------------------------------------------------------------ anchored laws

ROWS = [
    ([0.5, 0.375, 0.125], [0.25, 0.625, 0.125], [0.25, 0.375, 0.375]),
    ([0.75, 0.125, 0.125], [0.125, 0.25, 0.625], [0.125, 0.125, 0.75]),
    ([0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25]),
    # two letters that are as good at alpha = 1, of which one is as likely again under Q
    ([0.3125, 0.1875, 0.5], [0.1875, 0.0625, 0.75], [0.125, 0.125, 0.75]),
]

ANCHORED = {
    "as it is": {},
    "much outside": {"outside": -1.0},
    "some outside": {"outside": -3.0},
    "little in reach": {"reach": 0.7},
    "roundings up": {"roundoff": 2.0**-40, "adverse": 1.0},
    "roundings down": {"roundoff": 2.0**-40, "adverse": -1.0},
}


def ratio_letters(rows: tuple[list[float], ...]) -> tuple[Array, Array, Array]:
    p0, p1, q = (np.array(row) for row in rows)
    return p0 / q, p1 / q, q


def anchor(excess: float) -> float:
    return excess - 256 * 2.0**-53 * (1.0 + excess)


@cache
def lemma(rows: int, users: int, x: float) -> Real:
    return exact_blanket.lemma(*ROWS[rows], users, 1 + exact(x))


CROWDS = [(1, 0.0), (3, 0.2), (5, 0.0), (5, 0.7)]


def costs(
    letters: tuple[Array, Array, Array], users: int, excess: float, spacing: float
) -> dict[int, float]:
    """``E[S1; T = t]`` by enumeration: probabilities and first moments of r1, point by point."""
    one: dict[int, tuple[float, float]] = {}
    for r0, r1, q in zip(*(column.tolist() for column in letters), strict=True):
        scaled = ((r0 - r1) - excess * r1) / spacing
        cell = math.floor(scaled)
        for place, share in ((cell, 1.0 - scaled + cell), (cell + 1, scaled - cell)):
            w, b = one.get(place, (0.0, 0.0))
            one[place] = (w + q * share, b + q * share * r1)
    law = {0: (1.0, 0.0)}
    for _ in range(users):
        total: dict[int, tuple[float, float]] = {}
        for (i, (w, b)), (j, (v, c)) in itertools.product(law.items(), one.items()):
            p, s = total.get(i + j, (0.0, 0.0))
            total[i + j] = (p + w * v, s + b * v + w * c)
        law = total
    return {place: s for place, (_, s) in law.items()}


# ------------------------------------------------------------------------------ regions, statistics


def test_regions_are_below_what_their_points_say() -> None:
    """Every event's line is a lower bound; the atoms' profile is their maximum, and no more."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        q = np.sort(rng.random(6)) * 0.6
        infinite = 2.0**-5
        d = infinite + rng.random(6) * (1.0 - infinite - q)
        atoms = symmetric_atoms(q, d, infinite)
        assert atoms.infinite == infinite
        points = [(Fraction(a), Fraction(b)) for a, b in zip(q.tolist(), d.tolist(), strict=True)]
        points.append((Fraction(0), Fraction(infinite)))
        # the mirror image of the events: 1 - P, 1 - Q
        points += [(1 - x - y, y) for x, y in points]
        for epsilon in np.linspace(0.0, 4.0, 41).tolist():
            excess = MP.expm1(exact(epsilon))
            truth = max(max(_real(y) - excess * _real(x) for x, y in points), exact(0))
            moved = exact(epsilon) + exact(atoms.loss_error)
            assert divergence(atoms.mass, atoms.loss, infinite, moved) <= truth
            # and of a symmetric pair below alpha = 1
            mirrored = 1 - MP.exp(-exact(epsilon)) * (1 - truth)
            moved = -exact(epsilon) + exact(atoms.loss_error)
            assert divergence(atoms.mass, atoms.loss, infinite, moved) <= mirrored


Jet = tuple[Fraction, Fraction, Fraction, Fraction]


def jets(a: dict[int, Jet], b: dict[int, Jet]) -> dict[int, Jet]:
    """The law of a sum: at each point the mass and the moments of R, B and B^2."""
    found: dict[int, list[Fraction]] = {}
    for (i, (w, r, s, t)), (j, (w2, r2, s2, t2)) in itertools.product(a.items(), b.items()):
        cell = found.setdefault(i + j, [Fraction(0)] * 4)
        terms = w * w2, r * w2 + w * r2, s * w2 + w * s2, t * w2 + 2 * s * s2 + w * t2
        for row, term in enumerate(terms):
            cell[row] += term
    return {i: (c[0], c[1], c[2], c[3]) for i, c in found.items()}


def _real(value: Fraction) -> object:
    return MP.mpf(value.numerator) / value.denominator


@ADVERSE
def test_statistics_state_their_error(adverse: float) -> None:
    """Whatever the cells: totals of sums of products, which are known exactly."""
    rng = np.random.default_rng(4)
    null, first, second = (dyadic(rng, 5) for _ in range(3))
    with stress(roundoff=UNIT, adverse=adverse):
        one = Hypotheses(np.arange(5.0) - 2.0, null, first, second, 1, 0.0)
        found = power_of(one, 6, width=0.05, tail=0.0)
    for law in (found.null, found.first, found.second):
        assert 0.0 < abs(float(sum(map(Fraction, law.tolist()))) - 1.0) <= found.error


def test_errors_of_statistics_are_handed_on() -> None:
    """All probabilities too large by a sixteenth, in six observations and in five and one."""
    share = 2.0**-4
    one = Hypotheses(
        np.arange(3.0),
        *(dyadic(np.random.default_rng(5), 3) * (1.0 + share) for _ in range(3)),
        1,
        share,
    )
    five = power_of(one, 5, width=0.05, tail=0.0)
    for found in (power_of(one, 6, width=0.05, tail=0.0), five.add(one, 0.05)):
        for law in (found.null, found.first, found.second):
            assert 0.4 < abs(float(sum(map(Fraction, law.tolist()))) - 1.0) <= found.error < 0.5


@ADVERSE
def test_coarser_statistics_state_their_error(adverse: float) -> None:
    """Totals of all laws are kept; numbers still ascend."""
    rng = np.random.default_rng(6)
    null, first, second = (dyadic(rng, 64) for _ in range(3))
    with stress(roundoff=UNIT, adverse=adverse):
        found = Hypotheses(np.arange(64.0) ** 2, null, first, second, 1, 2.0**-30).coarser(0.5)
    assert found.value.size < 16
    assert np.all(np.diff(found.value) > 0.0)
    for law in (found.null, found.first, found.second):
        total = abs(float(sum(map(Fraction, law.tolist()))) - 1.0)
        assert 0.0 < total <= found.error - 2.0**-30


@pytest.mark.parametrize("count", [5, 7])
def test_what_statistics_drop_is_lost(count: int) -> None:
    """Totals and what is lost make at least 1, under each law; one law is all in the tails."""
    null = np.array([0.0625, 0.25, 0.375, 0.25, 0.0625])
    laws = (
        null[::-1].copy(),
        np.array([0.5, 0.0, 0.0, 0.0, 0.5]),
        np.array([0.0, 0.0, 1.0, 0.0, 0.0]),
    )
    one = Hypotheses(np.arange(5.0) - 2.0, *laws, 1, 0.0)
    found = power_of(one, count, width=0.05, tail=2.0**-6)
    for law in (found.null, found.first, found.second):
        assert (
            sum(map(Fraction, law.tolist())) * Fraction(1.0 + found.error) + Fraction(found.lost)
            >= 1
        )
    assert 1e-4 < 1.0 - float(found.first.sum()) <= found.lost < 0.5


def test_statistics_of_sums_are_exact_where_cells_are_narrow() -> None:
    """One of three has another law, nobody knows which: enumerated."""
    rng = np.random.default_rng(9)
    value = np.array([-2.0, 0.25, 1.0])
    laws = [dyadic(rng, 3) for _ in range(3)]
    found = power_of(Hypotheses(value, *laws, 1, 0.0), 3, width=1e-3, tail=0.0)
    for law, mass in ((found.null, laws[0]), (found.first, laws[1]), (found.second, laws[2])):
        truth: Law = defaultdict(Fraction)
        for at, letters in itertools.product(range(3), itertools.product(range(3), repeat=3)):
            p = Fraction(1, 3)
            for i, letter in enumerate(letters):
                p *= Fraction(float((mass if i == at else laws[0])[letter]))
            truth[sum(Fraction(float(value[letter])) for letter in letters)] += p
        for x, p in truth.items():
            near = np.abs(found.value - float(x)) < 1e-9
            assert math.fsum(law[near].tolist()) == pytest.approx(float(p), rel=1e-12)
