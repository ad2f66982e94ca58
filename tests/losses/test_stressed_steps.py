"""Ratios of steps under stress: tails of a tenth, ratios that are off, masses that err one way.

The truth is enumerated in fractions, or has 50 digits; containment is strict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from oracles import few_gaussians
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.doubling import SumLaw
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.steps import (
    far_apart,
    mean_ratio,
    null_clones,
    product_ratio,
    table_ratio,
)
from shuffle_accountant.losses.steps.bounded_ratio import LaplaceRatio, TwoValuedRatio
from shuffle_accountant.losses.steps.far_apart import FarApartLoss
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.losses.steps.product_ratio import ProductRatio
from shuffle_accountant.losses.steps.table_ratio import TableRatio
from shuffle_accountant.losses.tables.tabulated import LossBounds, PldTable
from shuffle_accountant.numerics.budget import rounded, stress

UNIT = 2.0**-30
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
ORDERS = pytest.mark.parametrize("swapped", [False, True])
EFFORT = Effort(1e-12, 1e-2)

KEPT = (mean_ratio._remembered, product_ratio._law, table_ratio._law, far_apart._atoms)


@contextmanager
def stressed(**sources: float) -> Iterator[None]:
    """A budget, and nothing that was kept from another one before and after."""
    for function in KEPT:
        function.cache_clear()
    with stress(**sources):
        yield
    for function in KEPT:
        function.cache_clear()


def bounds(found: float | Real, truth: Any, side: Bound) -> bool:
    value = exact(truth.numerator) / truth.denominator if isinstance(truth, Fraction) else truth
    found = exact(found)
    return bool(found >= value if side is Bound.PESSIMISTIC else found <= value)


def edges(largest: float) -> Array:
    return np.linspace(0.0, largest, 3)


def hockey_stick(
    ratios: Sequence[tuple[Real, Real]], infinite: float, epsilon: float, swapped: bool
) -> Real:
    """``H_alpha`` from ratios dP/dQ with their Q-masses; what Q never sends is P's alone."""
    alpha = MP.exp(exact(epsilon))
    if swapped:
        return MP.fsum(q * max(1 - alpha * x, 0) for x, q in ratios)
    return MP.fsum(q * max(x - alpha, 0) for x, q in ratios) + exact(infinite)


# ------------------------------------------------------------------------------- a few exact ratios


@dataclass(frozen=True)
class Few(RatioSource):
    """Ratios of which laws leave one out, from above, and all of which are off.

    Attributes:
        value: what laws say of the ratios.
        mass: their Q-masses, of sum one.
        left_out: number of the atom, or none.
        moved: the ratios' error.
        never: P-mass of what Q never sends.
        whole: whether laws from below are complete.
    """

    value: tuple[float, ...]
    mass: tuple[float, ...]
    left_out: int = -1
    moved: float = 0.0
    never: float = 0.0
    whole: bool = False

    @property
    def deviation(self) -> float:
        return 1.0

    @property
    def infinite(self) -> float:
        return self.never

    @property
    def complete(self) -> bool:
        return self.whole

    def ratios(self, side: Bound, *, users: int, width: float, tail: float) -> SumLaw:
        value, mass = np.array(self.value), np.array(self.mass)
        kept = np.arange(value.size) != self.left_out
        if side is Bound.OPTIMISTIC and not self.whole:
            kept[:] = True
        lost = float(mass[~kept].sum())
        gain = float((mass * value)[~kept].sum()) * (1.0 + self.moved) + self.never
        return SumLaw(value[kept], mass[kept], 1, gain, lost, self.moved, float(value[kept][-1]))

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        return 1.0 if side is Bound.PESSIMISTIC else 0.0

    def true(self, side: Bound, swapped: bool) -> list[tuple[Real, Real]]:
        """The ratios that are worst for a bound on that side."""
        factor = 1 + exact(self.moved)
        if (side is Bound.PESSIMISTIC) == swapped:
            factor = 1 / factor
        return [(exact(x) * factor, exact(q)) for x, q in zip(self.value, self.mass, strict=True)]


EXACT = Few((0.0, 0.5, 1.5, 4.0), (0.25, 0.375, 0.3125, 0.0625), never=0.09375)
SOURCES = {
    "exact": EXACT,
    "without the largest": replace(EXACT, left_out=3),
    "without a small one": replace(EXACT, left_out=1),
    "off by a hundredth": replace(EXACT, moved=2.0**-7),
    "complete": replace(EXACT, whole=True, left_out=2),
}


