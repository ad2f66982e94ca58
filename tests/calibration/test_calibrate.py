"""Calibration against plain searches, and against its own claim on both sides of the answer.

The claim: the upper end of epsilon at the answer is at most the target, one step further it is not.
It is checked with `sa.epsilon` itself, which knows nothing of the search, and for small cases by
trying all candidates.
"""

import copy
import json
import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.precision import MP, Real, exact

import shuffle_accountant as sa
from shuffle_accountant.calibration import calibrate
from shuffle_accountant.calibration import search as target_module
from shuffle_accountant.calibration.search import (
    Target,
    decimals,
    first_that_meets,
    integers_downwards,
    integers_upwards,
)
from shuffle_accountant.cli import main

few = settings(max_examples=5, deadline=None, derandomize=True)


def cost(eps0, users, rounds, delta, *, make=sa.GeneralRandomizer, population=None, **options):
    one = sa.ShuffleRound(make(eps0=eps0), users=users, population=population)
    return sa.epsilon(one, delta=delta, rounds=rounds, **options)


def assert_certified(answer, ask, target):
    """The claim, with brackets asked for anew."""
    here = ask(answer)
    assert here.upper <= target
    evidence = answer.evidence
    assert evidence.target_epsilon == target
    assert (evidence.bracket.lower, evidence.bracket.upper) == (here.lower, here.upper)
    if evidence.next_value is None:
        assert evidence.next_bracket is None
        assert evidence.proven != evidence.capped
        return
    further = ask(evidence.next_value)
    assert further.upper > target
    assert (evidence.next_bracket.lower, evidence.next_bracket.upper) == (
        further.lower,
        further.upper,
    )
    assert evidence.proven == (further.lower > target)


# ---------------------------------------- the answers


PROTOCOLS = [
    # users, rounds, target, delta
    (10_000, 4, 1.0, 1e-6),
    (10_000, 1, 1.0, 1e-6),
    (1, 1, 1.0, 1e-6),
    (1, 10_000, 1.0, 1e-6),
    (50, 3, 20.0, 1e-3),
    (10**6, 100, 0.01, 1e-30),
    (1000, 4, 1.0, 0.5),
]


@pytest.mark.parametrize(("users", "rounds", "target", "delta"), PROTOCOLS)
def test_max_eps0(users, rounds, target, delta):
    answer = sa.max_eps0(users=users, rounds=rounds, target_epsilon=target, delta=delta)
    assert type(answer.real) is float
    assert_certified(answer, lambda eps0: cost(eps0, users, rounds, delta), target)
    # a step is one in the sixth significant digit
    assert float(f"{answer:.5e}") == answer
    assert answer < answer.evidence.next_value <= answer * (1 + 1.01e-5)


@pytest.mark.parametrize(
    ("eps0", "rounds", "target", "delta"),
    [(4.0, 4, 1.0, 1e-6), (4.0, 1, 1.0, 1e-6), (0.5, 1, 0.1, 1e-6), (2.0, 50, 3.0, 1e-12)],
)
def test_min_users(eps0, rounds, target, delta):
    answer = sa.min_users(eps0=eps0, rounds=rounds, target_epsilon=target, delta=delta)
    assert isinstance(answer, int)
    assert answer.evidence.next_value == answer - 1
    assert_certified(answer, lambda users: cost(eps0, users, rounds, delta), target)


@pytest.mark.parametrize(
    ("eps0", "users", "target", "delta"),
    [(4.0, 10_000, 1.0, 1e-6), (5.0, 1, 7.0, 1e-6), (4.0, 10_000, 20.0, 1e-6)],
)
def test_max_rounds(eps0, users, target, delta):
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)
    answer = sa.max_rounds(one, target_epsilon=target, delta=delta)
    assert isinstance(answer, int)
    assert answer.evidence.next_value == answer + 1
    assert_certified(answer, lambda rounds: cost(eps0, users, rounds, delta), target)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 3])
