"""Bad input: one line that names the argument, and an accountant that has not changed.

A number outside its range is a ValueError, a value that is not a number (or not the right kind of
object) a TypeError. The command line prints the same line to stderr and exits 2.
"""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa

ROOT = Path(__file__).parents[1]

NOT_NUMBERS: list[Any] = ["1", None, [1.0], {}, 1j, Ellipsis]


def good_round() -> sa.ShuffleRound:
    """A round that is fine."""
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10)


def good_accountant() -> sa.FourierAccountant:
    """Three such rounds."""
    return sa.FourierAccountant().compose(good_round(), count=3)


def assert_refused(
    call: Callable[[], object],
    name: str,
    kinds: type[Exception] | tuple[type[Exception], ...],
    value: object = None,
) -> None:
    """Fail unless ``call`` raises one of ``kinds`` with one line that names argument and value."""
    with pytest.raises(kinds) as caught:
        call()
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert name in message, message
    if isinstance(value, int | float):
        assert repr(value) in message or str(value) in message, message


# ---------------------------------------- randomizers, rounds


@pytest.mark.parametrize("eps0", [-1.0, -1e-300, -1, math.nan, math.inf, -math.inf])
def test_eps0_out_of_range(eps0: float) -> None:
    assert_refused(lambda: sa.GeneralRandomizer(eps0=eps0), "eps0", ValueError, eps0)


@pytest.mark.parametrize("eps0", NOT_NUMBERS, ids=repr)
def test_eps0_not_a_number(eps0: Any) -> None:
    assert_refused(lambda: sa.GeneralRandomizer(eps0=eps0), "eps0", TypeError)


@pytest.mark.parametrize("users", [0, -1, -(10**12)])
def test_users_out_of_range(users: int) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(lambda: sa.ShuffleRound(randomizer, users=users), "users", ValueError, users)


@pytest.mark.parametrize("users", [2.5, math.nan, math.inf])
def test_users_not_whole(users: Any) -> None:
    """A float is the wrong type or out of range, as the package likes."""
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    refused = (ValueError, TypeError)
    assert_refused(lambda: sa.ShuffleRound(randomizer, users=users), "users", refused, users)


@pytest.mark.parametrize("users", NOT_NUMBERS, ids=repr)
def test_users_not_a_number(users: Any) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(lambda: sa.ShuffleRound(randomizer, users=users), "users", TypeError)


@pytest.mark.parametrize("population", [9, 1, 0, -5])
def test_population_below_users(population: int) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(
        lambda: sa.ShuffleRound(randomizer, users=10, population=population),
        "population",
        ValueError,
        population,
    )


@pytest.mark.parametrize("population", [20.5, math.nan, "20", [20]], ids=repr)
def test_population_not_whole(population: Any) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(
        lambda: sa.ShuffleRound(randomizer, users=10, population=population),
        "population",
        (ValueError, TypeError),
    )


@pytest.mark.parametrize("reduction", ["magic", "", "CLONES", "auto "])
def test_unknown_reduction(reduction: str) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(
        lambda: sa.ShuffleRound(randomizer, users=10, reduction=reduction), "reduction", ValueError
    )


@pytest.mark.parametrize("reduction", [None, 1, ["clones"]], ids=repr)
def test_reduction_not_a_word(reduction: Any) -> None:
    randomizer = sa.GeneralRandomizer(eps0=1.0)
    assert_refused(
        lambda: sa.ShuffleRound(randomizer, users=10, reduction=reduction), "reduction", TypeError
    )


@pytest.mark.parametrize(
    "randomizer",
    ["rr", 4.0, None, object(), sa.GeneralRandomizer],
    ids=lambda value: str(value)[:9],
)
def test_a_randomizer_that_is_not_one(randomizer: Any) -> None:
    assert_refused(lambda: sa.ShuffleRound(randomizer, users=10), "randomizer", TypeError)


# ---------------------------------------- questions

Ask = Callable[[Any], object]

