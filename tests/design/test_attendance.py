"""Designs and calibrations for users who may not send, or who work with the observer."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main
from shuffle_accountant.rounds.shuffle import attendance

TARGET: dict[str, Any] = {"target_epsilon": 1.0, "delta": 1e-6, "tolerance": 0.02}
QUESTION: dict[str, Any] = {"users": 3000, "categories": 8, **TARGET}
FEWEST, COLLUDING = 2500, 300


@pytest.fixture(scope="module")
def everybody() -> sa.design.Design:
    return sa.design.frequency(**QUESTION)


@pytest.fixture(scope="module")
def fewest() -> sa.design.Design:
    return sa.design.frequency(**QUESTION, min_users=FEWEST, colluding=COLLUDING)


@pytest.fixture(scope="module")
def taking_part() -> sa.design.Design:
    return sa.design.frequency(**QUESTION, participation=0.8, colluding=COLLUDING)


def epsilon(one: Any, rounds: int = 1) -> float:
    return sa.epsilon(one, delta=1e-6, rounds=rounds, tolerance=0.02).upper


@pytest.mark.slow
def test_the_fewest_meet_the_target(fewest: sa.design.Design) -> None:
    assert len(fewest) >= 10
    for row in fewest.rows:
        if isinstance(row.mechanism, sa.NoiseMessages):
            # of those who send, so many draw their dummies and tell nobody
            assert Fraction(row.mechanism.honest) <= Fraction(FEWEST - COLLUDING, FEWEST)
            assert epsilon(row.mechanism) <= 1.0
        elif isinstance(row.mechanism, sa.AugmentedShuffle):
            assert epsilon(row.mechanism) <= 1.0
        else:
            one = sa.ShuffleRound(row.mechanism, users=FEWEST, colluding=COLLUDING)
            times = 2 if row.name == "a randomized bit per category" else 1
            assert epsilon(one, times) <= 1.0
            assert row.bracket.conditions == sa.conditions(one)


@pytest.mark.slow
def test_participation_meets_the_target(taking_part: sa.design.Design) -> None:
    who = sa.Binomial(trials=3000, probability=0.8)
    assert len(taking_part) >= 7
    for row in taking_part.rows:
        if not isinstance(row.mechanism, sa.AugmentedShuffle):
            one = sa.ShuffleRound(row.mechanism, users=who, colluding=COLLUDING)
            times = 2 if row.name == "a randomized bit per category" else 1
            assert epsilon(one, times) <= 1.0
            assert any("only if attendance is secret" in text for text in row.bracket.conditions)
    left_out = {one.name: one.reason for one in taking_part.excluded}
    assert {name for name in left_out if "noise messages" in name} == {
        "Poisson noise messages",
        "binomial noise messages",
        "negative binomial noise messages",
    }
    assert "only if attendance is secret" in " ".join(str(taking_part).split())


@pytest.mark.slow
def test_fewer_are_less_private_and_err_more(
    everybody: sa.design.Design, fewest: sa.design.Design, taking_part: sa.design.Design
) -> None:
    for other in (fewest, taking_part):
        rows = {row.name: row for row in other.rows}
        for row in everybody.rows:
            if row.name in rows and row.eps0 is not None:
                assert rows[row.name].eps0 < row.eps0
                assert rows[row.name].rmse > row.rmse
                assert rows[row.name].largest_error > row.largest_error
        # what needs no crowd is as it was, but for the number of messages
        alone = {row.name: row.eps0 for row in other.local}
        assert alone == {row.name: row.eps0 for row in everybody.local}
    # hidden attendance amplifies: 2400 are expected of 3000, and a few more than 2500 hide as well
    least = sa.max_eps0(users=2300, rounds=1, **TARGET)
    assert least < sa.max_eps0(users=3000, rounds=1, participation=0.8, **TARGET)


@pytest.mark.slow
def test_means_and_json(everybody: sa.design.Design) -> None:
    asked = {"users": 3000, "dimension": 2, "gaussian_messages": False, **TARGET}
    few = sa.design.mean(**asked, min_users=1500, colluding=10)
    all_of_them = sa.design.mean(**asked)
    assert few.rows[0].rmse > all_of_them.rows[0].rmse
    told = json.loads(json.dumps(few.to_dict()))
    assert told["question"]["min_users"] == 1500
    assert told["question"]["colluding"] == 10
    assert told["question"]["participation"] is None
    assert told["rows"][0]["conditions"] == list(few.rows[0].bracket.conditions)
    assert "mean vector" in told["errors"]
    assert "a category that nobody holds" in everybody.to_dict()["errors"]
    assert "of whom 1500 send at least, 10 colluding" in " ".join(str(few).split())
    for row in (*everybody.central, *everybody.local):
        (only,) = row.bracket.conditions
        assert row.place in ("local", "central")
        assert row.place in only


def test_calibrations_are_those_of_the_round() -> None:
    best = sa.max_eps0(users=3000, min_users=2500, colluding=300, rounds=2, **TARGET)
    one = sa.ShuffleRound(sa.GeneralRandomizer(best), users=2500, colluding=300)
    assert epsilon(one, 2) <= 1.0
    assert best == sa.max_eps0(users=2500, colluding=300, rounds=2, **TARGET)
    assert best == sa.max_eps0(users=2200, rounds=2, **TARGET)  # who colludes hides nobody
    assert sa.max_eps0(users=3000, participation=1.0, rounds=2, **TARGET) == sa.max_eps0(
        users=3000, rounds=2, **TARGET
    )
    plain = sa.min_users(eps0=2.0, rounds=2, **TARGET)
    known = sa.min_users(eps0=2.0, rounds=2, colluding=500, **TARGET)
    assert known == plain + 500
    assert known.evidence.next_value == known - 1
    hidden = sa.min_users(eps0=2.0, rounds=2, participation=0.7, **TARGET)
    for users, meets in ((hidden, True), (hidden - 1, False)):
        who = sa.Binomial(trials=users, probability=0.7)
        one = sa.ShuffleRound(sa.GeneralRandomizer(2.0), users=who)
        assert (epsilon(one, 2) <= 1.0) is meets


def test_attendance() -> None:
    assert attendance(9) == attendance(9, participation=1.0) == 9
    assert attendance(9, min_users=4) == 4
    assert attendance(9, participation=0.5) == sa.Binomial(trials=9, probability=0.5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_users": 10_000}, "min_users must be an integer >= 1 and <= 3000, got 10000"),
        ({"min_users": 0}, "min_users must be an integer >= 1 and <= 3000, got 0"),
        ({"participation": 0.0}, r"participation must be a number in \(0, 1\], got 0.0"),
        ({"participation": 1.5}, "participation must be a number"),
        ({"min_users": 10, "participation": 0.5}, "participation must be None with min_users"),
        ({"min_users": 10, "participation": np.zeros((2, 2))}, "participation must be None with"),
        ({"min_users": 10, "colluding": 10}, "colluding must be fewer than"),
        ({"colluding": -1}, "colluding must be"),
    ],
)
def test_bad_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        sa.design.frequency(**QUESTION, **given)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=message) as caught:
        sa.max_eps0(users=3000, rounds=1, **TARGET, **given)
    assert "\n" not in str(caught.value)


def test_a_sample_that_not_all_send_from_is_refused() -> None:
    with pytest.raises(ValueError, match="min_users must be None with population"):
        sa.max_eps0(users=100, min_users=50, population=1000, rounds=1, **TARGET)


FLAGS = ["--target-epsilon", "1", "--delta", "1e-6", "--tolerance", "0.02", "--json"]


def answer(capsys: Any, *typed: str) -> dict[str, Any]:
    assert main([*typed, *FLAGS]) in (0, None)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_calibrate_on_the_command_line(capsys: Any) -> None:
    given = ["--users", "3000", "--rounds", "2"]
    few = answer(capsys, "calibrate", *given, "--min-users", "2500", "--colluding", "300")
    assert few["value"] == sa.max_eps0(users=2200, rounds=2, **TARGET)
    assert any("design for the fewest who will send" in text for text in few["conditions"])
    part = answer(capsys, "calibrate", *given, "--participation", "0.8")
    assert part["value"] == sa.max_eps0(users=3000, participation=0.8, rounds=2, **TARGET)
    assert any("only if attendance is secret" in text for text in part["conditions"])
    users = answer(capsys, "calibrate", "--eps0", "2", "--rounds", "2", "--colluding", "500")
    assert users["value"] == sa.min_users(eps0=2.0, rounds=2, colluding=500, **TARGET)
    most = answer(capsys, "calibrate", "--eps0", "1", "--users", "3000", "--min-users", "2500")
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=2500)
    assert most["value"] == sa.max_rounds(one, **TARGET)
    assert main(["calibrate", "--eps0", "2", "--min-users", "5", *FLAGS]) == 2
    assert "--min-users must be left out to find users" in capsys.readouterr().err


@pytest.mark.slow
def test_design_on_the_command_line(capsys: Any, fewest: sa.design.Design) -> None:
    given = ["--users", "3000", "--categories", "8", "--min-users", str(FEWEST)]
    found = answer(capsys, "design", *given, "--colluding", str(COLLUDING))
    wanted = json.loads(json.dumps(fewest.to_dict()))
    assert {name: found[name] for name in wanted} == wanted