def test_min_users_by_trying_all(rounds):
    eps0, delta = 1.2, 1e-3
    costs = [cost(eps0, users, rounds, delta).upper for users in range(1, 121)]
    for target in (0.9 * costs[-1], 1.0001 * costs[-1], costs[100], 0.8, 1.1, costs[0]):
        found = sa.min_users(eps0=eps0, rounds=rounds, target_epsilon=target, delta=delta)
        enough = [users for users, epsilon in enumerate(costs, 1) if epsilon <= target]
        assert found == enough[0] if enough else found > 120


@pytest.mark.parametrize("users", [1, 7, 60])
def test_max_rounds_by_trying_all(users):
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=users)
    target, delta = 3.0, 1e-4
    costs = [sa.epsilon(one, delta=delta, rounds=rounds).upper for rounds in range(1, 60)]
    most = sum(1 for epsilon in costs if epsilon <= target)
    assert 0 < most < 59
    assert sa.max_rounds(one, target_epsilon=target, delta=delta) == most


def test_one_user_is_pure_local_privacy():
    # one message: delta(eps) = (e^eps0 - e^eps)/(e^eps0 + 1), solved for eps0 by hand
    target, delta = 1.0, 1e-2
    exact = math.log((math.exp(target) + delta) / (1.0 - delta))
    answer = sa.max_eps0(users=1, rounds=1, target_epsilon=target, delta=delta)
    # the answer is the exact one rounded down to six digits; the bracket costs 1e-9 at most
    assert exact - 1.01e-5 <= answer <= exact


def test_a_smaller_tolerance_goes_further():
    question = {"users": 10_000, "rounds": 1000, "target_epsilon": 1.0, "delta": 1e-6}
    loose = sa.max_eps0(**question, tolerance=0.1)
    fine = sa.max_eps0(**question, tolerance=1e-4)
    assert loose < fine
    # neither can be above the truth, which lies below where the lower end crosses the target
    lower = cost(fine * 1.001, 10_000, 1000, 1e-6, tolerance=1e-4).lower
    assert lower > 1.0


@pytest.mark.slow
def test_sampled_rounds():
    question = {"users": 1000, "rounds": 100, "target_epsilon": 1.0, "delta": 1e-6}
    sampled = sa.max_eps0(**question, population=100_000)
    assert sampled > sa.max_eps0(**question)
    assert_certified(sampled, lambda eps0: cost(eps0, 1000, 100, 1e-6, population=100_000), 1.0)
    one = sa.ShuffleRound(sa.GeneralRandomizer(sampled), users=1000, population=100_000)
    assert sa.max_rounds(one, target_epsilon=1.0, delta=1e-6) >= 100


@pytest.mark.parametrize(
    "make",
    [
        partial(sa.RandomizedResponse, categories=16),
        partial(sa.GeneralRandomizer, interactive=True),
    ],
    ids=["randomized response", "interactive"],
)
def test_other_randomizers(make):
    question = {"rounds": 2, "target_epsilon": 0.8, "delta": 1e-6, "randomizer": make}
    eps0 = sa.max_eps0(users=2000, **question)
    assert_certified(eps0, lambda value: cost(value, 2000, 2, 1e-6, make=make), 0.8)
    users = sa.min_users(eps0=eps0, **question)
    assert_certified(users, lambda value: cost(eps0, value, 2, 1e-6, make=make), 0.8)
    assert users <= 2000


@pytest.mark.slow
def test_other_reductions():
    make = partial(sa.RandomizedResponse, categories=4)
    question = {"users": 500, "rounds": 1, "target_epsilon": 0.5, "delta": 1e-6, "randomizer": make}
    by_blanket = sa.max_eps0(**question)
    by_clones = sa.max_eps0(**question, reduction="clones")
    by_strong = sa.max_eps0(**question, reduction="strong", variant="exact")
    assert by_clones < by_blanket
    assert by_strong < by_blanket
    assert by_strong.evidence.bracket.reduction == "strong, exact"


# ---------------------------------------- ends of the range


