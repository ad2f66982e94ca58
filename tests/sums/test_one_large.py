"""Sums in which one large value decides, against laws on the integers and against other ways."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import shuffle_accountant as sa
from benchmarks.sparse_channels import SEED, questions
from shuffle_accountant.engine import single
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import heavy_tails
from shuffle_accountant.sums.heavy_tails import heavy_positive_part, one_large
from shuffle_accountant.sums.nodes import NodeTable, node_table
from shuffle_accountant.sums.question import MessageRows


def heavy(seed: int, rare: float) -> tuple[np.ndarray, np.ndarray]:
    """Integers: most between -5 and -1, and rare ones of either sign up to 400."""
    rng = np.random.default_rng(seed)
    bulk = np.arange(-5.0, 0.0)
    large = np.unique(rng.integers(20, 400, 60)).astype(float)
    value = np.concatenate([-large[::3], bulk, large])
    mass = np.concatenate(
        [3.0 * rare / large[::3], rng.uniform(0.5, 1.5, bulk.size), rare / large**1.5]
    )
    return value, mass / mass.sum()


def positive_part(value: np.ndarray, mass: np.ndarray, count: int) -> float:
    """By convolving laws on the integers: all terms are positive, so digits are kept."""
    low = int(value.min())
    one = np.zeros(int(value.max()) - low + 1)
    one[(value - low).astype(int)] = mass
    law, first = one, low
    for digit in bin(count)[3:]:
        law, first = np.convolve(law, law), 2 * first
        if digit == "1":
            law, first = np.convolve(law, one), first + low
    sums = first + np.arange(law.size, dtype=float)
    return math.fsum((law * np.maximum(sums, 0.0)).tolist())


def both_ends(value: np.ndarray, mass: np.ndarray, count: int, width: float) -> tuple[float, float]:
    low = one_large(value, mass, count, Bound.OPTIMISTIC, width=width)
    high = one_large(value, mass, count, Bound.PESSIMISTIC, width=width)
    assert low is not None
    assert high is not None
    return low, high


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rare", [1e-3, 1e-6])
def test_it_encloses_sums_of_integers(seed: int, rare: float) -> None:
    value, mass = heavy(seed, rare)
    count, width = 40 + seed, 0.02
    truth = positive_part(value, mass, count)
    low, high = both_ends(value, mass, count, width)
    # convolutions round by less than 1e-11
    assert low * (1 - 1e-11) <= truth <= high * (1 + 1e-11)
    # nodes, cells and what is left out take about the width aimed for each
    assert high - low <= 3.0 * width * truth
    doubled = [
        heavy_positive_part(value, mass, count, side, resolution=1e-3, tail=1e-30) for side in Bound
    ]
    assert min(doubled) <= high
    assert low <= max(doubled)


@pytest.mark.parametrize("middle", [0.0, 0.007])
def test_sums_without_a_large_value_and_with_two_are_bounded(
    middle: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is known to a few millionths: each of the other terms shows."""

    def close(rows: MessageRows, users: tuple[int, int], width: np.ndarray) -> NodeTable:
        return node_table(rows, users, 1e-6 * width)

    monkeypatch.setattr(heavy_tails, "node_table", close)
    value = np.array([-3.0, -1.0, 5.0, 200.0])
    mass = np.array([0.5, 0.5 - middle - 1e-6, middle, 1e-6])
    value, mass = value[mass > 0.0], mass[mass > 0.0]
    count, width = 20, 0.5
    truth = positive_part(value, mass, count)
    low, high = both_ends(value, mass, count, width)
    none = positive_part(value[:-1], mass[:-1], count)
    # two large values, by hand: 190 pairs, each worth 400 less what 18 others take away
    two = 190 * 1e-12 * (400.0 - 18 * float(-(value[:-1] @ mass[:-1])))
    assert two > 1e-5 * truth
    assert (none > 1e-5 * truth) == (middle > 0.0)
    assert low == pytest.approx(truth - two - none, rel=5e-6)
    # 20 times 200 times the chance of another one, and Chernoff's bound
    assert truth <= high <= truth + 4e-3 * 19e-6 + 50.0 * none


