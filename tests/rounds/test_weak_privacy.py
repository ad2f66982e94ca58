"""What promises little says so, and why; what does not is silent."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main

SOME = sa.GeneralRandomizer(eps0=1.0)
ONE = sa.ShuffleRound(SOME, users=1000)
FEW = {"tolerance": 0.1}
IDENTITY = sa.DiscreteRandomizer([[1.0, 0.0], [0.0, 1.0]])


def told(question: Callable[[], Any]) -> set[str]:
    """The weaknesses that are warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        question()
    found = [one for one in caught if issubclass(one.category, sa.WeakPrivacyWarning)]
    assert all(one.filename == __file__ for one in found), "it points at the caller"
    return {str(one.message) for one in found}


ASKED: dict[str, Callable[[float], Any]] = {
    "epsilon": lambda delta: sa.epsilon(ONE, delta=delta),
    "of several": lambda delta: sa.epsilon(
        sa.Protocol([(ONE, 2), (sa.ShuffleRound(SOME, users=500), 1)]), delta=delta
    ),
    "one round": lambda delta: ONE.epsilon(delta=delta),
    "statement": lambda delta: sa.statement(ONE, delta=delta),
    "max_eps0": lambda delta: sa.max_eps0(
        users=1000, rounds=1, target_epsilon=0.5, delta=delta, **FEW
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_delta_of_one_over_n(name: str) -> None:
    (reason,) = told(lambda: ASKED[name](1e-3))
    assert reason.startswith("delta = 0.001 is at least 1/n for n = 1000 people: whoever publishes")
    assert told(lambda: ASKED[name](9e-4)) == set()


def test_n_is_everybody() -> None:
    for one in (
        sa.ShuffleRound(SOME, users=100, population=1000),
        sa.ShuffleRound(SOME, users=sa.Binomial(trials=1000, probability=0.1)),
        sa.ShuffleRound(
            sa.RandomizedResponse(categories=3, eps0=1.0),
            users=400,
            others={sa.RandomizedResponse(categories=3, eps0=2.0): 600},
        ),
    ):
        assert one.people == 1000
        assert told(lambda one=one: sa.epsilon(one, delta=1e-4)) == set()
        assert len(told(lambda one=one: sa.epsilon(one, delta=1e-3))) == 1
    noise = sa.GaussianMechanism(noise_multiplier=2.0)
    assert sa.PoissonSampled(noise, rate=0.1).people is None
    assert told(lambda: sa.epsilon(sa.PoissonSampled(noise, rate=0.1), delta=0.3)) == set()


def test_the_fewest_users() -> None:
    asked = {"eps0": 1.0, "rounds": 1, "target_epsilon": 0.05, **FEW}
    assert any("is at least 1/n" in one for one in told(lambda: sa.min_users(**asked, delta=0.02)))


@pytest.mark.parametrize("eps0", [37.0, 4000.0])
def test_a_message_that_is_the_truth(eps0: float) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=100)
    for question in (lambda: sa.epsilon(one, delta=1e-6), lambda: one.delta(epsilon=1.0)):
        (reason,) = told(question)
        assert reason.startswith(f"eps0 = {eps0:g} hides nothing in a message: it differs")
    beside = sa.ShuffleRound(sa.GeneralRandomizer(eps0=36.0), users=100)
    assert told(lambda: beside.delta(epsilon=1.0)) == set()


def test_a_channel_that_is_the_identity() -> None:
    for randomizer in (IDENTITY, sa.RandomizedResponse.from_gamma(categories=5, gamma=0.0)):
        one = sa.ShuffleRound(randomizer, users=100)
        (reason,) = told(lambda one=one: one.delta(epsilon=1.0))
        assert "rules out some value of its user" in reason
    # messages that all values send, and noise without a largest ratio, hide something
    for randomizer in (
        sa.DiscreteRandomizer([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]),
        sa.GaussianRandomizer(sigma=4.0),
        sa.GaussianVectors(noise_multiplier=4.0),
    ):
        one = sa.ShuffleRound(randomizer, users=100)
        assert told(lambda one=one: one.delta(epsilon=1.0)) == set()


def test_the_command_line(capsys: Any) -> None:
    typed = ["--eps0", "4000", "--users", "100", "--delta", "0.1"]
    assert main(["epsilon", *typed, "--json"]) in (0, None)
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert len(answer["warnings"]) == 2
    assert "delta = 0.1 is at least 1/n" in answer["warnings"][0]
    assert "eps0 = 4000 hides nothing" in answer["warnings"][1]
    assert printed.err.count("warning: ") == 2
