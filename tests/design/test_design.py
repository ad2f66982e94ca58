"""Designs: certified targets, errors by simulation, the two ends, empty answers, pictures, JSON."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from typing import Any

import matplotlib
import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.design.limit import gaussian_delta, gaussian_mu
from shuffle_accountant.design.question import Question
from shuffle_accountant.design.vectors import mean_candidates

matplotlib.use("Agg")

TARGET = {"target_epsilon": 1.0, "delta": 1e-6}
SMALL = {"users": 10, "dimension": 5, "target_epsilon": 3.0, "delta": 1e-3, "tolerance": 0.5}
SIGMAS = 4.0


@pytest.fixture(scope="module")
def frequencies() -> sa.design.Design:
    return sa.design.frequency(users=3000, categories=8, **TARGET, rounds=2, tolerance=0.02)


@pytest.fixture(scope="module")
def means() -> sa.design.Design:
    return sa.design.mean(users=3000, dimension=6, **TARGET, rounds=2, tolerance=0.02)


def all_rows(design: sa.design.Design) -> list[sa.design.DesignRow]:
    return [*design.rows, *design.local, *design.central]


@pytest.mark.slow
def test_every_row_meets_the_target_and_one_step_further_does_not(
    frequencies: sa.design.Design, means: sa.design.Design
) -> None:
    # subset selection of size 1 is randomized response, which has a row
    assert len(frequencies) == 11
    assert len(means) == 5
    assert [row.name for row in means.central] == ["Laplace noise", "Gaussian noise"]
    for design in (frequencies, means):
        assert not design.excluded
        for row in all_rows(design):
            evidence = row.evidence
            hidden = "ZERO_OUT" if "zero-out" in row.name else "REPLACE_ONE"
            assert row.bracket.adjacency is sa.Adjacency[hidden]
            assert row.bracket.upper <= 1.0
            assert evidence.next_bracket is None or evidence.next_bracket.upper > 1.0
            again = row.candidate.protocol(row.mechanism, design.question)
            assert sa.epsilon(again, delta=1e-6, tolerance=0.02).upper <= 1.0


@pytest.mark.slow
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


@pytest.mark.slow
def test_frequencies_err_as_stated(frequencies: sa.design.Design) -> None:
    """All shuffled rows, on data in which nobody holds the last category."""
    users, runs = 3000, 100
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
        # a sample variance of m numbers is off by sqrt((kurtosis - 1)/m) of itself, the root by
        # half of that; of geometric numbers it is up to 9
        kurtosis = 9.0 if "geometric" in row.name else 3.0
        off = 0.5 * math.sqrt((kurtosis - 1.0) / runs)
        assert abs(found_rmse / row.rmse - 1.0) <= SIGMAS * off, row.name
        assert np.mean(np.abs(errors) <= row.largest_error) >= 0.95


def added_counts(design: sa.design.Design) -> list[sa.design.DesignRow]:
    """Rows of noise that a shuffler or a curator draws by itself."""
    names = ("asymmetric geometric", "one-sided geometric", "discrete Gaussian")
    rows = [row for row in all_rows(design) if any(name in row.name for name in names)]
    assert len(rows) == 3
    return rows


@pytest.mark.slow
def test_counts_of_one_party_are_unbiased_and_vary_as_stated(
    frequencies: sa.design.Design,
) -> None:
    """Bias and variance of every category, held by none, by some and by many."""
    users, runs = 3000, 1500
    values = np.minimum(np.arange(users) % 40, 6)  # 0 to 5 are held by a 40th, 6 by the rest
    shares = np.bincount(values, minlength=8) / users
    rng = np.random.default_rng(8)
    for row in added_counts(frequencies):
        found = [
            row.mechanism.estimate(row.mechanism.shuffled(values, rng), users=users).values
            for _ in range(runs)
        ]
        off = np.array(found) - shares
        stated = [row.candidate.error(row.mechanism, frequencies.question, f) for f in shares]
        deviation = np.array(stated)
        assert deviation[-1] == row.rmse
        average = math.sqrt(np.mean(np.square(deviation)))  # shares add up to 1: the mean is 1/8
        assert row.rmse_average == pytest.approx(average, rel=1e-12)
        assert np.all(np.abs(off.mean(axis=0)) <= SIGMAS * deviation / math.sqrt(runs))
        squares = off**2
        spread = squares.std(axis=0) / math.sqrt(runs)
        assert np.all(np.abs(squares.mean(axis=0) - deviation**2) <= SIGMAS * spread)


@pytest.mark.slow
def test_geometric_rows_are_what_murakami_et_al_ask_for(frequencies: sa.design.Design) -> None:
    """Both likelihood ratios of a count are each other's inverse, in exact rational numbers."""
    rows = [row for row in added_counts(frequencies) if row.place == "shuffle"]
    assert sorted(row.mechanism.dummies.mode > 0 for row in rows) == [False, True]
    for row in rows:
        law, keep = row.mechanism.dummies, Fraction(row.mechanism.keep)
        up = 1 - keep + keep / Fraction(law.right)
        down = 1 - keep + (keep * Fraction(law.left) if law.mode else 0)
        assert float(up * down) == pytest.approx(1.0, rel=1e-12)
        if law.mode:  # no dummies at all are rarer than a thousandth of delta, in both rounds
            assert law.left**law.mode <= 1e-3 * 1e-6 / 2