@pytest.mark.slow
def test_everything_meets_the_target():
    largest = sa.max_eps0(users=10, rounds=3, target_epsilon=1e4, delta=1e-6)
    assert largest == calibrate.LARGEST_EPS0
    assert largest.evidence.next_value is None
    assert sa.max_eps0(users=10, rounds=0, target_epsilon=1e-9, delta=1e-6) == largest
    assert sa.min_users(eps0=0.1, rounds=1, target_epsilon=1.0, delta=1e-6) == 1
    assert sa.min_users(eps0=0.0, rounds=9, target_epsilon=1e-9, delta=1e-6) == 1
    assert sa.min_users(eps0=5.0, rounds=0, target_epsilon=1e-9, delta=1e-6) == 1
    idle = sa.ShuffleRound(sa.GeneralRandomizer(0.0), users=3)
    assert sa.max_rounds(idle, target_epsilon=1e-9, delta=1e-6) == calibrate.MOST_ROUNDS


def test_delta_alone_can_be_enough():
    # one message of randomized response has total variation tanh(eps0/2) = 0.197
    found = sa.min_users(eps0=0.4, rounds=1, target_epsilon=1e-6, delta=0.5)
    assert found == 1
    assert found.evidence.bracket.upper == 0.0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: sa.min_users(eps0=40.0, rounds=5, target_epsilon=1.0, delta=1e-6),
        lambda: sa.min_users(eps0=2.0, rounds=4, target_epsilon=1e-9, delta=1e-6),
        lambda: sa.max_rounds(
            sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=100), target_epsilon=0.1, delta=1e-6
        ),
        lambda: sa.max_rounds(
            sa.ShuffleRound(sa.DiscreteRandomizer([[1, 0], [0.5, 0.5]]), users=10),
            target_epsilon=1.0,
            delta=1e-6,
        ),
        lambda: sa.max_eps0(
            users=1,
            rounds=1,
            target_epsilon=1.0,
            delta=1e-6,
            randomizer=lambda eps0: sa.GeneralRandomizer(2.0),
        ),
    ],
    ids=["users, by far", "users", "rounds", "rounds of infinite loss", "eps0"],
)
def test_out_of_reach_is_one_line(ask):
    with pytest.raises(ValueError, match=r"^target_epsilon must be at least the epsilon of .*got"):
        ask()


def test_the_limit_that_the_error_names_is_within_reach():
    one = sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=100)
    with pytest.raises(ValueError, match="target_epsilon") as caught:
        sa.max_rounds(one, target_epsilon=0.1, delta=1e-6)
    limit = float(str(caught.value).split("which is ")[1].split(";")[0])
    assert sa.max_rounds(one, target_epsilon=limit, delta=1e-6) == 1


# ---------------------------------------- properties


@pytest.mark.slow
@few
@given(
    users=st.integers(1, 3000),
    rounds=st.integers(1, 30),
    target=st.floats(0.05, 8.0),
    exponent=st.floats(-12.0, -1.0),
)
def test_round_trips(users, rounds, target, exponent):
    delta = 10.0**exponent
    eps0 = sa.max_eps0(users=users, rounds=rounds, target_epsilon=target, delta=delta)
    assert cost(eps0, users, rounds, delta).upper <= target
    # with that eps0 these users and these rounds are enough, so no more users, no fewer rounds
    assert sa.min_users(eps0=eps0, rounds=rounds, target_epsilon=target, delta=delta) <= users
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)
    assert sa.max_rounds(one, target_epsilon=target, delta=delta) >= rounds


@pytest.mark.slow
@few
@given(
    users=st.integers(1, 1000),
    rounds=st.integers(1, 5),
    target=st.floats(0.1, 4.0),
    more=st.floats(1.05, 4.0),
)
def test_monotone(users, rounds, target, more):
    def eps0(users=users, rounds=rounds, target=target, delta=1e-5):
        return sa.max_eps0(users=users, rounds=rounds, target_epsilon=target, delta=delta)

    # what is certified lies below the truth by the tolerance at most, and a step
    base = eps0() * (1 - 2e-3)
    assert eps0(users=math.ceil(users * more)) >= base
    assert eps0(target=target * more) >= base
    assert eps0(delta=1e-5 * more) >= base
    assert eps0(rounds=math.ceil(rounds * more)) * (1 - 2e-3) <= eps0()