EPSILON_OF: dict[str, Ask] = {
    "round": lambda delta: good_round().epsilon(delta=delta),
    "accountant": lambda delta: good_accountant().epsilon(delta=delta),
    "empty": lambda delta: sa.FourierAccountant().epsilon(delta=delta),
    "function": lambda delta: sa.epsilon(good_round(), delta=delta, rounds=4),
}
DELTA_OF: dict[str, Ask] = {
    "round": lambda epsilon: good_round().delta(epsilon=epsilon),
    "accountant": lambda epsilon: good_accountant().delta(epsilon=epsilon),
    "empty": lambda epsilon: sa.FourierAccountant().delta(epsilon=epsilon),
    "function": lambda epsilon: sa.delta(good_round(), epsilon=epsilon, rounds=4),
}


@pytest.mark.parametrize("ask", EPSILON_OF.values(), ids=EPSILON_OF)
@pytest.mark.parametrize("delta", [0, 0.0, 1, 1.0, -0.1, 2.0, math.nan, math.inf])
def test_delta_out_of_range(ask: Ask, delta: float) -> None:
    assert_refused(lambda: ask(delta), "delta", ValueError, delta)


@pytest.mark.parametrize("ask", EPSILON_OF.values(), ids=EPSILON_OF)
@pytest.mark.parametrize("delta", NOT_NUMBERS, ids=repr)
def test_delta_not_a_number(ask: Ask, delta: Any) -> None:
    assert_refused(lambda: ask(delta), "delta", TypeError)


@pytest.mark.parametrize("ask", DELTA_OF.values(), ids=DELTA_OF)
@pytest.mark.parametrize("epsilon", [-1e-300, -0.5, -1, math.nan, math.inf, -math.inf])
def test_epsilon_out_of_range(ask: Ask, epsilon: float) -> None:
    assert_refused(lambda: ask(epsilon), "epsilon", ValueError, epsilon)


@pytest.mark.parametrize("ask", DELTA_OF.values(), ids=DELTA_OF)
@pytest.mark.parametrize("epsilon", NOT_NUMBERS, ids=repr)
def test_epsilon_not_a_number(ask: Ask, epsilon: Any) -> None:
    assert_refused(lambda: ask(epsilon), "epsilon", TypeError)


@pytest.mark.parametrize("epsilons", [[0.1, -0.1], [math.nan], [0.5, math.inf]], ids=repr)
def test_profile_out_of_range(epsilons: list[float]) -> None:
    assert_refused(lambda: good_accountant().profile(epsilons), "epsilons", ValueError)


@pytest.mark.parametrize("epsilons", [["a"], [None], [1j]], ids=repr)
def test_profile_not_numbers(epsilons: Any) -> None:
    refused = (ValueError, TypeError)  # NumPy decides what "not a number" is for arrays
    assert_refused(lambda: good_accountant().profile(epsilons), "epsilons", refused)


@pytest.mark.parametrize("rounds", [-1, 1.5, "4", None], ids=repr)
def test_rounds_of_the_one_liners(rounds: Any) -> None:
    refused = ValueError if rounds == -1 else (ValueError, TypeError)
    one = good_round()
    assert_refused(lambda: sa.epsilon(one, delta=0.1, rounds=rounds), "rounds", refused)
    assert_refused(lambda: sa.delta(one, epsilon=0.1, rounds=rounds), "rounds", refused)


# ---------------------------------------- the accountant


@pytest.mark.parametrize("tolerance", [0, 0.0, -1e-3, math.nan, math.inf])
def test_tolerance_out_of_range(tolerance: float) -> None:
    assert_refused(
        lambda: sa.FourierAccountant(tolerance=tolerance), "tolerance", ValueError, tolerance
    )


@pytest.mark.parametrize("tolerance", NOT_NUMBERS, ids=repr)
def test_tolerance_not_a_number(tolerance: Any) -> None:
    assert_refused(lambda: sa.FourierAccountant(tolerance=tolerance), "tolerance", TypeError)


@pytest.mark.parametrize("memory_limit", [0, -1, math.nan, "1 GiB", None], ids=repr)
def test_memory_limit(memory_limit: Any) -> None:
    assert_refused(
        lambda: sa.FourierAccountant(memory_limit=memory_limit),
        "memory_limit",
        (ValueError, TypeError),
    )


