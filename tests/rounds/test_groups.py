"""Groups of people and users of several messages, against enumeration and closed forms."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from oracles.containment import assert_contains
from oracles.enumeration import hockey_stick, shuffled_output
from scipy.stats import norm

import shuffle_accountant as sa

REFS = Path(__file__).resolve().parent.parent / "refs"
# Binary randomized response that tells the truth with probability 3/4.
ROWS = [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]]
RESPONSE = sa.RandomizedResponse(categories=2, eps0=math.log(3))


def entries(name: str) -> list[dict[str, Any]]:
    return json.loads((REFS / f"{name}.json").read_text(encoding="utf-8"))


def worst(messages: int, changed: int, alpha: Fraction) -> Fraction:
    """Largest divergence over all data of the others and all changes of some values."""
    laws = {
        (mine, others): shuffled_output(ROWS, (*mine, *others))
        for mine in itertools.product((0, 1), repeat=changed)
        for others in itertools.combinations_with_replacement((0, 1), messages - changed)
    }
    return max(
        hockey_stick(laws[a, rest], laws[b, rest], alpha)
        for a, rest in laws
        for b, other in laws
        if rest == other
    )


@pytest.mark.parametrize(("messages", "changed"), [(2, 2), (3, 2), (4, 2), (5, 2), (4, 3), (5, 3)])
@pytest.mark.parametrize("alpha", [Fraction(1), Fraction(3, 2), Fraction(3), Fraction(5)])
def test_no_protocol_is_above(messages: int, changed: int, alpha: Fraction) -> None:
    """Several messages of one user, and several people, by enumeration in exact arithmetic."""
    truth = float(worst(messages, changed, alpha))
    several = sa.ShuffleRound(RESPONSE, messages=messages, messages_per_user=changed)
    epsilon = math.log(alpha)
    assert sa.delta(several, epsilon=epsilon).upper >= truth
    people = sa.ShuffleRound(RESPONSE, users=messages)
    assert sa.delta(people, epsilon=epsilon, group=changed).upper >= truth


def test_others_who_send_fewer_break_the_form_for_equal_numbers() -> None:
    """The target sends 2 messages, the other 1: two rounds of 2 users would be too small."""
    truth = worst(3, 2, Fraction(3))
    assert truth == Fraction(9, 32)
    equal = sa.ShuffleRound(RESPONSE, users=2, messages_per_user=2)
    assert sa.delta(equal, epsilon=math.log(3)) < float(truth)
    counted = sa.ShuffleRound(RESPONSE, messages=3, messages_per_user=2)
    assert_contains(sa.delta(counted, epsilon=math.log(3)), 0.375)


@pytest.mark.parametrize("entry", entries("user_messages"), ids=lambda entry: entry["id"])
def test_references_of_several_messages(entry: dict[str, Any]) -> None:
    eps0, named = entry["eps0"], entry["randomizer"]
    categories = {"General": 0, "8-RR": 8}.get(named, 16)
    if categories:
        randomizer: Any = sa.RandomizedResponse(categories=categories, eps0=eps0)
    else:
        randomizer = sa.GeneralRandomizer(eps0=eps0)
    several = entry["messages_per_user"]
    one = sa.ShuffleRound(randomizer, users=entry["users"], messages_per_user=several)
    found = sa.epsilon(one, delta=entry["delta"])
    low, high = entry["epsilon"]
    assert found.lower <= high
    assert low <= found.upper
    assert found.upper - found.lower <= 1.1e-3 * high
    fewer = sa.ShuffleRound(randomizer, users=entry["users"])
    rounds = sa.epsilon(fewer, delta=entry["delta"], rounds=several)
    assert (rounds.lower, rounds.upper) == (found.lower, found.upper)


@pytest.mark.parametrize("entry", entries("group"), ids=lambda entry: entry["id"])
def test_references_of_groups(entry: dict[str, Any]) -> None:
    group, delta = entry["group"], entry["delta"]
    if entry["base"] == "gaussian":
        step = sa.GaussianMechanism(noise_multiplier=1.0 / entry["mu"])
        one: Any = sa.RandomAllocation(step, steps=1)
        truth = entry["exact"]
    else:
        one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=entry["eps0"]), users=entry["users"])
        one = sa.Protocol([(one, entry["rounds"])])
        truth = entry["chain_upper"] * (1.0 - entry["rel_acc"])
    found = sa.epsilon(one, delta=delta, group=group)
    assert found.lower <= entry["chain_upper"]
    # the references' own splits are on a grid of their own, to 1e-3
    assert found.upper <= 1.001 * entry["chain_upper"]
    assert found.upper >= truth
    assert found.width <= 1e-2 * found.upper
    back = sa.delta(one, epsilon=found.upper, group=group)
    assert back.lower <= delta <= 1.01 * back.upper


@pytest.mark.parametrize(("mu", "group"), [(0.3, 4), (0.05, 30), (1.5, 2)])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_a_group_of_a_gaussian_mechanism(mu: float, group: int, delta: float) -> None:
    """Closed form: a group of m is the Gaussian mechanism with m times the distance."""
    one = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0 / mu), steps=1)
    found = sa.epsilon(one, delta=delta, group=group)
    far = mu * group

    def exact(epsilon: float) -> float:
        lower = norm.logcdf(-epsilon / far - far / 2)
        return norm.cdf(far / 2 - epsilon / far) - math.exp(epsilon + lower)

    # a bracket of epsilon contains the truth: delta falls from above to below between its ends
    assert exact(found.lower) >= delta * (1.0 - 1e-9)
    assert exact(found.upper) <= delta * (1.0 + 1e-9)
    assert found.width <= 1e-2 * found.upper


def applied(points: list[tuple[Fraction, Fraction]], x: Fraction) -> Fraction:
    """A concave curve through points, at x."""
    for (a, low), (b, high) in itertools.pairwise(points):
        if x <= b:
            return low + (high - low) * (x - a) / (b - a)
    return points[-1][1]


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("group", [2, 3])
def test_the_chain_is_the_power_applied_again(users: int, group: int) -> None:
    """The best split equals F applied several times, in exact arithmetic.

    The loss is given as a table, about which no theorem on groups of its own is known.
    """
    zero, one = (shuffled_output(ROWS, (mine, *(0,) * (users - 1))) for mine in (0, 1))
    tables, curves = [], []
    for p, q in ((one, zero), (zero, one)):
        cells: dict[Fraction, Fraction] = {}
        for k in p:
            cells[p[k] / q[k]] = cells.get(p[k] / q[k], Fraction(0)) + p[k]
        ratios = sorted(cells)
        losses = [math.log(ratio) for ratio in ratios]
        tables.append(sa.LossTable(losses, [float(cells[ratio]) for ratio in ratios]))
        points = [(Fraction(0), Fraction(0))]
        for ratio in reversed(ratios):
            x, y = points[-1]
            points.append((x + cells[ratio] / ratio, y + cells[ratio]))
        curves.append(points)
    # kinks of the power applied again: those of the curves, and the rates that are taken to them
    kinks = {x for curve in curves for x, _ in curve}
    for _ in range(group - 1):
        back = [[(y, x) for x, y in curve] for curve in curves]
        kinks |= {applied(curve, x) for curve in back for x in kinks}
    round = sa.PldRound.from_tables(*tables)
    for epsilon in (0.0, 0.5, 1.2, 2.0, 3.0):
        truth = Fraction(0)
        for x in kinks:
            value = x
            for _ in range(group):
                value = max(applied(curve, value) for curve in curves)
            truth = max(truth, value - Fraction(math.exp(epsilon)) * x)
        found = sa.delta(round, epsilon=epsilon, group=group)
        assert found.upper >= float(truth) * (1.0 - 1e-12)
        if epsilon == 0.0 and users == 1:  # one corner, which one person's profile shows
            assert_contains(found, float(truth))


def test_brackets_and_accountants_say_the_same() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=1000)
    found = sa.epsilon(one, delta=1e-6, rounds=2, group=3)
    again = sa.epsilon(one, delta=1e-6, rounds=2)
    assert again.group(3) == found
    assert pickle.loads(pickle.dumps(again)).group(3) == found
    assert again.group(1) == again
    assert any("group" in sentence for sentence in found.conditions)
    assert sa.FourierAccountant().compose(one, count=2).epsilon(delta=1e-6, group=3) == found
    # 3 people cost more than three times what one does, and less than two groups of 2
    assert again.upper * 3 < found.upper < again.group(4).upper


def test_many_users_and_many_people() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10**9)
    few, many = (sa.epsilon(one, delta=1e-12, group=group) for group in (5, 5000))
    assert 0.0 < few.lower <= few.upper < many.lower <= many.upper < 5.0


def test_zero_out_covers_additions_and_removals() -> None:
    """Poisson sampling, rate .3, sigma 1: (remove, remove) alone is 4.284 at 1e-3."""
    step = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.3)
    found = sa.epsilon(step, delta=1e-3, group=2)
    assert 4.27 < found.upper < 4.30


@pytest.mark.parametrize("group", [0, -1, 1.5, True, "2", 10**6])
def test_groups_are_whole_numbers(group: Any) -> None:
    one = sa.ShuffleRound(RESPONSE, users=10)
    with pytest.raises((TypeError, ValueError), match="group") as refused:
        sa.epsilon(one, delta=1e-6, group=group)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"users": 10, "messages_per_user": 0}, "messages_per_user"),
        ({"users": 10, "messages_per_user": 2.5}, "messages_per_user"),
        ({"messages": 3, "messages_per_user": 4}, "messages"),
        ({"users": 10, "population": 20, "messages_per_user": 2}, "population"),
        ({"users": sa.Binomial(trials=10, probability=0.5), "messages_per_user": 2}, "users"),
        ({"users": 10, "messages": 30, "messages_per_user": 2, "colluding": 1}, "messages"),
        ({}, "users"),
    ],
)
def test_what_no_theorem_covers_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        sa.ShuffleRound(RESPONSE, **options)
    assert "\n" not in str(refused.value)


def test_rounds_of_several_messages_are_stored() -> None:
    for options in ({"users": 9}, {"messages": 30}):
        one = sa.ShuffleRound(RESPONSE, messages_per_user=3, **options)
        assert sa.ShuffleRound.from_dict(json.loads(json.dumps(one.to_dict()))) == one
        assert "clients enforce" in " ".join(sa.conditions(one))


def test_a_tail_probability_has_no_groups() -> None:
    one = sa.ShuffleRound(RESPONSE, users=10, reduction="strong", variant="tail")
    with pytest.raises(ValueError, match="group"):
        sa.epsilon(one, delta=0.1, group=2)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("group", [2, 3])
def test_of_a_channel_that_reveals_nothing(group: int, rounds: int) -> None:
    """Equal rows: not of one person, and not of a group."""
    same = sa.ShuffleRound(sa.DiscreteRandomizer([[0.5625, 0.4375]] * 2), users=10)
    assert sa.delta(same, epsilon=0.0, group=group, rounds=rounds).upper <= 1e-300
    assert sa.epsilon(same, delta=1e-9, group=group, rounds=rounds).upper <= 1e-300
    found = sa.delta(same, epsilon=0.0, group=group, rounds=rounds)
    assert "group of" in found.reduction
    distinct = sa.ShuffleRound(sa.DiscreteRandomizer([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]), users=10)
    assert sa.delta(distinct, epsilon=0.0, group=group).lower >= 0.4


def test_the_least_epsilon_that_doubles_have() -> None:
    """Between 0 and an epsilon of the size of doubles' last bits there is no room for points."""
    survey = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=100)
    for group in (2, 3, 7):
        least = sa.delta(survey, epsilon=5e-324, rounds=3, group=group)
        none = sa.delta(survey, epsilon=0.0, rounds=3, group=group)
        assert 0.0 < least.lower <= none.upper
        assert none.lower <= least.upper <= 1.0
