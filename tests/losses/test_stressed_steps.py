"""Ratios of steps under stress: tails of a tenth, ratios that are off, masses that err one way.

The truth is enumerated in fractions, or has 50 digits; containment is strict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from oracles import few_gaussians
from oracles.atoms import divergence
from oracles.precision import MP, Real, exact

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.settings import NULL_CLONES
from shuffle_accountant.losses.steps import (
    gaussian,
    mean_ratio,
    null_clones,
    product_ratio,
    table_ratio,
)
from shuffle_accountant.losses.steps.bounded_ratio import LaplaceRatio, TwoValuedRatio
from shuffle_accountant.losses.steps.gaussian import FarApartLoss, GaussianRatio
from shuffle_accountant.losses.steps.mean_ratio import MeanRatioLoss, RatioSource
from shuffle_accountant.losses.steps.product_ratio import ProductRatio
from shuffle_accountant.losses.steps.table_ratio import TableRatio
from shuffle_accountant.losses.tabulated import LossBounds, PldTable
from shuffle_accountant.numerics.budget import rounded, stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.doubling import SumLaw

UNIT = 2.0**-30
SIDES = pytest.mark.parametrize("side", list(Bound))
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
ORDERS = pytest.mark.parametrize("swapped", [False, True])
EFFORT = Effort(1e-12, 1e-2)

KEPT = (mean_ratio._remembered, product_ratio._law, table_ratio._law, gaussian._atoms)


@contextmanager
def stressed(**sources: float) -> Iterator[None]:
    """A budget, and nothing that was kept from another one before and after."""
    for function in KEPT:
        function.cache_clear()
    with stress(**sources):
        yield
    for function in KEPT:
        function.cache_clear()


class OwnTail(Effort):
    """An accuracy whose tail is not rounded, so that what a large one leaves out shows."""

    @property
    def kept_tail(self) -> float:
        return self.tail


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
    "near 1": Few((1.0 - 2.0**-8, 1.0 + 2.0**-8), (0.5, 0.5)),
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
        loss = MeanRatioLoss(source, users, fraction, swapped=swapped)
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
                if name == "exact" and adverse == 0.0 and users == 1:
                    assert found == pytest.approx(float(truth), rel=1e-12)
        assert np.all(np.diff(atoms.loss) >= -1e-9)  # those of equal ratios round
        never = MP.fsum(q for x, q in truths if x == 0) if swapped else exact(infinite)
        assert bounds(atoms.infinite, never, side)
        if side is Bound.PESSIMISTIC:
            assert atoms.truncated == pytest.approx(float(atoms.infinite - never), abs=1e-7)
        else:
            assert atoms.infinite == pytest.approx(float(never), abs=1e-7)
        with stressed(roundoff=unit, adverse=adverse):
            assert bounds(loss.delta(math.inf, side, EFFORT), never, side)


@SIDES
@pytest.mark.parametrize("left_out", [-1, 3])
def test_means_of_ratios_say_what_masses_were_moved_by(left_out: int, side: Bound) -> None:
    """And masses that are rounded one by one are no more than 1 in all, nor less than is held."""
    source = replace(EXACT, whole=True, left_out=left_out, moved=2.0**-7)
    atoms = MeanRatioLoss(source, 1).atoms(side, edges, EFFORT)
    lost = 0.0 if left_out < 0 else 0.0625 * 4.0 * (1.0 + 2.0**-7)
    total = float(atoms.mass.sum())
    if side is Bound.PESSIMISTIC:
        assert total == pytest.approx(min(0.90625 - 0.25 * (left_out == 3), 1.0), rel=2.0**-6)
    else:
        assert total == pytest.approx(1.0 - lost - 0.09375, rel=1e-12)
    assert 0.0 < atoms.round_off <= 1e-12
    more = replace(source, mass=(0.25, 0.375, 0.3125, 0.09375))
    assert MeanRatioLoss(more, 1).atoms(side, edges, EFFORT).round_off >= 0.03125
    heavier = replace(more, value=(0.5, 0.75, 1.0, 3.0))
    if side is Bound.PESSIMISTIC and left_out < 0:  # masses of P of 1 in all, each too large
        atoms = MeanRatioLoss(replace(heavier, never=0.0), 1).atoms(side, edges, EFFORT)
        assert 1.0 <= atoms.mass.sum() <= 1.0 + 1e-12


@SIDES
@ADVERSE
def test_means_of_ratios_have_no_larger_loss(adverse: float, side: Bound) -> None:
    for eps0, fraction in ((0.1, 1.0), (0.75, 0.3), (3.0, 0.01)):
        truth = MP.log1p(exact(fraction) * MP.expm1(exact(eps0)))
        with stress(roundoff=UNIT, adverse=adverse):
            found = MeanRatioLoss(TwoValuedRatio(eps0), 5, fraction).largest
        assert truth <= exact(found) <= truth * (1 + exact(40.0 * UNIT))


@SIDES
def test_products_that_round_once(side: Bound) -> None:
    """Of a fraction and a probability, of passes and their largest loss: all digits count."""
    for fraction in (0.1, 0.3, 0.7, 0.9):
        for never in (0.1, 0.3, 0.6, 0.7):
            source = Certain((0.5, 2.0), (0.5, 0.25), never=never)
            truth = Fraction(fraction) * Fraction(never)
            loss = MeanRatioLoss(source, 2, fraction)
            # known to be infinite, or no more than one message alone says
            for epsilon in (math.inf,) if side is Bound.OPTIMISTIC else (math.inf, 0.1):
                assert bounds(loss.delta(epsilon, side, EFFORT), truth, side)
            if side is Bound.OPTIMISTIC:
                assert bounds(loss.atoms(side, edges, EFFORT).infinite, truth, side)
    for eps0 in (0.1, 0.3, 0.7, 1.9):
        for passes in range(2, 40):
            largest = passes * Fraction(eps0)
            assert Fraction(TwoValuedRatio(eps0, passes).largest) >= largest
            assert Fraction(ProductRatio(LaplaceRatio(eps0), passes).largest) >= largest


@SIDES
@ORDERS
def test_products_below_all_normal_doubles(swapped: bool, side: Bound) -> None:
    """Half of the smallest double is lost, or added, in a product; and is in no atom."""
    for share in (0.4, 0.6):
        source = Few((1.0, math.e + share), (1.0, 2.0**-1074))
        loss, level = MeanRatioLoss(source, 1, 1.0), MP.exp(1)
        truth = exact(2) ** -1074 * (exact(math.e + share) - level)
        with stressed():
            assert bounds(loss.delta(1.0, side, EFFORT), truth, side)
            atoms = loss.atoms(side, edges, EFFORT)
        assert bounds(divergence(atoms, 1.0), truth, side)


@dataclass(frozen=True)
class Certain(Few):
    """One message alone is told apart as often as its ratio is infinite."""

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        return self.never


@dataclass(frozen=True)
class Heavy(Few):
    """One ratio is huge, and one alone is known."""

    def below(self, log_ratio: float) -> float:
        pairs = zip(self.value, self.mass, strict=True)
        return sum(q for x, q in pairs if math.log(x) <= log_ratio)

    def alone(self, epsilon: float, side: Bound, swapped: bool = False) -> float:
        value = float(hockey_stick(self.true(side, swapped), 0.0, epsilon, swapped))
        return value * (1.0 + (1e-12 if side is Bound.PESSIMISTIC else -1e-12))


@SIDES
@pytest.mark.parametrize("largest", [2.0**40, 2.0**80])
@pytest.mark.parametrize("fraction", [1.0, 0.75])
@pytest.mark.parametrize("users", [1, 2])
def test_where_one_ratio_outweighs_all_others(
    users: int, fraction: float, largest: float, side: Bound
) -> None:
    """Also where two of them do together."""
    source = Heavy((0.5, largest), (1.0 - 0.5 / largest, 0.5 / largest))
    loss = MeanRatioLoss(source, users, fraction)
    truths = means(source, users, fraction, side, False)
    # the largest one, relative to what there has to be
    for share in (0.2, 0.6, 1.2, 3.0, 1000.0):
        epsilon = math.log(largest * fraction / (share * users))
        truth = hockey_stick(truths, 0.0, epsilon, False)
        assert truth > 0 or share * users < 1.0
        for adverse in (-1.0, 0.0, 1.0):
            with stressed(roundoff=2.0**-16 if adverse else 2.0**-53, adverse=adverse):
                assert bounds(loss._pointed_out(epsilon, side), truth, side), share
        found = loss.delta(epsilon, side, EFFORT)
        assert bounds(found, truth, side)
        if share > 100.0 and largest > 1e20:  # no law of a sum is needed
            assert found == pytest.approx(float(truth), rel=2e-6)


@SIDES
@pytest.mark.parametrize("fraction", [1.0, 0.75])
def test_where_one_ratio_outweighs_all_others_but_is_seldom_missing(
    fraction: float, side: Bound
) -> None:
    """In the order (Q, P): all messages have a ratio that P next to never sends."""
    rare, largest = 2.0**-13, 2.0**40
    source = Heavy((2.0**-60, 0.5, largest), (rare, 1.0 - rare - 2.0**-41, 2.0**-41))
    loss = MeanRatioLoss(source, 2, fraction, swapped=True)
    truths = means(source, 2, fraction, side, True)
    for epsilon in (0.0, 0.5, 12.0, 27.0):
        truth = hockey_stick(truths, 0.0, epsilon, True)
        assert bounds(loss.delta(epsilon, side, EFFORT), truth, side), epsilon
        assert bounds(loss._pointed_out(epsilon, side), truth, side), epsilon
    assert fraction < 1.0 or truth > 1e-8  # the law is not asked, and says no more than 0


def test_ratios_of_0_are_told_apart_however_large_alpha_is() -> None:
    source = Heavy((1e-300, 0.5, 1.5, 4.0), (0.25, 0.375, 0.3125, 0.0625))
    for side in Bound:
        found = MeanRatioLoss(source, 2, 1.0, swapped=True).delta(20.0, side, EFFORT)
        assert found == pytest.approx(0.0625, rel=1e-9)


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
                assert infinite * (1.0 - 1e-6) <= source.infinite <= infinite
            else:
                assert law.lost >= 1e-300  # what may lie below the lattice
            # divergences are rounded more often than these
            assert bounds(law.lost_gain, infinite, side)
            if law.value[0] == 0.0:
                never = MP.fsum(mass for ratio, mass in truths if ratio == 0)
                assert bounds(law.mass[0], never, side)
            top = float(MP.log(max(ratio for ratio, _ in truths)))
            for epsilon in (0.0, 0.3, 0.9, 1.5, 3.0, 20.0, top - 2.0**-28):
                truth = hockey_stick(truths, infinite, epsilon, swapped)
                found = law.divergence(epsilon, side, swapped)
                assert bounds(found, truth, side), (passes, epsilon)
                if name == "exact" and adverse == 0.0:
                    assert found == pytest.approx(float(truth), rel=1e-9, abs=1e-11)
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


@SIDES
@ADVERSE
@ORDERS
def test_products_of_ratios_far_apart_may_err(swapped: bool, adverse: float, side: Bound) -> None:
    """Q-masses are quotients of ratios whose logarithm is hundreds."""
    one = Few((2.0**-300, 2.0), (0.5, 0.5))
    truths = [
        (exact(2) ** -600, exact(0.25)),
        (exact(2) ** -299, exact(0.5)),
        (exact(4), exact(0.25)),
    ]
    with stressed(roundoff=UNIT, adverse=adverse):
        law = ProductRatio(one, 2).ratios(side, users=1, width=0.01, tail=1e-12)
    for epsilon in (0.0, 0.5, 1.2):
        truth = hockey_stick(truths, 0.0, epsilon, swapped)
        assert bounds(law.divergence(epsilon, side, swapped), truth, side), epsilon


def test_what_is_left_of_q_is_no_more_if_masses_err() -> None:
    """Lower ratios have asked for some of it, by masses that are too small."""
    source = ProductRatio(PRODUCTS["between the cells"], 2)
    rest = []
    for sources in ({}, {"adverse": 1.0, "roundoff": UNIT}, {"adverse": -1.0, "roundoff": UNIT}):
        with stressed(**sources):
            law = source.ratios(Bound.OPTIMISTIC, users=1, width=0.01, tail=1e-12)
        assert law.value[0] == 0.0
        rest.append(law.mass[0])
    assert max(rest) <= rest[0] * (1.0 + 1e-12)


# ------------------------------------------------------------------------------------------ tables


TABLES = {
    # all of P and Q
    "whole": ([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25], 0.0),
    "nothing infinite, some is missing": ([-0.25, 0.5, 1.5], [0.25, 0.25, 0.125], 0.0),
    # so that what a ratio is off by is more than what its difference with alpha is
    "near 1": ([-(2.0**-8), 2.0**-8], [0.375, 0.625], 0.0),
    "near 1, too much of Q": ([-(2.0**-8), 2.0**-8], [0.75, 0.25], 0.0),
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
        top = max(x for x in losses if x < 600.0)
        for epsilon in (0.0, 0.1, 0.3, 0.7, 1.2, 1.9, top - 2.0**-28):
            alpha = MP.exp(exact(epsilon))
            truth = 1 - alpha + alpha * own(1 / alpha) if swapped else own(alpha)
            found = ratio.alone(epsilon, side, swapped)
            # the truth is a difference in 50 digits
            off = exact("-1e-45") if side is Bound.PESSIMISTIC else exact("1e-45")
            assert bounds(found, truth + off, side), epsilon
            if name == "whole":
                assert found == pytest.approx(float(truth), rel=1e-5, abs=1e-5)
        largest = ratio.largest
    assert ratio.infinite == infinite
    if name in ("whole", "near 1, too much of Q"):  # whose lowest losses are merged
        assert exact(largest) >= max(losses)
    elif never > 0:
        assert largest == math.inf


@SIDES
def test_masses_that_are_a_little_too_large_are_not_too_much_of_q(side: Bound) -> None:
    """Else ratios would be merged until what is left of Q is not too much."""
    table = PldTable([-1.0, 0.0], [2.0**-40, 1.0 - 2.0**-38], infinity_mass=3 * 2.0**-40)
    with stressed(roundoff=UNIT, adverse=1.0):
        assert table_ratio._law(table, side).value.size >= 2


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
        more = table_ratio.least_profile(ratio, ratio * q, q, np.zeros(3), 0.0, 0.25)
    assert more[3] >= 0.25
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
        for epsilon in (0.0, 0.3, eps0, 1.2, 2.0, eps0 * passes * (1.0 - 2.0**-29)):
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
    loss, g = FarApartLoss(sigma, 1, fraction, swapped=swapped), exact(fraction)
    sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
    centre = 0.5 / sigma**2
    with stressed(normal=9e-3 if adverse else 1e-11, adverse=adverse):
        atoms = loss.atoms(side, edges, OwnTail(tail, 1e-2))
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
                found = loss.delta(epsilon, side, OwnTail(tail, 1e-2))
                assert bounds(found, truth, side), epsilon


@SIDES
@pytest.mark.parametrize("tail", [1e-12, 0.3])
def test_two_ratios_that_are_followed_in_the_larger_one_s_score(tail: float, side: Bound) -> None:
    sigma, epsilons = 0.5, (0.1, 0.5, 1.5, 4.0)
    truths = few_gaussians.divergence(sigma, 2, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        found = FarApartLoss(sigma, 2).delta(epsilon, side, OwnTail(tail, 1e-2))
        assert bounds(found, exact(truth), side)
        other = few_gaussians.divergence_reversed(sigma, 2, epsilon)
        found = FarApartLoss(sigma, 2, swapped=True).delta(epsilon, side, OwnTail(tail, 1e-2))
        assert bounds(found, exact(other), side)


def followed(sigma: float, epsilon: float, swapped: bool) -> Real:
    """The divergence of one ratio from 1, in either order."""
    alpha = MP.exp(exact(epsilon))
    return alpha * normal_deficit(sigma, 1 / alpha) if swapped else normal_excess(sigma, alpha)


@SIDES
@ORDERS
@ADVERSE
def test_logarithms_of_one_ratio_may_err(adverse: float, swapped: bool, side: Bound) -> None:
    """By more than the widths of cells; their sum may as well."""
    sigma, centre = 0.04, 0.5 / 0.04**2
    loss = FarApartLoss(sigma, 1, 1.0, swapped=swapped)
    with stressed(roundoff=2.0**-18, adverse=adverse):
        for epsilon in (0.0, 0.9 * centre, centre, 1.1 * centre):
            truth = followed(sigma, epsilon, swapped)
            assert bounds(loss.delta(epsilon, side, EFFORT), truth, side), epsilon


@SIDES
@ORDERS
@ADVERSE
def test_what_the_score_leaves_out_of_one_ratio(adverse: float, swapped: bool, side: Bound) -> None:
    with stressed(normal=2.0**-7, adverse=adverse):
        atoms = FarApartLoss(0.04, 1, 1.0, swapped=swapped).atoms(side, edges, OwnTail(0.1, 1e-2))
    # half the tail is beyond the scores, and the others may exceed what they are taken for
    least = 0.05 if swapped else 0.15
    if side is Bound.PESSIMISTIC:
        assert least * (1.0 - 1e-9) <= atoms.infinite == atoms.truncated
    else:
        assert atoms.infinite == 0.0
        assert atoms.truncated >= 0.05 * (1.0 - 1e-9)
    assert atoms.round_off >= 2.0**-7


@SIDES
@ADVERSE
@pytest.mark.parametrize("sigma", [0.2, 1.0])
def test_cells_of_normal_ratios_may_err(sigma: float, adverse: float, side: Bound) -> None:
    """By quadrature; the truth is a difference of normal probabilities."""
    source, shift = GaussianRatio(sigma), 1 / exact(sigma)
    places = list(map(exact, source._edges(1, 0.05, 0.25e-6).tolist()))
    with stress(roundoff=2.0**-24, adverse=adverse):
        law = source.ratios(side, users=1, width=0.05, tail=1e-6)
    ends = list(pairwise(places))
    q = [phi(b) - phi(a) for a, b in ends]
    if side is Bound.OPTIMISTIC:
        p = [phi(b - shift) - phi(a - shift) for a, b in ends]
        truths = [above / below for above, below in zip(p, q, strict=True)]
        for found, truth in zip(law.mass.tolist(), q, strict=True):
            assert truth * (1 - exact(1e-4)) <= exact(found) <= truth
    else:
        truths = [MP.exp((z - shift / 2) * shift) for z in places]
        assert MP.fsum(q) <= MP.fsum(map(exact, law.mass.tolist())) <= 1 + exact(1e-4)
    for found, truth in zip(law.value.tolist(), truths, strict=True):
        assert abs(exact(found) / truth - 1) <= exact(law.moved) <= exact(1e-3)


def test_no_count_that_may_occur_has_no_mass() -> None:
    """That all of 2000 ratios are large has a probability below all doubles."""
    for side in Bound:
        law = TwoValuedRatio(1.0).sums(side, users=2000, width=0.01, tail=1e-12)
        assert (law.mass[-1] > 0.0) == (side is Bound.PESSIMISTIC)


# -------------------------------------------------------------------------------------- null clones


@SIDES
@ADVERSE
def test_divergences_of_means_from_sums_that_err(adverse: float, side: Bound) -> None:
    """Also of ratios next to alpha, of which rounding decides whether they count."""
    unit = 2.0**-30
    for epsilon in (0.0, 0.5):
        alpha = math.exp(epsilon)
        value = np.array([0.25, (1.0 - 8.0 * unit) / alpha, 1.0, alpha * (1.0 + 8.0 * unit), 4.0])
        for some in ([0, 1], [1], [3], [3, 4], [0, 1, 2, 3, 4]):
            mass = np.full(len(some), 2.0**-4)
            law = SumLaw(value[some], mass, 1, 0.0, 0.0, 0.0, 4.0)
            with stress(roundoff=unit, adverse=adverse):
                forward, backward = null_clones._divergences(law, np.array([epsilon]), side)
            level = MP.exp(exact(epsilon))
            values = list(map(exact, value[some].tolist()))
            up = MP.fsum(max(x - level, 0) for x in values) / 16
            down = MP.fsum(max(1 - level * x, 0) for x in values) / 16
            # 70 roundings of all terms
            for found, truth in ((forward, up), (backward, down)):
                assert bounds(float(found[0]), truth, side)
                assert abs(exact(float(found[0])) - truth) <= exact(1e-6)


@SIDES
@ADVERSE
def test_mixtures_of_profiles_may_err(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of one or two places, of which few points are known, and a charge that is certain."""
    upper = side is Bound.PESSIMISTIC
    losses, table = (
        np.array([0.0, 0.5]),
        np.array([[0.0, 0.25, 0.25, 0.125], [0.0, 0.125, 0.125, 0.0625]]),
    )
    plan = null_clones._Plan(losses, np.array([-1.0, 0.0, 1.0]), np.array([1.0, 2.0]))
    weights = {-1.0: [0.75, 0.25], 0.0: [0.5, 0.5], 1.0: [0.25, 0.75]}
    for costs in (
        (0.0, 0.0, 0.0, 1.0),
        (0.0, 0.0625, 0.25, 1.0),
        (0.25, 0.0, 0.0, 0.0),
        (0.25, 0.3, 0.3, 1.0),
        (0.0, 1.0, 1.0, 0.03),
    ):
        cost = dict(zip((-1.0, 0.0, 1.0, 1.0 + NULL_CLONES.odds_step), costs, strict=True))
        monkeypatch.setattr(null_clones, "_plan", lambda *_: plan)
        above = {Bound.OPTIMISTIC: table, Bound.PESSIMISTIC: table if upper else 2.0 * table}
        monkeypatch.setattr(null_clones, "_allocations", lambda *a: above[a[3]])  # noqa: B023
        monkeypatch.setattr(null_clones, "below_chords", lambda place, low, high, loss: high - low)
        monkeypatch.setattr(null_clones, "charge", lambda s, k, u, side: cost[u])  # noqa: B023
        charged = np.array([cost[u] for u in plan.log_odds.tolist()])
        monkeypatch.setattr(null_clones, "charges", lambda *_: charged)  # noqa: B023
        monkeypatch.setattr(null_clones, "_weights", lambda t, u, k, side, tail: weights[u])
        null_clones._mixtures.cache_clear()
        with stress(roundoff=2.0**-20, adverse=adverse):
            found = null_clones._mixtures(1.0, 2, side, 1e-12, 0.01)
        null_clones._mixtures.cache_clear()
        for j, x in enumerate((-MP.inf, -0.5, 0.0, 0.5)):
            level = 1 + MP.exp(exact(x))
            mixed = {
                u: MP.fsum(w * exact(row[j]) for w, row in zip(weights[u], table, strict=True))
                for u in weights
            }
            truth = min(mixed[u] + level * exact(cost[u]) for u in weights)
            if side is Bound.OPTIMISTIC:  # whatever p is, on the lattice
                truth = min(truth, mixed[-1.0], level * exact(costs[3]))
            assert bounds(float(found[j]), truth, side)
            assert abs(exact(float(found[j])) - truth) <= exact(1e-3)


