"""Continuous laws and the paper's examples: against quadrature, closed forms and their figures."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import reidentification as words
from oracles import reidentification_noise as oracle

import shuffle_accountant as sa
from shuffle_accountant.leakage import reidentification as reid

examples = reid.examples


def encloses(bracket, truth, width):
    """The truth is inside, and the bracket is narrow (relative)."""
    assert bracket.lower <= truth <= bracket.upper
    assert bracket.width <= width * bracket.upper


@pytest.mark.parametrize("gap", [1e-9, 0.01, 1.0, 30.0])
@pytest.mark.parametrize("users", [2, 1000, 10**9])
def test_laplace_pair(gap, users):
    # second order in cells of 1e-4, and the round-off of up to 3e5 differences
    encloses(reid.laplace_success(gap, users=users), oracle.laplace_pair(gap, users), 1e-8)


@pytest.mark.parametrize("target", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("eps0", [0.1, 2.0, 60.0])
@pytest.mark.parametrize("users", [2, 10**6])
def test_laplace_blanket(eps0, target, users):
    found = reid.bound(sa.LaplaceRandomizer(eps0=eps0), users=users, target=target)
    encloses(found, oracle.laplace_blanket(eps0, target, users), 2e-8)
    if target == 0.5:  # all messages have the same ratio
        wanted = reid.clones_psi(math.exp(-0.5 * eps0), users=users)
        assert found == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("gap", [0.01, 1.0, 5.0])
@pytest.mark.parametrize(("users", "guesses"), [(2, 1), (10, 1), (10, 3), (10**4, 1)])
def test_gaussian_pair(gap, users, guesses):
    found = reid.gaussian_success(gap, users=users, guesses=guesses)
    encloses(found, oracle.gaussian_pair(gap, users, guesses), 1e-8)


@pytest.mark.parametrize("target", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("sigma", [0.3, 2.0])
@pytest.mark.parametrize("users", [2, 1000])
def test_gaussian_blanket(sigma, target, users):
    found = reid.bound(sa.GaussianRandomizer(sigma=sigma), users=users, target=target)
    encloses(found, oracle.gaussian_blanket(sigma, target, users), 2e-8)


def test_extremes():
    for users in (2, 10**15):
        for function in (reid.laplace_success, reid.gaussian_success):
            encloses(function(0.0, users=users), 1 / users, 1e-12)
            far = function(5000.0, users=users)
            assert far.upper == 1.0
            assert far.lower >= 1.0 - 1e-6
        for eps0 in (500.0, 2000.0, 1e5):
            assert reid.bound(sa.LaplaceRandomizer(eps0=eps0), users=users).upper == 1.0
        assert reid.bound(sa.GaussianRandomizer(sigma=1e-3), users=users).upper == 1.0
        wide = reid.bound(sa.GaussianRandomizer(sigma=1e6), users=users)
        # ratios differ from one by 1e-6 for every deviation, of which there are at most ten
        assert 1.0 - 1e-13 <= wide.lower * users <= wide.upper * users <= 1.0 + 2e-5
        assert reid.laplace_success(3.0, users=users, guesses=users) == 1.0


@settings(max_examples=15, deadline=None)
@given(st.floats(0.0, 8.0), st.floats(0.0, 1.0), st.integers(2, 10**9), st.integers(1, 3))
def test_noise_hides(gap, part, users, guesses):
    guesses = min(guesses, users - 1)
    near, far = (reid.laplace_success(x, users=users, guesses=guesses) for x in (part * gap, gap))
    assert near.lower <= far.upper
    assert guesses / users * (1 - 1e-12) <= near.upper
    # the blanket's bound holds for the dataset in which all others hold the far end
    if gap > 0.0:
        laplace = sa.LaplaceRandomizer(eps0=gap)
        inner = reid.bracket(laplace, users=users, target=part, guesses=guesses)
        assert inner.lower <= inner.upper
        assert inner.lower <= reid.bound(laplace, users=users, guesses=guesses).upper


def test_any_ratio_law_the_linear_density():
    # w = x + 1/2 on [0, 1]: Q(w > t) = 3/2 - t, P(w > t) the integral of w from there
    def decoys(t):
        return np.clip(1.5 - t, 0.0, 1.0)

    def target(t):
        return np.where(t < 0.5, 1.0, np.clip(0.5 * (2.25 - t * t), 0.0, 1.0))

    ratios = np.linspace(0.5, 1.5, 20_001)
    for users, guesses in ((2, 1), (20, 1), (20, 3), (20, 19), (10**4, 5)):
        found = reid.success_from_ratio_law(
            target, decoys, ratios=ratios, users=users, guesses=guesses
        )
        truth = examples.linear_density(users=users, guesses=guesses)
        # second order in n times the cell
        encloses(found, truth, 1e-8 + (5e-5 * users) ** 2)
        coarse = reid.success_from_ratio_law(
            target, decoys, ratios=ratios[::1000], users=users, guesses=guesses
        )
        assert coarse.lower <= truth <= coarse.upper


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    st.integers(2, 1000),
    st.lists(st.floats(0.01, 20.0), min_size=1, max_size=8, unique=True),
)
def test_any_ratio_law_of_letters_on_any_grid(a, b, users, grid):
    p, q = np.array(a) / sum(a), np.array(b) / sum(b)
    ratio = np.full(4, np.inf)
    np.divide(p, q, out=ratio, where=q > 0)

    def tail(law):
        return lambda t: np.array([law[ratio > x].sum() if x > 0 else law.sum() for x in t])

    def target(t):  # letters without ratio have no mass either
        return np.minimum(tail(np.where(p > 0, p, 0.0))(t), 1.0)

    truth = reid.success_probability(p, q, users=users)
    found = reid.success_from_ratio_law(target, tail(q), ratios=sorted(grid), users=users)
    assert found.lower <= truth * (1 + 1e-14)
    assert truth * (1 - 1e-14) <= found.upper
    # with an edge just below and at each ratio the bracket closes
    inner = ratio[np.isfinite(ratio) & (ratio > 0)]
    edges = np.unique(np.concatenate([grid, inner, inner * (1 - 1e-12)]))
    closed = reid.success_from_ratio_law(target, tail(q), ratios=edges, users=users)
    assert closed.lower <= truth * (1 + 1e-14)
    assert truth * (1 - 1e-14) <= closed.upper


def test_bad_ratio_laws():
    def good(t):
        return np.exp(-t)

    def target(t):
        return np.exp(-t) * (1 + t)

    arguments = {"ratios": [0.5, 1.0, 40.0], "users": 5}
    assert 0.2 < reid.success_from_ratio_law(target, good, **arguments) <= 1.0
    for change, name in (
        ({"ratios": [1.0, 0.5]}, "ratios"),
        ({"ratios": [0.0, 0.5]}, "ratios"),
        ({"ratios": []}, "ratios"),
        ({"ratios": [math.inf]}, "ratios"),
        ({"users": 0}, "users"),
        ({"guesses": 6}, "guesses"),
        ({"error": -1.0}, "error"),
    ):
        with pytest.raises(ValueError, match=name):
            reid.success_from_ratio_law(target, good, **{**arguments, **change})
    for tails, name in (
        ((good, target), "decoys_above must be at most"),
        ((lambda t: 0.5 * target(t), good), "target_above must be 1"),
        ((lambda t: 1.0, good), "target_above must return"),
        ((target, lambda t: 1 - np.exp(-t)), "decoys_above must not rise"),
        ((lambda t: 2.0 * target(t), good), "target_above must have values"),
        ((lambda t: t * math.nan, good), "target_above must have values"),
    ):
        with pytest.raises(ValueError, match=name):
            reid.success_from_ratio_law(*tails, **arguments)
    with pytest.raises(TypeError, match="decoys_above must take an array"):
        reid.success_from_ratio_law(target, int, **arguments)
    with pytest.raises(ValueError, match="gap"):
        reid.laplace_success(-1.0, users=3)
    with pytest.raises(TypeError, match="gap"):
        reid.gaussian_success("1", users=3)


# ------------------------------------------------------------ worked examples


def test_linear_density():
    # the paper's figure 2: n = 20
    assert examples.linear_density(users=20) == pytest.approx(1.5 / 20 - 1 / (20 * 21), rel=1e-15)
    assert examples.linear_density(users=20, guesses=20) == 1.0
    # many letters of the density's own masses
    letters = 10**5
    x = (np.arange(letters) + 0.5) / letters
    p, q = (x + 0.5) / letters, np.full(letters, 1 / letters)
    for guesses in (1, 4):
        found = reid.success_probability(p, q, users=20, guesses=guesses)
        # the masses are exact; a tie has a chance of 19e-5, and merging is second order
        wanted = examples.linear_density(users=20, guesses=guesses)
        assert found == pytest.approx(wanted, rel=1e-8)


def test_zipf_honeywords():
    assert examples.zipf_limit(users=149) == pytest.approx(0.200157, abs=5e-7)
    assert examples.zipf_limit(users=150) == pytest.approx(0.199755, abs=5e-7)
    assert examples.zipf_limit(users=20, guesses=3) == pytest.approx(0.549085, abs=5e-7)
    for users in (1, 2, 20, 150):
        for guesses in (1, 2, 7):
            if guesses <= users:
                wanted = words.beta_limit(users, 0.7, guesses)
                found = examples.zipf_limit(users=users, guesses=guesses)
                assert found == pytest.approx(float(wanted), rel=1e-13)
    for passwords, needed, three in (
        (10**3, 50, 0.49691),
        (10**4, 81, 0.52412),
        (10**5, 108, 0.53688),
    ):
        assert examples.honeywords_needed(0.2, passwords=passwords) == needed
        found = examples.zipf_honeywords(users=20, passwords=passwords, guesses=3)
        assert found == pytest.approx(three, abs=5e-6)
    assert examples.honeywords_needed(0.2) == 150
    with pytest.raises(ValueError, match="level"):
        examples.honeywords_needed(0.2, exponent=0.9999)
    with pytest.raises(ValueError, match="exponent"):
        examples.zipf_limit(users=3, exponent=1.0)
    with pytest.raises(ValueError, match="passwords"):
        examples.zipf_honeywords(users=3, passwords=0)


def test_zipf_for_many_honeywords():
    # n^(a-1) Gamma(2 - a) is the first term of Stirling's series, off by about 1/n
    for users in (10**6, 10**12, 2**53):
        wanted = users**-0.3 * math.gamma(1.3)
        assert examples.zipf_limit(users=users) == pytest.approx(wanted, rel=1 / users + 1e-12)


def test_largest_ratios():
    for eps0 in (0.5, 3.0):
        for target in (0.0, 0.2, 0.5, 1.0):
            wanted = math.exp((abs(target - 0.5) + 0.5) * eps0)
            assert examples.laplace_ratio(eps0=eps0, target=target) == pytest.approx(wanted)
    for first in (0.0, 0.2, 0.5, 1.0):
        wanted = max(1 + 2 * first, 3 - 2 * first)
        assert examples.response_ratio(first=first) == pytest.approx(wanted, rel=1e-14)
