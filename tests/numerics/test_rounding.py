"""Each lemma against exact arithmetic: fractions for sums and products, 60 digits for the rest."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracles.precision import MP, exact

from shuffle_accountant.numerics import rounding as lemma

# far from overflow, and from subnormal numbers unless these are asked for
POSITIVE = st.floats(1e-30, 1e30)
TERMS = st.lists(POSITIVE, min_size=1, max_size=300)
SIGNED = st.one_of(POSITIVE, POSITIVE.map(lambda x: -x))


def within(found: float, truth: Fraction, error: float) -> bool:
    """Whether neither number is more than ``1 + error`` times the other."""
    factor = 1 + Fraction(error)
    return Fraction(found) <= truth * factor and truth <= Fraction(found) * factor


@pytest.mark.parametrize("count", [0.0, 1.0, 7.0, 64.0, 1e6, 1e13, 2.0**53, 2.0**57, 6e18])
def test_roundings_are_bounded_by_the_worst_that_each_can_do(count: float) -> None:
    with mpmath.workdps(60):
        u = mpmath.mpf(2) ** -53
        worst = mpmath.expm1(-mpmath.mpf(count) * mpmath.log1p(-u))
        for found in (lemma.roundings(count), lemma.roundings(np.array([count]))[0]):
            assert worst <= float(found) <= (1 + 1e-12) * worst + 1.1 * worst**2


def test_more_roundings_than_a_double_can_say_are_infinite() -> None:
    assert lemma.roundings(1e30) == math.inf
    assert lemma.roundings(np.array([0.0, 1e30])).tolist() == [0.0, math.inf]


@given(TERMS)
def test_sums_one_after_the_other_and_by_numpy(terms: list[float]) -> None:
    truth = sum(map(Fraction, terms))
    array = np.array(terms)
    one_by_one = 0.0
    for term in terms:
        one_by_one += term
    allowed = lemma.sequential_sum(len(terms))
    assert within(one_by_one, truth, allowed)
    assert within(float(np.bincount(np.zeros(len(terms), int), array)[0]), truth, allowed)
    assert within(float(array @ np.ones(len(terms))), truth, allowed)
    assert within(float(array.sum()), truth, lemma.pairwise_sum())


@pytest.mark.slow
@pytest.mark.parametrize("size", [127, 129, 1000, 2**17 + 3, 2**20])
def test_pairwise_sums_of_many_terms_that_each_round_down(size: int) -> None:
    # after the first term of each lane every addition of a lane drops half a unit in the last place
    array = np.full(size, 1.0 + 2.0**-52)
    truth = size * Fraction(1.0 + 2.0**-52)
    assert within(float(array.sum()), truth, lemma.pairwise_sum())
    array[::2] = 1.0 / 3.0
    truth = (size + 1) // 2 * Fraction(1.0 / 3.0) + size // 2 * Fraction(1.0 + 2.0**-52)
    assert within(float(array.sum()), truth, lemma.pairwise_sum())


@given(TERMS, st.integers(1, 5))
def test_terms_bring_their_own_roundings(terms: list[float], own: int) -> None:
    exact = [Fraction(term) for term in terms]
    rounded = terms
    for _ in range(own):  # a division by three and its exact inverse
        exact = [term / 3 for term in exact]
        rounded = [term / 3.0 for term in rounded]
    assert within(sum(rounded), sum(exact), lemma.sequential_sum(len(terms), own=own))
    assert within(float(np.sum(rounded)), sum(exact), lemma.pairwise_sum(own=own))


@given(st.lists(SIGNED, min_size=1, max_size=200))
def test_sums_of_either_sign_are_off_relative_to_the_sizes(terms: list[float]) -> None:
    truth, size = sum(map(Fraction, terms)), sum(abs(Fraction(term)) for term in terms)
    for found, error in (
        (sum(terms), lemma.sequential_sum(len(terms))),
        (float(np.sum(terms)), lemma.pairwise_sum()),
    ):
        assert abs(Fraction(found) - truth) <= Fraction(error) * size


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_products_from_the_errors_of_their_factors(factors: list[float]) -> None:
    found, truth = 1.0, Fraction(1)
    for factor in factors:
        found *= factor / 3.0
        truth *= Fraction(factor) / 3
    one = lemma.roundings(1.0)
    # the product starts with 1, which is one multiplication more than the lemma counts
    assert within(found, truth, lemma.product(one, *[one] * (len(factors) - 1), 0.0))


@given(st.floats(0, 3), st.floats(0, 3), st.floats(0, 3))
def test_errors_of_products_are_multiplied_even_if_large(a: float, b: float, c: float) -> None:
    exact = (1 + Fraction(a)) * (1 + Fraction(b)) * (1 + Fraction(c)) - 1
    assert (
        exact
        <= Fraction(lemma.product(a, b, c))
        <= exact * (1 + Fraction(1, 10**13)) + Fraction(1, 10**15)
    )
    array = lemma.product(np.array([a]), b, c)
    assert exact <= Fraction(float(array[0]))


@given(st.floats(-700, 700), st.floats(-30, 30).map(lambda e: 2.0**e * 1e-16))
def test_exponentials_of_what_is_off(x: float, moved: float) -> None:
    with mpmath.workdps(60):
        for true in (mpmath.mpf(x) + moved, mpmath.mpf(x) - moved):
            exact = mpmath.exp(true)
            error = lemma.exponential(moved)
            for found in (math.exp(x), float(np.exp(np.array([x]))[0])):
                assert max(mpmath.mpf(found) / exact, exact / mpmath.mpf(found)) <= 1 + error


@given(st.floats(1e-300, 1e300), st.floats(0, 0.5))
def test_logarithms_of_what_is_off(x: float, error: float) -> None:
    with mpmath.workdps(60):
        for found in (math.log(x), float(np.log(np.array([x]))[0])):
            for true in (mpmath.mpf(x) * (1 + mpmath.mpf(error)), mpmath.mpf(x) / (1 + error)):
                assert abs(mpmath.log(true) - found) <= lemma.logarithm(found, error) * (1 + 1e-15)


@given(st.floats(1e-300, 1e300), st.integers(0, 20))
def test_logarithms_of_one_and_more_have_a_relative_error(x: float, own: int) -> None:
    with mpmath.workdps(60):
        true = mpmath.mpf(x) * (1 + mpmath.mpf(2) ** -53) ** own
        for found in (math.log1p(x), float(np.log1p(np.array([x]))[0])):
            assert abs(mpmath.log1p(true) - found) <= lemma.log1p(found, own=own)


@given(SIGNED, SIGNED)
def test_differences_are_off_relative_to_what_is_subtracted(a: float, b: float) -> None:
    truth = Fraction(a) / 3 - Fraction(b) / 7
    found = a / 3.0 - b / 7.0
    assert abs(Fraction(found) - truth) <= Fraction(lemma.difference(a / 3.0, b / 7.0, own=1))


def few_units(count: int) -> float:
    """So many times the smallest double."""
    return count * 5e-324


@given(st.floats(5e-324, 1e-160), st.floats(5e-324, 1e-160))
def test_products_below_the_smallest_normal_double(a: float, b: float) -> None:
    assert abs(Fraction(a * b) - Fraction(a) * Fraction(b)) <= Fraction(lemma.underflow(1))
    third = a * 1e-200 / 3.0
    assert abs(Fraction(third) - Fraction(a) * Fraction(1e-200) / 3) <= Fraction(lemma.underflow(2))


@given(
    st.one_of(st.floats(0, 1e300), st.floats(0, 1e-300), st.integers(0, 99).map(few_units)),
    st.floats(0, 3),
)
@example(few_units(7), 0.0)
def test_bounds_from_a_value_and_its_error(value: float, error: float) -> None:
    factor = 1 + Fraction(error)
    # numbers below the smallest normal double are off by one of these
    tiny = Fraction(lemma.underflow(1))
    for of in (float, lambda x: np.array([x])):
        up, down = lemma.raised(of(value), of(error)), lemma.lowered(of(value), of(error))
        assert Fraction(float(np.max(up))) + tiny >= Fraction(value) * factor
        # the value may have been rounded up by half of one
        before = Fraction(value) - (tiny / 2 if value < 2.0**-1022 else 0)
        assert 0 <= Fraction(float(np.max(down))) <= max(before, Fraction(0)) / factor
        assert float(np.max(lemma.outwards(of(value), of(error), upper=True))) == np.max(up)
        assert float(np.max(lemma.outwards(of(value), of(error), upper=False))) == np.max(down)


@given(
    st.one_of(st.floats(0.0, 1.0), st.floats(0.0, 1e-300), st.integers(0, 99).map(few_units)),
    st.floats(1e-12, 1.0),
)
@example(few_units(7), 0.51)
def test_shares_of_subnormal_numbers(value: float, part: float) -> None:
    truth = Fraction(value) * Fraction(part)
    error = lemma.roundings(1)
    low, high = (lemma.share(value, part, error, upper=upper) for upper in (False, True))
    assert Fraction(low) <= truth <= Fraction(high)
    assert low >= 0.0
    for none in ((0.0, part), (value, 0.0)):
        assert lemma.share(*none, error, upper=True) == 0.0


def test_bounds_are_rounded_up_themselves() -> None:
    """Against their formulas in 50 digits, of numbers and of arrays."""
    unit = exact(lemma.UNIT_ROUNDOFF)
    counts = [*range(1, 200), 0.1, 1e5 / 3.0, 1e9 / 7.0, 1e15, 1e16]
    for count, found in zip(counts, lemma.roundings(np.array(counts)), strict=True):
        truth = MP.expm1(exact(count) * (unit + unit**2))
        assert truth <= lemma.roundings(float(count)) <= truth * (1 + 40 * unit)
        assert truth <= found <= truth * exact(2.0)
    for a in (1e-16, 1e-7, 0.1, 3.0):
        for b in np.geomspace(1e-17, 2.0, 40).tolist():
            truth = (1 + exact(a)) * (1 + exact(b)) * (1 + unit) - 1
            assert truth <= lemma.product(a, b)


def test_the_largest_double_below_one() -> None:
    assert math.nextafter(lemma.BELOW_ONE, 2.0) == 1.0


def test_errors_below_a_rounding_are_taken_off() -> None:
    for value in (1.0, 1.0 / 3.0, 0.7):
        for error in (2.0**-54, 1e-17, 5e-17, 1.3e-16):
            assert Fraction(lemma.lowered(value, error)) * (1 + Fraction(error)) <= Fraction(value)
            assert Fraction(lemma.raised(value, error)) >= Fraction(value) * (1 + Fraction(error))
