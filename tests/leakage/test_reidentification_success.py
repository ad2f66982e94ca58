"""Two known laws: the success probability against enumeration, the tie formula and 200 digits.

Independent re-derivations: all words with Bayes' rule in rational arithmetic; the formula that
counts decoys above and beside the target; the layer integral in 200 digits for many users.
"""

import json
import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import reidentification as oracle

import shuffle_accountant as sa
from shuffle_accountant.leakage import reidentification as reid
from shuffle_accountant.leakage.reidentification.success import (
    expected_hits,
    hits_error,
    running_sum,
)

REFERENCES = json.loads((Path(__file__).parents[1] / "refs" / "reidentification.json").read_text())
UNIT = 2.0**-53


def random_law(source, letters, least=0):
    weights = [source.randint(least, 6) for _ in range(letters)]
    weights[source.randrange(letters)] += 1
    return [Fraction(w, sum(weights)) for w in weights]


def floats(law):
    return [float(x) for x in law]


laws = (
    st.lists(st.integers(0, 20), min_size=4, max_size=4)
    .filter(any)
    .map(lambda weights: [w / sum(weights) for w in weights])
)
counts = st.integers(1, 10**6) | st.integers(1, 12) | st.integers(1, 2**53)


@pytest.mark.parametrize(
    "entry", [e for e in REFERENCES if e["fn"] == "success_probability"], ids=lambda e: e["users"]
)
def test_references(entry):
    found = reid.success_probability(
        entry["p"], entry["q"], users=entry["users"], guesses=entry["guesses"]
    )
    # the file's own tolerances
    allowed = {"rel": entry.get("rtol", 0.0), "abs": entry.get("atol", 0.0)}
    assert found == pytest.approx(entry["value"], **allowed)


def test_every_word_counted():
    source = random.Random(1)
    for _ in range(60):
        users, letters = source.randint(1, 5), source.randint(1, 3)
        p, q = random_law(source, letters), random_law(source, letters)
        for guesses in range(1, users + 1):
            truth = oracle.success(p, q, users, guesses)
            assert oracle.tie_formula(p, q, users, guesses) == truth
            found = reid.success_probability(floats(p), floats(q), users=users, guesses=guesses)
            # a few units for each of at most five guesses, and for the laws' rounding
            assert found == pytest.approx(float(truth), rel=1e-14)


def test_ties_counted_for_more_users():
    source = random.Random(2)
    for _ in range(25):
        users, letters = source.randint(6, 40), source.randint(2, 7)
        p, q = random_law(source, letters), random_law(source, letters)
        guesses = source.randint(1, users)
        truth = float(oracle.tie_formula(p, q, users, guesses))
        found = reid.success_probability(floats(p), floats(q), users=users, guesses=guesses)
        # 32 units for each of at most 40 guesses
        assert found == pytest.approx(truth, rel=2e-13)


@pytest.mark.parametrize("users", [2, 10**3, 10**9, 10**15])
@pytest.mark.parametrize("guesses", [1, 2, 7])
def test_many_users(users, guesses):
    if guesses > users:
        pytest.skip("more guesses than messages")
    rng = np.random.default_rng(3)
    for spread in (1e-9, 1.0, 20.0):
        p, q = (np.exp(-spread * rng.random(30)) for _ in range(2))
        p, q = p / p.sum(), q / q.sum()
        found = reid.success_probability(p, q, users=users, guesses=guesses)
        truth = oracle.layered(p.tolist(), q.tolist(), users, guesses)
        assert abs(found - truth) <= 64 * guesses * UNIT * truth


@pytest.mark.parametrize("guesses", [1, 2, 5, 30, 64, 65, 300])
def test_expected_hits(guesses):
    source = random.Random(guesses)
    for _ in range(40):
        users = max(int(10 ** source.uniform(0.5, 15)), guesses + 1)
        # from no hit to all guesses hits
        chance = min(10 ** source.uniform(-4, 1.5) * guesses / users, 1.0 - 1e-9)
        truth = oracle.hits(users, chance, guesses)
        found = float(expected_hits(users, np.array([chance]), guesses)[0])
        assert abs(found - truth) <= hits_error(guesses) * truth


def test_a_million_letters_cost_no_digits():
    values = np.random.default_rng(5).random(10**6) ** 9
    sums = running_sum(values)
    for end in (1, 777_777, 10**6):
        assert sums[end - 1] == pytest.approx(math.fsum(values[:end]), rel=2 * UNIT)
    letters = 10**5
    p = np.arange(1.0, letters + 1) ** -0.7
    p /= p.sum()
    q = np.full(letters, 1.0 / letters)
    # every rank alone: (1/n) m/S sum r^-a ((1 - (r-1)/m)^n - (1 - r/m)^n), by exact powers of ranks
    n, ranks = 10**4, np.arange(letters + 1.0)
    with np.errstate(divide="ignore"):  # the log of zero at the last rank, whose power is zero
        tails = -np.expm1(n * np.log1p(-ranks / letters))
    truth = math.fsum((p * (tails[1:] - tails[:-1])).tolist()) * letters / n
    # the differences of the tails lose what 1e4 of 1e5 letters leave them: 1e-16 * 1e5/1e4
    assert reid.success_probability(p, q, users=n) == pytest.approx(truth, rel=1e-12)


