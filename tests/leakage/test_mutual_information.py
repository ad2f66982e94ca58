"""Position and message leakage against enumeration, high-precision sums and other engines."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import mutual_information as oracle
from oracles.precision import exact

from shuffle_accountant.leakage import mutual_information as mi
from shuffle_accountant.leakage.mutual_information.shuffled import Ratios, integrand
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.doubling import SumLaw, power

REFERENCES = json.loads(
    (Path(__file__).parents[1] / "refs" / "mutual_information.json").read_text(encoding="utf-8")
)
FUNCTIONS = {"position": mi.position, "message": mi.message}
MIXED = [0.2, 0.5, 0.3]


def zipf(letters):
    law = 1.0 / np.arange(1.0, letters + 1)
    return law / law.sum()


def holds(bracket, value, slack=0.0):
    """The bracket contains a 50-digit value, up to a slack that the oracle needs."""
    return exact(bracket.lower) - slack <= value <= exact(bracket.upper) + slack


@st.composite
def two_laws(draw, most=6):
    size = draw(st.integers(2, most))
    weights = st.lists(
        st.floats(1e-6, 1.0), min_size=size, max_size=size
    )  # ratios of up to 1e7: more is tested by name
    p, q = np.array(draw(weights)), np.array(draw(weights))
    return p / p.sum(), q / q.sum()


USERS = st.one_of(st.integers(1, 50), st.integers(1, 10**12))


@pytest.mark.parametrize("entry", [e for e in REFERENCES if e["fn"] in FUNCTIONS])
def test_references(entry):
    bracket = FUNCTIONS[entry["fn"]](entry["p"], entry["q"], users=entry["users"])
    assert bracket.lower - entry["atol"] <= entry["value"] <= bracket.upper + entry["atol"]
    assert bracket.width <= entry["atol"]


@pytest.mark.parametrize("users", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.7, 0.3], [0.4, 0.6]),
        (MIXED, [0.6, 0.1, 0.3]),
        (MIXED, [0.6, 0.4, 0.0]),  # a letter that only the target sends
        (MIXED, [0.0, 0.0, 1.0]),  # two of them
        ([1.0, 0.0, 0.0], MIXED),
        ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5]),  # nothing is shared
        ([0.5, 0.5, 0.0], MIXED),
        ([0.0, 1.0], [0.0, 1.0]),
        ([0.4, 0.4, 0.2], [0.5, 0.5, 0.0]),  # given the shared letters the laws agree
    ],
)
def test_every_outcome_listed(p, q, users):
    laws = [p] + [q] * (users - 1)
    # 50 digits lose a few to cancellation; brackets of exact zeros have no width
    slack = exact("1e-40")
    assert holds(mi.position(p, q, users=users), oracle.position(laws), slack)
    bracket = mi.message(p, q, users=users)
    assert holds(bracket, oracle.message(laws), slack)
    assert bracket.width < 1e-12


# Two letters allow exact sums for any ratio; the digits outweigh the smallest probability.
@pytest.mark.parametrize("users", [2, 7, 40])
@pytest.mark.parametrize("rare", [0.5, 1e-3, 1e-12, 1e-30, 1e-149])
@pytest.mark.parametrize("mass", [0.5, 1e-5, 0.0, 1.0, 1.0 - 1e-9, 1e-80])
def test_shuffled_divergence_of_two_letters(rare, mass, users):
    p, q = [1.0 - mass, mass], [1.0 - rare, rare]
    bracket = mi.shuffled_divergence(p, q, users=users)
    value = oracle.shuffled_divergence(p, q, users, 400)
    assert holds(bracket, value)
    assert bracket.width <= 1e-12 * bracket.upper


@pytest.mark.parametrize("step", [1e-3, 1e-9, 1e-13])
def test_laws_that_hardly_differ(step):
    p, q = [0.3 + step, 0.7 - step], [0.3, 0.7]
    for users in (1, 2, 9):
        bracket = mi.shuffled_divergence(p, q, users=users)
        assert holds(bracket, oracle.shuffled_divergence(p, q, users, 100))
        assert bracket.width <= 1e-12 * bracket.upper


def test_integrand_with_its_error_bound():
    p, q, users = [0.2, 0.0, 0.799, 0.001], [0.25, 0.5, 0.2, 0.05], 30
    pair = Ratios.of(np.array(p), np.array(q))
    pairs = Ratios(*(x[None] for x in (pair.p, pair.q, pair.gap)))
    v = np.linspace(-30.0, 14.0, 40)  # s from 1e-13 to 1e6, on both sides of the switch at 600
    value, error = (x[0] for x in integrand(pairs, v[None], users))
    for at, one, off in zip(v, value, error, strict=True):
        true = oracle.integrand(p, q, users, at, 60)
        # what is below 1e-280 is called 0
        assert abs(exact(one) - true) <= exact(off) + exact("1e-280")
        assert off <= 1e-11 * max(abs(one), 1e-250)


def test_zipf_against_the_known_digits():
    p, q = zipf(10), np.full(10, 0.1)
    # known to 11 digits
    assert mi.shuffled_divergence(p, q, users=1000) == pytest.approx(4.0318664124e-4, rel=2e-11)
    assert mi.position(p, q, users=1000) == pytest.approx(0.30837614710, rel=2e-11)
    assert mi.message(p, q, users=1000) == pytest.approx(0.00410513974, rel=2e-9)


@pytest.mark.parametrize("users", [1000, 10**6])
def test_sums_of_ratios_by_the_engine_of_iid_sums(users):
    """x log x is convex: laws above and below in convex order give bounds."""
    p, q = zipf(10), np.full(10, 0.1)
    w = np.sort(p / q)
    one = SumLaw(w, np.full(10, 0.1), 1, 0.0, 0.0, 1e-15, float(w[-1]))
    bracket = mi.shuffled_divergence(p, q, users=users)
    ends = {}
    for side in Bound:
        law = power(one, users, side, width=0.02, tail=1e-25)
        mean = law.value / users
        # x log x - x + 1 has the same expectation and no cancellation
        t = mean - 1.0
        terms = np.where(np.abs(t) < 1e-4, t**2 / 2 - t**3 / 6, mean * np.log(mean) - t)
        ends[side] = float(law.mass @ terms)
    # the engine rounds outwards; 1e-6 covers the third-order series above
    assert ends[Bound.OPTIMISTIC] <= bracket.upper * (1 + 1e-6)
    assert ends[Bound.PESSIMISTIC] >= bracket.lower * (1 - 1e-6)
    assert ends[Bound.PESSIMISTIC] <= bracket.upper * 1.01
    assert ends[Bound.OPTIMISTIC] >= bracket.lower * 0.99


@settings(max_examples=30, deadline=None)
@given(two_laws(), USERS)
def test_integral_and_closed_forms_overlap(laws, users):
    bracket, form = (f(*laws, users=users) for f in (mi.shuffled_divergence, mi.closed_form))
    assert bracket.lower <= form.upper
    assert form.lower <= bracket.upper
    assert bracket.width <= 1e-12 * bracket.upper


@settings(max_examples=30, deadline=None)
@given(two_laws(), USERS, st.integers(1, 1000))
def test_order_of_the_brackets(laws, users, more):
    p, q = laws
    one, other = (mi.shuffled_divergence(p, q, users=n) for n in (users, users + more))
    assert other.lower <= one.upper  # falls with n
    coarse_p, coarse_q = (np.append(x[:-2], x[-2:].sum()) for x in (p, q))
    if coarse_p.size > 1:
        # round-off of the merged masses, a few units of their last place
        coarse = mi.shuffled_divergence(coarse_p, coarse_q, users=users)
        assert coarse.lower <= one.upper + 1e-14 * (1 + math.log(1e7))
    middle = mi.shuffled_divergence(0.5 * p + 0.5 * q, q, users=users)
    assert middle.lower <= 0.5 * one.upper + 1e-30 + 1e-14 * one.upper  # convex, 0 at Q
    place, sent = mi.position(p, q, users=users), mi.message(p, q, users=users)
    divergence = mi.shuffled_divergence(p, q, users=1).upper
    assert place.upper <= math.log(users) * (1 + 1e-15)
    assert place.lower <= divergence
    entropy = -math.fsum(x * math.log(x) for x in p.tolist() if x)
    assert sent.lower <= entropy + 1e-15  # a sum of one up to an ulp


@pytest.mark.parametrize("law", [MIXED, [0.25] * 4, [1.0], [1.0, 0.0], zipf(100)])
def test_equal_laws_hide_the_place_completely(law):
    for users in (1, 2, 1000, 2**53):
        bracket = mi.position(law, law, users=users)
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)


@pytest.mark.parametrize("rare", [0.3, 1e-6, 1e-15, 1e-25])
def test_one_user_tells_the_entropy(rare):
    p = [1.0 - rare, rare]
    bracket = mi.message(p, [0.5, 0.5], users=1)
    assert holds(bracket, oracle.message([p]))
    assert bracket.width <= 1e-14 * bracket.upper


def test_one_user_tells_all():
    p = [0.5, 0.3, 0.2, 0.0]
    entropy = -sum(x * math.log(x) for x in p if x)
    bracket = mi.message(p, [0.25] * 4, users=1)
    assert bracket.lower <= entropy <= bracket.upper * (1 + 1e-15)
    assert mi.position(p, [0.25] * 4, users=1).upper == 0.0


@pytest.mark.parametrize("users", [10**6, 10**12, 2**53])
def test_a_million_users_and_a_hundred_letters(users):
    p, q = zipf(100), np.full(100, 0.01)
    place, sent = mi.position(p, q, users=users), mi.message(p, q, users=users)
    # of the processor; 0.1 s is what it takes
    deviation = mi.shuffled_divergence(p, q, users=users)
    assert sent.width <= 1e-3 * sent.lower
    if users == 10**6:
        assert place.width <= 1e-3 * deviation.lower
    else:  # the limit itself is a double
        assert place.width <= 3e-14 * place.upper
    expansion = mi.message_expansion(p, q)
    # the next term is some 1e4/n of the first
    assert sent == pytest.approx(expansion.at(users=users), rel=1e-8)


@pytest.mark.parametrize("users", [2, 1000, 10**12])
def test_letters_that_decoys_hardly_ever_send(users):
    """From 1e-150 on they count as never sent, with an error that is accounted for."""
    p = [0.3, 0.7]
    never = [f(p, [0.0, 1.0], users=users) for f in (mi.position, mi.message)]
    for rare in (5e-324, 1e-300, 1e-151):
        hardly = [f(p, [rare, 1.0], users=users) for f in (mi.position, mi.message)]
        for one, other in zip(never, hardly, strict=True):
            assert one.lower <= other.upper + 1e-60
            assert other.lower <= one.upper + 1e-60
            assert other.width <= 1e-12
    # a little more often, and the integral follows them all the way
    limit = mi.position(p, [1e-140, 1.0], users=users)
    # a difference of divergences of some 200 nats
    assert limit == pytest.approx(never[0], rel=1e-12, abs=1e-11)


def test_expansions_leave_a_third_order_remainder():
    p, q = [0.6, 0.3, 0.1], MIXED
    for exact_one, expansion in (
        (mi.position, mi.position_expansion(p, q)),
        (mi.message, mi.message_expansion(p, q)),
    ):
        third = [
            (exact_one(p, q, users=n).upper - expansion.at(users=n)) * n**3 for n in (300, 600)
        ]
        assert abs(third[0]) < 30.0
        # converges: the fourth-order term is of the order of third/n, round-off 1e-15 n^3
        assert third[1] == pytest.approx(third[0], rel=0.1, abs=1e-5)


def test_expansions_with_exposed_letters():
    p, q, users = [0.4, 0.3, 0.3], [0.6, 0.4, 0.0], 10**4
    place, sent = mi.position_expansion(p, q), mi.message_expansion(p, q)
    assert place.exposed == pytest.approx(0.3, rel=1e-15)
    # remainders of order 1/n^3
    assert mi.position(p, q, users=users) == pytest.approx(place.at(users=users), abs=1e-10)
    assert mi.message(p, q, users=users) == pytest.approx(sent.at(users=users), abs=1e-10)
    alone = mi.message_expansion([1.0, 0.0], [0.0, 1.0])
    assert (alone.limit, alone.first) == (0.0, 0.0)


def test_the_best_decoys():
    from scipy.optimize import minimize

    p, users = np.array([0.5, 0.3, 0.15, 0.05]), 1000
    best = mi.optimal_decoy(p)

    def told(free):
        weights = np.exp(np.append(free, 0.0))
        return mi.message(p, weights / weights.sum(), users=users).upper * users

    found = minimize(told, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    weights = np.exp(np.append(found, 0.0))
    # the optimum at n = 1000 is that of the leading term up to 1/n
    np.testing.assert_allclose(weights / weights.sum(), best, atol=1e-3)
    least = mi.leading_constant(p)
    root = np.sqrt(p)
    assert mi.leading_constant(p, root / root.sum()) / least == pytest.approx(1.015, abs=2e-3)
    assert mi.leading_constant(p, p) / least == pytest.approx(1.28, abs=5e-3)
    assert least == pytest.approx(np.sqrt(p * (1 - p)).sum() ** 2 / 2, rel=1e-14)
    np.testing.assert_allclose(
        mi.optimal_decoy([0.9, 0.1]), [0.5, 0.5], rtol=1e-15
    )  # a rounded sum
    np.testing.assert_array_equal(mi.optimal_decoy([0.0, 1.0]), [0.0, 1.0])
    assert mi.leading_constant([0.0, 1.0]) == 0.0
    assert mi.leading_constant([0.5, 0.5], [1.0, 0.0]) == math.inf


@pytest.mark.parametrize("function", [mi.position, mi.message, mi.shuffled_divergence])
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([0.5, 0.5], [0.5, 0.5], 0), ValueError, "users must be an integer >= 1"),
        (([0.5, 0.5], [0.5, 0.5], 2**53 + 1), ValueError, "users must be"),
        (([0.5, 0.5], [0.5, 0.5], 2.5), TypeError, "users must be an integer"),
        (([0.5, 0.6], [0.5, 0.5], 2), ValueError, "p must sum to 1"),
        (([0.5, 0.5], [0.5, 0.4, 0.1], 2), ValueError, "q must have as many letters as p"),
        (([0.5, 0.5], [math.nan, 0.5], 2), ValueError, "q must be numbers"),
        (([0.5, 0.5], ["a", "b"], 2), TypeError, "q must be numbers"),
        (([], [], 2), ValueError, "p must have"),
    ],
)
def test_bad_input(function, arguments, error, text):
    p, q, users = arguments
    with pytest.raises(error, match=text) as caught:
        function(p, q, users=users)
    assert "\n" not in str(caught.value)


def test_infinite_divergence():
    for function in (mi.shuffled_divergence, mi.closed_form):
        assert function([0.5, 0.5], [1.0, 0.0], users=3).lower == math.inf
        with pytest.raises(ValueError, match="q must be at least p/1e150"):
            function([0.5, 0.5], [1.0, 1e-200], users=3)
    for expansion in (mi.position_expansion, mi.message_expansion):
        assert not math.isnan(expansion([0.5, 0.5], [1.0, 1e-140]).at(users=9))