@given(st.integers(-300, 2), st.floats(1.0, 9.99))
def test_decimals_are_numbers_of_six_digits_in_order(exponent, mantissa):
    largest = float(f"{mantissa:.5f}e{exponent}")
    ladder = decimals(largest, largest / 1000)
    assert ladder.value(0) == largest
    for index in (1, 2, 99_999, 950_000, ladder.last):
        value, before = ladder.value(index), ladder.value(index - 1)
        assert 1e-6 <= before / value - 1 <= 1.001e-5
        assert float(f"{value:.5e}") == value
        assert ladder.nearest(ladder.place(value)) == index
    assert ladder.value(ladder.last) == pytest.approx(largest / 1000, rel=1e-5)


@given(st.integers(-300, 2), st.floats(1.0, 9.99))
def test_decimals_are_the_same_numbers(exponent, mantissa):
    least = float(f"{mantissa:.5f}e{exponent}")
    ladder = decimals(least, 1000 * least)
    assert ladder.value(0) == least
    for index in (1, 2, 99_999, 950_000, ladder.last):
        value, before = ladder.value(index), ladder.value(index - 1)
        assert 1e-6 <= value / before - 1 <= 1.001e-5
        assert ladder.nearest(ladder.place(value)) == index
    assert ladder.value(ladder.last) == pytest.approx(1000 * least, rel=1e-5)


@pytest.mark.parametrize("ladder", [integers_upwards(10**9), integers_downwards(10**9)])
def test_integers_are_all_there(ladder):
    values = [ladder.value(index) for index in (0, 1, ladder.last)]
    assert sorted(values) in ([1, 2, 10**9], [1, 10**9 - 1, 10**9])
    for index in (0, 1, 12_345_678, ladder.last - 1, ladder.last):
        assert ladder.nearest(ladder.place(ladder.value(index))) == index


@given(
    first=st.integers(0, 10**6),
    guess=st.floats(1.0, 1e6),
    noise=st.sampled_from([0.0, 1e-9, 1e-3]),
    power=st.floats(0.1, 3.0),
)
def test_the_search_ends_at_two_neighbours_even_in_noise(first, guess, noise, power):
    """Epsilon falls as a power of the candidate, jitters, and the estimate is 10 % off."""

    def epsilon(value):
        return (1.0 + noise * math.sin(1e6 * value)) * ((first + 0.5) / value) ** power

    ladder = integers_upwards(10**6)
    index = first_that_meets(
        ladder,
        lambda value: math.log(1.1 * epsilon(value)),
        lambda value: math.log(epsilon(value)),
        guess,
        0.5,
    )
    if index is None:
        assert math.log(epsilon(10**6)) > 0.0
        return
    assert math.log(epsilon(ladder.value(index))) <= 0.0
    if index > 0:
        assert math.log(epsilon(ladder.value(index - 1))) > 0.0
    if noise == 0.0:
        assert ladder.value(index) == first + 1


def test_the_end_of_the_range_is_not_called_extreme():
    """One more may be allowed: nobody asked."""
    idle = sa.ShuffleRound(sa.GeneralRandomizer(1e-15), users=10**9)
    most = sa.max_rounds(idle, target_epsilon=1.0, delta=1e-6)
    assert most == calibrate.MOST_ROUNDS
    assert most.evidence.capped
    assert not most.evidence.proven
    largest = sa.max_eps0(users=10, rounds=1, target_epsilon=1e3, delta=1e-6)
    assert largest.evidence.next_value is None
    assert largest.evidence.capped
    # nobody can be fewer than one
    fewest = sa.min_users(eps0=0.1, rounds=1, target_epsilon=1.0, delta=1e-6)
    assert fewest == 1
    assert not fewest.evidence.capped
    assert fewest.evidence.proven
    usual = sa.max_rounds(
        sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1000), target_epsilon=1.0, delta=1e-6
    )
    assert usual.evidence.proven
    assert not usual.evidence.capped


