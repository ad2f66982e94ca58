"""Bounds of what randomized and shuffled messages tell, against enumeration and each other."""

import importlib.util
import json
import math
from itertools import combinations, product
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import mutual_information as oracle
from oracles.channels import random_channel
from oracles.precision import exact

import shuffle_accountant as sa
from shuffle_accountant.leakage import mutual_information as mi
from shuffle_accountant.randomizers.oracles import (
    RAPPOR,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
)

(REFERENCE,) = (
    entry
    for entry in json.loads(
        (Path(__file__).parents[1] / "refs" / "mutual_information.json").read_text(encoding="utf-8")
    )
    if entry["fn"] == "input_bound"
)
ORACLES = (RAPPOR, SubsetSelection, HadamardResponse, LocalHashing)


def holds(bracket, value, slack=0.0):
    return exact(bracket.lower) - slack <= value <= exact(bracket.upper) + slack


def blanket_model(channel, prior, users):
    """One message among n - 1 draws from the blanket or blanks, all outcomes listed."""
    table = np.asarray(channel, dtype=float)
    shared = table.min(axis=0)
    decoys = [*shared, max(1.0 - shared.sum(), 0.0)]
    rows = [[*row, 0.0] for row in table]
    return oracle.signal(prior, rows, [decoys] * (users - 1))


def channel_of(randomizer):
    """Frequency oracles over few categories as matrices, from their definitions."""
    k, gain = randomizer.categories, math.exp(randomizer.eps0)
    if isinstance(randomizer, RAPPOR):
        flip = randomizer.flip_probability
        return [
            [math.prod(flip if b != (i == x) else 1 - flip for i, b in enumerate(y)) for y in bits]
            for bits in [list(product((0, 1), repeat=k))]
            for x in range(k)
        ]
    if isinstance(randomizer, SubsetSelection):
        messages = [set(y) for y in combinations(range(k), randomizer.size)]
        says = [[x in y for y in messages] for x in range(k)]
    elif isinstance(randomizer, LocalHashing):
        g = randomizer.buckets
        messages = [(h, b) for h in product(range(g), repeat=k) for b in range(g)]
        says = [[h[x] == b for h, b in messages] for x in range(k)]
    else:
        columns = range(randomizer.columns)
        says = [[((x + 1) & y).bit_count() % 2 == 0 for y in columns] for x in range(k)]
    weights = np.where(says, gain, 1.0)
    return weights / weights.sum(axis=1, keepdims=True)


def test_reference():
    krr = sa.RandomizedResponse(categories=REFERENCE["categories"], eps0=REFERENCE["eps0"])
    bracket = mi.input_bound(krr, users=REFERENCE["users"])
    assert abs(bracket - REFERENCE["value"]) <= REFERENCE["atol"]
    assert bracket.width <= REFERENCE["atol"]


