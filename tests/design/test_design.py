"""Designs: certified targets, errors by simulation, the two ends, empty answers, pictures, JSON."""

from __future__ import annotations

import json
import math
import pickle
import time
from fractions import Fraction
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.design.limit import gaussian_delta, gaussian_mu

matplotlib.use("Agg")

TARGET = {"target_epsilon": 1.0, "delta": 1e-6}
SIGMAS = 4.0


@pytest.fixture(scope="module")
def frequencies() -> sa.design.Design:
    return sa.design.frequency(users=3000, categories=8, **TARGET, rounds=2, tolerance=0.02)


@pytest.fixture(scope="module")
def means() -> sa.design.Design:
    return sa.design.mean(users=3000, dimension=6, **TARGET, rounds=2, tolerance=0.02)


def all_rows(design: sa.design.Design) -> list[sa.design.DesignRow]:
    return [*design.rows, *design.local, *design.central]


def test_every_row_meets_the_target_and_one_step_further_does_not(
    frequencies: sa.design.Design, means: sa.design.Design
) -> None:
    assert len(frequencies) == 10
    assert len(means) == 4
    for design in (frequencies, means):
        assert not design.excluded
        for row in all_rows(design):
            evidence = row.evidence
            assert row.bracket.upper <= 1.0
            assert evidence.next_bracket is None or evidence.next_bracket.upper > 1.0
            again = row.candidate.protocol(row.mechanism, design.question)
            assert sa.epsilon(again, delta=1e-6, tolerance=0.02).upper <= 1.0


def test_rows_are_sorted_by_error_and_lie_between_the_ends(
    frequencies: sa.design.Design, means: sa.design.Design
) -> None:
    for design in (frequencies, means):
        for rows in (design.rows, design.local, design.central):
            assert rows
            assert [row.rmse for row in rows] == sorted(row.rmse for row in rows)
        best = design.rows[0].rmse_average
        assert design.central[0].rmse_average < best < design.local[0].rmse_average
        for row in all_rows(design):
            assert 0.0 < row.rmse_average < 1.0
            assert row.largest_error > row.rmse
            assert row.bits > 0.0


def test_frequencies_err_as_stated(frequencies: sa.design.Design) -> None:
    """All shuffled rows, on data in which nobody holds the last category."""
    users, runs = 3000, 60
    values = np.arange(users) % 7
    rng = np.random.default_rng(5)
    for row in frequencies.rows:
        errors = []
        for _ in range(runs):
            if isinstance(row.mechanism, sa.NoiseMessages | sa.AugmentedShuffle):
                messages = row.mechanism.shuffled(values, rng)
                found = row.mechanism.estimate(messages, users=users)
                error = found.values[-1]
            elif row.mechanism.categories == 2:  # a bit for each category, here for the last
                messages = row.mechanism.randomize(np.zeros(users, dtype=int), rng)
                error = row.mechanism.estimate(messages).values[1]
            else:
                messages = rng.permutation(row.mechanism.randomize(values, rng))
                error = row.mechanism.estimate(messages).values[-1]
            errors.append(error)
        found_rmse = math.sqrt(np.mean(np.square(errors)))
        # a sample variance of m numbers is off by sqrt(2/m) of itself, the root by half of that
        assert abs(found_rmse / row.rmse - 1.0) <= SIGMAS * math.sqrt(0.5 / runs), row.name
        assert np.mean(np.abs(errors) <= row.largest_error) >= 0.95


def test_means_err_as_stated(means: sa.design.Design) -> None:
    users, runs = 3000, 60
    rng = np.random.default_rng(6)
    for row in means.rows:
        off = [
            row.mechanism.estimate(row.mechanism.randomize(np.zeros((users, 6)), rng)).values
            for _ in range(runs)
        ]
        found = math.sqrt(np.mean(np.square(off).sum(axis=1)))
        assert abs(found / row.rmse - 1.0) <= SIGMAS * math.sqrt(0.5 / runs), row.name


def test_a_design_is_a_table_json_and_a_picture(frequencies: sa.design.Design) -> None:
    text = str(frequencies)
    assert text.startswith("3000 users, 8 categories, 2 rounds: ε <= 1 at δ = 1e-06\nmechanism")
    assert "k-ary randomized response" in text
    state = json.loads(json.dumps(frequencies.to_dict(), allow_nan=False))
    assert state["question"]["categories"] == 8
    assert len(state["rows"]) == len(frequencies.rows)
    assert state["rows"][0]["rmse"] == frequencies.rows[0].rmse
    assert state["rows"][0]["epsilon"]["upper"] <= 1.0
    again = pickle.loads(pickle.dumps(frequencies))
    assert again == frequencies


@pytest.mark.slow
def test_the_picture_has_a_line_for_each_mechanism(means: sa.design.Design) -> None:
    ax = means.plot(factors=(0.7, 1.0))
    lines = [line for line in ax.get_lines() if line.get_marker() == "."]
    assert len(lines) == len(means.rows) + 2
    for line in lines:
        epsilons, errors = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert np.all(np.diff(epsilons) > 0)
        assert np.all(np.diff(errors) < 0)


def test_a_target_that_nothing_meets_says_why() -> None:
    found = sa.design.frequency(
        users=3, categories=4, target_epsilon=1e-3, delta=1e-9, tolerance=0.1
    )
    assert len(found) == 0
    assert found.rows == found.local == found.central == ()
    assert len(found.excluded) == 18
    assert all("\n" not in one.reason and one.reason for one in found.excluded)
    assert "where the target is met the error is" in str(found)
    assert found.to_dict()["rows"] == []