def means(source: Few, users: int, fraction: float, side: Bound, swapped: bool) -> Any:
    """``1 - g + g (mean - 1)`` with Q-masses, atom by atom."""
    found = []
    for chosen in product(source.true(side, swapped), repeat=users):
        total, mass = sum(x for x, _ in chosen), exact(1)
        for _, q in chosen:
            mass *= q
        found.append((1 - exact(fraction) + exact(fraction) * total / users, mass))
    return found


@SIDES
@ORDERS
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("name", SOURCES)
def test_means_of_ratios(name: str, adverse: float, swapped: bool, side: Bound) -> None:
    """One ratio needs no cells, so that nothing hides an error; then two, and seldom one."""
    source = SOURCES[name]
    unit = UNIT if adverse else 2.0**-53
    for users, fraction in ((1, 1.0), (1, 0.75), (2, 1.0)):
        loss = MeanRatioLoss(source, users, fraction, swapped)
        truths = means(source, users, fraction, side, swapped)
        infinite = 0.0 if swapped else fraction * source.never
        with stressed(roundoff=unit, adverse=adverse):
            atoms = loss.atoms(side, edges, EFFORT)
        for epsilon in (-6.0, -1.5, -0.7, -0.2, 0.0, 0.3, 0.6, 0.9):
            truth = hockey_stick(truths, infinite, epsilon, swapped)
            assert bounds(divergence(atoms, epsilon), truth, side), (users, epsilon)
            if epsilon >= 0.0:
                with stressed(roundoff=unit, adverse=adverse):
                    found = loss.delta(epsilon, side, EFFORT)
                assert bounds(found, truth, side), (users, epsilon)
        never = MP.fsum(q for x, q in truths if x == 0) if swapped else exact(infinite)
        assert bounds(atoms.infinite, never, side)
        with stressed(roundoff=unit, adverse=adverse):
            assert bounds(loss.delta(math.inf, side, EFFORT), never, side)


@dataclass(frozen=True)
class Heavy(Few):
    """One ratio is huge, and one alone is known."""

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        value = float(hockey_stick(self.true(side, swapped), 0.0, epsilon, swapped))
        return value * (1.0 + (1e-12 if side is Bound.PESSIMISTIC else -1e-12))


@SIDES
@pytest.mark.parametrize("fraction", [1.0, 0.75])
@pytest.mark.parametrize("users", [1, 2])
def test_where_one_ratio_outweighs_all_others(users: int, fraction: float, side: Bound) -> None:
    """Also where two of them do together."""
    largest = 2.0**40
    source = Heavy((0.5, largest), (1.0 - 2.0**-41, 2.0**-41))
    loss = MeanRatioLoss(source, users, fraction)
    truths = means(source, users, fraction, side, False)
    for share in (0.2, 0.6, 1.2, 3.0):  # the largest one, relative to what there has to be
        epsilon = math.log(largest * fraction / (share * users))
        truth = hockey_stick(truths, 0.0, epsilon, False)
        assert truth > 0 or share * users < 1.0
        assert bounds(loss._pointed_out(epsilon, side), truth, side), share


@ADVERSE
def test_no_law_of_known_total_has_larger_losses_if_sums_err(adverse: float) -> None:
    """Sums err by all that they state: what is taken off is no more than was too much."""
    law = np.append([0.125, 0.0, 0.5, 0.125], np.full(32, 2.0**-7))
    for at in ([0, 1], [35], range(36)):
        more = np.zeros(36)
        more[at] = 0.25
        with stress(roundoff=2.0**-20, adverse=adverse):
            found = mean_ratio._capped(law + more)
        for k in range(law.size):
            kept = sum(map(Fraction, found[k:].tolist()))
            assert kept >= sum(map(Fraction, law[k:].tolist()))
        assert found.sum() <= 1.0 + 2.0**-9


@ADVERSE
@pytest.mark.parametrize("held", [0.0, 0.25, 0.875])
def test_nothing_is_completed_beyond_the_total_if_sums_err(held: float, adverse: float) -> None:
    mass = np.array([0.5 * held, 0.0, 0.5 * held])
    with stress(roundoff=2.0**-20, adverse=adverse):
        found = mean_ratio._completed(mass, rounded(0.9375, 4))
    assert found.sum() >= 0.9375 - 2.0**-14
    assert sum(map(Fraction, found.tolist())) <= Fraction(15, 16)


# ------------------------------------------------------------------------------ products of ratios