# ---------------------------------------- size


@pytest.mark.slow
def test_large_scale():
    target = 1.0
    question = {"rounds": 10**6, "target_epsilon": target, "delta": 1e-8}
    eps0 = sa.max_eps0(users=10**12, **question)
    assert_certified(eps0, lambda value: cost(value, 10**12, 10**6, 1e-8), target)
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=10**12)
    assert sa.max_rounds(one, target_epsilon=target, delta=1e-8) >= 10**6
    # a few brackets each: 10 s of two slow processors, 60 leave room for anything but a scan


def test_few_brackets_are_needed(monkeypatch):
    asked = []

    def counted(protocol, tolerance, **question):
        asked.append(tolerance)
        return certified(protocol, tolerance, **question)

    certified = target_module.certified_at
    monkeypatch.setattr(target_module, "certified_at", counted)
    sa.max_eps0(users=10**5, rounds=50, target_epsilon=0.7, delta=1e-7)
    sa.min_users(eps0=3.0, rounds=50, target_epsilon=0.7, delta=1e-7)
    # secants: a handful of each kind, where halving alone would take 20 or more
    assert asked.count(1e-3) <= 16
    assert asked.count(0.1) <= 20
    assert len(asked) == asked.count(1e-3) + asked.count(0.1)


# ---------------------------------------- the number that comes back


def test_an_answer_is_a_plain_number():
    eps0 = sa.max_eps0(users=100, rounds=1, target_epsilon=1.0, delta=1e-4)
    users = sa.min_users(eps0=2.0, rounds=1, target_epsilon=1.0, delta=1e-4)
    assert repr(eps0) == repr(float(eps0))
    assert json.loads(json.dumps([eps0, users])) == [float(eps0), int(users)]
    assert type(eps0 + 1) is float
    assert type(users + 1) is int
    for number in (eps0, users):
        for twin in (pickle.loads(pickle.dumps(number)), copy.deepcopy(number)):
            assert twin == number
            assert type(twin) is type(number)
            assert twin.evidence.bracket == number.evidence.bracket
            assert twin.evidence.bracket.lower == number.evidence.bracket.lower
    assert sa.GeneralRandomizer(eps0).eps0 == eps0
    assert sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users).users == users


def test_a_loose_answer_warns_at_the_line_that_asked(monkeypatch):
    certified = target_module.certified_at
    loose = "the memory limit"
    monkeypatch.setattr(
        target_module, "certified_at", lambda *a, **k: (certified(*a, **k)[0], loose)
    )
    with pytest.warns(sa.LooseBracketWarning, match="limited by the memory limit") as caught:
        sa.max_eps0(users=100, rounds=2, target_epsilon=1.0, delta=1e-4)
    assert len(caught) == 1
    assert caught[0].filename == __file__


# ---------------------------------------- bad input


GOOD = {
    "max_eps0": {"users": 100, "rounds": 2, "target_epsilon": 1.0, "delta": 1e-4},
    "min_users": {"eps0": 1.0, "rounds": 2, "target_epsilon": 1.0, "delta": 1e-4},
    "max_rounds": {
        "round": sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100),
        "target_epsilon": 1.0,
        "delta": 1e-4,
    },
}
OUT_OF_RANGE = {
    "users": [0, -1, 2**53 + 1],
    "rounds": [-1, 10**13],
    "eps0": [-1.0, math.nan, math.inf, 701.0],
    "target_epsilon": [0.0, -1.0, math.nan, math.inf],
    "delta": [0.0, 1.0, -0.1, math.nan],
    "tolerance": [0.0, -1.0, math.nan],
    "population": [99, 0, -1],
    "reduction": ["magic", "strong", "blanket"],
    "variant": ["tail"],
}
WRONG_TYPE = {
    "users": [1.5, "10", None, True],
    "rounds": [2.5, "1", None],
    "eps0": ["1", None, 1j],
    "target_epsilon": ["1", None, [1.0]],
    "delta": ["1", None],
    "tolerance": ["1", None],
    "population": [1.5, "many"],
    "reduction": [None, 1],
    "randomizer": ["krr", None, 3, lambda eps0: "message"],
    "round": [None, "round", sa.GeneralRandomizer(1.0)],
}
EXTRAS = {
    "max_eps0": {"population", "reduction", "variant", "randomizer", "tolerance"},
    "min_users": {"reduction", "variant", "randomizer", "tolerance"},
    "max_rounds": {"tolerance"},
}


