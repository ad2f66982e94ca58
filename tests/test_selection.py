"""The best of several runs: exact enumeration with every score, closed forms, references."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import shuffle_accountant as sa
from shuffle_accountant.tuning.best_run import chances, expected, slope, some_run

REFS = Path(__file__).resolve().parent / "refs" / "adaptive"
RUNS = [
    sa.Geometric(mean=4.0),
    sa.Poisson(mean=3.0),
    sa.Binomial(trials=6, probability=0.4),
    sa.NegativeBinomial(size=0.5, probability=0.1),
    sa.Fixed(3),
]


def pmf(runs: Any, most: int = 4000) -> np.ndarray:
    """Probabilities of 0, 1, … runs, from scipy."""
    count = np.arange(most)
    if isinstance(runs, sa.Geometric):
        return stats.geom.pmf(count, 1.0 / runs.mean)
    if isinstance(runs, sa.Poisson):
        return stats.poisson.pmf(count, runs.mean)
    if isinstance(runs, sa.Binomial):
        return stats.binom.pmf(count, runs.trials, runs.probability)
    if isinstance(runs, sa.Fixed):
        return (count == runs.runs).astype(float)
    found = stats.nbinom.pmf(count, runs.size, runs.probability)
    found[0] = 0.0
    return found / found.sum()


@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: type(runs).__name__)
def test_generating_functions(runs: Any) -> None:
    """By sums over the probabilities of each number of runs."""
    law, count = pmf(runs), np.arange(4000)
    s = np.asarray([0.0, 1e-12, 1e-3, 0.3, 0.9])
    for one in s.tolist():
        wanted = float(np.sum(law[1:] * count[1:] * (1.0 - one) ** (count[1:] - 1.0)))
        assert float(slope(runs, np.asarray([one]))[0]) == pytest.approx(wanted, rel=1e-9)
        wanted = float(np.sum(law * -np.expm1(count * np.log1p(-one))))
        assert float(some_run(runs, np.asarray([one]))[0]) == pytest.approx(wanted, rel=1e-9)
    assert expected(runs) == pytest.approx(float(law @ count), rel=1e-9)
    more = 1.0 - np.cumsum(law)[[0, 1, 5]]
    assert chances(runs, np.asarray([0.0, 1.0, 5.0])) == pytest.approx(more, abs=1e-9)


def released(law: np.ndarray, p: np.ndarray, score: tuple[int, ...]) -> np.ndarray:
    """Law of the released output, and of no output: the best score, ties broken at random."""
    found = np.zeros(p.size + 1)
    count = np.arange(law.size)
    found[-1] = law[0]
    for level in set(score):
        among = [i for i, one in enumerate(score) if one == level]
        below = sum(p[i] for i, one in enumerate(score) if one < level)
        upto = below + sum(p[i] for i in among)
        chance = float(law @ (upto**count - below**count))
        for i in among:
            found[i] = chance * p[i] / (upto - below)
    return found


@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: type(runs).__name__)
def test_every_score_by_enumeration(runs: Any) -> None:
    """Histograms of two users: every ranking of them, with all ties, is below the upper end."""
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=1.0), users=2)
    keep = 1.0 / (1.0 + math.exp(-1.0))
    p = np.asarray([keep**2, 2 * keep * (1 - keep), (1 - keep) ** 2])  # both hold 0
    q = np.asarray([keep * (1 - keep), keep**2 + (1 - keep) ** 2, keep * (1 - keep)])
    law = pmf(runs, 3000)
    answer = sa.selection(one, runs=runs)
    for epsilon in (0.0, 0.3, 0.9):
        alpha = math.exp(epsilon)
        best = 0.0
        for score in itertools.product(range(3), repeat=3):
            a, b = released(law, p, score), released(law, q, score)
            for first, second in ((a, b), (b, a)):
                best = max(best, float(np.sum(np.maximum(first - alpha * second, 0.0))))
        found = answer.delta(epsilon=epsilon)
        assert best <= found.upper + 1e-12
        # the pair is this dataset's, so that some score attains the lower end
        assert found.lower <= best + 1e-12
        assert found.lower >= 0.5 * best - 1e-3


@pytest.mark.parametrize(
    "entry",
    json.loads((REFS / "selection.json").read_text(encoding="utf-8")),
    ids=lambda entry: entry["id"],
)
def test_references(entry: dict[str, Any]) -> None:
    law, args = entry["law"], entry["args"]
    runs: Any = {
        "geometric": lambda: sa.Geometric(mean=1.0 / args["g"]),
        "negbin": lambda: sa.NegativeBinomial(size=args["eta"], probability=args["g"]),
        "poisson": lambda: sa.Poisson(mean=args["mean"]),
        "binomial": lambda: sa.Binomial(trials=args["N"], probability=args["p"]),
    }[law]()
    step = sa.GaussianMechanism(noise_multiplier=1.0 / entry["mu"])
    found = sa.selection(sa.PoissonSampled(step, rate=1.0), runs=runs).epsilon(delta=entry["delta"])
    low, high = entry["epsilon"]
    # attained ends are rounded down by what the points of a curve cost; upper ends are layered
    # and the references' own are rounded as well
    assert 0.99 * low <= found.lower <= 1.003 * low
    assert 0.99 * low <= found.upper <= high


def test_numbers_of_the_field() -> None:
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=5.0), rate=1.0)
    for runs, lower, upper in (
        (sa.Geometric(mean=10.0), 0.932, 1.2486),
        (sa.Poisson(mean=10.0), 0.932, 1.5868),
        (sa.Binomial(trials=20, probability=0.5), 1.118, 1.7683),
    ):
        found = sa.selection(step, runs=runs).epsilon(delta=1e-6)
        assert found.lower == pytest.approx(lower, rel=2e-3)
        assert found.upper == pytest.approx(upper, rel=6e-3)


def test_one_run_is_the_run() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=1000)
    alone = one.epsilon(delta=1e-6)
    found = sa.selection(one, runs=sa.Fixed(1)).epsilon(delta=1e-6)
    assert found.lower <= alone.upper
    assert alone.lower <= found.upper <= alone.upper * (1.0 + 1e-3)
    few = sa.selection(one, runs=sa.Fixed(5)).epsilon(delta=1e-6)
    assert few.upper <= sa.epsilon(one, delta=1e-6, rounds=5).upper * (1.0 + 1e-2)
    assert few.conditions[-1].endswith("(selection).")
    assert few.adjacency is sa.Adjacency.REPLACE_ONE


def test_refused() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=1000)
    with pytest.raises(TypeError, match="runs must be"):
        sa.selection(one, runs=3)
    with pytest.raises(ValueError, match="mean must be"):
        sa.Geometric(mean=0.5)
    with pytest.raises(ValueError, match="runs must be"):
        sa.Fixed(0)
    with pytest.raises(ValueError, match="protocol must have"):
        sa.selection([], runs=sa.Fixed(2))
    with pytest.raises(ValueError, match="delta must be"):
        sa.selection(one, runs=sa.Fixed(2)).epsilon(delta=0.0)


@pytest.mark.filterwarnings("error::shuffle_accountant.CrossedEndsError")
@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: type(runs).__name__)
def test_ends_are_in_order_by_themselves(runs: Any) -> None:
    """They come from two routes, and none is moved to the other."""
    one = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=20)
    found = sa.selection(one, runs=runs)
    for delta in (1e-3, 1e-6, 1e-10):
        answer = found.epsilon(delta=delta)
        assert 0.0 < answer.lower < answer.upper
    assert found.delta(epsilon=0.5).lower < found.delta(epsilon=0.5).upper
