"""Preservation against all permutations, against other sums for the same law, and by sampling.

Independent re-derivation: `oracles.leavers` lists permutations, follows an interval slot by slot,
and counts by moved points; mpmath sums the mixture of marked fixed points. All of it in exact or
40-digit arithmetic.
"""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import leavers as oracle
from oracles.order_references import references
from oracles.precision import MP
from scipy import stats

import shuffle_accountant.order.tails as tails
from shuffle_accountant.order.preservation import (
    clopper_pearson,
    fewest_leavers,
    preservation_delta,
    preservation_mc,
    share,
)

# What the package states for sets of this size: round-off, and mass left out inside the order.
RTOL, LEFT_OUT = 1e-11, 1e-18
Q = Fraction(3, 4)
# A float theta is e^-theta = 3/4 to a few units, and the power of e^-theta is at most 15 for n = 6.
THETA = -math.log(0.75)


def eta_for(size: int, leavers: int) -> Fraction:
    """The share for which so many leavers are the fewest that fail."""
    return 1 - Fraction(leavers - 1, size)


def assert_encloses(found: Any, truth: Any) -> None:
    """The bracket, widened by the half unit of theta of up to 30 moves, holds it and is narrow."""
    slack = 1e-14 * float(truth)
    assert found.lower - slack <= float(truth) <= found.upper + slack
    assert found.width <= RTOL * found.upper + LEFT_OUT


@pytest.mark.parametrize("reference", references("hamming_preservation_delta"))
def test_reference_delta(reference: dict[str, Any]) -> None:
    given_ = reference["inputs"]
    found = preservation_delta(
        given_["n"], given_["l"], Fraction(given_["eta"]), given_["theta"], "hamming"
    )
    assert found.leavers == given_["J"]
    assert found == pytest.approx(reference["value"], abs=reference["abs_tol"])
    # 16 digits of the value are known
    assert found.lower <= reference["value"] * (1 + 1e-15)
    assert found.upper >= reference["value"] * (1 - 1e-15)


@pytest.mark.parametrize("reference", references("hamming_preservation_log10_delta"))
def test_reference_logarithm(reference: dict[str, Any]) -> None:
    given_ = reference["inputs"]
    found = preservation_delta(
        given_["n"], given_["l"], Fraction(given_["eta"]), given_["theta"], "hamming"
    )
    assert found.log10 == pytest.approx(reference["value"], abs=reference["abs_tol"])


@pytest.mark.parametrize("reference", references("kendall_prefix_mean_leavers"))
def test_reference_mean_of_an_end(reference: dict[str, Any]) -> None:
    n, size, theta = (reference["inputs"][name] for name in ("n", "l", "theta"))
    # the mean is the sum of the tails; beyond 250 leavers there is nothing
    mean = math.fsum(
        preservation_delta(n, size, eta_for(size, j), theta, "kendall", interval=(0, size))
        for j in range(1, 250)
    )
    assert mean == pytest.approx(reference["value"], abs=reference["abs_tol"])


@pytest.mark.parametrize("reference", references("c_h"))
def test_reference_counts_are_the_oracle_s(reference: dict[str, Any]) -> None:
    given_ = reference["inputs"]
    numbers = given_["n"], given_["l"], given_["min_leavers"], given_["h"]
    assert oracle.moving(*numbers) == reference["value"]


def test_reference_arrangements_are_the_oracle_s() -> None:
    (reference,) = references("f_forbidden")
    pairs = reference["inputs"]["pairs"]
    assert [oracle.arrangements(*pair) for pair in pairs] == reference["value"]


@pytest.mark.parametrize("n", range(1, 8))
def test_hamming_against_all_permutations(n: int) -> None:
    for size in range(1, n + 1):
        law = oracle.law(n, frozenset(range(size)), Q, "hamming")
        for j in range(1, size + 1):
            found = preservation_delta(n, size, eta_for(size, j), THETA)
            assert found.leavers == j
            assert_encloses(found, sum(law[j:]))


@pytest.mark.parametrize("n", range(1, 7))
def test_every_interval_under_kendall_against_all_permutations(n: int) -> None:
    for start in range(n):
        for size in range(1, n - start + 1):
            law = oracle.law(n, frozenset(range(start, start + size)), Q, "kendall")
            for j in range(1, size + 1):
                eta = eta_for(size, j)
                assert_encloses(
                    preservation_delta(n, size, eta, THETA, "kendall", interval=(start, size)),
                    sum(law[j:]),
                )


