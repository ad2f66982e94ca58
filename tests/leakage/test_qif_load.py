"""Expected largest and smallest loads, and what they are made of, against counting and mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles import loads as oracle

from shuffle_accountant.leakage import qif
from shuffle_accountant.leakage.qif import load
from shuffle_accountant.leakage.qif.load import (
    Bins,
    Occupancy,
    log_characteristic,
    maximum_moments,
    sum_over_integers,
)
from shuffle_accountant.numerics.probabilities import Side, log_pmf, window

# One chance is rounded by some 1e-14; up to forty of them are added.
ROUND_OFF = 1e-12


@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 2), (1, 9), (2, 3), (3, 3), (7, 3), (8, 5), (5, 12), (24, 4), (30, 3), (12, 40)],
)
def test_equal_bins(n, k):
    theta = [Fraction(1, k)] * k
    most = qif.expected_maximum_load(users=n, categories=k)
    assert most == pytest.approx(float(oracle.expected_maximum(n, theta)), abs=ROUND_OFF)
    least = qif.expected_minimum_load(users=n, categories=k)
    assert least == pytest.approx(float(oracle.expected_minimum(n, theta)), abs=ROUND_OFF)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=5).filter(any), st.integers(1, 12))
@example([1, 0], 3)
@example([12, 1, 1], 12)
@example([3, 3, 1, 1, 1], 11)
def test_unequal_bins(parts, n):
    theta = [Fraction(part, sum(parts)) for part in parts]
    numbers = [float(weight) for weight in theta]
    most = qif.expected_maximum_load_of(numbers, users=n)
    assert most == pytest.approx(float(oracle.expected_maximum(n, theta)), abs=ROUND_OFF)
    least = qif.expected_minimum_load_of(numbers, users=n)
    assert least == pytest.approx(float(oracle.expected_minimum(n, theta)), abs=ROUND_OFF)
    shuffled = qif.posterior_vulnerability_shuffle_of(numbers, users=n)
    assert max(numbers) - ROUND_OFF <= shuffled <= 1.0


@pytest.mark.parametrize("n", [10, 1001, 10**4, 10**6])
@pytest.mark.parametrize("side", list(Side))
def test_thresholds_agree_with_the_closed_form_of_two_bins(n, side):
    # two bins need the most frequencies: their transforms fall most slowly
    summed = load._by_thresholds(n, [(0.5, 2)], True, side)
    closed = load._two_bins(n, 0.5, side)
    # up to 10 sqrt(n) chances
    assert summed == pytest.approx(closed, abs=1e-14 * 10 * math.sqrt(n))


@pytest.mark.slow
@pytest.mark.parametrize("larger", [0.5, 0.5001, 0.6, 0.97])
@pytest.mark.parametrize("n", [1, 2, 9, 400])
def test_two_bins_by_a_plain_sum(n, larger):
    theta = Fraction(larger)
    truth = sum(
        max(i, n - i) * math.comb(n, i) * theta**i * (1 - theta) ** (n - i) for i in range(n + 1)
    )
    assert load._two_bins(n, larger, Side.ABOVE) == pytest.approx(float(truth), rel=1e-14)
    assert load._two_bins(n, larger, Side.BELOW) == pytest.approx(float(n - truth), abs=1e-12)


def test_three_bins_by_a_plain_double_sum():
    n = 1500
    i, j = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    inside = i + j <= n
    i, j = i[inside], j[inside]
    log_factorial = np.append(0.0, np.cumsum(np.log(np.arange(1.0, n + 1))))
    rest = n - i - j
    chance = np.exp(
        log_factorial[n]
        - sum(log_factorial[part.astype(int)] for part in (i, j, rest))
        - n * math.log(3.0)
    )
    # logarithms of size 10^4 are rounded by 1e-12, mostly alike, which cancels here
    truth = float(np.sum(chance * np.maximum(np.maximum(i, j), rest)) / np.sum(chance))
    assert qif.expected_maximum_load(users=n, categories=3) == pytest.approx(truth, rel=2e-12)


@pytest.mark.parametrize("k", [3, 40])
def test_the_expansion_takes_over_without_a_step(monkeypatch, k):
    n = 10**6 * k
    exact = [load._expected(n, [(1.0 / k, k)], side) for side in Side]
    monkeypatch.setattr(load, "_LARGE_MEAN", 1e5)
    expanded = [load._expected(n, [(1.0 / k, k)], side) for side in Side]
    # the next term is below 0.3/sqrt(mean) for 100 bins; of opposite sign for the least load
    for one, other in zip(exact, expanded, strict=True):
        assert one == pytest.approx(other, abs=0.3e-3)


def test_tied_bins_among_others():
    # above a mean of 1e8 the expansion, below it the thresholds, with a bin that never wins
    for n in (3 * 10**7, 3 * 10**9):
        found = qif.expected_maximum_load_of([0.3, 0.3, 0.3, 0.1], users=n)
        mean = 0.3 * n
        first, second = maximum_moments(3)
        expansion = mean + first * math.sqrt(mean) + (second - 1.0) / 6.0
        assert found == pytest.approx(expansion, abs=1.0 / math.sqrt(mean) + 1e-15 * n)
    assert qif.expected_maximum_load_of([0.6, 0.3, 0.1], users=10**9) == 0.6 * 10**9
    assert qif.expected_minimum_load_of([0.6, 0.3, 0.1], users=10**9) == 0.1 * 10**9


def test_nearly_tied_bins_lie_between_tied_and_one():
    n, gap = 10**6, 5e-4
    tied = qif.expected_maximum_load_of([0.3, 0.3, 0.4 - 0.2, 0.2], users=n)
    near = qif.expected_maximum_load_of([0.3, 0.3 - gap, 0.2 + gap, 0.2], users=n)
    assert 0.3 * n < near < tied
    # two bins, of total 0.6 n - 500: their difference is nearly normal
    mean, spread = gap * n, math.sqrt((0.6 - gap) * n)
    z = mean / spread
    overlap = spread * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    overlap -= mean * 0.5 * math.erfc(z / math.sqrt(2.0))
    assert near == pytest.approx(0.3 * n + overlap, abs=0.01)  # O(1/sqrt n), and 1e-3 seen


@pytest.mark.parametrize("side", list(Side))
def test_chances_with_a_free_bin_are_counts(side):
    n, theta = 9, [Fraction(1, 5), Fraction(1, 5), Fraction(1, 10)]
    thresholds = np.arange(n + 1)
    bins = [Bins(window(n * 0.2), 2), Bins(window(n * 0.1), 1)]
    found = Occupancy(n, bins, n * 0.5, side).chances(thresholds)
    for m, chance in zip(thresholds.tolist(), found, strict=True):
        low, high = (0, m) if side is Side.ABOVE else (m, n)
        # whatever is left goes to the free bin
        truth = Fraction(0)
        for count in range(n + 1):
            weight = math.comb(n, count) * Fraction(1, 2) ** n
            truth += weight * oracle.chance(count, [2 * t for t in theta], low, min(high, count))
        assert chance == pytest.approx(float(truth), abs=ROUND_OFF)


@pytest.mark.parametrize("k", [3, 11, 500])
@pytest.mark.parametrize("side", list(Side))
def test_both_transforms_and_all_frequencies_agree(monkeypatch, k, side):
    n = 5000 * k
    thresholds = np.arange(5000 - 200, 5000 + 400, 37)
    bins = [Bins(window(5000.0), k)]
    found = Occupancy(n, bins, 0.0, side).chances(thresholds)
    monkeypatch.setattr(load, "_DIRECT", 0)
    fast = Occupancy(n, bins, 0.0, side).chances(thresholds)
    monkeypatch.setattr(load, "_NEGLECTED", 0.0)
    every = Occupancy(n, bins, 0.0, side).chances(thresholds)
    assert np.max(np.abs(found - fast)) < ROUND_OFF
    assert np.max(np.abs(found - every)) < ROUND_OFF
    assert np.ptp(found) > 0.0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 2000), st.integers(2, 2000))
def test_order_of_loads(n, k):
    most = qif.expected_maximum_load(users=n, categories=k)
    least = qif.expected_minimum_load(users=n, categories=k)
    assert max(1.0, n / k) - 1e-9 <= most <= n + 1e-9
    assert 0.0 <= least <= n // k + 1e-9
    # n - max is spread over the others, the emptiest of which has no more than their mean
    assert least <= (n - most) / (k - 1) + 1e-9


@pytest.mark.parametrize("k", [2, 3, 10**3, 10**6, 10**12, 2**53])
@pytest.mark.parametrize("n", [1, 3, 10**6, 10**12, 2**53])
def test_every_size_has_an_answer(n, k):
    most = qif.expected_maximum_load(users=n, categories=k)
    assert max(1.0, n / k) <= most * (1 + 1e-12)
    assert most <= n
    least = qif.expected_minimum_load(users=n, categories=k)
    assert 0.0 <= least <= n / k


def test_a_ball_in_as_many_bins_as_balls():
    # birthdays: P(max = 1) = k!/(k^n (k - n)!) to first order 1 - n(n - 1)/(2k)
    n, k = 1000, 10**12
    found = qif.expected_maximum_load(users=n, categories=k)
    pairs = n * (n - 1) / 2 / k
    assert found - 1.0 == pytest.approx(pairs, rel=1e-6)  # pairs^2 and triples are 1e-7 of it


@pytest.mark.parametrize("mean", [1e-12, 0.3, 40.0, 1e6, 1e8])
def test_poisson_probabilities(mean):
    reach = math.sqrt(mean)
    counts = sorted({max(round(mean + t * reach), 0) for t in (-9, -1, 0, 0.5, 3, 12)} | {0, 1, 2})
    found = log_pmf(np.array(counts, dtype=float), mean)
    with mpmath.workdps(60):
        for count, value in zip(counts, found.tolist(), strict=True):
            truth = count * mpmath.log(mean) - mean - mpmath.loggamma(count + 1)
            if truth > -1000:
                assert value == pytest.approx(float(truth), abs=2e-15 * (5 - value))


def test_window_sums_and_tails():
    law = window(30.0)
    assert math.fsum(law.masses) == pytest.approx(1.0, abs=1e-14)
    assert law.first == 0
    with mpmath.workdps(40):
        for m in (0, 20, 31, 60, 120):
            below = mpmath.nsum(lambda i: 30**i / mpmath.factorial(i), [0, m]) * mpmath.exp(-30)
            above = float(1 - below)
            assert law.tail(np.array([m]), Side.ABOVE)[0] == pytest.approx(above, rel=1e-12)
            assert law.tail(np.array([m + 1]), Side.BELOW)[0] == pytest.approx(float(below))
    edges = np.array([-1, 10**6])
    assert law.tail(edges, Side.ABOVE).tolist() == [1.0, 0.0]
    assert law.tail(edges, Side.BELOW).tolist() == [0.0, 1.0]


def test_log_characteristic_near_and_far_from_zero():
    angles = np.array([0.0, 1e-9, 1e-5, 0.01, 0.49, 0.51, 3.0, math.pi])
    found = log_characteristic(7.0, angles)
    with mpmath.workdps(60):
        for t, value in zip(angles.tolist(), found.tolist(), strict=True):
            truth = complex(7 * (mpmath.expj(t) - 1 - 1j * mpmath.mpf(t)))
            assert value.real == pytest.approx(truth.real, rel=1e-15 * 4)
            assert value.imag == pytest.approx(truth.imag, rel=1e-14)


def test_moments_of_the_normal_maximum():
    assert maximum_moments(1) == pytest.approx((0.0, 1.0), abs=1e-14)
    assert maximum_moments(2) == pytest.approx((1 / math.sqrt(math.pi), 1.0), abs=1e-14)
    three = (1.5 / math.sqrt(math.pi), 1 + math.sqrt(3) / (2 * math.pi))
    assert maximum_moments(3) == pytest.approx(three, abs=1e-14)
    for k, mean in ((5, 1.16296), (10, 1.53875), (100, 2.50759)):
        assert maximum_moments(k)[0] == pytest.approx(mean, abs=5e-6)
    with mpmath.workdps(30):
        k = 10**9

        def density(x):
            return k * mpmath.npdf(x) * mpmath.ncdf(x) ** (k - 1)

        panels = [2, 4, 5, 5.5, 6, 6.5, 7, 8, 10, 14]
        mean = mpmath.quad(lambda x: x * density(x), panels)
        square = mpmath.quad(lambda x: x * x * density(x), panels)
    assert maximum_moments(k) == pytest.approx((float(mean), float(square)), rel=1e-11)


@pytest.mark.parametrize(("first", "last"), [(5, 4), (-3, 3), (0, 1000), (-(10**6), 10**6)])
def test_sums_of_smooth_functions(first, last):
    scale = max(abs(first), abs(last), 1)

    def cubic(m):
        x = m / scale
        return 1.0 - 0.5 * x + x**3

    count = max(last - first + 1, 0)
    linear = (first + last) * count / 2
    cubes = ((last * (last + 1)) // 2) ** 2 - (((first - 1) * first) // 2) ** 2 if count else 0
    truth = count - 0.5 * linear / scale + cubes / scale**3
    found = sum_over_integers(cubic, first, last, tolerance=1e-12)
    # each value of the polynomial is a sum of 64 rounded terms
    assert found == pytest.approx(truth, abs=1e-14 * max(count, 10))


def test_sums_of_a_bell_and_of_a_step():
    # by the Poisson summation formula the sum is the integral to far below rounding
    bell = sum_over_integers(
        lambda m: np.exp(-0.5 * (m / 1000.0) ** 2), -9000, 9000, tolerance=1e-12
    )
    assert bell == pytest.approx(1000.0 * math.sqrt(2 * math.pi), rel=1e-13)
    step = sum_over_integers(lambda m: (m >= 777) * 1.0, 0, 5000, tolerance=1e-12)
    assert step == 5001 - 777