def test_a_large_value_below_what_rare_others_take_away_on_average() -> None:
    """All sums with one of the rare others are negative, and the others' mean says nothing."""
    value = np.array([-5000.0, -500.0, -12.0, -7.0, 0.0, 100.0])
    mass = np.array([1e-3, 1e-3, 0.006, 0.036, 0.0, 1e-14])
    mass[4] = 1.0 - mass.sum()
    count, width = 30, 1e-3
    assert -count * float(value @ mass) > 100.0
    truth = positive_part(value, mass, count)
    low, high = both_ends(value, mass, count, width)
    # convolutions round by less than 1e-11
    assert low * (1 - 1e-11) <= truth <= high * (1 + 1e-11)
    assert high - low <= 3.0 * width * truth


def test_positive_values_far_below_what_rare_others_take_away_on_average() -> None:
    """Each below a fortieth of it: every positive value is a large one."""
    value = np.array([-3000.0, -28.0, -7.0, 0.0, 25.0, 30.0])
    mass = np.array([0.03, 0.02, 0.06, 0.0, 1e-14, 2e-14])
    mass[3] = 1.0 - mass.sum()
    count, width = 30, 1e-3
    assert -count * float(value @ mass) > 40.0 * value.max()
    truth = positive_part(value, mass, count)
    low, high = both_ends(value, mass, count, width)
    # convolutions round by less than 1e-11
    assert low * (1 - 1e-11) <= truth <= high * (1 + 1e-11)
    assert high - low <= 3.0 * width * truth
    channel = list(itertools.islice(questions(SEED), 175))[-1]
    found = sa.epsilon(channel["round"], delta=channel["delta"])
    # most of the loss is one message's, and the common blank an atom of the sum
    assert found.upper - found.lower <= 1e-4 * found.upper


def test_a_sparse_channel_of_few_users_is_within_the_tolerance() -> None:
    """Doubling alone, whose upper bound is the trivial one, left it 2.9e-3 wide."""
    rows = np.random.default_rng(77).dirichlet(np.full(8, 0.068), size=(40, 3))
    for channel in rows[[9, 30]]:
        randomizer = sa.DiscreteRandomizer(channel / channel.sum(axis=1, keepdims=True))
        found = sa.epsilon(sa.ShuffleRound(randomizer, users=99), delta=1e-4)
        assert found.upper - found.lower <= 1e-3 * found.upper


def test_what_one_large_value_does_not_decide_is_left_to_others() -> None:
    value, mass = heavy(1, 1e-3)
    # two or more are likely; the mean is above 0; no value is large enough; a single value
    assert one_large(value, *[heavy(1, 3.0)[1]], 40, Bound.PESSIMISTIC, width=0.01) is None
    assert one_large(value + 6.0, mass, 40, Bound.PESSIMISTIC, width=0.01) is None
    few = value < 3.0
    assert one_large(value[few], mass[few], 40, Bound.OPTIMISTIC, width=0.01) is None
    assert one_large(value, mass, 1, Bound.OPTIMISTIC, width=0.01) is None


def test_gaussian_noise_far_below_the_distance_of_inputs() -> None:
    """0.2.0 had another engine, whose bracket was [1.00562e-6, 1.00778e-6]."""
    survey = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.3), users=10**6)
    found = sa.delta(survey, epsilon=6.98)
    assert found.ledger.method == "heavy tails"
    assert found.lower <= 1.00778e-6
    assert found.upper >= 1.00562e-6
    # epsilon is 1.4e-3 of itself wide if delta is 1.5 % wide
    assert found.upper - found.lower <= 0.015 * found.upper


@pytest.mark.parametrize("users", [100, 10_000])
def test_epsilon_asks_for_few_profiles(users: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of a wide bracket are not searched for to the last digit."""
    asked, worse = [], single._worse

    def counted(*question: object) -> float:
        asked.append(question)
        return worse(*question)  # type: ignore[arg-type]

    monkeypatch.setattr(single, "_worse", counted)
    survey = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.8), users=users)
    found = sa.epsilon(survey, delta=1e-6)
    assert found.upper - found.lower <= 1e-3 * found.upper
    # ten for the rough look, and some five for each end: 45 if they were found to 1e-10
    assert len(asked) <= 28