@pytest.mark.parametrize(("n", "size"), [(12, 5), (25, 10), (30, 29), (30, 3)])
@pytest.mark.parametrize("q", [Fraction(1, 1), Fraction(1, 5), Fraction(1, 1000)])
def test_hamming_against_the_sum_over_moved_points(n: int, size: int, q: Fraction) -> None:
    theta = -math.log(q)
    for j in range(1, min(size, n - size) + 1):
        truth = oracle.hamming_by_moved_points(n, size, j, q)
        found = preservation_delta(n, size, eta_for(size, j), theta)
        assert_encloses(found, truth)


@pytest.mark.parametrize(("start", "size"), [(0, 8), (16, 8), (5, 9), (1, 22), (11, 2)])
@pytest.mark.parametrize("theta", [0.0, 0.05, 0.4, 3.0])
def test_intervals_against_the_recursion_over_slots(start: int, size: int, theta: float) -> None:
    n = 24
    law = oracle.kendall_by_slots(n, start, size, MP.exp(-MP.mpf(theta)))
    for j in range(1, size + 1):
        found = preservation_delta(
            n, size, eta_for(size, j), theta, "kendall", interval=(start, size)
        )
        truth = sum(law[j:])
        assert found.lower <= truth * (1 + 1e-30)
        assert found.upper >= truth * (1 - 1e-30)
        assert found.width <= 1e-10 * found.upper + LEFT_OUT


@pytest.mark.parametrize(
    ("n", "size", "leavers", "theta"),
    [(600, 300, 280, 7.0), (600, 300, 150, 5.5), (1000, 40, 39, 9.0), (700, 350, 340, 0.0)],
)
def test_far_tails_keep_relative_accuracy(n: int, size: int, leavers: int, theta: float) -> None:
    # the mixture: f marked points of Poisson's law, the others permuted uniformly
    rate = MP.expm1(MP.mpf(theta))
    side = [
        {
            j: sum(
                rate**s / MP.factorial(s) * MP.binomial(m - s, j)
                for s in range(m - j + 1)
                # e^-theta n/2 marks at least: the rest is below 1e-40 of the largest
                if theta or s == 0
            )
            for j in range(leavers, min(leavers + 12, size, n - size) + 1)
        }
        for m in (size, n - size)
    ]
    whole = MP.binomial(n, size) * sum(
        rate**s / MP.factorial(s) for s in range(n + 1) if theta or s == 0
    )
    truth = sum(side[0][j] * side[1][j] for j in side[0]) / whole
    found = preservation_delta(n, size, eta_for(size, leavers), theta)
    # what follows the twelve terms is below 1e-10 of them here, when they fall by ten each
    assert found.log == pytest.approx(float(MP.log(truth)), rel=1e-12, abs=1e-8)
    assert found.log_lower - 1e-8 <= MP.log(truth) <= found.log


def test_a_delta_that_no_float_holds() -> None:
    found = preservation_delta(10**6, 5 * 10**5, 0.5, 13.0)
    assert found.log10 < -1000
    assert found.log_lower < found.log < found.log_lower + 1e-6
    assert 0.0 == found.lower < found.upper < 1e-300
    assert repr(found).startswith("PreservationDelta(x = 10**-39151.4")


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(2, 40),
    rate=st.fractions(min_value=0, max_value=200, max_denominator=50),
)
def test_the_counts_of_one_side_are_log_concave(m: int, rate: Fraction) -> None:
    # exact: what the search for the mode and the tails rest on
    counts = [
        sum(
            rate**s * math.factorial(m) // math.factorial(s) * math.comb(m - s, j)
            if rate.denominator == 1
            else rate**s / math.factorial(s) * math.comb(m - s, j)
            for s in range(m - j + 1)
        )
        for j in range(m + 1)
    ]
    for before, here, after in zip(counts, counts[1:], counts[2:], strict=False):
        assert here * here >= before * after


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 300),
    data=st.data(),
    theta=st.floats(0.0, 12.0),
)
def test_more_asked_for_is_harder_to_keep(n: int, data: st.DataObject, theta: float) -> None:
    size = data.draw(st.integers(1, n))
    less, more = sorted(data.draw(st.tuples(*[st.fractions(0, 1, max_denominator=50)] * 2)))
    for distance, interval in (("hamming", None), ("kendall", (0, size))):
        one, other = (
            preservation_delta(n, size, eta, theta, distance, interval=interval)
            for eta in (less, more)
        )
        assert 0.0 <= one.lower <= one.upper <= 1.0
        assert one.lower <= other.upper
        assert not math.isnan(one.log)


