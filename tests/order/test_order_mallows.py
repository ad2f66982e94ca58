"""Mallows laws against the list of all permutations, and at n = 1000 against their moments.

Seeds are fixed, so a test that passes always passes. Chi-square tests reject below a p-value of
1e-4; there are twelve, so a correct sampler would have had a chance of one in a thousand to fail.
"""

import json
import math
from collections import Counter
from itertools import permutations
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import orders
from scipy.stats import chi2

from shuffle_accountant.order import MallowsCayley, MallowsHamming, MallowsKendall
from shuffle_accountant.order import mallows as decoding
from shuffle_accountant.order.mallows import DISTANCES

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "dsigma.json").read_text())
LAWS = [MallowsKendall, MallowsHamming, MallowsCayley]
NAMES = {MallowsKendall: "kendall", MallowsHamming: "hamming", MallowsCayley: "cayley"}


def cases(name):
    return [case for case in REFERENCES if case["name"] == name]


# -- distances


@pytest.mark.parametrize("name", list(orders.DISTANCES))
def test_distances_of_all_short_permutations(name):
    for n in range(1, 7):
        for s in permutations(range(n)):
            assert DISTANCES[name](np.array(s)) == orders.DISTANCES[name](s)


@pytest.mark.parametrize("name", list(orders.DISTANCES))
def test_distances_of_long_permutations(name):
    rng = np.random.default_rng(8)
    for n in (63, 64, 65, 200):
        s = rng.permutation(n)
        assert DISTANCES[name](s) == orders.DISTANCES[name](s.tolist())


@pytest.mark.parametrize("name", ["kendall_tau", "hamming"])
def test_reference_distances(name):
    (case,) = cases(name)
    assert case["inputs"]["a"] == list(range(1, 11))
    distance = DISTANCES["kendall" if name == "kendall_tau" else name]
    assert distance(np.array(case["inputs"]["b"]) - 1) == case["value"]


# -- decoding


def naive_decode(codes):
    unused = list(range(len(codes)))
    return [unused.pop(code) for code in codes]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_both_ways_of_decoding_agree_with_a_list(n, seed):
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) ** rng.integers(1, 5) * np.arange(n, 0, -1)).astype(np.int64)
    expected = naive_decode(codes.tolist())
    assert decoding.decode(codes).tolist() == expected
    assert decoding.decode_by_doubling(codes).tolist() == expected


def test_the_reference_code():
    (case,) = cases("kendall_decode_codes")
    codes = np.array(case["inputs"]["codes"])
    assert decoding.decode(codes).tolist() == case["value"]
    assert decoding.decode_by_doubling(codes).tolist() == case["value"]


def test_without_compiled_loops_nothing_changes(monkeypatch):
    law = MallowsKendall(1000, 0.02)
    expected = law.sample(np.random.default_rng(4))
    monkeypatch.setattr(decoding, "compiled", lambda function: function)
    assert (law.sample(np.random.default_rng(4)) == expected).all()


def test_the_loop_itself(monkeypatch):
    # as Python runs it: the compiled one is this, and coverage does not see into it
    monkeypatch.setattr(decoding, "compiled", lambda function: lambda *inputs: function(*inputs))
    codes = (np.random.default_rng(0).random(37) * np.arange(37, 0, -1)).astype(np.int64)
    assert decoding.decode(codes).tolist() == naive_decode(codes.tolist())