def test_edges():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    assert reid.success_probability(p, q, users=1) == 1.0
    assert reid.success_probability(p, q, users=7, guesses=7) == 1.0
    for users in (1, 2, 3, 7, 10**6, 2**53):
        assert reid.success_probability(p, p, users=users) == pytest.approx(1 / users, rel=4 * UNIT)
        assert reid.success_probability([1, 0], [0, 1], users=users) == 1.0
    # a message that no decoy sends is recognised, the rest is as likely as any
    assert reid.success_probability([0.25, 0.75], [0, 1], users=10**15) == pytest.approx(0.25)
    # ratios beyond the range of doubles
    tiny = 5e-324
    assert reid.success_probability([0.5, 0.5], [tiny, 1.0], users=10) == pytest.approx(0.55)
    assert reid.success_probability([0.5, 0.5], [1e-305, 1.0], users=10) == pytest.approx(0.55)


def test_what_a_reduction_makes_of_a_round():
    krr = sa.RandomizedResponse(categories=3, eps0=1.5)
    for name in ("blanket", "clones"):
        one = sa.ShuffleRound(krr, users=30, reduction=name)
        found = reid.success_among_decoys(one.target_among_decoys())
        bound = reid.bound(krr, users=30)
        if name == "blanket":
            assert found == pytest.approx(bound, rel=1e-13)  # the bracket's own width
        else:  # binary randomized response is easier to tell, and its blanket is smaller
            assert found >= bound.lower


# ------------------------------------------------------------ invariants

EXAMPLES = settings(max_examples=60, deadline=None)


@EXAMPLES
@given(laws, laws, counts)
def test_sandwich(p, q, users):
    added = reid.additive_advantage(p, q, users=users)
    bounds = reid.advantage_bounds(p, q, users=users)
    # all are good to 64 units
    assert bounds.lower * (1 - 1e-13) <= added <= bounds.upper * (1 + 1e-13)
    low, high = reid.published.theorem_5(p, q, users=users)
    assert bounds.upper <= high * (1 + 1e-13)
    if users > 1:
        assert bounds.lower >= low * (1 - 1e-13)
    assert added >= 0.0


@EXAMPLES
@given(laws, laws, st.integers(1, 10**6))
def test_more_users_and_fewer_guesses_help(p, q, users):
    one, more = (reid.success_probability(p, q, users=n) for n in (users, users + 1))
    assert more <= one * (1 + 1e-14)
    if users > 1:
        two = reid.success_probability(p, q, users=users, guesses=2)
        # the k largest of the ratios, divided by k, fall with k
        assert one * (1 - 1e-13) <= two <= 2 * one * (1 + 1e-13)


@EXAMPLES
@given(laws, laws, counts, st.integers(1, 5))
def test_exchange_and_merging_of_letters(p, q, users, guesses):
    guesses = min(guesses, users)
    value = reid.success_probability(p, q, users=users, guesses=guesses)
    order = [2, 0, 3, 1]
    swapped = reid.success_probability(
        [p[i] for i in order], [q[i] for i in order], users=users, guesses=guesses
    )
    assert swapped == pytest.approx(value, rel=1e-13)
    # who cannot tell two letters apart knows less
    merged = reid.success_probability(
        [p[0] + p[1], *p[2:]], [q[0] + q[1], *q[2:]], users=users, guesses=guesses
    )
    assert merged <= value * (1 + 1e-13)
    assert guesses / users * (1 - 1e-13) <= value <= 1.0
    assert value <= reid.asymptote(p, q, users=users, guesses=guesses) * (1 + 1e-13)


@EXAMPLES
@given(laws, laws, st.integers(2, 2000), st.integers(1, 4))
def test_advantages(p, q, users, guesses):
    guesses = min(guesses, users)
    value = reid.success_probability(p, q, users=users, guesses=guesses)
    added = reid.additive_advantage(p, q, users=users, guesses=guesses)
    # the subtraction cancels, the advantage itself does not
    assert added == pytest.approx(value - guesses / users, abs=1e-13)
    times = reid.multiplicative_advantage(p, q, users=users, guesses=guesses)
    assert times == pytest.approx(value * users / guesses, rel=1e-14)


# ------------------------------------------------------------ advantage