def test_eta_is_the_number_that_was_written() -> None:
    # in binary (1 - 0.9) 10 is below 1, and would lose a permitted leaver
    assert fewest_leavers(10, 0.9) == 2
    assert [fewest_leavers(10, round(0.1 * i, 1)) for i in range(11)] == list(range(11, 0, -1))
    for eta in (0.7, np.float64(0.7), Decimal("0.7"), Fraction(7, 10)):
        assert share(eta=eta) == Fraction(7, 10)
    # 80 % of five slots: one may leave
    assert fewest_leavers(5, 0.8) == 2


def test_the_floor_where_the_paper_has_a_ceiling() -> None:
    # the ceiling leaves out 3 leavers of 5 slots of 8, the most there can be
    found = preservation_delta(8, 5, 0.5, 0.5)
    assert found.leavers == 3
    assert found > 0.11
    assert preservation_delta(8, 5, 0.4, 0.5) == 0.0


def test_impossible_and_certain() -> None:
    for n, size, eta in ((10, 10, 1.0), (10, 4, 0.0), (10, 9, 0.5), (1, 1, 1.0)):
        found = preservation_delta(n, size, eta, 0.3)
        assert (found.lower, found.upper, found.log) == (0.0, 0.0, -math.inf)
        assert found.log10 == -math.inf
    certain = preservation_delta(10**6, 10**5, 0.999, 0.0)
    assert certain.lower > 1 - 1e-6
    assert certain.upper == 1.0


@pytest.mark.parametrize("theta", [5e-324, 1e-310, 1e-100, 1e-17])
def test_hardly_any_theta_is_none(theta: float) -> None:
    for distance, interval in (("hamming", None), ("kendall", (0, 20)), ("kendall", (9, 20))):
        none, hardly = (
            preservation_delta(60, 20, 0.3, value, distance, interval=interval)
            for value in (0.0, theta)
        )
        # uniform: hypergeometric
        assert none == pytest.approx(stats.hypergeom.sf(14, 60, 40, 20), rel=1e-10)
        assert hardly == pytest.approx(none, rel=1e-12)


def test_nothing_moves_at_infinite_theta() -> None:
    found = preservation_delta(1000, 100, 1.0, math.inf)
    assert (found.upper, found.leavers, found.log) == (0.0, 1, -math.inf)


def test_it_is_a_bracket() -> None:
    found = preservation_delta(1000, 100, 0.9, 0.1, "kendall", interval=(300, 100))
    assert found == found.upper
    assert found.ledger.truncation < 1e-17
    assert found.ledger.total >= found.width * (1 - 1e-9)
    assert found.reduction == "Mallows law, Kendall distance"
    assert repr(found).startswith("PreservationDelta(0.")
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert (again.log, again.log_lower, again.leavers) == (found.log, found.log_lower, 11)


def test_inside_the_order_it_says_where_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"theta must be larger.*use preservation_mc"):
        preservation_delta(10_000, 2500, 0.5, 1e-4, "kendall", interval=(3000, 2500))
    monkeypatch.setattr(tails, "_CHUNK", 50)  # the sum in many parts is the same
    parts = preservation_delta(60, 20, 0.8, 0.2, "kendall", interval=(20, 20))
    monkeypatch.undo()
    whole = preservation_delta(60, 20, 0.8, 0.2, "kendall", interval=(20, 20))
    assert parts == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(
    ("distance", "interval", "exact"),
    [
        ("hamming", None, "hamming"),
        ("kendall", (0, 20), "kendall"),
        ("kendall", (30, 20), "kendall"),
    ],
)
def test_samples_agree_with_the_exact_delta(
    distance: str, interval: tuple[int, int] | None, exact: str
) -> None:
    theta, eta = (4.0, 0.5) if distance == "hamming" else (0.15, 0.7)
    found = preservation_delta(100, 20, eta, theta, exact, interval=interval)
    assert 0.02 < found < 0.98
    # a fixed seed; an interval that misses one time in 10,000
    sampled = preservation_mc(
        100, 20, eta, theta, distance, interval=interval, samples=3000, confidence=0.9999, rng=7
    )
    assert sampled.lower < found < sampled.upper
    assert sampled.lower < sampled.estimate < sampled.at_most < sampled.upper
    assert (sampled.samples, sampled.estimate) == (3000, sampled.failures / 3000)