BAD_COMPOSITIONS: dict[str, tuple[Callable[[sa.FourierAccountant], object], str]] = {
    "count=-1": (lambda acc: acc.compose(good_round(), count=-1), "count"),
    "count=1.5": (lambda acc: acc.compose(good_round(), count=1.5), "count"),
    "count=nan": (lambda acc: acc.compose(good_round(), count=math.nan), "count"),
    "count='3'": (lambda acc: acc.compose(good_round(), count="3"), "count"),
    "count=None": (lambda acc: acc.compose(good_round(), count=None), "count"),
    "a number": (lambda acc: acc.compose(4.0), "round"),
    "a word": (lambda acc: acc.compose("round"), "round"),
    "nothing": (lambda acc: acc.compose(None), "round"),
    "a randomizer": (lambda acc: acc.compose(sa.GeneralRandomizer(eps0=1.0)), "round"),
    "another accountant": (lambda acc: acc.compose(good_accountant()), "round"),
    "delta=0": (lambda acc: acc.epsilon(delta=0.0), "delta"),
    "delta=nan": (lambda acc: acc.epsilon(delta=math.nan), "delta"),
    "epsilon=-1": (lambda acc: acc.delta(epsilon=-1.0), "epsilon"),
    "epsilons=[-1]": (lambda acc: acc.profile([-1.0]), "epsilons"),
}


@pytest.mark.parametrize(("call", "name"), BAD_COMPOSITIONS.values(), ids=BAD_COMPOSITIONS)
def test_a_refused_call_leaves_the_accountant_alone(
    call: Callable[[sa.FourierAccountant], object], name: str
) -> None:
    accountant = good_accountant()
    state = copy.deepcopy(accountant.state_dict())
    before = accountant.epsilon(delta=1e-4)
    assert_refused(lambda: call(accountant), name, (ValueError, TypeError))
    assert len(accountant) == 3
    assert accountant.state_dict() == state
    after = accountant.epsilon(delta=1e-4)
    assert (after.lower, after.upper) == (before.lower, before.upper)


def test_count_zero_is_fine() -> None:
    assert len(good_accountant().compose(good_round(), count=0)) == 3


# ------------------------------------------------------------------------------------------- state


def good_state() -> dict[str, Any]:
    """A state as it comes back from a JSON file."""
    state: dict[str, Any] = json.loads(json.dumps(good_accountant().state_dict()))
    return state


def version_key() -> str:
    """The key that holds the schema version."""
    keys = [key for key in good_state() if "schema" in key] or [
        key for key in good_state() if "version" in key
    ]
    assert keys, "the state carries no schema version"
    return keys[0]


def assert_state_refused(state: Any, *names: str) -> None:
    """Fail unless loading raises one line with "state", or one of the names, in it."""
    with pytest.raises((ValueError, TypeError)) as caught:
        sa.FourierAccountant.from_state_dict(state)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    assert any(name in message for name in ("state", *names)), message


def test_a_good_state_is_loaded() -> None:
    assert len(sa.FourierAccountant.from_state_dict(good_state())) == 3


@pytest.mark.parametrize("state", [{}, [], None, "{}", 3, {"a": 1}], ids=repr)
def test_a_state_that_is_not_one(state: Any) -> None:
    # Nothing but the version can be missed first when everything is missing.
    assert_state_refused(state, version_key())


def test_a_newer_state() -> None:
    key = version_key()
    version = good_state()[key]
    newer = version + 1 if isinstance(version, int) else "999"
    assert_state_refused(good_state() | {key: newer}, key)


@pytest.mark.parametrize("version", [None, -1, "x", 0.5, [1]], ids=repr)
def test_a_state_of_no_version(version: Any) -> None:
    assert_state_refused(good_state() | {version_key(): version}, version_key())


def test_a_state_with_a_key_missing() -> None:
    for key in good_state():
        state = good_state()
        del state[key]
        assert_state_refused(state, key)


