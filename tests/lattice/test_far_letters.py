"""Expected positive parts of sums with letters far above and below all others."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice.far_letters import _Parts, far_positive_part
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.tilting import Letters, saddle
from shuffle_accountant.numerics.rounding import roundings


def truth_of(value: list[float], mass: list[Fraction], count: int) -> Fraction:
    """Every multiset of the letters, in exact arithmetic."""
    total = Fraction(0)
    for letters in itertools.combinations_with_replacement(range(len(value)), count):
        sums = sum((Fraction(value[i]) for i in letters), Fraction(0))
        if sums > 0:
            ways = math.factorial(count)
            chance = Fraction(1)
            for i in set(letters):
                ways //= math.factorial(letters.count(i))
                chance *= mass[i] ** letters.count(i)
            total += ways * chance * sums
    return total


@st.composite
def uneven(draw: st.DrawFn) -> tuple[list[float], list[Fraction], int]:
    """A few ordinary letters, and rare ones a million times further out on either side."""
    ordinary = draw(st.lists(st.floats(-1.5, 1.0), min_size=2, max_size=3))
    far = draw(st.lists(st.floats(1e3, 1e6), max_size=2))
    low = draw(st.lists(st.floats(-1e6, -1e3), max_size=1))
    rare = [Fraction(draw(st.integers(1, 64)), 2**40) for _ in (*far, *low)]
    weights = [draw(st.integers(1, 8)) for _ in ordinary]
    rest = 1 - sum(rare, Fraction(0))
    common = [rest * weight / sum(weights) for weight in weights]
    return [*ordinary, *far, *low], [*common, *rare], draw(st.integers(2, 6))


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=150)
@given(uneven())
def test_both_ends_against_all_multisets(law: tuple[list[float], list[Fraction], int]) -> None:
    value, mass, count = law
    truth = truth_of(value, mass, count)
    letters = Letters(np.array(value), np.array([float(p) for p in mass]), count)
    # masses are rounded to doubles
    low, high = (
        far_positive_part(letters, side, slack=roundings(2), variance=1e-3)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    assert low is None or Fraction(low) <= truth
    assert high is None or truth <= Fraction(high)


@pytest.mark.parametrize("far", [1e4, 1e7])
def test_one_far_letter_is_as_good_as_known(far: float) -> None:
    """Among ten letters of a bulk that is rarely positive, to the last 1e-4."""
    rare = Fraction(1, 2**40)
    value, mass = [-1.0, 0.5, far], [Fraction(1, 2), Fraction(1, 2) - rare, rare]
    truth = float(truth_of(value, mass, 10))
    letters = Letters(np.array(value), np.array([float(p) for p in mass]), 10)
    low, high = (
        far_positive_part(letters, side, slack=roundings(2), variance=1e-5)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    assert low is not None
    assert high is not None
    assert low <= truth <= high <= low * (1 + 1e-4)


def test_each_end_takes_its_own_bound_of_what_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of the far letters' part that are wider make the answer's wider by as much."""
    rare = 2.0**-40
    letters = Letters(np.array([-1.0, 0.5, 1e4]), np.array([0.5, 0.5 - rare, rare]), 10)
    # nearly all that the far letter adds
    far = 10 * rare * (1e4 - 9 * 0.25)

    def ends() -> list[float]:
        return [
            far_positive_part(letters, side, slack=0.0, variance=1e-2) or math.nan
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        ]

    low, high = ends()
    least, most = _Parts.lower, _Parts.upper
    monkeypatch.setattr(_Parts, "lower", lambda parts: least(parts) - 1e-4 * far)
    monkeypatch.setattr(_Parts, "upper", lambda parts: most(parts) + 1e-4 * far)
    wider = ends()
    assert wider == pytest.approx([low - 1e-4 * far, high + 1e-4 * far], rel=1e-12)


def test_nothing_is_claimed_where_far_letters_meet() -> None:
    """Those above and those below are as likely together as alone."""
    letters = Letters(np.array([-1.0, 0.5, 1e6, -1e6]), np.array([0.5, 0.498, 1e-3, 1e-3]), 400)
    for side in Bound:
        assert far_positive_part(letters, side, slack=0.0, variance=1e-9) is None


def test_tilt_puts_the_mean_at_zero() -> None:
    letters = Letters(np.array([-1.0, 0.2, 3.0]), np.array([0.7, 0.2, 0.1]), 1000)
    theta = saddle(letters)
    mean = letters.cumulants(theta)[1]
    deviation = math.sqrt(letters.cumulants(theta)[2] / letters.count)
    assert abs(mean) <= 0.5 * deviation  # "about 0"; the exact place only costs width
    assert saddle(Letters(np.array([-1.0, 0.0]), np.array([0.5, 0.5]), 10)) == math.inf


def test_errors_of_masses_count_for_every_letter() -> None:
    """If masses are off by one part in 1e6, so is each of the n factors of a probability."""
    rare, n, off = 2.0**-40, 10, 1e-6
    letters = Letters(np.array([-1.0, 0.5, 1e4]), np.array([0.5, 0.5 - rare, rare]), n)
    low, high = Bound.OPTIMISTIC, Bound.PESSIMISTIC
    exact = {side: far_positive_part(letters, side, slack=0.0, variance=1e-2) for side in Bound}
    found = {side: far_positive_part(letters, side, slack=off, variance=1e-2) for side in Bound}
    assert found[high] >= exact[high] * (1.0 + off) ** n
    assert 0.0 < found[low] <= exact[low] * (1.0 - off) ** n
