"""Sample and threshold: against enumeration in exact arithmetic, and references."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from oracles.enumeration import hockey_stick
from oracles.people import released

import shuffle_accountant as sa
from shuffle_accountant.engine.evaluation import evaluate
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.steps.thresholds import (
    _LIMITS,
    _ORDERS,
    ThresholdPair,
    threshold_moments,
)

REFS = Path(__file__).resolve().parent.parent / "refs"
ENTRIES = json.loads((REFS / "sample_and_threshold.json").read_text(encoding="utf-8"))
ADD, REPLACE = sa.Adjacency.ADD_REMOVE, sa.Adjacency.REPLACE_ONE


def marks_of(entry: dict[str, Any]) -> Any:
    """Few rounds, of which rare losses decide, take longest."""
    return pytest.mark.release if entry.get("rounds") in (3, 5) else pytest.mark.slow


@pytest.mark.parametrize("probability", [Fraction(1, 10), Fraction(1, 2)])
@pytest.mark.parametrize("threshold", [1, 2, 4])
@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(3)])
def test_all_numbers_of_users_in_exact_arithmetic(
    probability: Fraction, threshold: int, alpha: Fraction
) -> None:
    one = sa.SampleAndThreshold(probability=float(probability), threshold=threshold)
    found = one.delta(epsilon=math.log(alpha))
    worst = Fraction(0)
    for others in range(60):
        p, q = (released(others + more, probability, threshold) for more in (1, 0))
        worst = max(worst, hockey_stick(p, q, alpha), hockey_stick(q, p, alpha))
    assert found.lower <= float(worst) * (1 + 1e-12) + 1e-300
    assert found.upper >= float(worst) * (1 - 1e-12)
    assert found.upper <= float(worst) * (1 + 1e-6)


@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(6, 5), Fraction(2)])
def test_replaced_values_in_exact_arithmetic(alpha: Fraction) -> None:
    """The counts of two values, of up to 7 others each."""
    probability, threshold = Fraction(1, 4), 2
    one = sa.SampleAndThreshold(probability=0.25, threshold=threshold, adjacency=REPLACE)
    found = one.delta(epsilon=math.log(alpha))
    for first in range(7):
        for second in range(7):
            a, b = (
                released(first + 1, probability, threshold),
                released(second, probability, threshold),
            )
            c, d = (
                released(first, probability, threshold),
                released(second + 1, probability, threshold),
            )
            p = {(x, y): a[x] * b[y] for x in a for y in b}
            q = {(x, y): c[x] * d[y] for x in c for y in d}
            assert found.upper >= float(hockey_stick(p, q, alpha))


@pytest.mark.parametrize(
    "entry",
    [pytest.param(e, marks=[marks_of(e)] * (e["kind"] != "single")) for e in ENTRIES],
    ids=lambda entry: entry["id"],
)
def test_references(entry: dict[str, Any]) -> None:
    one = sa.SampleAndThreshold(probability=entry["p"], threshold=entry["K"])
    if entry["kind"] == "single":
        found = one.delta(epsilon=entry["epsilon"])
        assert found.lower <= entry["delta"] * (1 + 1e-12)
        assert entry["delta"] * (1 - 1e-12) <= found.upper <= entry["delta"] * (1 + 1e-9)
        assert one.worst_others(entry["epsilon"]) == entry["worst_m"]
        return
    found = sa.epsilon(one, delta=entry["delta"], rounds=entry["rounds"])
    # what one number of users attains is below every upper bound; the references are to 1e-3
    assert found.upper >= entry["epsilon_attained_single_m"] * (1 - 1e-3)
    assert found.upper <= entry["epsilon_upper"] * (1 + 1e-3)
    real = sa.attained_epsilon(one, delta=entry["delta"], rounds=entry["rounds"])
    assert entry["epsilon_attained_single_m"] * (1 - 1e-3) <= real.lower <= found.upper


def test_two_rounds_of_any_numbers_of_users_by_enumeration() -> None:
    """Moments hold for every pair of numbers of others, and are those of the laws themselves."""
    probability, threshold = Fraction(3, 10), 3
    moments = threshold_moments(0.3, threshold)
    scanned = ThresholdPair(0.3, threshold).scanned
    pairs = {}
    for m in (2, 3, 5, 9, 14, 25, 45):
        p, q = released(m + 1, probability, threshold), released(m, probability, threshold)
        pairs[m] = [(float(p.get(x, 0)), float(q.get(x, 0))) for x in {*p, *q}]
        place = int(np.searchsorted(scanned, m))
        if m > scanned[-1]:
            continue
        order, limit = _ORDERS[30], _LIMITS[-1]
        kept = [(a, b) for a, b in pairs[m] if b > 0.0 and a > 0.0]
        gained = sum(a * (a / b) ** order for a, b in kept)
        lost = sum(b * (b / a) ** order for a, b in kept)
        assert math.exp(moments.gained[30, -1, place]) == pytest.approx(gained, rel=1e-7)
        assert math.exp(moments.lost[30, place]) == pytest.approx(lost, rel=1e-7)
        beyond = sum(a for a, b in pairs[m] if b == 0.0 or math.log(a / b) > limit)
        assert beyond <= moments.beyond[-1, place] <= beyond * (1 + 1e-9) + 1e-12
    for epsilon in (0.2, 0.8, 1.6):
        alpha = math.exp(epsilon)
        high = float(moments.worst().delta(epsilon, 2, replaced=False)[0])
        for first, second in itertools.product(pairs.values(), repeat=2):
            both = [(a * c, b * d) for a, b in first for c, d in second]
            assert sum(max(a - alpha * b, 0.0) for a, b in both) <= high
            assert sum(max(b - alpha * a, 0.0) for a, b in both) <= high
        replaced = float(moments.worst().delta(epsilon, 1, replaced=True)[0])
        for first, second in itertools.product(pairs.values(), repeat=2):
            both = [(a * d, b * c) for a, b in first for c, d in second]
            assert sum(max(a - alpha * b, 0.0) for a, b in both) <= replaced


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize(
    ("probability", "threshold", "others"),
    [(0.99, 50, 49), (0.99, 50, 52), (0.9, 20, 22), (0.97, 10, 9), (0.5, 3, 2)],
)
def test_two_values_of_which_much_is_certain_by_enumeration(
    probability: float, threshold: int, others: int, rounds: int
) -> None:
    """Profiles that are flat above alpha = 1, as most of P is impossible under Q."""
    exact = Fraction(probability)
    p, q = (
        {key: float(value) for key, value in released(users, exact, threshold).items()}
        for users in (others + 1, others)
    )
    one = sa.SampleAndThreshold(
        probability=probability, threshold=threshold, adjacency=REPLACE
    ).attained_pair(others)
    keys = {*p, *q}
    both = [(p.get(x, 0.0) * q.get(y, 0.0), q.get(x, 0.0) * p.get(y, 0.0)) for x in keys for y in q]
    a, b = np.array(both).T
    if rounds == 2:
        a, b = np.outer(a, a).ravel(), np.outer(b, b).ravel()
    for epsilon in (0.1, 1.0, 2.5):
        truth = float(np.sum(np.maximum(a - math.exp(epsilon) * b, 0.0)))
        found = evaluate([(one, rounds)], Query(epsilon=epsilon), 1e-3, SETTINGS.memory_limit)
        assert found.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-9) <= found.upper


def test_many_rounds_cost_less_by_moments() -> None:
    one = sa.SampleAndThreshold(probability=0.3, threshold=16)
    found = sa.epsilon(one, delta=1e-5, rounds=40)
    assert found.ledger.method == "moments"
    back = sa.delta(one, epsilon=found.upper, rounds=40)
    assert back.upper <= 1e-5 * (1 + 1e-6)
    real = sa.attained_epsilon(one, delta=1e-5, rounds=40)
    assert 0.85 * found.upper <= real.lower <= found.upper


@pytest.mark.release
def test_what_one_number_of_users_loses() -> None:
    one = sa.SampleAndThreshold(probability=0.1, threshold=10)
    real = sa.attained_epsilon(one, delta=1e-6, rounds=3)
    assert 0.54 <= real.lower <= real.upper <= sa.epsilon(one, delta=1e-6, rounds=3).upper
    alone = sa.attained_epsilon(one, delta=1e-6)
    assert alone.lower == pytest.approx(sa.epsilon(one, delta=1e-6).lower, rel=1e-6)


def test_the_rule_in_use_leaves_much_room() -> None:
    """p = (1 - 1/e)/6 and K = 20 for epsilon 1 at 1e-8: p may be .251, or K 11."""
    target = {"target_epsilon": 1.0, "delta": 1e-8}
    for_threshold = sa.SampleAndThreshold.calibrate(threshold=20, **target)
    assert 0.251 <= for_threshold.probability < 0.252
    for_probability = sa.SampleAndThreshold.calibrate(probability=0.105, **target)
    assert for_probability.threshold == 11
    for one in (for_threshold, for_probability):
        assert sa.delta(one, epsilon=1.0).upper <= 1e-8
    fewer = sa.SampleAndThreshold(probability=0.105, threshold=10)
    assert sa.delta(fewer, epsilon=1.0).lower > 1e-8
    two = sa.SampleAndThreshold.calibrate(probability=0.3, target_epsilon=1.0, delta=1e-4, rounds=2)
    assert sa.delta(two, epsilon=1.0, rounds=2).upper <= 1e-4
    one = sa.SampleAndThreshold.calibrate(probability=0.3, target_epsilon=1.0, delta=1e-4)
    assert one.threshold <= two.threshold


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_rounds_are_stored_and_are_of_their_adjacency(adjacency: sa.Adjacency) -> None:
    one = sa.SampleAndThreshold(probability=0.2, threshold=8, adjacency=adjacency)
    state = json.loads(json.dumps(one.to_dict()))
    assert sa.Protocol.from_list([{"round": state, "count": 1}]) == sa.Protocol([(one, 1)])
    assert sa.epsilon(one, delta=1e-4).adjacency is adjacency
    other = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)
    if adjacency is ADD:
        with pytest.raises(ValueError, match="adjacency"):
            sa.Protocol([(one, 1), (other, 1)])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"probability": 0.0, "threshold": 5}, "probability"),
        ({"probability": 1.0, "threshold": 5}, "a threshold alone is no privacy"),
        ({"probability": 1.5, "threshold": 5}, "probability"),
        ({"probability": 0.5, "threshold": 0}, "threshold"),
        ({"probability": 0.5, "threshold": 2.5}, "threshold"),
        ({"probability": 0.5, "threshold": 5, "adjacency": sa.Adjacency.ZERO_OUT}, "adjacency"),
    ],
)
def test_what_is_no_round_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        sa.SampleAndThreshold(**options)
    assert "\n" not in str(refused.value)


def test_calibration_says_what_it_cannot_do() -> None:
    with pytest.raises(ValueError, match="one of threshold and probability"):
        sa.SampleAndThreshold.calibrate(target_epsilon=1.0, delta=1e-8)
    with pytest.raises(ValueError, match="target_epsilon"):
        sa.SampleAndThreshold.calibrate(probability=0.9, target_epsilon=0.01, delta=1e-8)


@pytest.mark.parametrize("others", [1, 5, 8])
@pytest.mark.parametrize("probability", [0.3, 1.0 - 2.0**-40])
def test_events_at_ratios_of_counts(others: int, probability: float) -> None:
    """At losses where the ratio of a count is alpha, and just beside them, in fractions."""
    pair = ThresholdPair(probability, 2, others=others)
    p = Fraction(probability)

    def released(users: int) -> list[Fraction]:
        each = [
            math.comb(users, c) * p**c * (1 - p) ** (users - c) if c <= users else Fraction(0)
            for c in range(others + 2)
        ]
        return [each[0] + each[1], *each[2:]]

    with_target, without = released(others + 1), released(others)
    at = [abs(math.log(a / b)) for a, b in zip(with_target, without, strict=True) if a and b]
    losses = np.sort([max(loss * (1.0 + off), 0.0) for loss in at for off in (0.0, 1e-15, -1e-15)])
    for bounds, first, second in (
        (pair.forward(losses), with_target, without),
        (pair.backward(losses), without, with_target),
    ):
        for loss, low, high in zip(losses, *bounds, strict=True):
            with mpmath.workdps(60):
                alpha = mpmath.exp(mpmath.mpf(float(loss)))
                wanted = mpmath.fsum(
                    max(as_mp(a) - alpha * as_mp(b), 0) for a, b in zip(first, second, strict=True)
                )
                assert mpmath.mpf(float(low)) <= wanted <= mpmath.mpf(float(high))
            assert high - low <= 1e-9 * max(float(alpha), 1.0)


def as_mp(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator
