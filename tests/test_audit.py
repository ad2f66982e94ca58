"""Audits: their level on correct code, what they catch, and their parts by other routes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import shuffle_accountant as sa
from shuffle_accountant.audit.claims import p_of, power_curve, pure_claim
from shuffle_accountant.rounds.protocol import as_protocol

ROUND = sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=1.0), users=1000)
# A Gaussian mechanism of mu = 1/2: the score is its output.
GAUSSIAN = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=2.0), rate=1.0)


def permuted(rng: np.random.Generator) -> Any:
    return rng.permutation


def in_blocks(rng: np.random.Generator, size: int) -> Any:
    return lambda sent: rng.permuted(sent.reshape(-1, size), axis=1).ravel()


def staying(rng: np.random.Generator, chance: float) -> Any:
    def shuffle(sent: np.ndarray) -> np.ndarray:
        if rng.random() < chance:
            return np.append(sent[0], rng.permutation(sent[1:]))
        return rng.permutation(sent)

    return shuffle


def test_a_correct_shuffler_and_two_broken_ones() -> None:
    rng = np.random.default_rng(5)
    kept = sa.audit.shuffler(permuted(rng), round=ROUND, runs=3000, seed=1)
    assert kept.consistent
    assert kept.epsilon_lower(delta=1e-6) == 0.0
    blocks = sa.audit.shuffler(in_blocks(rng, 10), round=ROUND, runs=10_000, seed=2)
    assert not blocks.consistent
    # what is seen holds for the real mechanism: blocks of ten users
    real = sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=1.0), users=10)
    assert 0.0 < blocks.epsilon_lower(delta=1e-6) < real.epsilon(delta=1e-6).upper
    stay = sa.audit.shuffler(staying(rng, 0.3), round=ROUND, runs=10_000, seed=3)
    assert not stay.consistent
    assert stay.epsilon_lower(delta=1e-6) < 1.0
    assert "REJECTS" in str(stay)


def test_the_level_in_a_thousand_audits_of_a_correct_mechanism() -> None:
    """The mechanism attains its claim: audits at 5 % reject it in 5 % of the cases at most."""
    rng = np.random.default_rng(11)
    rejected = 0
    for _ in range(1000):
        audit = sa.audit.runs(
            rng.normal(0.5, 1.0, 200), rng.normal(0.0, 1.0, 200), protocol=GAUSSIAN
        )
        rejected += not audit.consistent
    # four standard deviations of a binomial law above the level
    assert rejected <= 50 + 4.0 * math.sqrt(1000 * 0.05 * 0.95)


def test_twice_the_signal_is_rejected() -> None:
    rng = np.random.default_rng(12)
    audit = sa.audit.runs(rng.normal(1.5, 1.0, 2000), rng.normal(0.0, 1.0, 2000), protocol=GAUSSIAN)
    assert not audit.consistent
    # the real one is a Gaussian mechanism of mu = 3/2
    real = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1 / 1.5), rate=1.0)
    assert 0.5 < audit.epsilon_lower(delta=1e-3) < real.epsilon(delta=1e-3).upper


def test_the_claims_curve() -> None:
    claim = power_curve(as_protocol(GAUSSIAN))
    for x in (1e-6, 0.01, 0.2, 0.5, 0.9, 0.999):
        exact = stats.norm.cdf(stats.norm.ppf(x) + 0.5)
        assert exact <= float(claim(np.asarray([x]))[0]) <= exact + 0.03
    pure = pure_claim(1.0, 0.0)
    assert float(pure(np.asarray([0.1]))[0]) == pytest.approx(0.1 * math.e)
    assert float(pure(np.asarray([0.9]))[0]) == pytest.approx(1.0 - 0.1 / math.e)


def test_p_values_by_many_rates() -> None:
    """The supremum over rates is no less than at any rate, by scipy's laws one by one."""
    claim = pure_claim(0.3, 1e-3)
    found = p_of(claim, 70, 30, (100, 100))
    for x in np.linspace(0.001, 0.999, 499):
        y = float(claim(np.asarray([x]))[0])
        c = stats.binom.sf(69, 100, y) * stats.binom.cdf(30, 100, x)
        assert (c * (1.0 - math.log(c)) if c > 0.0 else 0.0) <= found + 1e-12
    assert found < 1e-3