@pytest.mark.parametrize("users", [1, 2, 5])
@pytest.mark.parametrize(
    ("channel", "prior"),
    [
        ([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [0.5, 0.5]),
        ([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [0.9, 0.1]),
        ([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.1, 0.8, 0.1]], [0.2, 0.3, 0.5]),
        ([[0.7, 0.3, 0.0], [0.3, 0.3, 0.4]], [0.5, 0.5]),  # no finite eps0
        ([[1.0, 0.0], [0.0, 1.0]], [0.25, 0.75]),
        ([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]),
        ([[0.7, 0.3], [0.2, 0.8]], [1.0, 0.0]),
    ],
)
def test_input_bound_lists_every_outcome(channel, prior, users):
    bracket = mi.input_bound(sa.DiscreteRandomizer(channel), users=users, prior=prior)
    # the oracle's blank is rounded
    assert holds(bracket, blanket_model(channel, prior, users), exact("1e-16"))
    assert bracket.width <= 1e-11
    if prior == [0.5, 0.5]:
        assert bracket == mi.input_bound(sa.DiscreteRandomizer(channel), users=users)


@pytest.mark.parametrize("users", [2, 30])
@pytest.mark.parametrize("categories", [3, 4, 6, 7])
@pytest.mark.parametrize("kind", ORACLES)
def test_frequency_oracles_are_their_matrices(kind, categories, users):
    extra = {"buckets": 2} if kind is LocalHashing else {}
    randomizer = kind(categories=categories, eps0=1.3, **extra)
    matrix = sa.DiscreteRandomizer(channel_of(randomizer))
    for prior in (None, [0.5, 0.3, 0.2] + [0.0] * (categories - 3)):
        one = mi.input_bound(randomizer, users=users, prior=prior)
        other = mi.input_bound(matrix, users=users, prior=prior)
        assert one.lower <= other.upper
        assert other.lower <= one.upper
        assert one.width <= 1e-7 * one.upper


@pytest.mark.parametrize("kind", [RAPPOR, LocalHashing])
def test_many_categories_are_bounded_not_listed(kind):
    listed = mi.input_bound(kind(categories=4096, eps0=2.0), users=100)
    bounded = mi.input_bound(kind(categories=4097, eps0=2.0), users=100)
    # one category more changes the answer by some 1e-7, relative
    assert bounded.lower <= listed.lower * (1 + 1e-6)
    assert bounded.upper >= listed.upper * (1 - 1e-6)
    assert bounded.width <= 1e-3 * bounded.upper


def test_randomized_response_by_structure():
    krr = sa.RandomizedResponse(categories=5, eps0=2.0)
    table = np.full((5, 5), krr.lie_probability)
    np.fill_diagonal(table, krr.keep_probability)
    for prior in (None, [0.1, 0.2, 0.2, 0.4, 0.1], [0.0, 0.5, 0.5, 0.0, 0.0]):
        one = mi.input_bound(krr, users=20, prior=prior)
        other = mi.input_bound(sa.DiscreteRandomizer(table), users=20, prior=prior)
        # the rounded table has a local parameter of its own, so the two caps differ by rounding
        assert one == pytest.approx(other, rel=1e-11)
    weights = np.arange(1.0, 10**4 + 1)
    large = sa.RandomizedResponse(categories=10**4, eps0=4.0)
    skewed = mi.input_bound(large, users=1000, prior=weights / weights.sum())
    assert skewed.upper <= mi.input_bound(large, users=1000).upper  # symmetry and concavity
    assert skewed.width <= 1e-8 * skewed.upper
    large = mi.input_bound(sa.RandomizedResponse(categories=10**6, eps0=4.0), users=1000)
    assert large.width <= 1e-8 * large.upper
    for prior in (None, [0.1, 0.2, 0.3, 0.4]):
        entropy = sum(-x * math.log(x) for x in prior or [0.25] * 4)
        for eps0 in (400.0, math.inf):
            krr = sa.RandomizedResponse(categories=4, eps0=eps0)
            told = mi.input_bound(krr, users=9, prior=prior)
            assert told.lower <= entropy * (1 + 1e-15)
            assert told == pytest.approx(entropy, rel=1e-13)


@pytest.mark.parametrize(
    "randomizer", [sa.LaplaceRandomizer(eps0=2.0), sa.GaussianRandomizer(sigma=0.8)]
)
def test_noise_on_two_numbers(randomizer):
    def density(y, x):
        if isinstance(randomizer, sa.LaplaceRandomizer):
            return mpmath.exp(-2 * abs(y - x))
        return mpmath.npdf(y, x, 0.8)

    def told(y):
        p, q = density(y, 0), density(y, 1)
        mean = (p + q) / 2
        return (p * mpmath.log(p / mean) + q * mpmath.log(q / mean)) / 2

    alone = mpmath.quad(told, [-20, -5, 0, 0.5, 1, 6, 21])
    bracket = mi.input_bound(randomizer, users=1)
    # mpmath's quadrature is good to 12 digits
    assert bracket.lower * (1 - 1e-10) <= alone <= bracket.upper * (1 + 1e-10)
    edges = np.linspace(-4.0, 5.0, 91)
    if isinstance(randomizer, sa.LaplaceRandomizer):
        from scipy.stats import laplace as noise

        scale = 0.5
    else:
        from scipy.stats import norm as noise

        scale = 0.8
    tails = [noise.cdf(np.append(edges, np.inf), loc=x, scale=scale) for x in (0, 1)]
    channel = [np.diff(np.append(0.0, cdf)) for cdf in tails]
    for users in (2, 1000):
        bracket = mi.input_bound(randomizer, users=users)
        # messages rounded to a tenth tell less, by about 1e-3 of all
        rounded = mi.input_bound(sa.DiscreteRandomizer(channel), users=users)
        assert rounded.lower <= bracket.upper
        assert rounded.upper >= bracket.lower * 0.99
        assert bracket.width <= 1e-3 * bracket.upper


def test_the_blanket_bounds_what_datasets_tell():
    rng = np.random.default_rng(5)
    for _ in range(12):
        eps0 = float(rng.uniform(0.2, 2.5))
        channel = random_channel(rng, eps0)
        inputs, users = len(channel), int(rng.integers(2, 6))
        prior = rng.dirichlet(np.ones(inputs))
        bracket = mi.input_bound(sa.DiscreteRandomizer(channel), users=users, prior=prior)
        for _ in range(4):
            others = [channel[int(x)] for x in rng.integers(inputs, size=users - 1)]
            assert oracle.signal(prior, channel, others) <= exact(bracket.upper)
        bounds = mi.universal_bounds(eps0=eps0 * (1 + 1e-9), users=users)
        # the generic bound does not know the channel; it bounds the blanket itself
        assert blanket_model(channel, prior, users) <= bounds.least


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 6.0), st.integers(1, 10**7))
def test_universal_bounds_are_not_below_any_blanket(seed, eps0, users):
    rng = np.random.default_rng(seed)
    randomizer = sa.DiscreteRandomizer(random_channel(rng, eps0))
    prior = rng.dirichlet(np.ones(randomizer.inputs))
    bracket = mi.input_bound(randomizer, users=users, prior=prior)
    bounds = mi.universal_bounds(eps0=randomizer.eps0, users=users)
    for bound in (bounds.logarithmic, bounds.second_order, bounds.message):
        assert bracket.lower <= bound
    fewer = mi.input_bound(randomizer, users=max(users // 2, 1), prior=prior)
    assert bracket.lower <= fewer.upper


def test_the_sharp_constant_is_attained_and_below_the_papers():
    # E = 4 and k = 3 = 1 + sqrt(E)
    eps0, users = math.log(4.0), 10**8
    bracket = mi.input_bound(sa.RandomizedResponse(categories=3, eps0=eps0), users=users)
    constants = mi.first_order(eps0=eps0)
    assert users * bracket.lower == pytest.approx(constants.sharp, rel=1e-6)  # 1/n further terms
    assert (constants.paper, constants.sharp) == pytest.approx((1.5, 0.5), rel=1e-15)
    anything = mi.input_bound(sa.GeneralRandomizer(eps0=eps0), users=users)
    assert anything.lower == pytest.approx(anything.upper, rel=1e-6)
    small = mi.first_order(eps0=1e-6)
    assert small.sharp / small.paper == pytest.approx(0.25e-6, rel=1e-5)


def test_any_randomizer():
    for eps0, users in product((0.0, 1e-3, 1.0, 5.0, 50.0, 500.0), (1, 100, 10**9)):
        general = mi.input_bound(sa.GeneralRandomizer(eps0=eps0), users=users)
        krr = mi.input_bound(sa.RandomizedResponse(categories=4, eps0=eps0), users=users)
        assert krr.lower <= general.upper <= mi.universal_bounds(eps0=eps0, users=users).least
    interactive = mi.input_bound(sa.GeneralRandomizer(eps0=1.0, interactive=True), users=10)
    assert interactive.upper == pytest.approx(math.tanh(0.5), rel=1e-12)
    assert mi.universal_bounds(eps0=math.inf, users=3).least == math.inf


@pytest.mark.parametrize("randomizer", [kind(categories=9, eps0=900.0) for kind in ORACLES])
def test_oracles_without_privacy(randomizer):
    bracket = mi.input_bound(randomizer, users=10)
    assert bracket.upper == pytest.approx(math.log(9), rel=1e-12)
    assert mi.position_bounds(randomizer, users=10).blanket is None


def test_constants_of_randomized_response():
    constants = mi.response_constants(categories=2, eps0=1.0)
    # the three limits of the field's example, to four digits
    assert constants.blanket == pytest.approx(0.1985, abs=5e-5)
    assert constants.unconditional == pytest.approx(0.1068, abs=5e-5)
    assert constants.conditional == pytest.approx(0.1358, abs=5e-5)
    users = 10**9
    krr = sa.RandomizedResponse(categories=5, eps0=2.0)
    constants = mi.response_constants(categories=5, eps0=2.0)
    bound = users * mi.input_bound(krr, users=users).upper
    assert bound == pytest.approx(constants.blanket, rel=1e-7)  # further terms are 1/n
    keep, lie = krr.keep_probability, krr.lie_probability
    row, uniform = [keep] + [lie] * 4, [0.2] * 5
    value = [keep, *row[1:]]
    told = sum(
        0.2 * mi.shuffled_divergence(np.roll(row, x), uniform, users=users) for x in range(5)
    )
    assert users * told == pytest.approx(constants.unconditional, rel=1e-6)
    told = sum(
        0.2 * mi.shuffled_divergence(np.roll(row, x), value, users=users) for x in range(5)
    ) - mi.shuffled_divergence(uniform, value, users=users)
    assert users * told == pytest.approx(constants.one_value, rel=1e-6)


def test_position_bounds_against_enumeration():
    eps0, users = 1.2, 3
    keep = 1 / (1 + math.exp(-eps0))
    rows = [[keep, 1 - keep], [1 - keep, keep]]
    bounds = mi.position_bounds(sa.RandomizedResponse(categories=2, eps0=eps0), users=users)
    for dataset in product((0, 1), repeat=users):
        told = oracle.position([rows[x] for x in dataset])
        assert told <= bounds.least
        if len(set(dataset[1:])) == 1:
            assert told <= bounds.alike
    assert bounds.least < bounds.paper
    assert bounds.refined < bounds.paper == pytest.approx(2 * eps0)
    assert bounds.swap < bounds.refined
    assert mi.position_bounds(sa.GeneralRandomizer(eps0=eps0), users=users).blanket is None
    with pytest.raises(ValueError, match="randomizer must not be interactive"):
        mi.position_bounds(sa.GeneralRandomizer(eps0=1.0, interactive=True), users=3)


def test_users_with_laws_of_their_own():
    rng = np.random.default_rng(11)
    for users in (2, 3, 4):
        for _ in range(4):
            laws = rng.dirichlet(np.ones(2) if users > 3 else np.full(3, 2.0), size=users)
            place, sent = oracle.position(laws), oracle.message(laws)
            bounds = mi.heterogeneous_position(laws)
            for bound in (bounds.entropy, bounds.blanket.upper, bounds.swap, bounds.paper):
                assert place <= bound
            assert bounds.least <= bounds.entropy
            for chosen in (None, [1], range(1, users)):
                assert sent <= mi.heterogeneous_message(laws, among=chosen).upper
    alike = [[0.3, 0.7]] + [[0.5, 0.5]] * 3
    exact_one = mi.message([0.3, 0.7], [0.5, 0.5], users=4)
    assert mi.heterogeneous_message(alike) == pytest.approx(exact_one, rel=1e-12)
    assert mi.heterogeneous_position([[1.0, 0.0], [0.0, 1.0]]).swap == math.inf
    alone = mi.heterogeneous_message([[0.3, 0.7]])
    assert alone == pytest.approx(-0.3 * math.log(0.3) - 0.7 * math.log(0.7), rel=1e-14)


def test_dropping_a_user_unlike_the_rest_helps():
    similar = [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.5, 0.25, 0.25]]
    odd = [0.01, 0.01, 0.98]
    kept = mi.heterogeneous_message([*similar, odd])
    dropped = mi.heterogeneous_message([*similar, odd], among=[1, 2])
    assert dropped.upper < kept.lower


def test_clones_of_the_targets_message():
    p, eps0, users = [0.6, 0.3, 0.1], 0.7, 4
    decoys = [math.exp(-eps0) * x for x in p] + [-math.expm1(-eps0)]
    bracket = mi.clones_message(p, eps0=eps0, users=users)
    # the decoys' law is rounded
    assert holds(bracket, oracle.message([[*p, 0.0]] + [decoys] * (users - 1)), exact("1e-15"))
    many = 10**9
    leading = math.exp(eps0) * 2 / 2 / many
    assert mi.clones_message(p, eps0=eps0, users=many) == pytest.approx(leading, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda r: mi.input_bound(r, users=0), ValueError, "users must be"),
        (lambda r: mi.input_bound("krr", users=2), TypeError, "randomizer must be"),
        (lambda r: mi.input_bound(r, users=2, prior=[0.5, 0.5]), ValueError, "prior must have one"),
        (lambda r: mi.input_bound(r, users=2, prior=[1, 1, 1]), ValueError, "prior must"),
        (
            lambda r: mi.input_bound(sa.GeneralRandomizer(eps0=1.0), users=2, prior=[1.0]),
            ValueError,
            "prior must be None",
        ),
        (
            lambda r: mi.input_bound(
                RAPPOR(categories=13, eps0=1.0), users=2, prior=np.full(13, 1 / 13)
            ),
            ValueError,
            "prior must be None or positive at no more than 12 inputs",
        ),
        (lambda r: mi.universal_bounds(eps0=-1.0, users=2), ValueError, "eps0 must be"),
        (lambda r: mi.first_order(eps0=math.inf), ValueError, "eps0 must be"),
        (lambda r: mi.response_constants(categories=1, eps0=1.0), ValueError, "categories must"),
        (lambda r: mi.response_constants(categories=2, eps0=400.0), ValueError, "eps0 must be"),
        (lambda r: mi.position_bounds(r, users=-1), ValueError, "users must be"),
        (lambda r: mi.heterogeneous_message([]), ValueError, "laws must have"),
        (lambda r: mi.heterogeneous_message([[1.0], [0.5, 0.5]]), ValueError, "laws must be over"),
        (
            lambda r: mi.heterogeneous_message([[1.0], [1.0]], among=[1, 1]),
            ValueError,
            "among must name",
        ),
        (
            lambda r: mi.heterogeneous_message([[1.0], [1.0]], among=[0]),
            ValueError,
            "among must be",
        ),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call(sa.RandomizedResponse(categories=3, eps0=1.0))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_figure_and_the_errata(pytestconfig, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    script = importlib.import_module("benchmarks.figures.mutual_information")
    outcome = script.run(True, lambda _: None)
    # speed is not tested here
    assert [c.name for c in outcome.claims if not c.holds and c.name != "speed"] == []
    assert len(outcome.claims) == 8
    for row in outcome.rows:
        assert 0 < row["lower"] <= row["upper"]
    # counting hundreds of users agrees with listing few of them
    keep = 1 / (1 + math.exp(-1.0))
    rows = [[keep, 1 - keep], [1 - keep, keep]]
    listed = sum(
        oracle.signal([0.5, 0.5], rows, [rows[x] for x in others])
        for others in product((0, 1), repeat=3)
    )
    assert script.conditional_information(1.0, 4) == pytest.approx(float(listed / 8), rel=1e-12)
    if importlib.util.find_spec("matplotlib"):
        outcome.draw(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