@pytest.mark.slow
def test_the_one_sided_row_is_purely_private() -> None:
    """Both counts lose a each at most: epsilon is 2a a round where delta is next to nothing."""
    found = sa.design.frequency(
        users=3000, categories=8, target_epsilon=2.0, delta=1e-30, tolerance=0.05
    )
    (row,) = (row for row in found.rows if "one-sided" in row.name)
    loss = -2.0 * math.log1p(-row.mechanism.keep)
    assert row.bracket.upper <= 2.0
    assert loss == pytest.approx(2.0, rel=0.05)


@pytest.mark.slow
def test_discrete_gaussian_noise_is_calibrated_by_a_sum(frequencies: sa.design.Design) -> None:
    """Four counts of two rounds, half of them moved up: their sum's law in 40 digits."""
    (row,) = (row for row in frequencies.central if row.name == "discrete Gaussian noise")
    sigma = row.mechanism.dummies.sigma

    def delta(sigma: float) -> float:
        reach = math.ceil(14.0 * sigma)
        with mpmath.workdps(40):
            square = 2 * mpmath.mpf(sigma) ** 2
            weights = [mpmath.exp(-mpmath.mpf(z * z) / square) for z in range(-reach, reach + 1)]
        law = np.array([float(weight / mpmath.fsum(weights)) for weight in weights])
        two = np.convolve(law, law)
        four = np.convolve(two, two)
        sums = np.arange(four.size) - 4 * reach
        losses = (2.0 * sums + 4.0) / (2.0 * sigma**2)
        return float(four @ np.maximum(-np.expm1(1.0 - losses), 0.0))

    # rounding of some thousand products is below 1e-12; brackets decide within 2 % of epsilon
    assert delta(sigma) <= 1e-6 * (1.0 + 1e-9)
    assert delta(0.97 * sigma) > 1e-6


@pytest.mark.slow
def test_largest_errors_hold_for_all_categories() -> None:
    """With heavier tails than those of a normal law, in 19 of 20 runs at least."""
    k, runs = 300, 400
    found = sa.design.frequency(
        users=3000, categories=k, target_epsilon=1.0, delta=1e-6, tolerance=0.3
    )
    rng = np.random.default_rng(10)
    for row in added_counts(found):
        law = row.mechanism.dummies
        drawn = law.draw(rng, runs * k).reshape(runs, k)
        errors = np.abs(drawn - law.expectation) / (row.mechanism.keep * 3000)
        kept = np.mean(errors.max(axis=1) <= row.largest_error * (1.0 + 1e-9))
        assert kept >= 0.95 - SIGMAS * math.sqrt(0.05 * 0.95 / runs), row.name
    noise = {row.name: row for row in found.central}
    scale = noise["Laplace noise"].mechanism.scale
    errors = np.abs(rng.laplace(scale=scale, size=(runs, k))).max(axis=1) / 3000
    kept = np.mean(errors <= noise["Laplace noise"].largest_error)
    assert abs(kept - 0.95) <= SIGMAS * math.sqrt(0.05 * 0.95 / runs)
    rate = noise["discrete Laplace noise"].mechanism.epsilon
    drawn = rng.geometric(-math.expm1(-rate), (2, runs, k))
    errors = np.abs(drawn[0] - drawn[1]).max(axis=1) / 3000
    assert np.mean(errors <= noise["discrete Laplace noise"].largest_error) >= 0.95 - 0.044