def refused(table):
    return [
        pytest.param(function, name, value, id=f"{function}-{name}-{value!r:.20}")
        for function, good in GOOD.items()
        for name, values in table.items()
        if name in good or name in EXTRAS[function]
        for value in values
    ]


def assert_refused(function, name, value, kind):
    arguments = GOOD[function] | {name: value}
    first = [arguments.pop("round")] if "round" in arguments else []
    with pytest.raises(kind) as caught:
        getattr(sa, function)(*first, **arguments)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("function", "name", "value"), refused(OUT_OF_RANGE))
def test_out_of_range(function, name, value):
    assert_refused(function, name, value, ValueError)


@pytest.mark.parametrize(("function", "name", "value"), refused(WRONG_TYPE))
def test_wrong_type(function, name, value):
    assert_refused(function, name, value, TypeError)


def test_numpy_scalars_are_numbers():
    plain = sa.max_eps0(users=100, rounds=2, target_epsilon=1.0, delta=1e-4)
    assert plain == sa.max_eps0(
        users=np.int64(100), rounds=np.int32(2), target_epsilon=np.float64(1.0), delta=1e-4
    )


def test_all_but_the_round_are_keywords():
    with pytest.raises(TypeError):
        sa.max_eps0(100, 2, 1.0, 1e-4)
    with pytest.raises(TypeError):
        sa.max_rounds(GOOD["max_rounds"]["round"], 1.0, 1e-4)


# ---------------------------------------- the command


