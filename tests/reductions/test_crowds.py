"""Mixed crowds, colluders, random participation and null laws against the real protocol."""

from __future__ import annotations

import functools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import crowds

import shuffle_accountant as sa
from shuffle_accountant.engine import refinement
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound

REFERENCES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "refs" / "crowds.json").read_text()
)
# Probabilities of fractions are rounded to doubles before the library sees them, and ε0 is computed
# from them: a few units in the last place, times alpha.
ROUNDED = 1e-12


def krr(k: int, eps0: float) -> list[list[Fraction]]:
    """k-RR whose odds are the double nearest to e^eps0, in fractions."""
    odds = Fraction(math.exp(eps0))
    return [[(odds if x == y else 1) / (odds + k - 1) for y in range(k)] for x in range(k)]


def round_of(entry: dict[str, Any]) -> sa.ShuffleRound:
    if entry["kind"] == "zero_out":
        known = sa.ApproximateRandomizer(eps0=entry["eps0"], delta0=entry["delta0"])
        return sa.ShuffleRound(known, users=entry["users"])
    k = entry["categories"]
    own = sa.RandomizedResponse(categories=k, eps0=entry["eps0"])
    if entry["kind"] == "participation":
        users = sa.Binomial(trials=entry["trials"], probability=entry["probability"])
        return sa.ShuffleRound(own, users=users)
    others = {sa.RandomizedResponse(categories=k, eps0=e): n for e, n in entry["others"]}
    return sa.ShuffleRound(own, users=entry["users"], others=others, colluding=entry["colluding"])


@pytest.mark.slow
@pytest.mark.parametrize("entry", REFERENCES, ids=lambda entry: entry["id"])
def test_reference_values(entry: dict[str, Any]) -> None:
    found = round_of(entry).delta(epsilon=entry["epsilon"])
    off = entry["relative_accuracy"] * entry["delta"]
    assert found.lower - off <= entry["delta"] <= found.upper + off
    # sums over histograms allow for the rounding of logarithms of probabilities
    sums = "random participation", "null law"
    close = 1e-9 if any(name in str(found.reduction) for name in sums) else 1e-11
    assert found.upper - found.lower <= close * entry["delta"]
    again = round_of(entry).epsilon(delta=entry["delta"])
    assert again.lower <= entry["epsilon"] * (1 + 1e-9)
    assert again.upper >= entry["epsilon"] * (1 - 1e-9)


levels = st.sampled_from([0.2, 0.7, 1.0, 1.6, 2.5, 4.0])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 3),
    levels,
    st.integers(1, 2),
    st.dictionaries(levels, st.integers(1, 2), min_size=1, max_size=2),
    st.integers(0, 2),
    st.sampled_from([0.05, 0.3, 0.8]),
)
def test_mixed_responses_cover_the_real_protocol(
    k: int, eps0: float, users: int, others: dict[float, int], colluding: int, epsilon: float
) -> None:
    groups = {e: n for e, n in others.items() if e != eps0}
    total = users + sum(groups.values())
    if not groups or total > 4 or colluding >= total:
        return
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=k, eps0=eps0),
        users=users,
        others={sa.RandomizedResponse(categories=k, eps0=e): n for e, n in groups.items()},
        colluding=colluding,
    )
    crowd = [krr(k, eps0)] * (users - 1) + [krr(k, e) for e, n in groups.items() for _ in range(n)]
    truth = crowds.replaced(krr(k, eps0), crowd, colluding, Fraction(math.exp(epsilon)))
    assert one.delta(epsilon=epsilon).upper >= float(truth) * (1 - ROUNDED) - ROUNDED


def channel(rng: np.random.Generator, inputs: int, messages: int) -> list[list[Fraction]]:
    counts = rng.integers(1, 9, size=(inputs, messages)).tolist()
    return [[Fraction(c, sum(row)) for c in row] for row in counts]


