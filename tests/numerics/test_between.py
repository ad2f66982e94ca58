"""Doubles next to quotients and roots, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.numerics.rounding import Between, over_root, quotient

# Thirds, a sum of powers of two, neighbours of 1, the ends of doubles.
HARD = [1.0, 3.0, 7.0, 14.0, 19.0, 49.0, 0.1, 1.3532632472974888, 1e-300, 5e-324, 2.0**-1022]
HARD += [math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0), 1e12, 2.0**53 - 1.0]


def check(found: Between, compare: object) -> None:
    """Both ends are next to the number, or are it; ``compare`` has the sign of x - number."""
    sign = compare if callable(compare) else None
    assert sign is not None
    assert sign(found.low) <= 0 <= sign(found.high)
    if found.low == found.high:
        assert sign(found.low) == 0
    else:
        assert math.nextafter(found.low, math.inf) == found.high
        assert sign(found.low) < 0 < sign(found.high)


@pytest.mark.parametrize("denominator", [1.0, 3.0, 19.0, 0.1, 1.3532632472974888, 2.0**53 - 1.0])
@pytest.mark.parametrize("numerator", [0.0, *HARD])
def test_quotients_lie_between_neighbouring_doubles(numerator: float, denominator: float) -> None:
    exact = Fraction(numerator) / Fraction(denominator)
    check(quotient(numerator, denominator), lambda x: Fraction(x) - exact)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 49, 10**6 - 1, 10**6])
@pytest.mark.parametrize("value", HARD)
def test_roots_lie_between_neighbouring_doubles(value: float, count: int) -> None:
    exact = Fraction(value) ** 2 / count
    check(over_root(value, count), lambda x: Fraction(x) ** 2 - exact)


def test_random_quotients_and_roots() -> None:
    rng = np.random.default_rng(20)
    for _ in range(2000):
        a, b = (float(x) for x in np.exp(rng.uniform(-30.0, 30.0, 2)))
        check(quotient(a, b), lambda x, exact=Fraction(a) / Fraction(b): Fraction(x) - exact)
        count = int(rng.integers(1, 10**6))
        square = Fraction(a) ** 2 / count
        check(over_root(a, count), lambda x, square=square: Fraction(x) ** 2 - square)


def test_a_rounded_quotient_is_not_exact() -> None:
    """What the two ends are for: the double 1/3 is below the third."""
    third = quotient(1, 3)
    assert third.low == 1.0 / 3.0 < third.high