def test_the_advantage_of_nearly_equal_laws_has_digits():
    p, shift = [Fraction(1, 4)] * 4, Fraction(1, 10**10)
    q = [Fraction(1, 4) + shift, Fraction(1, 4) - shift, Fraction(1, 4), Fraction(1, 4)]
    truth = oracle.tie_formula(p, q, 20) - Fraction(1, 20)
    found = reid.additive_advantage(floats(p), floats(q), users=20)
    # the laws themselves are rounded: 1e-17 of a shift of 1e-10
    assert found == pytest.approx(float(truth), rel=1e-5)
    assert reid.additive_advantage(floats(p), floats(p), users=20) == 0.0


def test_both_ends_of_the_sandwich_are_reached():
    for users in (2, 3, 10, 100):
        p, q = reid.examples.upper_end_pair(0.1)
        assert reid.total_variation(p, q) == pytest.approx(0.1, rel=1e-14)
        found = reid.additive_advantage(p, q, users=users)
        assert found == pytest.approx(0.1 - 0.1**users / users, rel=1e-13)
        p, q = reid.examples.lower_end_pair(0.1)
        found = reid.additive_advantage(p, q, users=users)
        assert found == pytest.approx((0.1 - 0.1**users) / (0.9 * users), rel=1e-13)
        bounds = reid.advantage_bounds(p, q, users=users)
        assert bounds.contains(found)


def test_the_remainder_is_exponentially_small():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    for users in (5, 20, 60):
        rest = reid.asymptote(p, q, users=users) - reid.success_probability(p, q, users=users)
        # at most (M/n)(1 - Q(w = M))^n; both of the subtracted are near 0.04 … 0.5
        assert -1e-15 <= rest <= 2.5 / users * 0.8**users + 1e-15
        assert rest >= 2.5 / users * 0.8**users * 0.1 - 1e-15  # the layer above w = 1 alone


# ------------------------------------------------------------ as published


def test_theorems_2_and_4_hold_with_ties_and_theorem_1_does_not():
    source = random.Random(6)
    worst = 0.0
    for _ in range(40):
        users = source.randint(2, 8)
        p, q = (floats(random_law(source, 3)) for _ in range(2))
        truth = reid.success_probability(p, q, users=users)
        # differences of numbers of the size of M/n, M up to 8 here
        assert reid.published.theorem_2(p, q, users=users) == pytest.approx(truth, abs=1e-14)
        assert reid.published.theorem_4(p, q, users=users) == pytest.approx(truth, abs=1e-14)
        printed = reid.published.theorem_1(p, q, users=users)
        assert printed >= truth - 1e-14
        worst = max(worst, printed - truth)
    assert worst > 0.3
    # equal laws: every tie is counted as a win
    assert reid.published.theorem_1([1.0], [1.0], users=9) == 1.0


def test_theorem_1_is_right_in_the_limit_of_no_ties():
    letters = 20_000
    x = (np.arange(letters) + 0.5) / letters
    p, q = (x + 0.5) / letters, np.full(letters, 1 / letters)
    for guesses in (1, 3):
        printed = reid.published.theorem_1(p, q, users=20, guesses=guesses)
        truth = reid.examples.linear_density(users=20, guesses=guesses)
        # a tie with one of 19 others has a chance of 1e-3
        assert printed == pytest.approx(truth, rel=2e-3)


def test_theorem_5_needs_two_users():
    p, q = [0.9, 0.1], [0.1, 0.9]
    low, _ = reid.published.theorem_5(p, q, users=1)
    assert reid.additive_advantage(p, q, users=1) == 0.0 < low
    assert reid.advantage_bounds(p, q, users=1) == 0.0


# ------------------------------------------------------------ bad input

GOOD = {"p": [0.5, 0.5], "q": [0.25, 0.75], "users": 5}
BAD = [
    ("p", [0.5, 0.6], ValueError),
    ("p", [-0.5, 1.5], ValueError),
    ("p", [math.nan, 1.0], ValueError),
    ("p", [], ValueError),
    ("p", [[0.5, 0.5]], ValueError),
    ("p", "half", TypeError),
    ("q", [0.2, 0.3, 0.5], ValueError),
    ("q", None, TypeError),
    ("users", 0, ValueError),
    ("users", -3, ValueError),
    ("users", 2**53 + 1, ValueError),
    ("users", 2.5, TypeError),
    ("guesses", 0, ValueError),
    ("guesses", 6, ValueError),
    ("guesses", 1.5, TypeError),
]


@pytest.mark.parametrize(("name", "value", "kind"), BAD, ids=repr)
@pytest.mark.parametrize("function", [reid.success_probability, reid.additive_advantage])
def test_bad_input(function, name, value, kind):
    arguments = {**GOOD, name: value}
    p, q = arguments.pop("p"), arguments.pop("q")
    with pytest.raises(kind) as caught:
        function(p, q, **arguments)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
