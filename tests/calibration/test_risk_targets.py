"""Calibration in other currencies, and trade-off curves against exact ones."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.engine.trade_off import trade_off_ends
from shuffle_accountant.leakage import reidentification

RATES = np.array([0.0, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.8, 0.99, 1.0])
RESPONSE = partial(sa.RandomizedResponse, categories=4)


def exact_curve(p: np.ndarray, q: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Neyman and Pearson: reject the most telling letters first, the last one by a coin."""
    order = np.argsort(-p / q)
    power = np.append(0.0, np.cumsum(p[order]))
    level = np.append(0.0, np.cumsum(q[order]))
    return 1.0 - np.interp(rates, level, power)


def symmetric_hull(p: np.ndarray, q: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Convex hull of the curves of both orders, by all chords of their corners."""
    corners = []
    for a, b in ((p, q), (q, p)):
        order = np.argsort(-a / b)
        level = np.append(0.0, np.cumsum(b[order]))
        level[-1] = 1.0  # the sum, rounded
        corners += list(zip(level, 1.0 - np.append(0.0, np.cumsum(a[order])), strict=True))
    found = []
    for x in rates:
        best = min((y for u, y in corners if u == x), default=1.0)
        for u, y in corners:
            for v, z in corners:
                if u < x < v:
                    best = min(best, y + (z - y) * (x - u) / (v - u))
        found.append(max(best, 0.0))
    return np.array(found)


@pytest.mark.parametrize(("deviation", "rounds"), [(1.0, 1), (2.0, 4), (0.5, 1), (30.0, 9)])
def test_gaussian_mechanisms_have_the_gaussian_curve(deviation: float, rounds: int) -> None:
    step = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=deviation), steps=1)
    found = sa.FourierAccountant().compose(step, count=rounds).trade_off(RATES)
    mu = math.sqrt(rounds) / deviation
    truth = norm.cdf(norm.ppf(1.0 - RATES) - mu)
    rounding = 1e-12  # of scipy's quantiles
    assert np.all(found.lower <= truth + rounding)
    assert np.all(found.upper >= truth - rounding)
    # forty tangents: their distance to the curve is of second order
    assert np.all(found.upper - found.lower <= 0.015)
    assert len(found) == RATES.size


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), letters=st.integers(2, 5))
def test_tables_have_the_curve_of_neyman_and_pearson(seed: int, letters: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(letters)), rng.dirichlet(np.ones(letters))
    losses = np.log(p / q)
    forward, backward = np.argsort(losses), np.argsort(-losses)
    one = sa.PldRound.from_tables(
        sa.LossTable(losses[forward], p[forward]), sa.LossTable(-losses[backward], q[backward])
    )
    found = sa.FourierAccountant().compose(one).trade_off(RATES)
    truth = symmetric_hull(p, q, RATES)
    assert np.all(truth <= exact_curve(p, q, RATES) + 1e-12)
    assert np.all(found.lower <= truth + 1e-9)
    assert np.all(found.upper >= truth - 1e-9)
    assert np.all(found.upper - found.lower <= 0.2)


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(0.05, 5.0), points=st.integers(3, 30), reach=st.floats(0.1, 12.0))
def test_any_points_of_the_profile_enclose_the_curve(mu: float, points: int, reach: float) -> None:
    epsilons = np.linspace(0.0, reach, points)
    shift = epsilons / mu
    deltas = norm.cdf(0.5 * mu - shift) - np.exp(epsilons) * norm.cdf(-0.5 * mu - shift)
    deltas = np.maximum(deltas, 0.0)
    lower, upper, _ = trade_off_ends(epsilons, deltas * (1 - 1e-9), deltas * (1 + 1e-9), RATES)
    truth = norm.cdf(norm.ppf(1.0 - RATES) - mu)
    assert np.all(lower <= truth + 1e-12)
    assert np.all(truth <= upper + 1e-12)


def test_infinite_losses_leave_a_curve_below_one() -> None:
    one = sa.NoiseMessages(categories=2, dummies=sa.Binomial(trials=2, probability=0.5))
    found = sa.FourierAccountant().compose(one).trade_off([0.0, 0.5])
    floor = 1.0 - 0.75**2
    assert found.lower[0] <= 1.0 - floor <= found.upper[0] + 1e-9
    assert found.lower[0] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("eps0", "users", "rounds"), [(1000.0, 1, 1), (1000.0, 3, 2), (650.0, 2, 3), (300.0, 1, 4)]
)
def test_losses_whose_exponential_overflows_give_all_away(
    eps0: float, users: int, rounds: int
) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)
    found = sa.FourierAccountant().compose(one, count=rounds).trade_off([0.0, 1e-300, 0.5, 1.0])
    # no message is impossible for anybody: a test that never rejects wrongly never rejects
    assert found.upper[0] == 1.0
    assert found.lower[0] > 0.999
    # with any other rate the target's letter is recognised, but with probability exp(-eps0)
    assert np.all((found.lower >= 0.0) & (found.lower <= found.upper))
    assert np.all(found.lower[1:] <= math.exp(-eps0))
    assert np.all(found.upper[2:] <= 1e-9)


def test_nothing_composed_is_guessing() -> None:
    found = sa.FourierAccountant().trade_off([0.0, 0.3, 1.0])
    assert found.lower == pytest.approx([1.0, 0.7, 0.0], abs=1e-9)
    assert found.upper == pytest.approx([1.0, 0.7, 0.0], abs=1e-9)


def test_curves_fall_and_agree_with_riskcal() -> None:
    """A peer's curve from the same tables of dp_accounting, which it holds to be exact."""
    riskcal = pytest.importorskip("riskcal", reason="riskcal is not installed (extra 'test')")
    dp = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution", reason="no peer")
    pld = dp.from_gaussian_mechanism(1.5, value_discretization_interval=1e-3)
    from riskcal.analysis import get_advantage_from_pld, get_beta_from_pld

    assert riskcal is not None
    made = sa.PldRound(pld)
    accountant = sa.FourierAccountant().compose(made, count=1)
    rates = np.array([0.01, 0.1, 0.4])
    found = accountant.trade_off(rates)
    theirs = np.array([float(get_beta_from_pld(pld, alpha=x)) for x in rates])
    # their steps and ours; both are second-order small
    assert np.all(np.abs(theirs - 0.5 * (found.lower + found.upper)) <= 0.01)
    advantage = float(get_advantage_from_pld(pld))
    assert advantage == pytest.approx(float(accountant.delta(epsilon=0.0)), rel=1e-3)


# ------------------------------------------------------------------------------- targets


def meets(evidence: Any, goal: float) -> None:
    assert evidence.bracket.upper <= goal
    assert evidence.next_bracket.upper > goal
    assert evidence.target_epsilon == goal


@pytest.mark.slow
def test_advantage() -> None:
    found = sa.max_eps0(users=1000, rounds=4, target_advantage=0.1, randomizer=RESPONSE)
    meets(found.evidence, 0.1)
    one = sa.ShuffleRound(RESPONSE(eps0=float(found)), users=1000)
    assert sa.delta(one, epsilon=0.0, rounds=4).upper <= 0.1
    further = sa.ShuffleRound(RESPONSE(eps0=1.001 * float(found)), users=1000)
    assert sa.delta(further, epsilon=0.0, rounds=4).lower > 0.1


def test_a_single_binary_response_has_a_known_advantage() -> None:
    """Of one user's own bit it is tanh(eps0/2)."""
    found = sa.max_eps0(
        users=1,
        rounds=1,
        target_advantage=0.25,
        randomizer=lambda eps0: sa.RandomizedResponse(categories=2, eps0=eps0),
    )
    assert float(found) == pytest.approx(2.0 * math.atanh(0.25), rel=1e-5)


@pytest.mark.slow
def test_a_point_of_the_trade_off_curve() -> None:
    found = sa.max_eps0(users=1000, rounds=2, target_trade_off=(0.05, 0.85), randomizer=RESPONSE)
    one = sa.ShuffleRound(RESPONSE(eps0=float(found)), users=1000)
    curve = sa.FourierAccountant().compose(one, count=2).trade_off([0.05])
    assert curve.lower[0] >= 0.85 - 1e-9
    further = sa.ShuffleRound(RESPONSE(eps0=1.05 * float(found)), users=1000)
    assert sa.FourierAccountant().compose(further, count=2).trade_off([0.05]).upper[0] < 0.85


@pytest.mark.slow
def test_points_of_the_trade_off_curve_that_swap_both_errors() -> None:
    asked = {"users": 1000, "rounds": 1}
    for rates in ((0.01, 0.9), (0.1, 0.8), (1e-6, 0.5)):
        found = sa.max_eps0(**asked, target_trade_off=rates)
        swapped = sa.max_eps0(**asked, target_trade_off=rates[::-1])
        # the curve is symmetric; its points are found with brackets of a thousandth
        assert float(found) == pytest.approx(float(swapped), rel=1e-3)
        curve = sa.FourierAccountant()
        curve.compose(sa.ShuffleRound(sa.GeneralRandomizer(float(found)), users=1000))
        held = curve.trade_off(list(rates))
        # the whole curve has fixed points, the search its own: both bracket the truth
        assert held.upper[0] >= rates[1] - 1e-12
        assert held.lower[0] == pytest.approx(rates[1], rel=0.02)
        assert 1.0 - rates[0] - held.upper[0] <= found.evidence.bracket.upper
        assert found.evidence.bracket.lower <= 1.0 - rates[0] - held.lower[0]


@pytest.mark.parametrize("randomizer", [sa.GeneralRandomizer, RESPONSE])
def test_reidentification(randomizer: Any) -> None:
    found = sa.max_eps0(users=1000, rounds=1, target_reidentification=0.01, randomizer=randomizer)
    meets(found.evidence, 0.01)
    value = reidentification.bound(randomizer(eps0=float(found)), users=1000)
    assert value.upper <= 0.01
    further = reidentification.bound(randomizer(eps0=1.0001 * float(found)), users=1000)
    assert further.lower > 0.01


def test_stronger_targets_allow_less() -> None:
    found = [sa.max_eps0(users=500, rounds=1, target_advantage=goal) for goal in (0.02, 0.1, 0.5)]
    assert all(first < second for first, second in pairwise(found))


@pytest.mark.parametrize(
    ("targets", "error", "words"),
    [
        ({}, ValueError, "one of target_epsilon, target_advantage, .* must be given, got none"),
        (
            {"target_epsilon": 1.0, "delta": 0.1, "target_advantage": 0.1},
            ValueError,
            "must be given, got target_epsilon, target_advantage",
        ),
        ({"target_epsilon": 1.0}, TypeError, r"delta must be a number in \(0, 1\)"),
        ({"target_advantage": 0.1, "delta": 0.1}, ValueError, "delta must be left out"),
        ({"target_advantage": 1.0}, ValueError, r"target_advantage must be a number in \(0, 1\)"),
        ({"target_reidentification": 0.5, "rounds": 2}, ValueError, "rounds must be 1"),
        ({"target_reidentification": 1e-9}, ValueError, "target_reidentification must be at least"),
        ({"target_trade_off": (0.5, 0.6)}, ValueError, "whose sum is below 1"),
        ({"target_trade_off": (0.5,)}, ValueError, "a false positive and a false negative rate"),
        ({"target_trade_off": 0.5}, TypeError, "target_trade_off must be an iterable"),
    ],
)
def test_bad_targets_are_one_line(targets: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        sa.max_eps0(**{"users": 100, "rounds": 1} | targets)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("rates", "error"), [([0.5, 1.5], ValueError), (["a"], TypeError), ([[0.5]], ValueError)]
)
def test_bad_rates(rates: Any, error: Any) -> None:
    with pytest.raises(error, match="false_positive_rates must"):
        sa.FourierAccountant().trade_off(rates)