@pytest.mark.parametrize("garbage", [None, -1, math.nan, "garbage", [-1], {"a": 1}], ids=repr)
def test_a_state_with_garbage_inside(garbage: Any) -> None:
    for key in good_state():
        assert_state_refused(good_state() | {key: garbage}, key)


def leaves(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all numbers in nested lists and dictionaries."""
    if isinstance(node, dict):
        return [leaf for key, child in node.items() for leaf in leaves(child, (*path, key))]
    if isinstance(node, list):
        return [leaf for i, child in enumerate(node) for leaf in leaves(child, (*path, i))]
    return [path] if isinstance(node, int | float) and not isinstance(node, bool) else []


@pytest.mark.parametrize("wrong", [-1, math.nan, "x"], ids=repr)
def test_a_state_with_an_impossible_number_deep_inside(wrong: Any) -> None:
    """Every number of a state (users, eps0, count, tolerance, ...) is checked on the way in."""
    paths = leaves(good_state())
    assert len(paths) >= 4  # users, eps0, count and tolerance at least
    for path in paths:
        state = good_state()
        node: Any = state
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = wrong
        names = [step for step in path if isinstance(step, str)]
        assert_state_refused(state, *names)


def test_loading_does_not_change_the_state_given() -> None:
    state = good_state()
    sa.FourierAccountant.from_state_dict(state).compose(good_round())
    assert state == good_state()


# ------------------------------------------------------------------------------------ command line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "value", "names"),
    [
        ("--eps0", "-1", ("eps0",)),
        ("--users", "0", ("users",)),
        ("--delta", "1", ("delta",)),
        ("--rounds", "-1", ("rounds", "count")),
        ("--population", "3", ("population",)),
        ("--reduction", "magic", ("reduction",)),
    ],
)
def test_the_command_line_prints_one_line_and_exits_2(
    flag: str, value: str, names: tuple[str, ...]
) -> None:
    flags = {"--eps0": "4", "--users": "100", "--rounds": "4", "--delta": "1e-6"} | {flag: value}
    words = [word for pair in flags.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-m", "shuffle_accountant", "epsilon", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert any(name in done.stderr for name in names)


@pytest.mark.parametrize(
    "call",
    [
        lambda value: sa.selection(value, runs=sa.Fixed(2)),
        lambda value: sa.audit.runs([0.0], [1.0], protocol=value),
        lambda value: sa.certificates.certify(value, delta=1e-3),
    ],
    ids=["selection", "audit", "certificate"],
)
@pytest.mark.parametrize("value", [3, "round", None, [(3, 1)]], ids=repr)
def test_what_is_no_protocol_is_named_as_the_argument_is(
    call: Callable[[Any], object], value: Any
) -> None:
    pytest.importorskip("flint", reason="python-flint is the extra 'verify'")
    assert_refused(lambda: call(value), "protocol", TypeError)


@pytest.mark.parametrize("given", [np.array("x"), np.array(None), np.array([["x"]])], ids=repr)
def test_arrays_that_are_no_list_of_numbers(given: Any) -> None:
    """An array without dimensions has no length and no items: refused by the argument's name."""
    makers: dict[str, Callable[[Any], object]] = {
        "noise_multiplier": lambda x: sa.GaussianMechanism(noise_multiplier=x),
        "coefficients": lambda x: sa.MatrixMechanism(coefficients=x, noise_multiplier=1.0, bins=4),
        "weights": lambda x: sa.Shuffler(weights=x),
    }
    for name, make in makers.items():
        assert_refused(lambda make=make: make(given), name, (TypeError, ValueError))


@pytest.mark.parametrize("given", [np.eye(3), np.full((2, 2), math.nan)], ids=["eye", "nan"])
def test_refusals_of_arrays_are_one_line(given: Any) -> None:
    with pytest.raises(ValueError, match="participation must be None with min_users") as found:
        sa.max_eps0(users=100, participation=0.9, min_users=given, target_epsilon=1.0, delta=1e-6)
    assert "\n" not in str(found.value)
