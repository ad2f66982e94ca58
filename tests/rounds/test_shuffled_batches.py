"""Shuffled batches: values from other code, enumeration of statistics, sampling, order of ends."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.containment import assert_contains, assert_narrow
from scipy.stats import binomtest, norm

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.steps import null_clones
from shuffle_accountant.losses.steps.antipodal import AntipodalLoss
from shuffle_accountant.losses.steps.gaussian import GaussianRatio, gaussian_profile
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.family import SumFamily, rounded_counts
from shuffle_accountant.sums.statistic import Hypotheses, power_of

REFERENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "refs" / "shuffled.json").read_text()
)
OPTIMISTIC = [entry for entry in REFERENCES if entry["kind"] == "lower"]
PESSIMISTIC = [entry for entry in REFERENCES if entry["kind"] == "upper_formula"]
EFFORT = Effort(tail=1e-16, resolution=1e-4)


def batches(sigma: float, steps: int, passes: int = 1) -> sa.ShuffledBatches:
    return sa.ShuffledBatches(noise_multiplier=sigma, steps=steps, passes=passes)


# --------------------------------------------------------------------- the upper end


@pytest.mark.slow
@pytest.mark.parametrize("entry", PESSIMISTIC, ids=lambda entry: entry["id"])
def test_one_bound(entry: dict[str, Any]) -> None:
    """The charge, the law of K and the mixture, for one p and every K."""
    sigma, steps, p = entry["noise_multiplier"], entry["steps"], entry["p"]
    log_odds = math.log(p) - math.log1p(-p)
    losses = np.array([0.0, entry["epsilon"]])
    # no more than 300 null places are as likely as the accuracy of the references
    counts = np.array(rounded_counts(1, min(steps, 300)), dtype=float)
    source = GaussianRatio(sigma)
    for side in Bound:
        family = SumFamily(
            lambda width, tail, way=side: source.ratios(way, users=300, width=width, tail=tail),
            side,
            width=0.015,
            tail=1e-20,
            users=int(counts[-1]),
        )
        rows = [null_clones._divergences(family.law(int(count)), losses, side) for count in counts]
        weights = null_clones._weights(steps, log_odds, counts, side, 1e-20)
        beta = null_clones.charge(sigma, steps - 1, log_odds, side)
        # p is rounded, and the charge falls steeply with it
        assert beta == pytest.approx(entry["beta"], rel=1e-9)
        for order, name in enumerate(("bound_remove", "bound_add")):
            mixed = float(weights @ np.array([row[order][1] for row in rows]))
            found = mixed + (1.0 + math.exp(entry["epsilon"])) * beta
            sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
            assert sign * (found - entry[name]) >= -1e-8 * entry[name]
            assert found == pytest.approx(entry[name], rel=2e-3)


@given(
    sigma=st.floats(0.2, 20.0),
    p=st.floats(1e-4, 0.99),
)
def test_charge_is_the_largest_total_variation(sigma: float, p: float) -> None:
    """Against the integral of the positive part, which has one change of sign."""
    log_odds = math.log(p) - math.log1p(-p)
    # p N(0) is above N(1) left of the point where the densities' ratio is p
    z = 0.5 / sigma + sigma * math.log(p)
    truth = p * norm.cdf(z) - norm.cdf(z - 1.0 / sigma)
    found = null_clones.charge(sigma, 1, log_odds, Bound.PESSIMISTIC)
    # SciPy's normal law is good to 1e-15
    assert found >= truth - 1e-14
    assert found == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1.0, pytest.param(2.0, marks=pytest.mark.release)])
def test_inside_the_published_intervals(sigma: float) -> None:
    """Certificates of a preprint on coarse grids, T = 1000, delta = 1e-8.

    Those of one epoch are claims of benchmarks/figures/dpsgd.py, which is run by a test too.
    """
    published = {
        1.0: {5: (6.423, 7.97), 20: (8.646, 11.68)},
        2.0: {5: (0.338, 0.71), 20: (0.438, 1.29)},
    }[sigma]
    for epochs, (lower, upper) in published.items():
        found = sa.epsilon(batches(sigma, 1000), delta=1e-8, rounds=epochs)
        assert_narrow(found, 1e-3)
        assert found.upper < upper + 0.005
        attained = sa.attained_epsilon(batches(sigma, 1000), delta=1e-8, rounds=epochs)
        assert lower < attained.lower < found.lower


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize(("sigma", "steps"), [(0.04, 5), (0.5, 50), (1.0, 2), (3.0, 7), (8.0, 30)])
def test_no_worse_than_knowing_the_batch(sigma: float, steps: int, rounds: int) -> None:
    """The Gaussian mechanism is above, and is what little noise comes to."""
    found = sa.epsilon(batches(sigma, steps), delta=1e-6, rounds=rounds)
    alone = sa.epsilon(batches(sigma, 1), delta=1e-6, rounds=rounds)
    # a polygon through points of the profile
    assert found.lower <= alone.upper
    assert found.upper <= alone.upper * (1 + 1e-3)
    assert_narrow(found, 3e-3)


@pytest.mark.slow
def test_lower_ends_far_below_the_gaussian_mechanism_s() -> None:
    """Among 1330 batches delta is 1e-83 where that of one batch is 1e-3.

    Tails that may be cut off are far smaller than delta, so the lower end is no matter of them; it
    was 0 for all of them but the smallest. 0.02: what wide cells leave of such a delta.
    """
    loss = null_clones.NullCloneLoss(13.0, 1330)
    ends = {
        (side, tail): loss.delta(0.1, side, Effort(tail=tail, resolution=1e-2))
        for side in Bound
        for tail in (1e-98, 1e-120)
    }
    highest = min(ends[Bound.PESSIMISTIC, 1e-98], ends[Bound.PESSIMISTIC, 1e-120])
    assert 0.02 * highest <= ends[Bound.OPTIMISTIC, 1e-98] <= highest
    assert 0.02 * highest <= ends[Bound.OPTIMISTIC, 1e-120] <= highest


@pytest.mark.slow
def test_one_shuffle_for_several_epochs() -> None:
    """Is one epoch with less noise, and not the composition of fresh ones."""
    same = batches(2.0, 30, passes=4)
    less = batches(1.0, 30)
    assert same.epsilon(delta=1e-6) == less.epsilon(delta=1e-6)
    fresh = sa.epsilon(batches(2.0, 30), delta=1e-6, rounds=4)
    assert fresh.upper < same.epsilon(delta=1e-6).lower


@pytest.mark.slow
def test_vectors_through_a_shuffler_are_batches_of_one() -> None:
    vectors = sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=3.0), users=40)
    assert vectors.delta(epsilon=0.3) == batches(3.0, 40).delta(epsilon=0.3)
    assert vectors.delta(epsilon=0.3).reduction == "null clones"


# --------------------------------------------------------------------- the lower end


@pytest.mark.slow
@pytest.mark.parametrize("entry", OPTIMISTIC, ids=lambda entry: entry["id"])
def test_antipodal_pair(entry: dict[str, Any]) -> None:
    """Below the truth in both orders, by a per cent at most; above the largest value alone."""
    loss = AntipodalLoss(entry["noise_multiplier"], entry["steps"])
    accuracy = entry["relative_accuracy"]
    found = loss.delta(entry["epsilon"], Bound.OPTIMISTIC, EFFORT)
    assert found <= entry["delta_forward"] * (1 + accuracy)
    assert found >= 0.985 * entry["delta_forward"]
    # its own points are a hundredth of epsilon apart
    assert found >= 0.999 * entry["max_coordinate"]
    if entry["delta_reverse"] is not None:
        backward = loss.reversed.delta(entry["epsilon"], Bound.OPTIMISTIC, EFFORT)
        assert backward <= entry["delta_reverse"] * (1 + accuracy)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 5), letters=st.integers(2, 3))
def test_statistics_are_post_processing(seed: int, count: int, letters: int) -> None:
    """Laws of a coarse statistic against all sequences of letters, in exact arithmetic."""
    rng = np.random.default_rng(seed)
    null, first, second = rng.dirichlet(np.ones(letters), size=3)
    value = np.sort(rng.normal(size=letters))
    one = Hypotheses(value, null, first, second, 1, 0.0)
    found = power_of(one, count, width=0.05, tail=0.0)
    q, p0, p1 = ([Fraction(float(x)) for x in law] for law in (null, first, second))
    exact: dict[tuple[int, ...], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for word in product(range(letters), repeat=count):
        for i in range(count):
            others = math.prod((q[x] for j, x in enumerate(word) if j != i), start=Fraction(1))
            exact[tuple(sorted(word))][0] += others * p0[word[i]] / count
            exact[tuple(sorted(word))][1] += others * p1[word[i]] / count
    assert found.first.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.second.sum() == pytest.approx(1.0, abs=1e-12)
    for alpha in (0.7, 1.0, 1.5):
        truth = sum(
            (max(a - Fraction(alpha) * b, Fraction(0)) for a, b in exact.values()), Fraction(0)
        )
        said = float(np.sum(np.maximum(found.first - alpha * found.second, 0.0)))
        assert said <= float(truth) + 1e-12
        if count == 1:
            assert said == pytest.approx(float(truth), abs=1e-12)


def test_sampled_antipodal_epochs() -> None:
    """Two epochs, by drawing their losses: the composed lower end is below the interval's."""
    sigma, steps, draws = 1.5, 5, 400_000
    rng = np.random.default_rng(3)
    loss = np.zeros(draws)
    for _ in range(2):
        z = rng.standard_normal((steps, draws))
        z[0] += 2.0 / sigma
        ratios = [np.exp(m * z / sigma - m * m / (2 * sigma**2)).sum(axis=0) for m in (2.0, 1.0)]
        loss += np.log(ratios[0] / ratios[1])
    epsilon = 1.5
    hits = int(np.sum(loss > epsilon + rng.exponential(size=draws)))
    interval = binomtest(hits, draws).proportion_ci(1.0 - 1e-9)
    # delta at that epsilon lies in the interval, so epsilon at its ends on both sides of it
    at = {
        delta: sa.attained_epsilon(batches(sigma, steps), delta=delta, rounds=2)
        for delta in (interval.low, interval.high)
    }
    assert at[interval.high].lower <= epsilon
    # and the lower end is no empty claim
    assert at[interval.low].lower >= 0.97 * epsilon


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    sigma=st.floats(0.3, 6.0),
    steps=st.integers(2, 40),
    rounds=st.integers(1, 6),
    exponent=st.floats(2.0, 12.0),
)
def test_ends_are_ordered(sigma: float, steps: int, rounds: int, exponent: float) -> None:
    one, delta = batches(sigma, steps), 10.0**-exponent
    lower = sa.attained_epsilon(one, delta=delta, rounds=rounds)
    assert lower.lower <= sa.epsilon(one, delta=delta, rounds=rounds).upper
    assert lower.lower <= lower.upper


