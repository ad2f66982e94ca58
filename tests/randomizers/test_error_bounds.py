"""Bounds on the errors of frequencies hold for every histogram, and are not much too large."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import shuffle_accountant as sa
from shuffle_accountant.randomizers.error_bounds import largest_deviation

USERS, RUNS = 1000, 100
# Three standard errors of the share of runs in which a bound of 95 % holds.
SLACK = 3.0 * math.sqrt(0.05 * 0.95 / RUNS)

ORACLES: dict[str, Callable[..., Any]] = {
    "randomized response": sa.RandomizedResponse,
    "RAPPOR": sa.RAPPOR,
    "Hadamard": sa.HadamardResponse,
    "subset selection": sa.SubsetSelection,
    "local hashing": sa.LocalHashing,
}


def histograms(k: int) -> dict[str, Any]:
    """Values of all users: uniform, Zipf, all on one category, and half on one."""
    zipf = 1.0 / np.arange(1, k + 1)
    ends = np.round(USERS * np.cumsum(zipf / zipf.sum())).astype(int)
    return {
        "uniform": np.arange(USERS) % k,
        "zipf": np.searchsorted(ends, np.arange(USERS), side="right"),
        "point": np.full(USERS, k - 1),
        "half": np.where(np.arange(USERS) % 2 == 0, 0, np.arange(USERS) % k),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("k", [2, 17, 1000])
@pytest.mark.parametrize("eps0", [1.0, 5.0])
def test_oracles_by_simulation(name: str, k: int, eps0: float) -> None:
    oracle = ORACLES[name](categories=k, eps0=eps0)
    bound = oracle.largest_frequency_error(users=USERS)
    rng = np.random.default_rng([k, round(eps0), len(name)])
    for data, values in histograms(k).items():
        truth = np.bincount(values, minlength=k) / USERS
        held = [
            np.abs(oracle.estimate(oracle.randomize(values, rng)).values - truth).max() <= bound
            for _ in range(RUNS)
        ]
        assert np.mean(held) >= 0.95 - SLACK, data


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 17, 1000])
@pytest.mark.parametrize("keep", [None, 0.5, 0.9])
@pytest.mark.parametrize(
    "dummies",
    [
        sa.Poisson(mean=60.0),
        sa.Binomial(trials=200, probability=0.5),
        sa.NegativeBinomial(size=2.0, probability=0.1),
        sa.AsymmetricGeometric(mode=40, left=0.8, right=0.85),
        sa.DiscreteGaussian(mode=120, sigma=7.0),
    ],
    ids=lambda law: law.kind,
)
def test_rounds_with_dummies_by_simulation(k: int, keep: float | None, dummies: Any) -> None:
    if keep is None and not dummies.divisible:
        keep = 1.0
    one = (
        sa.NoiseMessages(categories=k, dummies=dummies)
        if keep is None
        else sa.AugmentedShuffle(categories=k, keep=keep, dummies=dummies)
    )
    bound = one.largest_frequency_error(users=USERS)
    rng = np.random.default_rng(k)
    for data, values in histograms(k).items():
        truth = np.bincount(values, minlength=k) / USERS
        held = []
        for _ in range(RUNS):
            # counts as the round makes them, without the messages
            kept = rng.binomial(np.bincount(values, minlength=k), one.kept)
            counts = kept + dummies.draw(rng, k)
            off = np.abs(one.estimate_from(counts, USERS).values - truth)
            held.append(off.max() <= bound * (1.0 + 1e-12))
        assert np.mean(held) >= 0.95 - SLACK, data


@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("eps0", [0.5, 2.0, 4.0])
def test_every_histogram_of_few_users_exactly(eps0: float, confidence: float) -> None:
    """Randomized response of three values by eight users: all messages, all histograms."""
    users, k = 8, 3
    response = sa.RandomizedResponse(categories=k, eps0=eps0)
    bound = response.largest_frequency_error(users=users, confidence=confidence)
    own, other = response.keep_probability, response.lie_probability

    @functools.cache
    def law(held: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        """Law of the counts of messages, one user at a time."""
        if sum(held) == 0:
            return {(0,) * k: 1.0}
        value = next(i for i in range(k) if held[i])
        rest = law(tuple(n - (i == value) for i, n in enumerate(held)))
        found: Counter[tuple[int, ...]] = Counter()
        for counts, mass in rest.items():
            for message in range(k):
                more = tuple(n + (i == message) for i, n in enumerate(counts))
                found[more] += mass * (own if message == value else other)
        return dict(found)

    for held in itertools.product(range(users + 1), repeat=k):
        if sum(held) != users:
            continue
        wrong = 0.0
        for counts, mass in law(held).items():
            off = max(
                abs((count / users - other) / (own - other) - n / users)
                for count, n in zip(counts, held, strict=True)
            )
            wrong += mass if off > bound * (1.0 + 1e-12) else 0.0
        assert wrong <= 1.0 - confidence


@pytest.mark.parametrize("users", [1, 10, 1000, 10**6, 10**12])
@pytest.mark.parametrize("p", [1e-9, 0.01, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-6])
def test_one_count_against_binomial_tails(users: int, p: float, failure: float) -> None:
    off = largest_deviation(p, p, users=users, categories=1, failure=failure)
    # whole numbers strictly further from the mean; its last place is that of n p
    mean, slack = users * p, 1e-9 + users * p * 1e-12
    above = binom.sf(math.floor(mean + off + slack), users, p)
    below = binom.cdf(math.ceil(mean - off - slack) - 1, users, p)
    assert above + below <= failure


@pytest.mark.parametrize("k", [2, 50, 1000])
@pytest.mark.parametrize("eps0", [1.0, 4.0])
@pytest.mark.parametrize("name", ORACLES)
def test_not_much_above_a_normal_law_at_the_worst_corner(name: str, eps0: float, k: int) -> None:
    oracle = ORACLES[name](categories=k, eps0=eps0)
    users = 10**6
    bound = oracle.largest_frequency_error(users=users)
    worst = max(oracle.frequency_error(users=users, frequency=share) for share in (0.0, 1.0))
    # a union over all categories at the worst share; Chernoff's bound is not a normal tail
    assert bound <= 1.4 * worst * norm.isf(0.025 / k)
    assert bound >= worst * norm.isf(0.025)


def test_of_more_users_confidence_and_categories() -> None:
    oracle = sa.RAPPOR(categories=9, eps0=1.0)
    bound = oracle.largest_frequency_error(users=1000)
    assert oracle.largest_frequency_error(users=4000) < 0.6 * bound
    assert oracle.largest_frequency_error(users=1000, confidence=0.99) > bound
    assert oracle.largest_frequency_error(users=1000, categories=90) > bound
    assert largest_deviation(1.0, 0.0, users=10, categories=3, failure=0.05) == 0.0


def test_bad_values() -> None:
    oracle = sa.RAPPOR(categories=9, eps0=1.0)
    with pytest.raises(ValueError, match=r"confidence must be a number in \(0, 1\), got 1"):
        oracle.largest_frequency_error(users=10, confidence=1.0)
    with pytest.raises(ValueError, match="users must be"):
        oracle.largest_frequency_error(users=0)
    with pytest.raises(ValueError, match="categories must be"):
        oracle.largest_frequency_error(users=10, categories=0)
    nothing = sa.RandomizedResponse(categories=9, eps0=0.0)
    with pytest.raises(ValueError, match="eps0 must be > 0"):
        nothing.largest_frequency_error(users=10)
    one = sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=9.0))
    with pytest.raises(ValueError, match="confidence must be"):
        one.largest_frequency_error(users=10, confidence=0.0)