@pytest.mark.slow
def test_what_curators_release_is_unbiased_and_errs_as_stated(
    frequencies: sa.design.Design, means: sa.design.Design
) -> None:
    """Noise for sums of which a replaced value moves two by 1 each, or a vector's norm by 2."""
    users, runs = 3000, 4000
    rng = np.random.default_rng(13)
    counts = np.bincount(np.minimum(np.arange(users) % 40, 6), minlength=8)
    rows = {row.name: row for row in frequencies.central}
    gaussian = rows["Gaussian noise"].mechanism.noise_multiplier
    laplace = rows["Laplace noise"].mechanism.scale
    stopped = -math.expm1(-rows["discrete Laplace noise"].mechanism.epsilon)
    shape = (runs, counts.size)
    noise = {
        "Gaussian noise": math.sqrt(2.0) * gaussian * rng.standard_normal(shape),
        "Laplace noise": rng.laplace(scale=laplace, size=shape),
        "discrete Laplace noise": rng.geometric(stopped, shape) - rng.geometric(stopped, shape),
    }
    of_vectors = next(row for row in means.central if row.name == "Gaussian noise")
    multiplier = of_vectors.mechanism.noise_multiplier
    vectors = 2.0 * multiplier * rng.standard_normal((runs, 6)) / users
    cases = [
        (rows[name], (counts + drawn) / users - counts / users) for name, drawn in noise.items()
    ]
    for row, off in [*cases, (of_vectors, vectors)]:
        each = row.rmse / (math.sqrt(6.0) if row is of_vectors else 1.0)
        assert np.all(np.abs(off.mean(axis=0)) <= SIGMAS * each / math.sqrt(runs)), row.name
        squares = off**2
        allowed = SIGMAS * squares.std(axis=0) / math.sqrt(runs)
        assert np.all(np.abs(squares.mean(axis=0) - each**2) <= allowed), row.name
        within = np.mean(np.abs(off).max(axis=1) <= row.largest_error * (1.0 + 1e-9))
        assert within >= 0.95 - SIGMAS * math.sqrt(0.05 * 0.95 / runs), row.name


@pytest.mark.slow
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


