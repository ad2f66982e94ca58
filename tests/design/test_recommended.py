"""What a design recommends, and intervals of estimates that hold as often as they say."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import shuffle_accountant as sa
from shuffle_accountant.randomizers.estimation import Estimate


def histograms(categories: int) -> dict[str, Any]:
    zipf = 1.0 / np.arange(1, categories + 1)
    point = np.zeros(categories)
    point[0] = 1.0
    return {"uniform": np.full(categories, 1 / categories), "zipf": zipf / zipf.sum(), "one": point}


@pytest.mark.parametrize("name", ["uniform", "zipf", "one"])
@pytest.mark.parametrize(
    "oracle",
    [
        sa.RandomizedResponse(categories=2, eps0=1.0),
        sa.RandomizedResponse(categories=50, eps0=4.0),
        sa.RAPPOR(categories=20, eps0=2.0),
        sa.HadamardResponse(categories=30, eps0=2.0),
        sa.SubsetSelection(categories=30, eps0=1.0, size=5),
    ],
    ids=lambda oracle: f"{type(oracle).__name__}-{oracle.categories}",
)
def test_intervals_hold(oracle: Any, name: str) -> None:
    """Of 100 repetitions no more than 5 % may fail, but for chance (4 standard deviations)."""
    rng = np.random.default_rng(1)
    users, repetitions = 2000, 100
    shares = histograms(oracle.categories)[name]
    counts = np.floor(shares * users).astype(int)
    counts[0] += users - counts.sum()
    values, truth = np.repeat(np.arange(oracle.categories), counts), counts / users
    held = 0
    for _ in range(repetitions):
        found = oracle.estimate(oracle.randomize(values, rng=rng))
        low, high = found.interval(confidence=0.95)
        held += bool(np.all((low <= truth) & (truth <= high)))
        single = found.interval(confidence=0.95, simultaneous=False)
        assert np.all(single[1] - single[0] <= high - low + 1e-15)
        shown = found.projected()
        assert shown.min() >= 0.0
        assert shown.sum() == pytest.approx(1.0, abs=1e-9)
        assert np.sum((shown - truth) ** 2) <= np.sum((found.values - truth) ** 2) + 1e-12
    assert held / repetitions >= 0.95 - 4 * (0.95 * 0.05 / repetitions) ** 0.5


@pytest.mark.parametrize("name", ["uniform", "zipf", "one"])
@pytest.mark.parametrize(("categories", "eps0"), [(10, 2.0), (1000, 6.0)])
def test_intervals_do_not_hold_much_more_often_than_they_say(
    categories: int, eps0: float, name: str
) -> None:
    """Between 94 % and 99.5 %, but for three standard errors of 150 repetitions."""
    oracle = sa.RandomizedResponse(categories=categories, eps0=eps0)
    rng, users, repetitions = np.random.default_rng(5), 20_000, 150
    counts = rng.multinomial(users, histograms(categories)[name])
    values, truth = np.repeat(np.arange(categories), counts), counts / users
    held, alone = 0, 0.0
    for _ in range(repetitions):
        found = oracle.estimate(oracle.randomize(values, rng))
        low, high = found.interval()
        held += bool(np.all((low <= truth) & (truth <= high)))
        low, high = found.interval(simultaneous=False)
        alone += float(np.mean((low <= truth) & (truth <= high)))
    for share in (held / repetitions, alone / repetitions):
        assert 0.94 - 3 * (0.06 / repetitions) ** 0.5 <= share
        assert share <= 0.995 + 3 * (0.005 / repetitions) ** 0.5


def test_intervals_of_unknown_errors_are_refused() -> None:
    own = Estimate(np.array([0.5]), np.array([0.1]), 10)
    with pytest.raises(ValueError, match="ends of the estimate must be given"):
        own.interval()
    good = sa.RandomizedResponse(categories=4, eps0=1.0)
    found = good.estimate([0, 1, 2, 3])
    with pytest.raises(ValueError, match="ends of the estimate must be given"):
        Estimate(np.full(4, 0.25), np.full(4, 0.1), 10).change_since(found).interval()
    with pytest.raises(ValueError, match="confidence"):
        found.interval(confidence=1.0)
    with pytest.raises(ValueError, match="rounds"):
        found.interval(rounds=0)
    with pytest.raises(ValueError, match="rounds"):
        found.interval(rounds=10**400)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.interval()[1], found.interval()[1])


def test_the_recommended_row_becomes_a_deployment() -> None:
    question = {"users": 30_000, "min_users": 28_500, "categories": 50, "rounds": 4}
    slow = [f"augmented shuffle, {name} geometric" for name in ("one-sided", "asymmetric")]
    slow += [f"{name} noise messages" for name in ("negative binomial", "binomial", "Poisson")]
    slow += ["augmented shuffle, half kept", "local hashing"]
    design = sa.design.frequency(**question, target_epsilon=1.0, delta=1e-8, exclude=slow)  # type: ignore[arg-type]
    row = design.recommended
    assert row.place == "shuffle"
    assert row.interval == min(
        one.largest_error for one in design.rows if one.messages == 1 and one.eps0 is not None
    )
    first = design.advice
    assert " ".join(str(design).split()).startswith(first)
    assert first.startswith(f"Deploy {row.name} with eps0 = ")
    assert "if at least 28,500 report in every round." in first
    assert "(95 %, all 50 at once)" in first
    usual = row.average_interval
    assert row.to_dict()["average_interval"] == usual
    assert usual is not None
    assert f"a share of 1/50 to within ± {usual:.2g}, any share to within" in first
    # a normal law's interval at that share is narrower, and not by much
    error = row.mechanism.frequency_error(users=28_500, frequency=0.02)
    assert 1.0 < usual / (error * norm.isf(0.025 / 50)) < 1.1
    deployment = row.deployment()
    again = sa.Deployment.load(deployment.to_json())
    assert again == deployment
    assert again.check().upper <= 1.0
    assert again.round.users == 28_500
    assert json.loads(json.dumps(design.to_dict()))["recommended"]["name"] == row.name
    with pytest.raises(ValueError, match="deployment"):
        design.central[0].deployment()
    # one step further fails, and that is said
    further = row.evidence.next_bracket
    assert further is not None
    assert further.upper > 1.0 >= row.bracket.upper
    assert design.to_dict()["evidence"] == design.proof
    assert " ".join(str(design).split()).startswith(f"{first} {design.proof}")
    for low, high in (row.bracket.ends(), further.ends()):
        assert f"[{low}, {high}]" in design.proof
    assert f"{row.evidence.next_value:.6g}" in design.proof
    assert ("misses the target" in design.proof) is row.evidence.proven


def test_subset_selection_of_one_category_is_randomized_response() -> None:
    design = sa.design.frequency(users=100_000, categories=20, target_epsilon=1.0, delta=1e-8)
    names = [row.name for row in design.rows]
    assert len(names) == len(set(names))
    assert not any(
        isinstance(row.mechanism, sa.SubsetSelection) and row.mechanism.size == 1
        for row in design.all_rows
    )


def test_nothing_is_recommended_where_nothing_meets_the_target() -> None:
    design = sa.design.frequency(users=3, categories=50, target_epsilon=0.01, delta=1e-9)
    if not design.rows:
        assert design.advice == ""
        with pytest.raises(ValueError, match="no shuffled mechanism"):
            _ = design.recommended


def test_what_is_left_out_and_what_users_may_send() -> None:
    question = {"users": 2000, "categories": 6, "target_epsilon": 2.0, "delta": 1e-6}
    options = {"tolerance": 0.5, "jobs": 1}
    noisy = tuple(f"{law} noise messages" for law in ("binomial", "Poisson", "negative binomial"))
    found = sa.design.frequency(**question, **options, exclude=noisy, most_bits=4.0)
    assert not {row.name for row in found.all_rows} & set(noisy)
    assert all(row.bits <= 4.0 for row in (*found.rows, *found.local))
    assert any(row.bits > 4.0 for row in found.central) or found.central
    reasons = [one.reason for one in found.excluded if one.name == "RAPPOR"]
    assert reasons == ["bits per user must be at most 4, got 6"] * 2
    one = sa.design.frequency(**question, **options, exclude=noisy, most_messages=1.0)
    assert all(row.messages <= 1.0 for row in one.rows)
    with pytest.raises(ValueError, match="exclude must be one of"):
        sa.design.frequency(**question, exclude=["noise"])
    with pytest.raises(ValueError, match="most_bits must be"):
        sa.design.frequency(**question, most_bits=0.0)