# logarithms are multiples of one number, so that no cell hides an error
PRODUCTS = {
    name: replace(
        source,
        value=(0.0, 0.25, 1.0, 4.0),
        mass=(0.015625, 0.5, 0.375, 0.109375),
        never=0.0625,
    )
    for name, source in SOURCES.items()
}
PRODUCTS["between the cells"] = replace(
    PRODUCTS["exact"], value=(0.0, 0.3125, 1.0, 3.75), never=0.05859375
)
PRODUCTS["between them, and none is 0"] = replace(
    PRODUCTS["exact"],
    value=(0.3125, 1.0, 3.75),
    mass=(0.5625, 0.375, 0.0625),
    never=0.21484375,
)


@SIDES
@ORDERS
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_ratios(name: str, adverse: float, swapped: bool, side: Bound) -> None:
    one = PRODUCTS[name]
    for passes in (2, 3):
        source = ProductRatio(one, passes)
        truths = []
        for chosen in product(one.true(side, swapped), repeat=passes):
            ratio, mass = exact(1), exact(1)
            for x, q in chosen:
                ratio, mass = ratio * x, mass * q
            truths.append((ratio, mass))
        infinite = 1.0 - (1.0 - one.never) ** passes
        with stressed(roundoff=UNIT if adverse else 2.0**-53, adverse=adverse):
            law = source.ratios(side, users=1, width=0.01, tail=1e-12)
            if side is Bound.OPTIMISTIC:
                assert source.infinite <= infinite
            for epsilon in (0.0, 0.3, 0.9, 1.5, 3.0):
                truth = hockey_stick(truths, infinite, epsilon, swapped)
                found = law.divergence(epsilon, side, swapped)
                assert bounds(found, truth, side), (passes, epsilon)
        if name == "exact" and not swapped:
            for x, p in zip(law.value.tolist()[2:], law.mass.tolist()[2:], strict=True):
                held = MP.fsum(q for ratio, q in truths if abs(ratio / x - 1) < 0.01)
                assert bounds(p, held, side), (passes, x)


@SIDES
@pytest.mark.parametrize("digits", [1.0, 1.37, 1.61803, 1.999])
def test_products_of_ratios_whose_masses_are_subnormal(digits: float, side: Bound) -> None:
    """The larger ratios are near e^624, with 1e-42 of P and 1e-313 of Q; one rounding shows."""
    rare = digits * 2.0**-520
    one = Few((1.0, 2.0**450), (1.0, rare))
    truths = [(exact(1), exact(1)), (exact(2) ** 450, 2 * exact(rare))]
    truths.append((exact(2) ** 900, exact(rare) ** 2))
    with stressed():
        law = ProductRatio(one, 2).ratios(side, users=1, width=0.01, tail=1e-12)
    for epsilon in (0.0, 300.0, 500.0, 620.0):
        truth = hockey_stick(truths, 0.0, epsilon, False)
        assert bounds(law.divergence(epsilon, side, False), truth, side), epsilon


# ------------------------------------------------------------------------------------------ tables


TABLES = {
    # all of P and Q
    "whole": ([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25], 0.0),
    "some of P is missing": ([-1.0, -0.25, 0.5, 1.5], [0.0625, 0.25, 0.25, 0.125], 0.125),
    "too much of Q": ([-2.0, -0.25, 0.5], [0.5, 0.25, 0.125], 0.125),
    "too much of P": ([-0.5, 0.25, 0.5], [0.25, 0.25, 0.2509], 0.25),
    "more than the smallest": ([-0.5, 0.25, 0.5], [2.0**-12, 0.75, 0.2505], 0.0),
    "too little of Q": ([-0.25, 0.5, 1.5], [0.25, 0.5, 0.25], 0.0),
    "beyond doubles": ([-900.0, 0.25, 0.5, 900.0], [2.0**-1000, 0.5, 0.25, 0.25], 0.0),
}