@pytest.mark.parametrize(
    "more", [{}, {"messages_per_user": 3}, {"colluding": 7}, {"reduction": "blanket"}]
)
def test_another_group_sees_the_same_round(more: dict[str, Any]) -> None:
    """Nothing is dropped: with three messages a user, both groups lose more than with one."""
    own, other = (sa.RandomizedResponse(categories=4, eps0=eps0) for eps0 in (1.0, 2.0))
    one = sa.ShuffleRound(own, users=100, others={other: 50}, **more)
    seen = one.for_user_of(other)
    assert seen == sa.ShuffleRound(other, users=50, others={own: 100}, **more)
    assert seen.for_user_of(own) == one
    if "messages_per_user" in more:
        alone = sa.ShuffleRound(other, users=50, others={own: 100})
        assert sa.delta(seen, epsilon=0.5).lower > sa.delta(alone, epsilon=0.5).upper


@pytest.mark.parametrize("seed", range(6))
def test_channels_cover_the_real_protocol(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other = channel(rng, 2, 3), channel(rng, 2, 3)
    given = [sa.DiscreteRandomizer([[float(p) for p in row] for row in m]) for m in (own, other)]
    users, more = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    colluding = int(rng.integers(0, 2))
    one = sa.ShuffleRound(given[0], users=users, others={given[1]: more}, colluding=colluding)
    back = one.for_user_of(given[1])
    assert back.for_user_of(given[0]) == one
    for epsilon in (0.05, 0.4):
        alpha = Fraction(math.exp(epsilon))
        crowd = [own] * (users - 1) + [other] * more
        truth = crowds.replaced(own, crowd, colluding, alpha)
        assert one.delta(epsilon=epsilon).upper >= float(truth) * (1 - ROUNDED) - ROUNDED
        crowd = [own] * users + [other] * (more - 1)
        truth = crowds.replaced(other, crowd, colluding, alpha)
        assert back.delta(epsilon=epsilon).upper >= float(truth) * (1 - ROUNDED) - ROUNDED


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_null_laws_cover_the_real_protocol(seed: int) -> None:
    rng = np.random.default_rng(seed)
    messages = 3
    (null,) = channel(rng, 1, messages)
    rows = channel(rng, 2, messages)
    ratios = [max(r / w, w / r) for row in rows for r, w in zip(row, null, strict=True)]
    users = int(rng.integers(1, 5))
    # the worst ratio, or a smaller one and what is beyond it
    for share in (1.0, 0.6):
        eps0 = share * math.log(max(ratios)) * (1 + 1e-14)
        odds = Fraction(math.exp(eps0))
        beyond = max(
            sum(max(a - odds * b, Fraction(0)) for a, b in zip(p, q, strict=True))
            for row in rows
            for p, q in ((row, null), (null, row))
        )
        delta0 = float(beyond) * (1 + 1e-14)
        one = sa.ShuffleRound(sa.ApproximateRandomizer(eps0=eps0, delta0=delta0), users=users)
        for epsilon in (0.05, 0.3, 1.0):
            truth = crowds.nulled(rows, null, users, Fraction(math.exp(epsilon)))
            assert one.delta(epsilon=epsilon).upper >= float(truth) * (1 - ROUNDED) - ROUNDED


@pytest.mark.parametrize("eps0", [0.5, 1.5, 3.0])
def test_null_law_of_one_message_is_attained(eps0: float) -> None:
    """One user: the two letters themselves."""
    for epsilon in (0.0, 0.2, 0.4):
        found = sa.ShuffleRound(
            sa.GeneralRandomizer(eps0, adjacency=sa.Adjacency.ZERO_OUT), users=1
        ).delta(epsilon=epsilon)
        odds = math.exp(eps0)
        exact = max(odds - math.exp(epsilon), 0.0) / (1 + odds)
        assert found.lower <= exact * (1 + 1e-12)
        assert found.upper >= exact * (1 - 1e-12)
        assert found.adjacency is sa.Adjacency.ZERO_OUT


@pytest.mark.parametrize(("people", "chance"), [(1, "1/2"), (2, "1/3"), (3, "1/4"), (4, "3/4")])
def test_participation_covers_the_real_protocol(people: int, chance: str) -> None:
    q = Fraction(chance)
    for k, eps0 in ((2, 1.0), (3, 2.0)):
        own = sa.RandomizedResponse(categories=k, eps0=eps0)
        one = sa.ShuffleRound(own, users=sa.Binomial(trials=people, probability=float(q)))
        for epsilon in (0.05, 0.3):
            alpha = Fraction(math.exp(epsilon))
            truth = crowds.taking_part(krr(k, eps0), people, Fraction(float(q)), alpha)
            assert one.delta(epsilon=epsilon).upper >= float(truth) * (1 - ROUNDED)


@pytest.mark.parametrize("delta0", [0.0, 1e-9])
def test_composition_of_null_laws_contains_its_own_letters(delta0: float) -> None:
    """Several rounds of one user each compose like the two letters, convolved here by hand."""
    eps0, rounds = 1.0, 6
    one = sa.ShuffleRound(sa.ApproximateRandomizer(eps0=eps0, delta0=delta0), users=1)
    up = math.exp(eps0) / (1 + math.exp(eps0))
    stay = (1 - delta0) ** rounds
    for epsilon in (0.3, 1.2, 2.5):
        exact = 1 - stay
        for k in range(rounds + 1):
            mass = math.comb(rounds, k) * up**k * (1 - up) ** (rounds - k)
            exact += stay * mass * max(-math.expm1(epsilon - (2 * k - rounds) * eps0), 0.0)
        found = sa.delta(one, epsilon=epsilon, rounds=rounds)
        assert found.lower <= exact * (1 + 1e-9)
        assert found.upper >= exact * (1 - 1e-9)
        assert found.upper - found.lower <= 0.01 * exact


@pytest.mark.parametrize("eps0", [1.0, 4.0, 6.0])
def test_compositions_of_null_laws_are_as_narrow_as_asked_for(eps0: float) -> None:
    """Hundreds of numbers of decoys, each with a law of its own."""
    known = sa.ApproximateRandomizer(eps0=eps0, delta0=1e-16)
    found = sa.epsilon(sa.ShuffleRound(known, users=10**6), delta=1e-6, rounds=30)
    assert found.upper - found.lower <= 1e-3 * found.upper


@pytest.mark.slow
def test_mixed_crowd_of_equal_levels_is_the_blanket() -> None:
    """A group that differs in the last digits alone changes next to nothing, composed too."""
    one = sa.RandomizedResponse(categories=10, eps0=1.5)
    near = sa.RandomizedResponse(categories=10, eps0=1.5 + 1e-12)
    mixed = sa.ShuffleRound(one, users=300, others={near: 700})
    plain = sa.ShuffleRound(one, users=1000)
    for rounds in (1, 8):
        a = sa.epsilon(mixed, delta=1e-7, rounds=rounds)
        b = sa.epsilon(plain, delta=1e-7, rounds=rounds)
        assert a.lower <= b.upper * (1 + 1e-9)
        assert b.lower <= a.upper * (1 + 1e-9)
        assert a.upper == pytest.approx(b.upper, rel=2e-3)  # twice the tolerance


def test_colluders_are_messages_less() -> None:
    response = sa.RandomizedResponse(categories=4, eps0=1.0)
    for randomizer in (response, sa.GeneralRandomizer(1.0)):
        with_some = sa.ShuffleRound(randomizer, users=100, colluding=40)
        without = sa.ShuffleRound(randomizer, users=60)
        assert with_some.delta(epsilon=0.3) == without.delta(epsilon=0.3)
    sampled = sa.ShuffleRound(response, users=100, population=1000, colluding=40)
    fewer = sa.ShuffleRound(response, users=60).epsilon(delta=1e-3)
    honest = sa.ShuffleRound(response, users=100, population=1000).epsilon(delta=1e-3)
    assert honest.upper < sampled.epsilon(delta=1e-3).lower < fewer.lower
    everybody = sa.ShuffleRound(response, users=100, population=1000, colluding=950)
    alone = sa.ShuffleRound(response, users=1)
    assert everybody.delta(epsilon=0.1) == alone.delta(epsilon=0.1)


@pytest.mark.parametrize("users", [10**3, 10**6, 10**9])
def test_large_crowds_are_answered_in_a_moment(users: int) -> None:
    rounds = [
        sa.ShuffleRound(
            sa.RandomizedResponse(categories=100, eps0=2.0),
            users=users,
            others={sa.RandomizedResponse(categories=100, eps0=1.0): users // 2},
            colluding=users // 10,
        ),
        sa.ShuffleRound(sa.GeneralRandomizer(1.0, adjacency=sa.Adjacency.ZERO_OUT), users=users),
    ]
    for one in rounds:
        found = one.epsilon(delta=1e-8)
        # of the processor, many times what it takes: other work does not count
        assert 0.0 < found.lower <= found.upper <= 1.001 * found.lower


RESPONSE = sa.RandomizedResponse(categories=3, eps0=1.0)
OTHER = sa.RandomizedResponse(categories=3, eps0=2.0)
NULL = sa.GeneralRandomizer(1.0, adjacency=sa.Adjacency.ZERO_OUT)


@pytest.mark.parametrize(
    ("randomizer", "arguments", "message"),
    [
        (RESPONSE, {"users": 3, "others": {sa.GeneralRandomizer(2.0): 2}}, "law shared with"),
        (
            sa.GeneralRandomizer(1.0),
            {"users": 3, "others": {sa.GeneralRandomizer(2.0): 2}},
            "shared",
        ),
        (RESPONSE, {"users": 3, "others": {RESPONSE: 2}}, "other randomizers than"),
        (RESPONSE, {"users": 3, "others": {OTHER: 2}, "population": 9}, "fixed number of users"),
        (RESPONSE, {"users": 3, "others": {OTHER: 2}, "colluding": 5}, "fewer than all 5"),
        (RESPONSE, {"users": 3, "colluding": 3}, "fewer than all 3"),
        (RESPONSE, {"users": 3, "others": {NULL: 2}}, "adjacency"),
        (RESPONSE, {"users": 3, "others": {OTHER: 2}, "reduction": "clones"}, "reduction must be"),
        (NULL, {"users": 3, "population": 9}, "take part"),
        (NULL, {"users": sa.Binomial(trials=9, probability=0.5)}, "take part"),
        (NULL, {"users": 3, "reduction": "clones"}, "null law"),
        (RESPONSE, {"users": 3, "reduction": "null law"}, "zero-out"),
        (RESPONSE, {"users": sa.Binomial(trials=0, probability=0.5)}, "trials >= 1"),
        (RESPONSE, {"users": sa.Binomial(trials=9, probability=0.5), "population": 20}, "trials"),
    ],
)
def test_what_no_theorem_covers_is_refused(
    randomizer: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        sa.ShuffleRound(randomizer, **arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "one",
    [
        sa.ShuffleRound(RESPONSE, users=5, others={OTHER: 2}, colluding=1),
        sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=50, probability=0.1), colluding=3),
        sa.ShuffleRound(sa.ApproximateRandomizer(eps0=1.0, delta0=1e-9), users=7),
        sa.ShuffleRound(NULL, users=7, colluding=2),
    ],
)
def test_states(one: sa.ShuffleRound) -> None:
    state = json.loads(json.dumps(one.to_dict()))
    assert sa.ShuffleRound.from_dict(state) == one
    accountant = sa.FourierAccountant().compose(one, count=3)
    again = json.loads(json.dumps(accountant.state_dict()))
    assert sa.FourierAccountant.from_state_dict(again).protocol == accountant.protocol


def test_plain_rounds_are_written_as_before() -> None:
    assert set(sa.ShuffleRound(RESPONSE, users=5).to_dict()) == {
        "randomizer",
        "users",
        "population",
        "reduction",
        "variant",
    }
    assert sa.GeneralRandomizer(1.0).to_dict() == {
        "kind": "general",
        "eps0": 1.0,
        "interactive": False,
    }


@pytest.mark.slow
def test_reports_show_each_group_and_what_was_fixed() -> None:
    one = sa.ShuffleRound(RESPONSE, users=50, others={OTHER: 20}, colluding=5)
    found = sa.report(one, delta=1e-2)
    epsilons = [row for row in found.rows if row.measure.startswith("epsilon")]
    assert len(epsilons) == 2
    for row, kind in zip(epsilons, one.kinds_of_users, strict=True):
        assert row.upper == sa.epsilon(one.for_user_of(kind), delta=1e-2).upper
    assert any("which randomizer is fixed beforehand" in line for line in found.conditions)
    assert any("work with the observer" in line for line in found.conditions)
    joined = sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=99, probability=0.5))
    assert "hidden" in str(sa.report(joined, delta=1e-2))


