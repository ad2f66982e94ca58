"""Crowds from the command line: the numbers are the library's."""

from __future__ import annotations

import json
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main

RESPONSE = sa.RandomizedResponse(categories=10, eps0=2.0)
OTHERS = {
    sa.RandomizedResponse(categories=10, eps0=1.0): 10,
    sa.RandomizedResponse(categories=10, eps0=4.0): 5,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "one"),
    [
        (
            "--eps0 2 --categories 10 --users 20 --others 1:10 --others 4:5 --colluding 7",
            sa.ShuffleRound(RESPONSE, users=20, others=OTHERS, colluding=7),
        ),
        (
            "--eps0 2 --categories 10 --users 30 --participation 0.25",
            sa.ShuffleRound(RESPONSE, users=sa.Binomial(trials=30, probability=0.25)),
        ),
        (
            "--randomizer approximate --eps0 1 --delta0 1e-9 --users 100",
            sa.ShuffleRound(sa.ApproximateRandomizer(eps0=1.0, delta0=1e-9), users=100),
        ),
    ],
)
def test_epsilon(typed: str, one: sa.ShuffleRound, capsys: Any) -> None:
    assert main(["epsilon", *typed.split(), "--delta", "1e-3", "--json"]) in (0, None)
    answer = json.loads(capsys.readouterr().out)
    found = sa.epsilon(one, delta=1e-3)
    assert answer["lower"] == found.lower
    assert answer["upper"] == found.upper


@pytest.mark.parametrize("typed", ["1", "1:2:3", "a:5", "1:b"])
def test_groups_are_levels_and_users(typed: str, capsys: Any) -> None:
    wanted = ["--eps0", "2", "--categories", "10", "--users", "9", "--delta", "0.1"]
    try:
        code = main(["epsilon", *wanted, "--others", typed])
    except SystemExit as stopped:
        code = stopped.code
    assert code not in (0, None)
    assert "others must be EPS0:USERS" in capsys.readouterr().err