def test_sequential_audits() -> None:
    """By Ville's inequality at most a level's part of correct runs is ever rejected."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        audit = sa.audit.Sequential(GAUSSIAN, threshold=0.8, confidence=0.9)
        for p, q in zip(rng.normal(0.5, 1.0, 300), rng.normal(0.0, 1.0, 300), strict=True):
            audit.step(float(p), float(q))
        rejected += not audit.consistent
    assert rejected <= 20 + 4.0 * math.sqrt(200 * 0.1 * 0.9)
    rng = np.random.default_rng(1)
    audit = sa.audit.Sequential(GAUSSIAN, threshold=0.8)
    while audit.consistent and audit.pairs < 3000:
        audit.step(float(rng.normal(2.0)), float(rng.normal(0.0)))
    assert not audit.consistent
    assert audit.pairs < 300


def test_bets_win_nothing_on_average_at_the_claim() -> None:
    """Exactly: the mean wealth after one pair, over its four outcomes, at the claim's rates."""
    for x in (0.01, 0.2, 0.6):
        y = stats.norm.cdf(stats.norm.ppf(x) + 0.5)
        total = 0.0
        for a, b in itertools.product((0, 1), repeat=2):
            audit = sa.audit.Sequential(GAUSSIAN, threshold=0.5)
            audit.step(float(a), float(b))
            chance = (y if a else 1.0 - y) * (x if b else 1.0 - x)
            total += chance * float(audit._wealth.mean())
        assert total <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("randomizer", "wrong"),
    [
        (
            sa.RandomizedResponse(categories=4, eps0=1.0),
            sa.RandomizedResponse(categories=4, eps0=2.0),
        ),
        (
            sa.DiscreteRandomizer([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]),
            sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]),
        ),
        (sa.RAPPOR(categories=4, eps0=1.0), sa.RAPPOR(categories=4, eps0=2.0)),
        (sa.LaplaceRandomizer(eps0=1.0), sa.LaplaceRandomizer(eps0=3.0)),
    ],
    ids=["response", "channel", "RAPPOR", "Laplace"],
)
def test_messages(randomizer: Any, wrong: Any) -> None:
    rng = np.random.default_rng(4)
    values: Any = np.zeros(3000, int)
    if isinstance(randomizer, sa.LaplaceRandomizer):
        values = np.full(3000, 0.25)
    many = 12 if isinstance(randomizer, sa.RAPPOR | sa.LaplaceRandomizer) else 40
    rejected = sum(
        not sa.audit.messages(
            randomizer.randomize(values, rng), randomizer, values=values
        ).consistent(confidence=0.95)
        for _ in range(many)
    )
    assert rejected <= many * 0.05 + 4.0 * math.sqrt(many * 0.05 * 0.95)
    caught = sa.audit.messages(wrong.randomize(values, rng), randomizer, values=values)
    assert caught.p_value < 0.01


def test_messages_of_unknown_values() -> None:
    """Inside the hull of the channel's rows nothing is rejected, far outside it is."""
    flat = sa.RandomizedResponse(categories=3, eps0=0.5)
    rng = np.random.default_rng(6)
    inside = flat.randomize(rng.integers(0, 3, 5000), rng)
    assert sa.audit.messages(inside, flat).p_value > 0.05
    assert sa.audit.messages(np.zeros(5000, int), flat).p_value < 1e-6


def test_counts_of_known_values_have_less_variance() -> None:
    """The covariance is that of counts for each value, by simulation."""
    randomizer = sa.RandomizedResponse(categories=2, eps0=3.0)
    rng = np.random.default_rng(8)
    values = np.repeat([0, 1], 1000)
    p = [
        sa.audit.messages(randomizer.randomize(values, rng), randomizer, values=values).p_value
        for _ in range(400)
    ]
    # p-values of a true null are uniform: Kolmogorov and Smirnov's distance, at a level of 1e-4
    assert stats.kstest(p, "uniform").statistic < 2.23 / math.sqrt(400) + 0.05


def test_assert_private() -> None:
    rng = np.random.default_rng(9)
    audit = sa.audit.assert_private(
        lambda present: rng.normal(0.5 if present else 0.0), GAUSSIAN, budget_s=30.0, most=500
    )
    assert audit.consistent
    with pytest.raises(AssertionError, match="REJECTS"):
        sa.audit.assert_private(
            lambda present: rng.normal(2.0 if present else 0.0), GAUSSIAN, most=500
        )


def test_pictures() -> None:
    rng = np.random.default_rng(12)
    audit = sa.audit.runs(rng.normal(size=100), rng.normal(size=100), protocol=GAUSSIAN)
    ax = audit.plot()
    assert ax.get_legend() is not None
    assert len(ax.lines) > 1


def test_refused() -> None:
    scores = np.zeros(30)
    with pytest.raises(ValueError, match="scores_with must be"):
        sa.audit.runs(scores[:5], scores, protocol=GAUSSIAN)
    with pytest.raises(ValueError, match="scores_without must be"):
        sa.audit.runs(scores, np.full(30, math.nan), protocol=GAUSSIAN)
    with pytest.raises(ValueError, match="confidence must be"):
        sa.audit.runs(scores, scores, protocol=GAUSSIAN, confidence=1.0)
    with pytest.raises(ValueError, match="messages must be"):
        sa.audit.messages([0, 5], sa.RandomizedResponse(categories=2, eps0=1.0))
    with pytest.raises(ValueError, match="values must be"):
        sa.audit.messages([0, 1], sa.RandomizedResponse(categories=2, eps0=1.0), values=[0])
    with pytest.raises(ValueError, match="values must be given"):
        sa.audit.messages([0.5, 1.0], sa.LaplaceRandomizer(eps0=1.0))
    with pytest.raises(ValueError, match="round must have"):
        sa.audit.shuffler(np.flip, round=sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10))
