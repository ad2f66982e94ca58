"""Imperfect shufflers and limits per user, against enumeration and references."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles.enumeration import hockey_stick
from oracles.people import exposed, in_places

import shuffle_accountant as sa

REFS = Path(__file__).resolve().parent.parent / "refs"
ENTRIES = json.loads((REFS / "leaky.json").read_text(encoding="utf-8"))
ROWS = [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]]
RESPONSE = sa.RandomizedResponse(categories=2, eps0=math.log(3))
GENERAL = sa.GeneralRandomizer(eps0=2.0)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("exposure", [Fraction(1, 10), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("users", [1, 2, 3])
def test_exposure_by_enumeration(users: int, exposure: Fraction, everyone: bool) -> None:
    shuffler = sa.Shuffler(exposure=float(exposure), everyone=everyone)
    one = sa.ShuffleRound(RESPONSE, users=users, shuffler=shuffler)
    for alpha in (Fraction(1), Fraction(3, 2), Fraction(5, 2)):
        for others in itertools.combinations_with_replacement((0, 1), users - 1):
            p, q = (exposed(ROWS, (mine, *others), exposure, everyone) for mine in (0, 1))
            for first, second in ((p, q), (q, p)):
                truth = hockey_stick(first, second, alpha)
                assert sa.delta(one, epsilon=math.log(alpha)).upper >= float(truth)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_references(entry: dict[str, Any]) -> None:
    randomizer, users = sa.GeneralRandomizer(eps0=entry["eps0"]), entry["users"]
    if "exposure" in entry:
        leak = sa.Shuffler(exposure=entry["exposure"], everyone=False)
        one = sa.ShuffleRound(randomizer, users=users, shuffler=leak)
        found = sa.epsilon(one, delta=entry["delta"])
        low, high = entry["epsilon"]
        # rel_acc of the references is 1e-4
        assert found.lower <= high * (1 + 1e-4)
        assert low * (1 - 1e-4) <= found.upper <= high * (1 + 1e-4)
        every = sa.ShuffleRound(
            randomizer, users=users, shuffler=sa.Shuffler(exposure=leak.exposure)
        )
        assert sa.epsilon(every, delta=entry["delta"]).upper >= found.lower
        return
    weights = np.arange(1.0, users + 1.0) if entry["weights"] == "linear" else np.ones(users)
    leak = sa.Shuffler(weights=weights / weights.sum())
    one = sa.ShuffleRound(randomizer, users=users, shuffler=leak)
    with warnings.catch_warnings():  # linear weights are known to a factor only
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        found = sa.delta(one, epsilon=entry["epsilon"])
    off = 1 + entry["rel_acc"]
    assert found.lower <= entry["delta"] * off
    assert entry["delta"] / off <= found.upper <= entry["delta_upper_k"] * off


@pytest.mark.parametrize("colluding", [0, 1, 2])
@pytest.mark.parametrize(
    "tenths", [(4, 3, 2, 1), (3, 3, 2, 2), (5, 5, 0, 0), (4, 3, 3, 0), (10, 0, 0, 0)]
)
def test_weights_by_enumeration(tenths: tuple[int, ...], colluding: int) -> None:
    """Of all arrangements, places of those who collude, messages, and data of the others."""
    weights = tuple(Fraction(one, 10) for one in tenths)
    leak = sa.Shuffler(weights=map(float, weights))
    one = sa.ShuffleRound(RESPONSE, users=4, shuffler=leak, colluding=colluding)
    for alpha in (Fraction(1), Fraction(3, 2), Fraction(5, 2)):
        worst = Fraction(0)
        for others in itertools.combinations_with_replacement((0, 1), 3 - colluding):
            known = (0,) * colluding  # what they send is theirs to know
            p, q = (in_places(ROWS, (mine, *others, *known), weights, colluding) for mine in (0, 1))
            for first, second in ((p, q), (q, p)):
                worst = max(worst, hockey_stick(first, second, alpha))
        with warnings.catch_warnings():  # the ends are apart where weights differ
            warnings.simplefilter("ignore", sa.LooseBracketWarning)
            found = sa.delta(one, epsilon=math.log(alpha))
        assert found.upper >= float(worst)


def test_batches() -> None:
    whole = sa.ShuffleRound(GENERAL, users=1000)
    drawn = sa.Shuffler(batches=[400, 600], random_batches=True)
    fixed = sa.Shuffler(batches=[400, 600])
    least = sa.Shuffler(minimum_batch=400)
    deltas = {
        name: sa.delta(sa.ShuffleRound(GENERAL, users=1000, shuffler=leak), epsilon=0.4)
        for name, leak in (("drawn", drawn), ("fixed", fixed), ("least", least))
    }
    small, large = (
        sa.delta(sa.ShuffleRound(GENERAL, users=n), epsilon=0.4).upper for n in (400, 600)
    )
    # a batch of the target's is drawn in proportion to its size
    assert deltas["drawn"].upper == pytest.approx(0.4 * small + 0.6 * large, rel=1e-6)
    assert deltas["fixed"].upper == deltas["least"].upper == pytest.approx(small, rel=1e-12)
    assert sa.delta(whole, epsilon=0.4).upper < deltas["drawn"].lower
    colluding = sa.ShuffleRound(GENERAL, users=1000, shuffler=least, colluding=100)
    alone = sa.ShuffleRound(GENERAL, users=300)
    assert sa.delta(colluding, epsilon=0.4).upper == sa.delta(alone, epsilon=0.4).upper


def test_perfect_shufflers_change_nothing() -> None:
    one = sa.ShuffleRound(GENERAL, users=100)
    same = sa.ShuffleRound(GENERAL, users=100, shuffler=sa.Shuffler())
    assert sa.epsilon(one, delta=1e-6).upper == sa.epsilon(same, delta=1e-6).upper
    assert "shuffler" not in one.to_dict()


@pytest.mark.parametrize(
    "leak",
    [
        sa.Shuffler(exposure=0.1),
        sa.Shuffler(weights=[0.5, 0.25, 0.25]),
        sa.Shuffler(batches=[1, 2], random_batches=True),
        sa.Shuffler(minimum_batch=2),
    ],
)
def test_imperfect_shufflers_are_stored(leak: sa.Shuffler) -> None:
    one = sa.ShuffleRound(RESPONSE, users=3, shuffler=leak)
    state = json.loads(json.dumps(one.to_dict()))
    assert sa.ShuffleRound.from_dict(state) == one
    assert leak.condition in " ".join(sa.conditions(one))
    assert sa.epsilon(one, delta=0.01, rounds=2).upper <= 2 * math.log(3) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: sa.Shuffler(exposure=1.1), "exposure"),
        (lambda: sa.Shuffler(exposure=0.1, minimum_batch=3), "exposure"),
        (lambda: sa.Shuffler(weights=[0.5, 0.4]), "weights"),
        (lambda: sa.Shuffler(weights=[1.5, -0.5]), "weights"),
        (lambda: sa.Shuffler(batches=[]), "batches"),
        (lambda: sa.Shuffler(minimum_batch=0), "minimum_batch"),
        (
            lambda: sa.ShuffleRound(GENERAL, users=9, shuffler=sa.Shuffler(batches=[4, 4])),
            "batches",
        ),
        (
            lambda: sa.ShuffleRound(GENERAL, users=9, shuffler=sa.Shuffler(minimum_batch=10)),
            "minimum_batch",
        ),
        (
            lambda: sa.ShuffleRound(
                GENERAL, users=9, messages_per_user=2, shuffler=sa.Shuffler(exposure=0.1)
            ),
            "shuffler",
        ),
        (
            lambda: sa.ShuffleRound(GENERAL, users=9, shuffler=sa.Shuffler(persistent=True)),
            "exposure must be > 0 for a persistent shuffler",
        ),
        (lambda: sa.ShuffleRound(GENERAL, users=9, shuffler=0.1), "shuffler"),
    ],
)
def test_what_is_not_covered_is_refused(call: Any, named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        call()
    assert "\n" not in str(refused.value)


def law_of_two(values: tuple[int, ...], exposure: Fraction, everyone: bool) -> Counter[Any]:
    """As `law`, of two rounds in which the same users are recognised."""
    seen: Counter[Any] = Counter()
    users = len(values) if everyone else 1
    for caught in itertools.product((False, True), repeat=users):
        drawn = math.prod((exposure if one else 1 - exposure for one in caught), start=Fraction(1))
        once: Counter[Any] = Counter()
        for bits in itertools.product((0, 1), repeat=len(values)):
            pairs = zip(bits, values, strict=True)
            chance = math.prod((ROWS[value][bit] for bit, value in pairs), start=Fraction(1))
            shown = tuple((i, bits[i]) for i in range(users) if caught[i])
            once[shown, sum(bits) - sum(bit for _, bit in shown)] += chance
        for first, second in itertools.product(once, repeat=2):
            seen[caught, first, second] += drawn * once[first] * once[second]
    return seen


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("exposure", [Fraction(1, 10), Fraction(1, 2)])
def test_the_same_users_exposed_in_two_rounds_by_enumeration(
    exposure: Fraction, everyone: bool
) -> None:
    shuffler = sa.Shuffler(exposure=float(exposure), everyone=everyone, persistent=True)
    one = sa.ShuffleRound(RESPONSE, users=3, shuffler=shuffler)
    above_fresh = False
    fresh = sa.ShuffleRound(
        RESPONSE, users=3, shuffler=sa.Shuffler(exposure=float(exposure), everyone=everyone)
    )
    for alpha in (Fraction(1), Fraction(2), Fraction(5), Fraction(8)):
        found = sa.delta(one, epsilon=math.log(alpha), rounds=2)
        alone = sa.delta(fresh, epsilon=math.log(alpha), rounds=2)
        for others in itertools.product((0, 1), repeat=2):
            p, q = (law_of_two((value, *others), exposure, everyone) for value in (0, 1))
            for a, b in ((p, q), (q, p)):
                truth = sum((max(a[x] - alpha * b[x], 0) for x in {*a, *b}), Fraction(0))
                assert found.upper >= float(truth) * (1 - 1e-12)
                above_fresh |= float(truth) > alone.upper
    assert above_fresh or everyone  # a composition of fresh exposures is no bound


def test_the_same_users_exposed_in_all_rounds() -> None:
    def of(**options: Any) -> sa.ShuffleRound:
        shuffler = sa.Shuffler(exposure=1e-7, **options)
        return sa.ShuffleRound(GENERAL, users=10_000, shuffler=shuffler)

    once, many = (sa.epsilon(of(persistent=True), delta=1e-6, rounds=count) for count in (1, 10))
    fresh = sa.epsilon(of(), delta=1e-6)
    assert once.lower <= fresh.upper
    assert fresh.lower <= once.upper <= fresh.upper * 1.002
    # ten fresh exposures cost ten times as much of delta
    assert many.upper < sa.epsilon(of(), delta=1e-6, rounds=10).lower
    delta = sa.delta(of(persistent=True), epsilon=many.upper, rounds=10)
    assert delta.lower <= 1e-6 <= delta.upper * 1.01
    assert "the same in all rounds" in " ".join(many.conditions)
    twice = sa.Protocol([(of(persistent=True), 1), (of(persistent=True, everyone=False), 1)])
    with pytest.raises(ValueError, match="must have the same exposure"):
        sa.epsilon(twice, delta=1e-6)
    mixed = sa.Protocol([(of(persistent=True), 3), (sa.ShuffleRound(GENERAL, users=5000), 2)])
    three = sa.epsilon(of(persistent=True), delta=1e-6, rounds=3)
    assert sa.epsilon(mixed, delta=1e-6).lower > three.upper


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.reduced(),
        lambda one: sa.epsilon(one, delta=1e-3, group=2),
        lambda one: sa.training.PrivacyFilter(epsilon=3.0, delta=0.1, kind="renyi").step(one),
        lambda one: sa.training.PrivacyFilter(epsilon=3.0, delta=0.1, kind="gaussian").step(one),
        lambda one: sa.training.Odometer(delta=0.1).step(one),
        lambda one: sa.selection(one, runs=sa.Fixed(2)).epsilon(delta=0.1),
        lambda one: sa.max_rounds(one, target_epsilon=1.0, delta=1e-3),
    ],
)
def test_what_is_drawn_once_is_not_taken_round_by_round(call: Any) -> None:
    shuffler = sa.Shuffler(exposure=0.1, persistent=True)
    with pytest.raises(ValueError, match="persistent"):
        call(sa.ShuffleRound(RESPONSE, users=3, shuffler=shuffler))


@pytest.mark.parametrize(
    ("exposure", "rounds", "persistent", "warned"),
    [
        (1e-6, 1, False, False),
        (2e-6, 1, False, True),
        (1e-6, 3, False, True),
        (1e-6, 3, True, False),
        (2e-6, 3, True, True),
    ],
)
def test_an_exposure_above_delta_is_warned_of(
    exposure: float, rounds: int, persistent: bool, warned: bool
) -> None:
    shuffler = sa.Shuffler(exposure=exposure, persistent=persistent)
    one = sa.ShuffleRound(GENERAL, users=10_000, shuffler=shuffler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sa.epsilon(one, delta=1e-6, rounds=rounds)
    assert any("messages are recognised" in str(each.message) for each in caught) == warned


def test_rounds_per_user() -> None:
    one = sa.ShuffleRound(GENERAL, users=1000)
    year = sa.Protocol([(one, 100)], rounds_per_user=10)
    assert len(year) == 10
    ten = sa.epsilon(one, delta=1e-6, rounds=10)
    found = sa.epsilon(year, delta=1e-6)
    assert (found.lower, found.upper) == (ten.lower, ten.upper)
    assert "rounds_per_user" in " ".join(found.conditions)
    assert sa.Protocol.from_dict(json.loads(json.dumps(year.to_dict()))) == year
    assert sa.Protocol([(one, 5)], rounds_per_user=5) == sa.Protocol([(one, 5)])


def test_rounds_per_user_takes_the_costliest() -> None:
    few, many = (sa.ShuffleRound(GENERAL, users=n) for n in (500, 2000))
    mixed = sa.Protocol([(many, 50), (few, 3)], rounds_per_user=5)
    wanted = sa.epsilon([(few, 3), (many, 2)], delta=1e-6)
    found = sa.epsilon(mixed, delta=1e-6)
    assert (found.lower, found.upper) == (wanted.lower, wanted.upper)


def test_rounds_whose_order_is_not_known_are_refused() -> None:
    few = sa.ShuffleRound(GENERAL, users=500)
    weaker = sa.ShuffleRound(sa.GeneralRandomizer(eps0=3.0), users=5000)
    sampled = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.1)
    for rounds in (
        [(few, 9), (weaker, 9)],
        [(few, 9), (sa.NoiseMessages(categories=2, dummies=sa.Poisson(mean=9.0)), 9)],
    ):
        with pytest.raises(ValueError, match="rounds_per_user") as refused:
            sa.Protocol(rounds, rounds_per_user=5)
        assert "\n" not in str(refused.value)
    assert len(sa.Protocol([(sampled, 9)], rounds_per_user=5)) == 5
    with pytest.raises(ValueError, match="rounds_per_user"):
        sa.Protocol([(few, 9)], rounds_per_user=0)