# -- laws


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("theta", [0.0, 0.3, 1.2, 4.0])
def test_samples_follow_the_law(law, theta):
    n, draws = 4, 4_000
    rng = np.random.default_rng(20)
    model = law(n, theta)
    counts = Counter(tuple(model.sample(rng).tolist()) for _ in range(draws))
    truth = orders.mallows(n, theta, NAMES[law])
    assert set(counts) <= set(truth)
    # cells of fewer than five expected draws are put together
    expected = {s: float(mass) * draws for s, mass in truth.items()}
    rare = [s for s in truth if expected[s] < 5]
    cells = [(counts[s], expected[s]) for s in truth if expected[s] >= 5]
    if rare:
        cells.append((sum(counts[s] for s in rare), sum(expected[s] for s in rare)))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    assert chi2.sf(statistic, len(cells) - 1) > 1e-4


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("theta", [0.0, 1e-12, 0.01, 0.7, 3.0, 30.0])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_normaliser_moments_and_masses(law, theta, n):
    model, name = law(n, theta), NAMES[law]
    truth = orders.mallows(n, theta, name)
    measure = orders.DISTANCES[name]
    mean = sum(mass * measure(s) for s, mass in truth.items())
    variance = sum(mass * (measure(s) - mean) ** 2 for s, mass in truth.items())
    # a few roundings of numbers of the size of log n! and n²
    assert model.log_psi() == pytest.approx(
        float(orders.log_normaliser(n, theta, name)), rel=1e-13, abs=1e-14
    )
    assert model.mean_distance() == pytest.approx(float(mean), rel=1e-12, abs=1e-18)
    assert model.var_distance() == pytest.approx(float(variance), rel=1e-12, abs=1e-18)
    for s, mass in list(truth.items())[:: max(len(truth) // 30, 1)]:
        assert model.logpmf(s) == pytest.approx(float(mpmath.log(mass)), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("theta", [0.002, 0.05, 1.0, 6.5])
def test_a_thousand_entries_have_the_moments(law, theta):
    model, draws = law(1000, theta), 150
    rng = np.random.default_rng(77)
    measure = DISTANCES[NAMES[law]]
    seen = np.array([measure(model.sample(rng)) for _ in range(draws)])
    mean, variance = model.mean_distance(), model.var_distance()
    # five standard errors: of the mean, and of the variance of a law with little excess kurtosis
    assert abs(seen.mean() - mean) < 5 * math.sqrt(variance / draws)
    assert abs(seen.var(ddof=1) / variance - 1) < 5 * math.sqrt(3.5 / draws)


def test_kendalls_samples_move_by_one_over_theta():
    model = MallowsKendall(20_000, 0.01)
    moved = np.abs(model.sample(np.random.default_rng(0)) - np.arange(20_000))
    assert 50 < moved.mean() < 200


def test_hammings_fixed_points_at_a_thousand():
    model, rng = MallowsHamming(1000, 5.0), np.random.default_rng(5)
    fixed = np.zeros(1000)
    for _ in range(400):
        fixed += model.sample(rng) == np.arange(1000)
    # no entry is favoured: all have the same binomial count, within five standard deviations
    p = 1.0 - model.mean_distance() / 1000
    assert np.abs(fixed - 400 * p).max() < 5 * math.sqrt(400 * p * (1 - p))


# -- closed forms in many digits


@pytest.mark.parametrize("case", cases("kendall_log_psi"), ids=str)
def test_reference_kendall_normaliser(case):
    model = MallowsKendall(case["inputs"]["n"], case["inputs"]["theta"])
    assert model.log_psi() == pytest.approx(case["value"], abs=case["abs_tol"])


@pytest.mark.parametrize("case", cases("hamming_log_psi"), ids=str)
def test_reference_hamming_normaliser(case):
    model = MallowsHamming(case["inputs"]["n"], case["inputs"]["theta"])
    assert model.log_psi() == pytest.approx(case["value"], abs=case["abs_tol"])


@pytest.mark.parametrize("case", cases("kendall_mean_distance"), ids=str)
def test_reference_kendall_mean(case):
    model = MallowsKendall(case["inputs"]["n"], case["inputs"]["theta"])
    assert model.mean_distance() == pytest.approx(case["value"], abs=case["abs_tol"])


@pytest.mark.parametrize("theta", [1e-15, 1e-9, 1e-5, 3e-3, 0.5, 2.0, 40.0])
def test_kendalls_moments_in_many_digits(theta):
    n = 300
    with mpmath.workdps(60):
        t = mpmath.mpf(theta)
        mean = sum(1 / mpmath.expm1(t) - i / mpmath.expm1(i * t) for i in range(1, n + 1))
        variance = sum(
            mpmath.exp(t) / mpmath.expm1(t) ** 2
            - i * i * mpmath.exp(i * t) / mpmath.expm1(i * t) ** 2
            for i in range(1, n + 1)
        )
        log_psi = sum(mpmath.log(mpmath.expm1(-i * t) / mpmath.expm1(-t)) for i in range(1, n + 1))
        expected = float(mean), float(variance), float(log_psi)
    model = MallowsKendall(n, theta)
    # terms of one sign that are each good to a few roundings; below 1e-13 theta rounds to 0, which
    # changes the mean by theta times the variance
    for found, truth in zip(
        (model.mean_distance(), model.var_distance(), model.log_psi()), expected, strict=True
    ):
        assert found == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("n", [50, 2000])
@pytest.mark.parametrize("theta", [0.01, 1.0, 3.9, 3.92, 7.6, 7.61, 12.0, 50.0])
def test_hammings_sums_in_many_digits(n, theta):
    with mpmath.workdps(60):
        rate = mpmath.expm1(mpmath.mpf(theta))
        term, total, first, second = mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
        for pinned in range(n + 1):
            if pinned:
                term *= rate / pinned
            free = n - pinned
            total += term
            # a uniform permutation moves free - 1 on average, with variance 1, if free >= 2
            moved = max(free - 1, 0)
            first += term * moved
            second += term * (moved**2 + (free >= 2))
        log_psi = mpmath.log(total) + mpmath.loggamma(n + 1) - n * mpmath.mpf(theta)
        mean = first / total
        expected = float(log_psi), float(mean), float(second / total - mean**2)
    model = MallowsHamming(n, theta)
    # log psi is a difference of numbers of the size of log n! ~ 1.3e4, which is where digits go
    assert model.log_psi() == pytest.approx(expected[0], rel=1e-10, abs=2e-11)
    assert model.mean_distance() == pytest.approx(expected[1], rel=1e-11)
    assert model.var_distance() == pytest.approx(expected[2], rel=1e-10)


# -- ends


@pytest.mark.parametrize("law", LAWS)
def test_infinite_theta_is_the_identity(law):
    model = law(7, math.inf)
    assert model.sample(np.random.default_rng(0)).tolist() == list(range(7))
    assert (model.log_psi(), model.mean_distance(), model.var_distance()) == (0.0, 0.0, 0.0)
    assert model.logpmf(range(7)) == 0.0
    assert model.logpmf([1, 0, 2, 3, 4, 5, 6]) == -math.inf


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("theta", [600.0, 800.0, 1e5, 1.7e308])
def test_huge_theta_neither_overflows_nor_moves_anything(law, theta):
    model = law(1000, theta)
    assert (model.sample(np.random.default_rng(0)) == np.arange(1000)).all()
    # one adjacent swap has mass e^-theta times the identity's; there are fewer than n² of them
    assert 0.0 <= model.log_psi() <= 1e6 * math.exp(-theta)
    assert 0.0 <= model.mean_distance() <= 2e6 * math.exp(-theta)
    assert 0.0 <= model.var_distance() <= 4e6 * math.exp(-theta)
    swapped = [1, 0, *range(2, 1000)]
    assert model.logpmf(swapped) <= -theta


@pytest.mark.parametrize("law", LAWS)
def test_tiny_theta_is_the_uniform_law(law):
    for theta in (5e-324, 1e-300, 1e-30):
        model, uniform = law(50, theta), law(50, 0.0)
        assert model.log_psi() == uniform.log_psi() == pytest.approx(math.lgamma(51), rel=1e-14)
        assert model.mean_distance() == uniform.mean_distance()
        rng = np.random.default_rng(0)
        assert sorted(model.sample(rng).tolist()) == list(range(50))


@pytest.mark.parametrize("law", LAWS)
def test_moments_do_not_jump(law):
    # across the places where formulas change hands
    for n in (10, 1000):
        grid = np.geomspace(1e-4, 20.0, 400)
        means = [law(n, float(theta)).mean_distance() for theta in grid]
        assert (np.diff(means) <= 1e-9 * np.array(means[1:])).all()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("n", "theta", "error", "message"),
    [
        (0, 1.0, ValueError, "users must be an integer >= 1 and <= 100000000, got 0"),
        (
            2.5,
            1.0,
            TypeError,
            "users must be an integer >= 1 and <= 100000000, got 2.5 of type float",
        ),
        (3, -0.1, ValueError, r"theta must be a number >= 0 \(inf allowed\), got -0.1"),
        (3, math.nan, ValueError, "theta must be a number >= 0"),
        (3, "1", TypeError, "theta must be a number >= 0"),
    ],
)
def test_bad_parameters(law, n, theta, error, message):
    with pytest.raises(error, match=message):
        law(n, theta)


@pytest.mark.parametrize("law", LAWS)
def test_bad_arguments(law):
    model = law(3, 1.0)
    with pytest.raises(TypeError, match=r"rng must be an integer >= 0, got 0\.5"):
        model.sample(0.5)
    with pytest.raises(ValueError, match=r"permutation must have shape \(3,\), got \(2,\)"):
        model.logpmf([0, 1])
    with pytest.raises(ValueError, match=r"permutation must hold each of 0\.\.2 once"):
        model.logpmf([0, 1, 1])


def test_laws_are_values():
    assert MallowsKendall(3, 1.0) == MallowsKendall(3, 1)
    assert MallowsKendall(3, 1.0) != MallowsCayley(3, 1.0)
    assert len({MallowsHamming(3, 1.0), MallowsHamming(3, 1.0)}) == 1