@SIDES
@ORDERS
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_ratios(name: str, adverse: float, swapped: bool, side: Bound) -> None:
    """The larger of the table's own profile and ``(1 - alpha)_+``, or its mirror image."""
    losses, masses, infinite = TABLES[name]
    table = PldTable(losses, masses, infinity_mass=infinite)
    ratio = TableRatio(LossBounds(table, table))
    known = [(exact(x), exact(p)) for x, p in zip(losses, masses, strict=True)]
    never, total = exact(infinite), exact(infinite) + sum(p for _, p in known)
    if side is Bound.PESSIMISTIC:
        never += max(1 - total, 0)
    if total > 1:  # each mass may be too large, not all of them at once
        first = 0 if known[0][1] > total - 1 else 1
        known = [(x, p if i >= first else 0) for i, (x, p) in enumerate(known)]
        known[first] = known[first][0], 1 - never - sum(p for _, p in known[first + 1 :])

    def own(alpha: Real) -> Real:
        total = MP.fsum(p * max(1 - alpha * MP.exp(-x), 0) for x, p in known) + never
        return min(max(total, 1 - alpha), exact(1))

    with stressed(roundoff=UNIT if adverse else 2.0**-53, adverse=adverse):
        for epsilon in (0.0, 0.1, 0.3, 0.7, 1.2, 1.9):
            alpha = MP.exp(exact(epsilon))
            truth = 1 - alpha + alpha * own(1 / alpha) if swapped else own(alpha)
            assert bounds(ratio.alone(epsilon, side, swapped), truth, side), epsilon
    assert bounds(ratio.infinite, exact(infinite), Bound.OPTIMISTIC)


@SIDES
@ADVERSE
def test_masses_of_tables_under_q(adverse: float, side: Bound) -> None:
    """And what is left of Q."""
    losses, masses, _ = TABLES["too little of Q"]
    with stressed(roundoff=UNIT, adverse=adverse):
        law = table_ratio._law(PldTable(losses, masses), side)
    truth = [exact(p) * MP.exp(-exact(x)) for x, p in zip(losses, masses, strict=True)]
    truth.insert(0, 1 - sum(truth))
    for found, exactly in zip(law.mass.tolist(), truth, strict=True):
        assert bounds(found, exactly, side)


@ADVERSE
def test_the_least_profile_states_its_error(adverse: float) -> None:
    """Ratios 1/2, 1 and 2, of whose Q-masses there is too much."""
    ratio, q = np.array([0.5, 1.0, 2.0]), np.array([0.75, 0.25, 0.1875])
    with stress(roundoff=UNIT, adverse=adverse):
        found = table_ratio.least_profile(ratio, ratio * q, q, np.zeros(3), 0.0, 0.0)
    value, mass, error, moved = found
    # 1/2 is below what is left of P over what is left of Q
    q_below, p_below = 1 - Fraction(7, 16), Fraction(3, 8)
    assert (value.size, mass.size) == (3, 3)
    off = Fraction(float(error[0])) * Fraction(float(mass[0]))
    assert abs(Fraction(float(mass[0])) - q_below) <= off
    share = p_below / q_below
    assert abs(Fraction(float(value[0])) - share) <= Fraction(moved) * share


# ------------------------------------------------------------------------------- bounded logarithms


def two_valued(eps0: float, passes: int) -> list[tuple[Real, Real]]:
    """Products of independent ratios ``e^eps0`` and ``e^-eps0``."""
    chance = 1 / (1 + MP.exp(exact(eps0)))
    return [
        (
            MP.exp(exact(eps0) * (2 * j - passes)),
            MP.binomial(passes, j) * chance**j * (1 - chance) ** (passes - j),
        )
        for j in range(passes + 1)
    ]


def check_ratios(law: SumLaw, truths: Sequence[tuple[Real, Real]], side: Bound) -> None:
    """``E(S/n - K)_+`` and ``E(K - S/n)_+`` of a sum's law, by a sum over its values."""
    sign = 1 if side is Bound.PESSIMISTIC else -1
    value = [exact(x) / law.count for x in law.value.tolist()]
    mass = list(map(exact, law.mass.tolist()))
    moved = sign * exact(law.moved)
    for strike in (0.0, 0.2, 0.7, 1.0, 1.1, 1.6, 3.0):
        level = exact(strike)
        pairs = list(zip(value, mass, strict=True))
        gain = MP.fsum(p * max(x * (1 + moved) - level, 0) for x, p in pairs)
        cost = MP.fsum(p * max(level - x * (1 - moved), 0) for x, p in pairs)
        if side is Bound.PESSIMISTIC:
            gain += exact(law.lost_gain)
            cost += level * exact(law.lost)
        assert bounds(gain, MP.fsum(p * max(x - level, 0) for x, p in truths), side), strike
        assert bounds(cost, MP.fsum(p * max(level - x, 0) for x, p in truths), side), strike


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize(("users", "passes"), [(1, 1), (1, 3), (7, 1)])
def test_two_valued_ratios(users: int, passes: int, adverse: float, side: Bound) -> None:
    eps0 = 0.75
    source = TwoValuedRatio(eps0, passes)
    single = two_valued(eps0, passes)
    truths = single
    if users > 1:
        chance = 1 / (1 + MP.exp(exact(eps0)))
        top, bottom = MP.exp(exact(eps0)), MP.exp(-exact(eps0))
        truths = [
            (
                (j * top + (users - j) * bottom) / users,
                MP.binomial(users, j) * chance**j * (1 - chance) ** (users - j),
            )
            for j in range(users + 1)
        ]
    with stressed(roundoff=UNIT if adverse else 2.0**-53, adverse=adverse):
        law = source.sums(side, users=users, width=0.01, tail=1e-12)
        check_ratios(law, truths, side)
        for epsilon in (0.0, 0.3, eps0, 1.2, 2.0):
            for swapped in (False, True):
                truth = hockey_stick(single, 0.0, epsilon, swapped)
                assert bounds(source.alone(epsilon, side, swapped), truth, side), epsilon