def noise_of_the_2_norm(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Rows of a density that falls like e^-|z|: uniform directions, and a gamma law's lengths."""
    directions = rng.standard_normal(shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(directions * rng.gamma(shape[1], size=(shape[0], 1)))


@pytest.mark.parametrize("dimension", [1, 2, 6, 300])
def test_a_laplace_curator_of_vectors(dimension: int) -> None:
    """Its errors by simulation, and on a line in closed form; adjacency is replacement."""
    users, runs = 20_000, 4000
    question = Question(
        users=users,
        size=dimension,
        target_epsilon=1.0,
        delta=1e-9,
        rounds=2,
        tolerance=1e-3,
        of="dimension",
    )
    candidate = next(
        one
        for one in mean_candidates(dimension, gaussian_messages=False)
        if one.name == "Laplace noise"
    )
    row = candidate.row(question)
    assert row.place == "central"
    assert row.bracket.adjacency is sa.Adjacency.REPLACE_ONE
    scale = 2.0 * row.mechanism.scale / users  # a replaced vector moves the sum by 2 at most
    off = scale * noise_of_the_2_norm(np.random.default_rng(12), (runs, dimension))
    squares = (off**2).sum(axis=1)
    assert abs(squares.mean() - row.rmse**2) <= SIGMAS * squares.std() / math.sqrt(runs)
    within = np.mean(np.abs(off).max(axis=1) <= row.largest_error)
    # coordinates are not independent: what holds by a union of events is more than 95 %
    assert within >= 0.95 - SIGMAS * math.sqrt(0.05 * 0.95 / runs)
    if dimension == 1:
        assert row.rmse == pytest.approx(math.sqrt(2.0) * scale, rel=1e-12)
        # a 1e-9th of the share is left out
        assert row.largest_error == pytest.approx(-math.log(0.05) * scale, rel=1e-8)


@pytest.mark.parametrize("move", [0.3, 2.0])
def test_noise_of_the_2_norm_hides_no_less_than_on_a_line(move: float) -> None:
    """delta in two dimensions, by quadrature in polar coordinates, against Laplace noise's."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    cosines = np.cos(0.5 * math.pi * (nodes + 1.0))
    around = 0.5 * weights  # of both halves of the circle, over pi
    nodes, weights = np.polynomial.legendre.leggauss(300)
    lengths, along = 20.0 * (nodes + 1.0), 20.0 * weights
    r = lengths[:, None]
    moved = np.exp(-np.sqrt(r**2 + move**2 - 2.0 * r * move * cosines))
    for epsilon in (0.0, 0.3 * move, 0.9 * move):
        line = max(1.0 - math.exp(0.5 * (epsilon - move)), 0.0)
        gains = np.maximum(moved - np.exp(epsilon - r), 0.0)
        plane = float((along * lengths) @ (gains @ around))
        assert 0.0 < plane < line
        assert plane > 0.2 * line  # and not by far


@pytest.mark.slow
def test_a_design_is_a_table_json_and_a_picture(frequencies: sa.design.Design) -> None:
    text = str(frequencies)
    assert text.startswith("Deploy ")
    assert "\n3000 users, 8 categories, 2 rounds: ε <= 1 at δ = 1e-06\nmechanism" in text
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
    *lines, target = ax.get_lines()
    assert list(target.get_xdata()) == [means.question.target_epsilon] * 2
    assert ax.get_title() == means.question.told
    assert "(nats)" in ax.get_xlabel()
    shown = (means.central[0], *means.rows, means.local[0])
    assert len(lines) == len(shown)
    for row, line in zip(shown, lines, strict=True):
        assert str(line.get_label()).startswith(row.name)
        assert f"{row.rmse:.3g} at the target, largest {row.largest_error:.3g}" in line.get_label()
        epsilons, errors = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert np.all(np.diff(epsilons) > 0)
        assert np.all(np.diff(errors) < 0)


@pytest.mark.slow
def test_a_target_that_nothing_meets_says_why() -> None:
    found = sa.design.frequency(
        users=3, categories=4, target_epsilon=1e-3, delta=1e-4, tolerance=0.5, jobs=1
    )
    assert len(found) == 0
    assert found.rows == found.local == found.central == ()
    assert len(found.excluded) == 21
    assert all("\n" not in one.reason and one.reason for one in found.excluded)
    assert "at the target, without data 1 at most" in str(found)
    ax = found.plot()
    assert not ax.get_lines()
    assert "no mechanism meets the target" in " ".join(ax.texts[0].get_text().split())
    named = " ".join(" ".join(text.get_text().split()) for text in ax.get_legend().get_texts())
    for one in found.excluded:
        assert f"{one.name} ({one.place}): {one.reason}" in named
    assert found.to_dict()["rows"] == []


@pytest.mark.release
def test_a_million_users() -> None:
    found = sa.design.frequency(
        users=1_000_000, categories=1000, target_epsilon=1.0, delta=1e-8, rounds=30
    )
    assert found.rows[0].rmse < 1e-4 < found.local[0].rmse


@pytest.mark.release
def test_means_of_a_million_users() -> None:
    found = sa.design.mean(users=1_000_000, dimension=1000, target_epsilon=1.0, delta=1e-8)
    assert "Gaussian messages (zero-out)" in [row.name for row in found.rows]


@pytest.mark.slow
def test_gaussian_messages_have_next_to_the_least_noise(means: sa.design.Design) -> None:
    """Half a percent of the noise is what wide brackets and steps of a 500th may cost."""
    (row,) = (row for row in means.rows if row.name == "Gaussian messages (zero-out)")
    multiplier = row.mechanism.noise_multiplier
    assert row.evidence.next_value == pytest.approx(multiplier / 1.002, rel=1e-12)
    assert row.rmse == multiplier * math.sqrt(6 / 3000)
    less = sa.GaussianVectors(noise_multiplier=multiplier / 1.01)
    assert sa.epsilon(sa.ShuffleRound(less, users=3000), delta=1e-6, rounds=2).lower > 1.0


@pytest.fixture(scope="module")
def small() -> sa.design.Design:
    """Of a question that is answered soon, one mechanism after another."""
    return sa.design.mean(**SMALL, jobs=1)


@pytest.mark.slow
def test_workers_find_the_same(small: sa.design.Design) -> None:
    assert sa.design.mean(**SMALL, jobs=2) == small


@pytest.mark.slow
def test_a_cluster_finds_the_same(small: sa.design.Design) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed (extra 'dask')")
    import joblib

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        found = sa.design.mean(**SMALL)
    assert found == small


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"users": 0}, ValueError, "users must be an integer >= 1"),
        ({"users": 1e4 + 0.5}, TypeError, "users must be an integer"),
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


@pytest.mark.slow
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
