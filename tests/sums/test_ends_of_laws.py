"""Laws of sums and what is read off them, where every operation errs by all that is stated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import doubling
from shuffle_accountant.sums.doubling import SumLaw
from shuffle_accountant.sums.heavy_tails import heavy_positive_part

UNIT = 2.0**-20
ADVERSE = pytest.mark.parametrize("adverse", [-1.0, 1.0])
SIDES = pytest.mark.parametrize("side", list(Bound))


def dyadic(seed: int, size: int) -> Array:
    """Probabilities that are multiples of ``2^-30``."""
    weight = np.random.default_rng(seed).integers(1, 2**20, size)
    weight[-1] += 2**30 - int(weight.sum())
    return np.asarray(weight / 2.0**30)


def fractions(values: Array) -> list[Fraction]:
    return list(map(Fraction, values.tolist()))


def calls(value: list[Fraction], mass: list[Fraction], strike: Fraction) -> Fraction:
    terms = (p * max(x - strike, Fraction(0)) for x, p in zip(value, mass, strict=True))
    return sum(terms, Fraction(0))


def check_order(law: SumLaw, value: Array, mass: Array, off: float, side: Bound) -> None:
    """Calls and puts of the law against those of all laws whose values are ``off`` at most."""
    upper = side is Bound.PESSIMISTIC
    masses, exactly = fractions(law.mass), fractions(mass)
    some = fractions(value[:: max(value.size // 48, 1)])
    for sign in (1, -1):  # calls, and puts as calls on what is negative
        worse = sign if upper else -sign
        found = [sign * x * (1 + worse * Fraction(law.moved)) for x in fractions(law.value)]
        for way in (-1, 1):
            true = [sign * x * (1 + way * Fraction(off)) for x in fractions(value)]
            low, high = min(map(abs, true)), max(map(abs, true))
            inner = [low + (high - low) * Fraction(k, 16) for k in range(17)]
            for strike in (0, *inner, *some, 8 * high):
                one, other = (
                    calls(found, masses, sign * strike),
                    calls(true, exactly, sign * strike),
                )
                assert one >= other if upper else one <= other


@SIDES
@ADVERSE
@pytest.mark.parametrize("swapped", [False, True])
def test_divergences_whose_sums_err(swapped: bool, adverse: float, side: Bound) -> None:
    value, mass = np.array([0.0625, 0.5, 2.0, 8.0]), np.array([0.25, 0.5, 0.125, 0.125])
    for epsilon in (0.0, 0.5, 1.5):
        with stress(roundoff=UNIT, adverse=adverse):
            found = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, 8.0).divergence(epsilon, side, swapped)
        alpha = MP.exp(exact(epsilon))
        truth = MP.fsum(
            exact(p) * max(1 - alpha * exact(x) if swapped else exact(x) - alpha, exact(0))
            for x, p in zip(value.tolist(), mass.tolist(), strict=True)
        )
        assert found >= min(truth, 1) if side is Bound.PESSIMISTIC else found <= truth


@SIDES
@ADVERSE
@pytest.mark.parametrize("moved", [0.0, 2.0**-7])
def test_coarser_laws_whose_sums_err(moved: float, adverse: float, side: Bound) -> None:
    value, mass = np.arange(1, 97) / 64.0, dyadic(3, 96)
    with stress(roundoff=UNIT, adverse=adverse):
        law = doubling.coarser(SumLaw(value, mass, 1, 0.0, 0.0, moved, 1.5), 0.6, side)
    assert law.value.size < 24
    check_order(law, value, mass, moved, side)


@SIDES
@ADVERSE
def test_sums_in_cells_whose_operations_err(adverse: float, side: Bound) -> None:
    """Zero is added to a law, so that the pairs are its atoms, few of which share a cell."""
    rng = np.random.default_rng(4)
    value = np.sort(rng.integers(1, 2**12, 48)) / 2.0**12
    mass = np.floor(2.0**30 * np.exp(3.0 * rng.standard_normal(48)) / 2e3) / 2.0**30
    zero = SumLaw(np.zeros(1), np.ones(1), 0, 0.0, 0.0, 0.0, 0.0)
    with stress(roundoff=UNIT, adverse=adverse):
        one = SumLaw(value, mass, 1, 0.0, 0.0, 0.0, 1.0)
        law = doubling.add(zero, one, side, width=0.05, budget=0.0, users=1)
    check_order(law, value, mass, 0.0, side)


@ADVERSE
def test_values_of_sums_that_err(adverse: float) -> None:
    value = np.array([0.5, 1.0, 4.0])
    one = SumLaw(value, np.full(3, 0.25), 1, 0.0, 0.0, 0.0, 4.0)
    with stress(roundoff=UNIT, adverse=adverse):
        law = doubling._sum_law(one, one, value, one.mass)
    off = np.abs(law.value / value - 1.0)
    assert np.all((off > 0.0) & (off <= law.moved))


@SIDES
@ADVERSE
def test_heavy_positive_parts_whose_sums_err(adverse: float, side: Bound) -> None:
    """Values that err by eight roundings."""
    upper = side is Bound.PESSIMISTIC
    value, mass = np.array([0.5, 1.0, 2.0]), np.array([0.25, 0.5, 0.25])
    true = [Fraction(x) * (1 + Fraction((8 if upper else -8) * UNIT)) for x in value.tolist()]
    truth = calls(true, fractions(mass), Fraction(0))
    with stress(roundoff=UNIT, adverse=adverse):
        found = heavy_positive_part(value, mass, 1, side, resolution=1e-3, tail=1e-30)
    # from above, what the values alone give is the answer if it is less
    alone = float(mass @ value) * (1.0 + 66.0 * UNIT)
    assert Fraction(found) >= min(truth, Fraction(alone)) if upper else Fraction(found) <= truth
    assert abs(found / float(truth) - 1.0) < 200.0 * UNIT