TARGET = ["--target-epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main(["calibrate", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def ask(run, *arguments):
    code, out, err = run(*arguments, *TARGET, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def assert_is(found, quantity, answer):
    evidence = answer.evidence
    assert found["quantity"] == quantity
    assert found["value"] == answer
    assert (found["lower"], found["upper"]) == (evidence.bracket.lower, evidence.bracket.upper)
    assert found["next_value"] == evidence.next_value
    assert found["next_upper"] == evidence.next_bracket.upper
    assert found["next_lower"] == evidence.next_bracket.lower
    assert found["proven"] == evidence.proven
    assert found["capped"] == evidence.capped
    assert found["reduction"] == evidence.bracket.reduction
    assert found["question"][quantity] is None
    assert found["warnings"] == []


def test_the_command_finds_what_was_left_out(run):
    target = {"target_epsilon": 1.0, "delta": 1e-6}
    found = ask(run, "--users", 10_000, "--rounds", 4)
    assert_is(found, "eps0", sa.max_eps0(users=10_000, rounds=4, **target))
    found = ask(run, "--eps0", 4, "--rounds", 4)
    assert_is(found, "users", sa.min_users(eps0=4.0, rounds=4, **target))
    found = ask(run, "--eps0", 4, "--users", 10_000)
    one = sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=10_000)
    assert_is(found, "rounds", sa.max_rounds(one, **target))
    assert ask(run, "--users", 100)["question"]["rounds"] == 1


def test_every_flag_of_the_command_reaches_the_library(run):
    target = {"target_epsilon": 1.0, "delta": 1e-6}
    flags = ["--users", 500, "--categories", 4, "--reduction", "strong", "--variant", "paper"]
    make = partial(sa.RandomizedResponse, categories=4)
    answer = sa.max_eps0(
        users=500, rounds=1, randomizer=make, reduction="strong", variant="paper", **target
    )
    assert_is(ask(run, *flags), "eps0", answer)
    make = partial(sa.GeneralRandomizer, interactive=True)
    answer = sa.max_eps0(
        users=500, rounds=3, population=5000, randomizer=make, tolerance=1e-2, **target
    )
    flags = ["--users", 500, "--rounds", 3, "--population", 5000, "--interactive"]
    assert_is(ask(run, *flags, "--tolerance", 1e-2), "eps0", answer)


def test_the_table_of_the_command(run):
    code, out, err = run("--users", 10_000, "--rounds", 4, *TARGET)
    assert (code, err) == (0, "")
    rows = [line.split("  ", 1) for line in out.partition("holds only if:")[0].splitlines()]
    named = {name: value.strip() for name, value in rows}
    assert list(named) == [
        *("eps0", "lower", "upper", "reduction"),
        *("next eps0", "next lower", "next upper"),
    ]
    answer = sa.max_eps0(users=10_000, rounds=4, target_epsilon=1.0, delta=1e-6)
    assert named["eps0"].split()[0] == repr(answer)
    assert (named["lower"], named["upper"]) == answer.evidence.bracket.ends()
    assert named["next eps0"] == repr(answer.evidence.next_value)
    _, out, _ = run("--eps0", 0.1, *TARGET)
    assert out.startswith("users ")
    assert "next" not in out


def test_no_randomisation_is_still_json(run):
    code, out, _ = run(
        *("--users", 10, "--rounds", 0, "--target-epsilon", 1, "--delta", 0.1, "--json")
    )
    assert code == 0
    found = json.loads(out)
    assert found["value"] == calibrate.LARGEST_EPS0
    assert found["next_value"] is found["next_lower"] is found["next_upper"] is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*TARGET], "users"),
        (["--users", "10", "--eps0", "1", "--rounds", "2", *TARGET], "left out"),
        (["--eps0", "1", "--population", "99", *TARGET], "population"),
        (["--users", "10", "--categories", "4", "--interactive", *TARGET], "interactive"),
        (["--users", "10", "--delta", "1e-6"], "--target-epsilon"),
        (["--users", "10", "--target-epsilon", "0", "--delta", "1e-6"], "--target-epsilon"),
        (["--users", "10", "--target-epsilon", "nan", "--delta", "1e-6"], "--target-epsilon"),
        (["--users", "10", "--target-epsilon", "1", "--delta", "2"], "delta"),
        (["--users", "10", "--population", "9", *TARGET], "population"),
        (["--users", "10", "--categories", "1", *TARGET], "categories"),
        (["--users", "ten", *TARGET], "users"),
        (["--eps0", "40", *TARGET], "--target-epsilon"),
        (["--eps0", "4", "--users", "10", *TARGET], "--target-epsilon"),
        (["--eps0", "inf", "--categories", "4", "--users", "10", *TARGET], "--target-epsilon"),
    ],
)
def test_errors_of_the_command(run, arguments, named):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("shuffle-accountant: error: ")
    assert err.count("\n") == 1
    assert named in err


def test_warnings_of_the_command(run, monkeypatch):
    certified = target_module.certified_at
    loose = "the memory limit"
    monkeypatch.setattr(
        target_module, "certified_at", lambda *a, **k: (certified(*a, **k)[0], loose)
    )
    code, _, err = run("--users", 100, *TARGET)
    assert code == 0
    assert err.startswith("shuffle-accountant: warning: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 50.0, 1e6])
@pytest.mark.parametrize("delta", [1e-100, 1e-6, 0.3, 0.9, 1.0 - 1e-12])
def test_normal_laws_that_just_meet_the_target(epsilon: float, delta: float) -> None:
    """Against the profile of two normal laws, with fifty digits; found to a thousandth in mu."""
    mu = MP.sqrt(exact(Target(epsilon, delta, 1e-3).squared_mu))

    def profile(mu: Real) -> Real:
        half = mu / 2
        return MP.ncdf(half - epsilon / mu) - MP.exp(epsilon) * MP.ncdf(-half - epsilon / mu)

    assert profile(mu * (1 - exact(2e-3))) <= exact(delta) <= profile(mu * (1 + exact(2e-3)))