@pytest.mark.slow
def test_attained_by_finite_randomizers() -> None:
    """One round: the inverse of `attained`; several: below every bound, and close."""
    randomizer = sa.RandomizedResponse(categories=4, eps0=2.0)
    one = sa.ShuffleRound(randomizer, users=50)
    found = sa.attained_epsilon(one, delta=1e-4)
    assert_contains(one.attained(epsilon=found.lower), 1e-4, rtol=1e-3)
    composed = sa.attained_epsilon(one, delta=1e-4, rounds=5)
    bound = sa.epsilon(one, delta=1e-4, rounds=5)
    assert 0.9 * bound.upper <= composed.lower <= bound.upper


def test_attained_by_allocations() -> None:
    one = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=30)
    found = sa.attained_epsilon(one, delta=1e-6, rounds=3)
    assert found.lower == sa.epsilon(one, delta=1e-6, rounds=3).lower


@pytest.mark.parametrize(
    "one",
    [
        sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=30, selected=2),
        sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=30),
    ],
    ids=["blocks", "any randomizer"],
)
def test_unknown_datasets_are_refused(one: Any) -> None:
    with pytest.raises(ValueError, match=r"^attained_epsilon needs"):
        sa.attained_epsilon(one, delta=1e-6)


# --------------------------------------------------------------------- parts


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 31, 33, 77, 127, 150])
def test_families_are_powers(count: int) -> None:
    """The same divergence as by doubling, on both sides of it."""
    source, epsilon = GaussianRatio(1.5), 0.2
    ends = []
    for side in Bound:

        def one(width: float, tail: float, way: Bound = side) -> Any:
            return source.ratios(way, users=200, width=width, tail=tail)

        family = SumFamily(one, side, width=0.02, tail=1e-18, users=200)
        law = family.law(
            rounded_counts(count, count)[0] if rounded_counts(count, count) else count - count % 2
        )
        forward, backward = null_clones._divergences(law, np.array([0.0, epsilon]), side)
        ends.append((law.count, forward[1], backward[1]))
    high, low = ends
    assert high[0] == low[0]
    step = sa.GaussianMechanism(noise_multiplier=1.5)
    truth = sa.RandomAllocation(step, steps=high[0]).delta(epsilon=epsilon)
    assert low[1] <= truth.upper
    assert high[1] >= truth.lower
    assert low[1] == pytest.approx(high[1], rel=3e-2)
    assert low[2] <= high[2]


