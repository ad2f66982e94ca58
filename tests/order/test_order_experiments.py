"""Attack, learning and data: against plain loops, closed forms and known laws."""

from __future__ import annotations

import collections
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shuffle_accountant.order import BlockShuffler, Groups
from shuffle_accountant.order import experiments as ex

EPS = 1.2

# A test of a sampler with a fixed seed fails below this; the seeds were not chosen.
LEAST_P = 1e-4


def test_crescents_without_noise_lie_on_circles() -> None:
    points, labels = ex.crescents(4000, noise=0.0, gap=4.5, rng=1)
    assert points.shape == (4000, 2)
    for (x, y), label in zip(points.tolist(), labels.tolist(), strict=True):
        cluster, moon, half = label >> 2, (label >> 1) & 1, label & 1
        x -= 4.5 * cluster
        if moon:  # the lower one is the upper one, turned by half a turn and moved
            x, y = 1.0 - x, 0.5 - y
        assert math.hypot(x, y) == pytest.approx(1.0, abs=1e-12)
        assert y >= -1e-12
        assert half == (x < 0)
    assert stats.chisquare(np.bincount(labels, minlength=8)).pvalue > LEAST_P


def test_crescents_by_seed() -> None:
    one, same, other = (ex.crescents(50, rng=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)


def test_reports_have_the_law_of_randomized_response() -> None:
    reports = ex.randomize(np.full(20_000, 2), categories=4, eps0=EPS, rng=5)
    keep = math.exp(EPS) / (math.exp(EPS) + 3)
    wanted = np.full(4, (1 - keep) / 3)
    wanted[2] = keep
    counts = np.bincount(reports, minlength=4)
    assert stats.chisquare(counts, 20_000 * wanted).pvalue > LEAST_P
    truth = np.arange(10)
    np.testing.assert_array_equal(ex.randomize(truth, categories=10, eps0=800.0), truth)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_nearest_users_against_sorting(dimensions: int) -> None:
    points = np.random.default_rng(8).normal(size=(40, dimensions))
    found = ex.nearest_users(points, count=7)
    for i, row in enumerate(found):
        distances = np.linalg.norm(points - points[i], axis=1)
        distances[i] = np.inf
        np.testing.assert_array_equal(row, np.argsort(distances)[:7])


def test_nobody_is_their_own_neighbour_even_in_a_crowd() -> None:
    found = ex.nearest_users(np.zeros(30), count=4)
    assert found.shape == (30, 4)
    assert not (found == np.arange(30)[:, None]).any()
    assert all(len(set(row)) == 4 for row in found.tolist())


def test_without_noise_the_attack_is_the_majority() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(3, size=60)
    voters = rng.integers(60, size=(60, 5))
    order = rng.permutation(60)
    found = ex.inference_attack(values, voters, order, categories=3, eps0=800.0, trials=40, rng=0)
    for i in range(60):
        votes = collections.Counter(values[order[slot]] for slot in voters[i])
        best = [value for value, count in votes.items() if count == max(votes.values())]
        if values[i] not in best:
            assert found.successes[i] == 0
        elif len(best) == 1:
            assert found.successes[i] == 40
        else:  # a tie among two, or three of five votes never: each trial is a fair draw
            assert 0 < found.successes[i] < 40
    assert found.accuracy == pytest.approx(found.successes.sum() / 2400)


def test_the_majority_wins_as_often_as_the_binomial_law_says() -> None:
    n, votes, trials = 400, 9, 50
    # everybody alike: what shuffles cannot hide
    found = ex.inference_attack(
        np.ones(n, dtype=int),
        np.random.default_rng(1).integers(n, size=(n, votes)),
        np.random.default_rng(2).permutation(n),
        categories=2,
        eps0=0.5,
        trials=trials,
        rng=3,
    )
    keep = math.exp(0.5) / (math.exp(0.5) + 1)
    chance = stats.binom.sf(votes // 2, votes, keep)
    # users share voters: within ten standard deviations of independent ones
    assert found.accuracy == pytest.approx(chance, abs=10 * 0.5 / math.sqrt(n * trials))


def test_a_user_is_vulnerable_from_ninety_percent_on() -> None:
    result = ex.AttackResult(successes=np.array([8, 9, 10, 0]), trials=10, least=9)
    assert result.vulnerable.tolist() == [False, True, True, False]
    assert result.rho == 0.5
    values = np.zeros(4, dtype=int)
    voters = np.zeros((4, 1), dtype=int)
    for threshold, least in ((0.9, 9), (0.85, 9), (1.0, 10), (0.0, 0)):
        found = ex.inference_attack(
            values, voters, np.arange(4), categories=2, eps0=1.0, trials=10, threshold=threshold
        )
        assert found.least == least


def test_an_interrupted_attack_keeps_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = ex.randomize, []

    def randomize(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(ex, "randomize", randomize)
    values = np.zeros(4, dtype=int)
    arguments = values, np.zeros((4, 1), dtype=int), np.arange(4)
    found = ex.inference_attack(*arguments, categories=2, eps0=800.0, trials=1000)
    assert (found.trials, found.least, found.rho) == (3, 3, 1.0)
    calls[:] = [1, 1, 1]
    with pytest.raises(KeyboardInterrupt):
        ex.inference_attack(*arguments, categories=2, eps0=1.0)


def test_blocks_of_a_grid() -> None:
    points = np.array([[0.0, 0.0], [0.9, 0.9], [1.0, 0.0], [0.0, 1.5], [0.5, 0.5]])
    assert blocks_in(ex.grid_blocks(points, width=1.0)) == [(0, 1, 4), (2,), (3,)]
    assert blocks_in(ex.grid_blocks([17, 18, 21, 22, 40], width=5)) == [(0, 1, 2), (3,), (4,)]


def blocks_in(groups: Groups) -> list[tuple[int, ...]]:
    """Which users the block shuffle mixes, by what it does."""
    shuffler, rng = BlockShuffler(groups), np.random.default_rng(0)
    met: list[set[int]] = [{i} for i in range(groups.n)]
    for _ in range(50):
        for i, user in enumerate(shuffler.permutation(rng).tolist()):
            met[i].add(user)
    return sorted({tuple(sorted(block)) for block in met})


def test_local_distributions_against_loops() -> None:
    rng = np.random.default_rng(4)
    points = rng.integers(6, size=(80, 2)).astype(float)  # many share a place
    values = rng.integers(3, size=80)
    found = ex.local_distributions(points, values, radius=1.5, categories=3)
    for i in range(80):
        near = [values[j] for j in range(80) if math.dist(points[i], points[j]) <= 1.5]
        wanted = [near.count(value) / len(near) for value in range(3)]
        assert found[i] == pytest.approx(wanted, abs=1e-12)


ROWS = [
    ["39", "State-gov", "77516", "Bachelors", "13", "Never-married", "Adm-clerical", "Own-child"],
    ["50", "?", "83311", "Bachelors", "13", "Married-civ-spouse", "Exec-managerial", "Husband"],
]
REST = [
    ["White", "Male", "2174", "0", "40", "Cuba", "<=50K"],
    ["Black", "F", "0", "0", "13", "?", ">50K"],
]


def write(path: Path, header: list[str] | None, end: str = "") -> Path:
    lines = [", ".join(a + b) + end for a, b in zip(ROWS, REST, strict=True)]
    text = ([",".join(header)] if header else []) + lines
    path.write_text("\n".join(text) + "\n\n", encoding="utf-8")
    return path


HEADER = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income-per-year"),
]


@pytest.mark.parametrize("header", [None, HEADER, [name.replace("-", "_") for name in HEADER]])
@pytest.mark.parametrize("end", ["", "."])
def test_the_adult_table(tmp_path: Path, header: list[str] | None, end: str) -> None:
    table = ex.read_adult(write(tmp_path / "adult.csv", header, end))
    assert table.age.tolist() == [39, 50]
    assert table.marital_status.tolist() == ["Never-married", "Married-civ-spouse"]
    assert table.income.tolist() == [0, 1]


def test_other_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with pytest.raises(ValueError, match=r"path must be a CSV file .* got '.*table\.csv'"):
        ex.read_adult(path)
    for text, message in (
        ("", "empty"),
        ("age,income\n1,>50K\n", "'marital-status'"),
        ("age,marital-status,income\n1,x,maybe\n", "'maybe'"),
        ("age,marital-status,income\nx,x,>50K\n", "as row 1"),
        ("1,2,3\n", "as row 1"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=message) as caught:
            ex.read_adult(path)
        assert "\n" not in str(caught.value)


def test_without_scikit_learn_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.calibration", None)
    places, values = np.arange(20.0), np.arange(20) % 2
    with pytest.raises(ImportError, match=r"pip install '\.\[learn\]'"):
        ex.learnability(places, values, places, values)
    with pytest.raises(ImportError, match="scikit-learn"):
        ex.distribution_error(places, values, np.tile([1.0, 0.0], (20, 1)), categories=2)


@pytest.mark.slow
def test_a_model_learns_what_the_shuffle_leaves() -> None:
    pytest.importorskip("sklearn", reason="models are scikit-learn's")
    points, labels = ex.crescents(800, rng=0)
    test_points, test_labels = ex.crescents(400, rng=1)
    rng = np.random.default_rng(2)
    whole = ex.learnability(points, labels, test_points, test_labels, iterations=5)
    assert whole > 0.9
    # inside a cluster nothing is left but which cluster it is
    shuffled = labels[blocks_of(labels >> 2, rng)]
    eight = ex.learnability(points, shuffled, test_points, test_labels, iterations=5)
    two = ex.learnability(points, shuffled >> 2, test_points, test_labels >> 2, iterations=5)
    # four values alike: one in four, with 400 tests
    assert eight == pytest.approx(0.25, abs=0.1)
    assert two > 0.99


def blocks_of(blocks: Any, rng: np.random.Generator) -> Any:
    order = np.arange(blocks.size)
    for value in np.unique(blocks):
        members = np.flatnonzero(blocks == value)
        order[members] = rng.permutation(members)
    return order


@pytest.mark.slow
def test_error_of_predicted_distributions() -> None:
    pytest.importorskip("sklearn", reason="models are scikit-learn's")
    rng = np.random.default_rng(3)
    places = rng.random(3000)
    share = np.where(places < 0.5, 0.1, 0.7)  # of the value 1
    values = (rng.random(3000) < share).astype(int)
    truth = np.stack([1 - share, share], axis=1)
    reports = ex.randomize(values, categories=2, eps0=1.0, rng=5)
    options = {"categories": 2, "iterations": 10}
    cleaned = ex.distribution_error(places, reports, truth, eps0=1.0, **options)
    noisy = ex.distribution_error(places, reports, truth, **options)
    uniform = ex.distribution_error(places, rng.permutation(reports), truth, eps0=1.0, **options)
    # predicting the mean share everywhere errs by 0.3 of 0.3; noise moves shares to the middle
    # a mean of 0.3 is estimated from some ten leaves; half of it is noise's that was left in
    assert cleaned < 0.45 < noisy < 1.0
    assert uniform == pytest.approx(0.3 / 0.3, abs=0.15)
    # for reports the reports' own distributions are the truth
    keep = math.e / (math.e + 1)
    noised = np.stack([keep * truth[:, 0] + (1 - keep) * truth[:, 1],
                       (1 - keep) * truth[:, 0] + keep * truth[:, 1]], axis=1)  # fmt: skip
    assert ex.distribution_error(places, reports, noised, **options) < 0.45
    with pytest.raises(ValueError, match="truth must not be uniform"):
        ex.distribution_error(places, reports, np.full((3000, 2), 0.5), **options)


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: ex.crescents(0), ValueError, "users must"),
        (lambda: ex.crescents(3, noise=-1.0), ValueError, "noise must"),
        (lambda: ex.randomize([0, 2], categories=2, eps0=1.0), ValueError, "values must"),
        (lambda: ex.randomize([0.0], categories=2, eps0=1.0), TypeError, "values must"),
        (lambda: ex.randomize([[0], [0, 1]], categories=2, eps0=1.0), ValueError, "ragged"),
        (lambda: ex.nearest_users([0.0, 1.0], count=2), ValueError, "count must"),
        (lambda: ex.nearest_users([0.0, math.nan], count=1), ValueError, "points must"),
        (lambda: ex.nearest_users(["a"], count=1), TypeError, "points must"),
        (lambda: ex.grid_blocks([0.0], width=0.0), ValueError, "width must"),
        (lambda: attack(values=[0, 3]), ValueError, "values must"),
        (lambda: attack(neighbours=[[0]]), ValueError, "neighbours must"),
        (lambda: attack(neighbours=[[0], [2]]), ValueError, "neighbours must"),
        (lambda: attack(permutation=[0, 0]), ValueError, "permutation must"),
        (lambda: attack(trials=0), ValueError, "trials must"),
        (lambda: attack(threshold=1.5), ValueError, "threshold must"),
        (lambda: attack(threshold="x"), TypeError, "threshold must"),
        (lambda: attack(eps0=math.inf), ValueError, "eps0 must"),
        (lambda: learn(released=[0, 0, 0]), ValueError, "released must"),
        (lambda: learn(released=[0, 1, 1]), ValueError, "released must"),
        (lambda: learn(test_points=[[0.0, 1.0]]), ValueError, "test_points must"),
        (lambda: learn(test_values=[0, 1]), ValueError, "test_values must"),
    ],
)
def test_bad_values_are_named(call: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named) as caught:
        call()
    assert "\n" not in str(caught.value)


def attack(**change: Any) -> Any:
    arguments: dict[str, Any] = {
        "values": [0, 1], "neighbours": [[1], [0]], "permutation": [1, 0],
        "categories": 2, "eps0": 1.0,
    }  # fmt: skip
    return ex.inference_attack(**(arguments | change))


def learn(**change: Any) -> Any:
    arguments: dict[str, Any] = {
        "points": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
        "released": [0, 0, 0, 1, 1, 1],
        "test_points": [0.0],
        "test_values": [0],
    }
    changed = arguments | change
    changed["points"] = changed["points"][: len(changed["released"])]
    return ex.learnability(**changed)