@SIDES
@ADVERSE
def test_the_charge_for_clones_may_err(
    adverse: float, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a profile that is known exactly."""
    profile = 0.0625
    monkeypatch.setattr(null_clones, "gaussian_profiles", lambda sigma, h, side: 0.0 * h + profile)
    for clones, log_odds in ((1, 0.3), (9, -2.0), (1000, 2.0)):
        h = MP.log1p(MP.exp(-exact(log_odds)))
        truth = -MP.expm1(clones * MP.log1p(-MP.exp(-h) * profile))
        with stress(roundoff=2.0**-20, adverse=adverse):
            found = null_clones.charge(1.0, clones, log_odds, side)
        assert bounds(found, truth, side)
        assert found == pytest.approx(float(truth), rel=1e-3)


def profile_of(sigma: float, epsilon: float) -> Real:
    """The Gaussian mechanism's."""
    return normal_excess(sigma, MP.exp(exact(epsilon)))


def half_of(sigma: float, epsilon: float) -> Real:
    """That of a target that takes part half of the time, above ``(1 - alpha)_+``."""
    alpha = MP.exp(exact(epsilon))
    return normal_excess(sigma, 2 * alpha - 1) / 2 - max(1 - alpha, 0)


@SIDES
@ORDERS
def test_envelopes_of_the_gaussian_mechanism_s_profile_and_of_mixtures(
    swapped: bool, side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points far apart, so that chords are above profiles by more than anything else."""
    sigma, losses = 1.0, np.linspace(0.0, 6.0, 25)
    whole = null_clones.whole_losses(losses)
    exactly = [0.0]  # the part of the profile above (1 - alpha)_+
    for x in whole[1:].tolist():
        exactly.append(float(profile_of(sigma, x) - max(1 - MP.exp(exact(x)), 0)))
    # of a target that takes part half of the time, which is asymmetric; or mixtures next to none
    # smaller than the mechanism's, of which nothing or no more is known
    halved = np.array([0.0, *(float(half_of(sigma, x)) + 1e-15 for x in whole[1:].tolist())])
    points = [*np.arange(-5.0, 5.1, 0.35).tolist(), 5.9, 6.3, 20.0]
    for factor, high in ((None, 9.0), (1.0 - 1e-6, 9.0), (0.0, 0.0)):
        odds = np.zeros(0) if factor is None else np.zeros(1)
        plan = null_clones._Plan(losses, odds, np.ones(1))
        low = halved if factor == 0.0 else np.array(exactly) * (factor or 1.0)
        above = halved if factor == 0.0 else np.full(whole.size, high)
        given = {Bound.OPTIMISTIC: low, Bound.PESSIMISTIC: above}
        monkeypatch.setattr(null_clones, "_plan", lambda *_: plan)  # noqa: B023
        monkeypatch.setattr(null_clones, "_mixtures", lambda s, t, side, *_: given[side])  # noqa: B023
        null_clones._envelope.cache_clear()
        atoms = null_clones._envelope(sigma, 9, side, 1e-12, NULL_CLONES.width, swapped)
        null_clones._envelope.cache_clear()
        assert atoms.side is side
        for epsilon in points:
            truth = profile_of(sigma, epsilon)
            if factor != 0.0:  # of a chord over a quarter, and of tangents
                found = divergence(atoms, epsilon)
                assert bounds(found, truth, side), epsilon
                if epsilon >= 0.0:
                    assert abs(found - truth) <= exact(0.3) * truth + exact(1e-3)
        if factor == 0.0:  # exact at points
            for x in whole.tolist():
                if not -2.0 < x < 2.0:
                    continue
                level = MP.exp(exact(x))
                truth = half_of(sigma, -x) * level if swapped else half_of(sigma, x)
                truth += max(1 - level, 0)
                assert abs(divergence(atoms, x) - truth) <= exact(1e-9), x


def test_lower_ends_of_mixtures_where_points_are_too_far_apart_for_the_mechanism(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its chords say nothing there; a ten-thousandth of its profile does."""
    losses = np.append(np.linspace(0.0, 2.0, 41), [4.0, 6.0, *range(7, 15)])
    whole = null_clones.whole_losses(losses).tolist()
    part = [0.0]
    for x in whole[1:]:
        part.append(1e-8 * float(profile_of(1.0, x) - max(1 - MP.exp(exact(x)), 0)))
    plan = null_clones._Plan(losses, np.zeros(1), np.ones(1))
    monkeypatch.setattr(null_clones, "_plan", lambda *_: plan)
    monkeypatch.setattr(null_clones, "_mixtures", lambda *_: np.array(part))
    null_clones._envelope.cache_clear()
    atoms = null_clones._envelope(1.0, 9, Bound.OPTIMISTIC, 1e-12, NULL_CLONES.width, False)
    null_clones._envelope.cache_clear()
    for x, truth in zip(whole, part, strict=True):
        if not 0.0 <= x <= 6.0:
            continue
        assert exact(0.9) * exact(truth) <= divergence(atoms, x) <= exact(1.000001) * exact(truth)


def test_numbers_of_clones_whose_probability_is_below_all_doubles() -> None:
    for side in Bound:
        weights = null_clones._weights(2001, 0.0, np.arange(1.0, 2002.0), side, 1e-290)
        assert (weights[0] > 0.0) == (side is Bound.PESSIMISTIC)
        assert weights[-1] == 0.0  # taken for no clone at all, or left out


@SIDES
@ADVERSE
def test_where_nobody_need_hide_anybody(adverse: float, side: Bound) -> None:
    """Below the tail the bound is the Gaussian mechanism's profile, and 0."""
    loss, epsilon = null_clones.NullCloneLoss(1.0, 50), 9.0
    truth = phi(exact(-8.5)) - MP.exp(exact(epsilon)) * phi(exact(-9.5))
    with stress(roundoff=UNIT, adverse=adverse):
        found = loss.delta(epsilon, side, Effort(1e-15, 1e-3))
    assert bounds(found, truth, side)
    assert found == 0.0 if side is Bound.OPTIMISTIC else exact(found) <= truth * exact(1.01)
    assert loss.delta(math.inf, side, EFFORT) == 0.0


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