@given(sigma=st.floats(0.1, 50.0), epsilon=st.floats(0.0, 20.0))
def test_gaussian_profile(sigma: float, epsilon: float) -> None:
    """Against the textbook's difference, as far as that has digits."""
    shift = 1.0 / sigma
    truth = norm.cdf(0.5 * shift - epsilon / shift) - math.exp(epsilon) * norm.cdf(
        -0.5 * shift - epsilon / shift
    )
    low, high = (
        gaussian_profile(sigma, epsilon, way) for way in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    noise = 1e-14 * math.exp(epsilon) * norm.cdf(-0.5 * shift - epsilon / shift) + 1e-15
    assert low - noise <= truth <= high + noise
    assert low <= high <= low * (1 + 1e-6) + 1e-299


@pytest.mark.parametrize("one", [batches(1.0, 5), batches(2.0, 7, passes=3)], ids=repr)
def test_states(one: sa.ShuffledBatches) -> None:
    accountant = sa.FourierAccountant().compose(one, count=3)
    back = sa.FourierAccountant.from_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert back.rounds == accountant.rounds
    assert one.adjacency is sa.Adjacency.ZERO_OUT


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: batches(0.0, 5), "noise_multiplier must be"),
        (lambda: batches(1.0, 0), "steps must be"),
        (lambda: batches(1.0, 5, 0), "passes must be"),
        (lambda: sa.ShuffledBatches.from_dict({"kind": "pld"}), "state must be"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^{message}"):
        make()


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 300), (0.7, 20), (2.0, 10**6)])
def test_total_variation_is_that_of_the_profile(sigma: float, steps: int) -> None:
    """At epsilon = 0 less is computed: the answer meets that beside it, and is as narrow."""
    one = sa.ShuffledBatches(noise_multiplier=sigma, steps=steps)
    alone, beside = sa.delta(one, epsilon=0.0), sa.delta(one, epsilon=1e-12)
    # the profile falls by no more than epsilon from there to here
    assert alone.lower <= beside.upper + 1e-12
    assert beside.lower <= alone.upper
    assert alone.upper - alone.lower <= 1e-3 * alone.upper