@pytest.mark.slow
def test_a_million_users_take_less_than_ten_seconds() -> None:
    start = time.process_time()
    found = sa.design.frequency(
        users=1_000_000, categories=1000, target_epsilon=1.0, delta=1e-8, rounds=30
    )
    # seconds of the processor: other work on the machine does not count
    assert time.process_time() - start < 10.0
    assert found.rows[0].rmse < 1e-4 < found.local[0].rmse


@pytest.mark.slow
def test_workers_find_the_same(frequencies: sa.design.Design) -> None:
    found = sa.design.frequency(
        users=3000, categories=8, **TARGET, rounds=2, tolerance=0.02, jobs=2
    )
    assert found == frequencies


@pytest.mark.slow
def test_a_cluster_finds_the_same(means: sa.design.Design) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (extra 'dask')")
    import joblib

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        found = sa.design.mean(users=3000, dimension=6, **TARGET, rounds=2, tolerance=0.02)
    assert found == means


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"users": 0}, ValueError, "users must be an integer >= 1"),
        ({"users": 1e4}, TypeError, "users must be an integer"),
        ({"categories": 1}, ValueError, "categories must be an integer >= 2"),
        ({"target_epsilon": 0.0}, ValueError, "target_epsilon must be a finite number > 0"),
        ({"delta": 1.0}, ValueError, r"delta must be a number in \(0, 1\)"),
        ({"rounds": 0}, ValueError, "rounds must be an integer >= 1"),
        ({"tolerance": -1.0}, ValueError, "tolerance must be a finite number > 0"),
    ],
)
def test_bad_input_is_one_line(changed: dict[str, Any], error: Any, words: str) -> None:
    question: dict[str, Any] = {"users": 10, "categories": 4, **TARGET} | changed
    with pytest.raises(error, match=words) as caught:
        sa.design.frequency(**question)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_gaussian_delta_is_the_integral(mu: float, epsilon: float) -> None:
    def gain(x: float) -> float:
        return max(norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), 0.0)

    start = epsilon / mu + 0.5 * mu  # the gain is 0 below
    truth, _ = quad(gain, start, start + 40.0, epsabs=1e-14, epsrel=1e-10, limit=200)
    assert gaussian_delta(mu, epsilon) == pytest.approx(truth, rel=1e-7, abs=1e-13)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_gaussian_mu_is_the_inverse(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("users", [10_000, 1_000_000])
def test_the_limit_is_approached(users: int) -> None:
    one = sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=1.0), users=users)
    limit = sa.design.asymptotic(one, rounds=3)
    lower, upper = limit.ratio(epsilon=limit.mu)
    assert lower <= upper
    assert abs(upper - 1.0) < 30.0 / math.sqrt(users)
    found = sa.epsilon(one, delta=1e-4, rounds=3)
    assert limit.epsilon(delta=1e-4) == pytest.approx(float(found), rel=30.0 / math.sqrt(users))


def test_mu_is_the_published_one() -> None:
    """sd(l)/sqrt(gamma n) in rational arithmetic, for k-ary randomized response of gamma = 1/2."""
    k, gamma, users = 4, Fraction(1, 2), 900
    lie = gamma / k
    keep = 1 - gamma + lie
    blanket = Fraction(1, k)  # normalised
    variance = 2 * blanket * ((keep - lie) / blanket) ** 2
    mu = math.sqrt(variance / (gamma * users))
    one = sa.ShuffleRound(sa.RandomizedResponse.from_gamma(categories=k, gamma=0.5), users=users)
    assert sa.design.asymptotic(one).mu == pytest.approx(mu, rel=1e-12)


def test_continuous_randomizers_have_a_limit() -> None:
    one = sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=100_000)
    limit = sa.design.asymptotic(one)
    found = one.epsilon(delta=1e-3)
    assert limit.epsilon(delta=1e-3) == pytest.approx(float(found), rel=0.05)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=9), "whose law is known"),
        (
            sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=1.0), users=9, population=20),
            "population=None",
        ),
        (
            sa.ShuffleRound(sa.DiscreteRandomizer([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]), users=9),
            "none of whose messages gives an input away",
        ),
    ],
)
def test_what_has_no_limit_is_told(one: sa.ShuffleRound, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sa.design.asymptotic(one)


def test_discrete_laplace_noise_is_a_pure_step() -> None:
    """Its two-sided geometric law, listed: both orders' losses, and the variance."""
    found = sa.design.frequency(
        users=3000, categories=8, target_epsilon=3.0, delta=1e-6, tolerance=0.05
    )
    (row,) = (row for row in found.central if row.name == "discrete Laplace noise")
    rate = row.mechanism.epsilon
    counts = np.arange(-400, 401)
    law = np.exp(-rate * np.abs(counts))
    law /= law.sum()
    assert row.rmse == pytest.approx(math.sqrt(law @ counts**2) / 3000, rel=1e-9)
    losses = np.log(law[1:] / law[:-1])  # of a count moved by one
    assert np.abs(losses) == pytest.approx(rate, rel=1e-9)
    # two counts of a replaced value, in the worst case: both losses at their largest
    assert 2.0 * rate >= row.bracket.upper >= 0.9 * 2.0 * rate