@pytest.mark.slow
@SIDES
def test_two_valued_ratios_that_leave_much_out(side: Bound) -> None:
    """Of 5000, all but a window."""
    users, eps0 = 5000, 0.75
    law = TwoValuedRatio(eps0).sums(side, users=users, width=0.01, tail=0.3)
    assert law.value.size < 500
    chance = 1 / (1 + MP.exp(exact(eps0)))
    top, bottom = MP.exp(exact(eps0)), MP.exp(-exact(eps0))
    truths, mass = [], (1 - chance) ** users
    for j in range(users + 1):
        truths.append(((j * top + (users - j) * bottom) / users, mass))
        mass *= chance / (1 - chance) * (users - j) / (j + 1)
    check_ratios(law, truths, side)


def laplace_excess(eps0: float, strike: float) -> Real:
    """``E(X - K)_+``: e^eps0 with chance e^-eps0 / 2, and ``(1/4) e^(-(eps0 + u)/2)`` between."""
    e, low = exact(eps0), MP.log(exact(strike)) if strike > 0.0 else -MP.inf
    start = min(max(low, -e), e)

    # antiderivative of (e^u - K) e^(-(eps0 + u)/2) / 4
    def inner(u: Real) -> Real:
        return MP.exp(-e / 2) / 2 * (MP.exp(u / 2) + exact(strike) * MP.exp(-u / 2))

    found = inner(e) - inner(start)
    found += MP.exp(-e) / 2 * max(MP.exp(e) - exact(strike), 0)
    return found + max(MP.exp(-e) - exact(strike), 0) / 2


@SIDES
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("eps0", [0.3, 2.0])
def test_laplace_ratios(eps0: float, adverse: float, side: Bound) -> None:
    source = LaplaceRatio(eps0)
    with stressed(roundoff=UNIT if adverse else 2.0**-53, adverse=adverse):
        law = source.ratios(side, users=1, width=0.02, tail=1e-12)
        for epsilon in (0.0, 0.5 * eps0, eps0, 2.0 * eps0):
            truth = max(-MP.expm1((exact(epsilon) - exact(eps0)) / 2), 0)
            assert bounds(source.alone(epsilon, side), truth, side)
    if side is Bound.OPTIMISTIC:  # the largest ratio has an atom of its own
        assert bounds(law.mass[-1], MP.exp(-exact(eps0)) / 2, side)
    sign = 1 if side is Bound.PESSIMISTIC else -1
    pairs = [
        (exact(x), exact(p)) for x, p in zip(law.value.tolist(), law.mass.tolist(), strict=True)
    ]
    moved = sign * exact(law.moved)
    inside = MP.exp(-exact(eps0)), MP.exp(exact(eps0))
    for share in (0.0, 0.1, 0.4, 0.7, 1.0):
        strike = float(inside[0] + share * (inside[1] - inside[0]))
        truth = laplace_excess(eps0, strike)
        gain = MP.fsum(p * max(x * (1 + moved) - exact(strike), 0) for x, p in pairs)
        cost = MP.fsum(p * max(exact(strike) - x * (1 - moved), 0) for x, p in pairs)
        assert bounds(gain, truth, side), strike
        assert bounds(cost, truth + exact(strike) - 1, side), strike


# ---------------------------------------------------------------------------------------- far apart


def phi(x: Any) -> Real:
    return MP.ncdf(exact(x))


def normal_excess(sigma: float, strike: Real) -> Real:
    """``E(X - K)_+`` of the lognormal ratio."""
    if strike <= 0:
        return 1 - strike
    place = (MP.log(strike) + exact(0.5) / exact(sigma) ** 2) * exact(sigma)
    return phi(1 / exact(sigma) - place) - strike * phi(-place)


