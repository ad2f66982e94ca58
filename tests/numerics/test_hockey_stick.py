"""Differences of ratios and ``e^epsilon`` against 50 digits: the stated absolute errors hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.hockey_stick import Difference, Ratios, difference_of
from shuffle_accountant.numerics.rounding import roundings

EPSILONS = [0.0, 1e-17, 1e-9, 0.1, 1.0, 1.9, 2.1, 10.0, 49.6534, 300.0, 690.0]
DISTANCES = [0.0, 1e-16, 1e-13, 1e-9, 1e-3, 1.0]
SIGNS = [-1.0, 1.0]


def near(epsilon: float) -> np.ndarray:
    """Logarithms of ratios about +-epsilon, and 0."""
    found = [s * epsilon + t * d for s in SIGNS for t in SIGNS for d in DISTANCES]
    return np.array([0.0, *found])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("error", [0.0, 1e-15, 1e-6])
def test_errors_of_ratios_are_absolute(epsilon: float, error: float) -> None:
    logs = near(epsilon)
    logs = logs[np.abs(logs) < 690.0]
    value = np.append(0.0, np.exp(logs))
    ratios = Ratios.of(value, error)
    alpha = MP.exp(exact(epsilon))
    for moved in (-error, 0.0, error):  # whatever the true ratios are
        truth = [exact(x) * (1 + exact(moved)) for x in value.tolist()]
        for found, true in (
            (ratios.above(epsilon), [x - alpha for x in truth]),
            (ratios.below(epsilon), [1 - alpha * x for x in truth]),
        ):
            low, high = found.positive(upper=False), found.positive(upper=True)
            for i, exactly in enumerate(true):
                assert exact(low[i]) <= max(exactly, 0) <= exact(high[i]), (value[i], exactly)
                # with as many digits as there are: a few dozen roundings of the terms
                terms = 1 + alpha * exact(value[i]) + alpha
                if exactly > -1:
                    assert high[i] - low[i] <= terms * (exact(3 * error) + exact(1e-14))


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-7])
def test_gains_keep_their_digits_near_one(epsilon: float) -> None:
    gain = np.array([-1e-9, -1e-11, 1e-11, 3e-9])
    ratios = Ratios(1.0 + gain, gain, roundings(4), 1e-25 * np.ones(4))
    growth = MP.expm1(exact(epsilon))
    above, below = ratios.above(epsilon), ratios.below(epsilon)
    for i, g in enumerate(gain.tolist()):
        forward = exact(g) - growth
        backward = -growth - (1 + growth) * exact(g)
        for found, truth in ((above, forward), (below, backward)):
            assert abs(exact(found.value[i]) - truth) <= exact(found.error[i])
            # relative to both terms, by a few dozen roundings
            assert exact(found.error[i]) <= exact(1e-14) * (growth + abs(exact(g))) + exact(3e-25)


def test_where_alpha_overflows_only_ratios_of_zero_count() -> None:
    ratios = Ratios.of(np.array([0.0, 1e-290, 1.0, 1e290]), 1e-15)
    for epsilon in (700.1, 1e308, math.inf):
        assert ratios.above(epsilon).positive(upper=True).tolist() == [0.0] * 4
        low, high = (ratios.below(epsilon).positive(upper=upper) for upper in (False, True))
        assert low[0] <= 1.0 <= high[0] <= 1.0 + 1e-15  # a rounding outwards
        assert low[1:].tolist() == high[1:].tolist() == [0.0] * 3


def test_differences_of_terms_that_cancel() -> None:
    first, second = np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0 - 2.0**-53, 1.0])
    found = difference_of(first, second, 1e-12)
    assert found.value.tolist() == [0.0, 2.0**-53, 1.0]
    # each term may be off by 1e-12 of itself
    assert (found.error >= 1e-12 * (first + second)).all()
    assert (found.error <= 1.001e-12 * (first + second)).all()
    assert found.positive(upper=False).tolist()[:2] == [0.0, 0.0]
    assert (found.positive(upper=True) >= found.value + found.error).all()


def test_positive_parts_round_outwards() -> None:
    found = Difference(np.array([1.0]), np.array([2.0**-60]))
    assert found.positive(upper=True)[0] > 1.0 > found.positive(upper=False)[0]


@pytest.mark.parametrize("adverse", SIGNS)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.9, 2.5, 20.0])
def test_what_exponentials_are_off_is_counted(epsilon: float, adverse: float) -> None:
    """alpha errs by all that is allowed, one way: see `numerics.budget`."""
    value = np.append(0.0, np.exp(near(epsilon)))
    alpha = MP.exp(exact(epsilon))
    with stress(roundoff=2.0**-30, adverse=adverse):
        ratios = Ratios.of(value, 0.0)
        above, below = ratios.above(epsilon), ratios.below(epsilon)
    for i, x in enumerate(value.tolist()):
        assert abs(exact(above.value[i]) - (exact(x) - alpha)) <= exact(above.error[i])
        if alpha * exact(x) < 1e5:  # far below 0 values are cut off
            assert abs(exact(below.value[i]) - (1 - alpha * exact(x))) <= exact(below.error[i])


def test_subtractions_round_even_if_their_terms_do_not_err() -> None:
    """Numbers far from each other, in fractions."""
    first, second = np.array([1.0, 2.0**-60, 3.0, 1e300]), np.array([2.0**-60, 1.0, 1e-9, 1.0])
    found = difference_of(first, second, 0.0)
    ratios = Ratios.of(second, 0.0)
    for i, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        off = abs(Fraction(found.value[i]) - (Fraction(a) - Fraction(b)))
        assert off <= Fraction(found.error[i])
        assert abs(Fraction(ratios.gain[i]) - (Fraction(b) - 1)) <= Fraction(ratios.gain_error[i])
    assert Fraction(found.value[0]) != 1 - Fraction(2) ** -60
    below = ratios.below(3.0)
    for i, x in enumerate(second.tolist()[:1] + second.tolist()[2:3]):
        truth = 1 - MP.exp(3) * exact(x)
        assert abs(exact(below.value[2 * i]) - truth) <= exact(below.error[2 * i])