@pytest.mark.parametrize("distance", ["kendall", "hamming", "cayley"])
def test_samples_of_any_set_agree_with_all_permutations(distance: str) -> None:
    slots = (0, 2, 5)
    truth = sum(oracle.law(6, frozenset(slots), 0.5, distance)[2:])
    sampled = preservation_mc(
        6, 3, 0.5, math.log(2.0), distance, slots=slots, samples=4000, confidence=0.9999, rng=3
    )
    assert sampled.lower < truth < sampled.upper


def test_299_samples_without_a_failure_certify_one_percent() -> None:
    assert preservation_mc(4, 4, 1.0, 1.0, samples=299, slots=range(4)).at_most <= 0.01
    few = preservation_mc(4, 4, 1.0, 1.0, samples=298, slots=range(4))
    assert few.failures == 0
    assert few.at_most > 0.01
    # the paper's fifty certify no more than this
    assert preservation_mc(4, 4, 1.0, 1.0, samples=50, slots=range(4)).at_most > 0.058


@pytest.mark.parametrize(("failures", "samples"), [(0, 1), (1, 1), (0, 50), (3, 50), (999, 1000)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_clopper_pearson_is_scipy_s(failures: int, samples: int, confidence: float) -> None:
    wanted = stats.binomtest(failures, samples).proportion_ci(confidence, method="exact")
    # scipy takes a root where we invert the beta function
    assert clopper_pearson(failures, samples, confidence=confidence) == pytest.approx(
        (wanted.low, wanted.high), rel=1e-9, abs=1e-15
    )


def test_an_interruption_keeps_what_was_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    from shuffle_accountant.order.mallows import MallowsKendall

    drawn = []

    def sample(self: Any, rng: np.random.Generator) -> Any:
        drawn.append(1)
        if len(drawn) > 5:
            raise KeyboardInterrupt
        return np.arange(10)

    monkeypatch.setattr(MallowsKendall, "sample", sample)
    found = preservation_mc(10, 3, 1.0, 1.0, interval=(0, 3), samples=10**6)
    assert (found.samples, found.failures) == (5, 0)
    with pytest.raises(KeyboardInterrupt):
        preservation_mc(10, 3, 1.0, 1.0, interval=(0, 3))


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"users": 0}, ValueError, "users must"),
        ({"users": 10.5}, TypeError, "users must"),
        ({"l": 11}, ValueError, "l must"),
        ({"l": 0}, ValueError, "l must"),
        ({"eta": 1.1}, ValueError, "eta must"),
        ({"eta": math.nan}, ValueError, "eta must"),
        ({"eta": "0.5"}, TypeError, "eta must"),
        ({"eta": True}, TypeError, "eta must"),
        ({"theta": -0.1}, ValueError, "theta must"),
        ({"theta": 701.0}, ValueError, "theta must"),
        ({"theta": math.nan}, ValueError, "theta must"),
        ({"distance": "ulam"}, ValueError, "distance must"),
        ({"distance": 3}, TypeError, "distance must"),
        ({"distance": "kendall"}, ValueError, "interval must"),
        ({"interval": (0, 4)}, ValueError, "interval must"),
        ({"distance": "kendall", "interval": (7, 4)}, ValueError, "interval must"),
        ({"distance": "kendall", "interval": (0, 3)}, ValueError, "interval must"),
        ({"distance": "kendall", "interval": 3}, TypeError, "interval must"),
        ({"distance": "kendall", "interval": (0.5, 4)}, TypeError, "interval must"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    arguments = {"users": 10, "l": 4, "eta": 0.5, "theta": 1.0, "distance": "hamming"} | change
    with pytest.raises(error, match=named) as caught:
        preservation_delta(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({}, ValueError, "interval or slots"),
        ({"slots": [0, 1], "interval": (0, 2)}, ValueError, "interval must be None"),
        ({"slots": [0, 0]}, ValueError, "slots must"),
        ({"slots": [0, 10]}, ValueError, "slots must"),
        ({"slots": [0.0, 1.0]}, TypeError, "slots must"),
        ({"slots": [0, 1], "samples": 0}, ValueError, "samples must"),
        ({"slots": [0, 1], "confidence": 1.0}, ValueError, "confidence must"),
    ],
)
def test_bad_samples_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        preservation_mc(10, 2, 0.5, 1.0, **change)