def normal_deficit(sigma: float, strike: Real) -> Real:
    """``E(K - X)_+`` of it."""
    if strike <= 0:
        return exact(0)
    place = (MP.log(strike) + exact(0.5) / exact(sigma) ** 2) * exact(sigma)
    return strike * phi(place) - phi(place - 1 / exact(sigma))


@SIDES
@ORDERS
@pytest.mark.parametrize("adverse", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("tail", [1e-12, 0.3])
@pytest.mark.parametrize("fraction", [1.0, 0.75])
@pytest.mark.parametrize("sigma", [0.04, 0.5])
def test_one_ratio_that_is_followed_in_its_score(
    sigma: float, fraction: float, tail: float, adverse: float, swapped: bool, side: Bound
) -> None:
    """Also with more noise than this loss is for, where its other terms show."""
    loss, g = FarApartLoss(sigma, 1, fraction, swapped), exact(fraction)
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    centre = 0.5 / sigma**2
    with stressed(normal=9e-3 if adverse else 1e-11, adverse=adverse):
        atoms = loss.atoms(side, edges, Effort(tail, 1e-2))
        for epsilon in (-2.0, -0.5, 0.0, 0.4, 0.9 * centre, centre, 1.3 * centre):
            alpha = MP.exp(exact(epsilon))
            if swapped:  # E(1 - alpha (1 - g + g X))_+
                strike = 1 / alpha if fraction == 1.0 else (1 / alpha - 1 + g) / g
                truth = alpha * g * normal_deficit(sigma, strike)
            else:
                truth = g * normal_excess(sigma, (alpha - 1 + g) / g)
            above = atoms.loss + sign * atoms.loss_error - epsilon
            found = float(np.sum(atoms.mass * -np.expm1(-np.maximum(above, 0.0))))
            # a sum of some ten thousand doubles
            found = (found + atoms.infinite) * (1.0 + sign * 1e-12)
            assert bounds(found, truth, side), epsilon
            if epsilon >= 0.0:
                found = loss.delta(epsilon, side, Effort(tail, 1e-2))
                assert bounds(found, truth, side), epsilon


@SIDES
@pytest.mark.parametrize("tail", [1e-12, 0.3])
def test_two_ratios_that_are_followed_in_the_larger_one_s_score(tail: float, side: Bound) -> None:
    sigma, epsilons = 0.5, (0.1, 0.5, 1.5, 4.0)
    truths = few_gaussians.divergence(sigma, 2, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        found = FarApartLoss(sigma, 2).delta(epsilon, side, Effort(tail, 1e-2))
        assert bounds(found, exact(truth), side)
        other = few_gaussians.divergence_reversed(sigma, 2, epsilon)
        found = FarApartLoss(sigma, 2, swapped=True).delta(epsilon, side, Effort(tail, 1e-2))
        assert bounds(found, exact(other), side)


# -------------------------------------------------------------------------------------- null clones


@ADVERSE
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_where_mixtures_are_far_below_the_gaussian_mechanism(sigma: float, adverse: float) -> None:
    """There the polygon through them is below the mechanism's profile on both steps."""
    losses = np.array([0.0, 0.1, 0.25, 0.6, 1.5])
    places = [*(-losses[:0:-1]).tolist(), *losses.tolist()]
    alphas = [exact(0), *(MP.exp(exact(x)) for x in places)]

    def beyond(alpha: Real) -> Real:  # the profile's part above (1 - alpha)_+
        return normal_excess(sigma, alpha) - max(1 - alpha, 0)

    truth = [beyond(alpha) for alpha in alphas]
    # level over two steps, by a little more than the least of the profile there or by less
    for at, more in product(range(2, len(alphas) - 1), (-0.1, -1e-4, -1e-9, 1e-9, 1e-4, 0.1)):
        level = float(min(truth[at - 1 : at + 2]) * (1 + exact(more)))
        mixed = np.full(len(alphas), 9.0)
        mixed[at - 1 : at + 2] = level
        with stress(roundoff=UNIT, adverse=adverse):
            found = null_clones._far_below(sigma, losses, mixed)
        assert np.flatnonzero(found).tolist() in ([], [at])
        assert found[at] or more > -0.05
        for j, share in product((at - 1, at), (0.0, 0.3, 0.8, 1.0)):
            alpha = alphas[j] + exact(share) * (alphas[j + 1] - alphas[j])
            assert not found[at] or level <= beyond(alpha)