@pytest.mark.slow
def test_atoms_of_a_random_crowd_are_few() -> None:
    """Parts are added up cell by cell: side by side they are hundreds of millions."""
    own = sa.RandomizedResponse(categories=10, eps0=2.0)
    one = sa.ShuffleRound(own, users=sa.Binomial(trials=200, probability=0.3))
    loss = one.reduced().loss
    spacing = 0.01

    def edges(largest: float) -> np.ndarray:
        return np.arange(math.ceil(largest / spacing) + 2) * spacing

    for side in Bound:
        effort = Effort(tail=1e-12, resolution=1e-3, rounds=4.0)
        atoms = loss.atoms(side, edges, effort)
        assert atoms.mass.size <= 2 * (loss.largest / spacing + 4) + 1
        # the profile of the atoms is the mixture's own, up to what cells cost, and points: z
        # deviations out about 1 + z^2 resolutions, with z = 5 at 0.3
        for epsilon in (0.0, 0.1, 0.3):
            found = atoms.mass * np.maximum(-np.expm1(epsilon - atoms.loss), 0.0)
            total = float(found.sum()) + atoms.infinite
            bound = loss.delta(epsilon, side, effort)
            assert total == pytest.approx(bound, rel=0.03, abs=1e-6)


def test_a_known_infinite_loss_is_no_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little may be cut off, delta0 stays: asking again would change nothing."""
    asked = []
    find_end = refinement.find_end

    def counted(problem: Any, plan: Any, side: Bound) -> Any:
        asked.append(side)
        return find_end(problem, plan, side)

    monkeypatch.setattr(refinement, "find_end", counted)
    one = sa.ShuffleRound(sa.ApproximateRandomizer(eps0=1.0, delta0=1e-9), users=20)
    found = sa.delta(one, epsilon=11.0, rounds=20, tolerance=1e-2)
    assert 0.0 < found.lower <= found.upper
    assert len(asked) <= 8  # two orders, two sides, and one grid more


@pytest.mark.parametrize("eps0", [300.0, 720.0, 1000.0])
@pytest.mark.parametrize("categories", [None, 4])
def test_random_participation_of_those_who_hardly_randomize(
    eps0: float, categories: int | None
) -> None:
    """Losses whose other probability is below all doubles."""
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(eps0)
        if categories is None
        else sa.RandomizedResponse(categories=categories, eps0=eps0),
        users=sa.Binomial(trials=4, probability=0.5),
    )
    found = sa.epsilon(one, delta=1e-6, rounds=2)
    # all four take part in both rounds with probability 16^-2, and hardly ever is there noise
    truth = 2.0 * eps0 + math.log1p(-1e-6 * 16.0**2)
    assert found.lower <= truth <= found.upper
    assert found.upper - found.lower <= 1e-3 * found.upper
    epsilon = 2.0 * eps0 - 0.25
    bracket = sa.delta(one, epsilon=epsilon, rounds=2)
    assert bracket.lower <= -math.expm1(-0.25) / 16.0**2 <= bracket.upper


def test_everybody_takes_part_with_probability_one() -> None:
    everybody = sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=1000, probability=1.0))
    plain = sa.ShuffleRound(RESPONSE, users=1000)
    assert everybody == plain
    assert sa.epsilon(everybody, delta=1e-6).upper == sa.epsilon(plain, delta=1e-6).upper
    assert sa.conditions(everybody) == sa.conditions(plain)
    known = sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=1000, probability=1.0), colluding=9)
    assert known == sa.ShuffleRound(RESPONSE, users=1000, colluding=9)
    # and the law of random participation goes there: brackets of the same truth, as p goes to 1
    nearly = sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=1000, probability=1.0 - 2.0**-53))
    found, wanted = (sa.delta(one, epsilon=0.2) for one in (nearly, plain))
    # one of 1000 people is missing with probability 1000 2^-53, whatever that changes
    assert found.lower <= wanted.upper + 1e-12
    assert wanted.lower <= found.upper + 1e-12
    for kind in (sa.NoiseMessages, functools.partial(sa.AugmentedShuffle, keep=0.5)):
        with pytest.raises(ValueError, match="dummies must be of a number that is random, got"):
            kind(categories=2, dummies=sa.Binomial(trials=9, probability=1.0))
    for wrong in (0.0, 1.0 + 1e-15, -0.5):
        with pytest.raises(ValueError, match="probability must be"):
            sa.Binomial(trials=9, probability=wrong)
