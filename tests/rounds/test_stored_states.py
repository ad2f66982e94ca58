"""States that versions 0.1.0 and 0.2.0 wrote, and what they answered about them.

The answers are their brackets: of the same exact number as today's, so both intersect, and as wide
as their tolerance, so today's ends are as near to them as that. Neither wrote digests.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.rounds.protocol import round_from_dict

STATES = Path(__file__).parents[1] / "states"
STORED = json.loads((STATES / "0.1.0.json").read_text())
STORED_LATER = json.loads((STATES / "0.2.0.json").read_text())
ROUNDS = STORED["accountant"]["rounds"]

# The tolerance of the stored accountants; their ends are not further from the truth than that.
TOLERANCE = 1e-2


def assert_same_answer(found: sa.Bracket, stored: list) -> None:
    lower, upper, reduction = stored
    assert found.reduction == reduction
    # neither bracket is above or below the other
    assert found.lower <= upper
    assert lower <= found.upper
    assert found.upper == pytest.approx(upper, rel=TOLERANCE)
    assert found.lower == pytest.approx(lower, rel=TOLERANCE)


@pytest.mark.parametrize("index", range(len(ROUNDS)))
def test_each_round(index: int) -> None:
    one = round_from_dict(ROUNDS[index]["round"])
    assert one.adjacency is sa.Adjacency.REPLACE_ONE
    assert_same_answer(one.epsilon(delta=1e-4), STORED["epsilon_each"][index])
    assert round_from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_the_accountant() -> None:
    with pytest.warns(UserWarning, match="schema 1 has no digest") as warned:
        accountant = sa.FourierAccountant.from_state_dict(STORED["accountant"])
    assert "\n" not in str(warned[0].message)
    assert len(accountant) == sum(entry["count"] for entry in ROUNDS)
    # a population equal to the users was another round then
    assert len(accountant.rounds) == len(ROUNDS) - 1
    assert accountant.adjacency is sa.Adjacency.REPLACE_ONE
    again = json.loads(json.dumps(accountant.state_dict()))
    assert again["schema"] == 3
    assert sa.FourierAccountant.from_state_dict(again).protocol == accountant.protocol


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a state of schema 1 has no digest")
def test_the_accountant_answers() -> None:
    accountant = sa.FourierAccountant.from_state_dict(STORED["accountant"])
    found = accountant.epsilon(delta=1e-6)
    lower, upper, _ = STORED["epsilon"]
    assert found.lower <= upper
    assert lower <= found.upper
    assert found.upper == pytest.approx(upper, rel=TOLERANCE)


@pytest.mark.filterwarnings("ignore:a state of schema 1 has no digest")
def test_a_tail_and_a_ledger() -> None:
    tail = sa.FourierAccountant.from_state_dict(STORED["tail"])
    assert_same_answer(tail.epsilon(delta=1e-4), STORED["tail_epsilon"])
    ledger = sa.training.ShuffleLedger.from_state_dict(STORED["ledger"])
    assert ledger.num_releases == 3
    assert_same_answer(ledger.epsilon(), STORED["ledger_epsilon"])


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("accountant", sa.FourierAccountant.from_state_dict),
        ("zero_out", sa.FourierAccountant.from_state_dict),
        ("ledger", sa.training.ShuffleLedger.from_state_dict),
    ],
)
def test_states_of_version_0_2_0(name: str, read: Callable[[Any], Any]) -> None:
    with pytest.warns(UserWarning, match="schema 2 has no digest"):
        restored = read(STORED_LATER[name])
    stored = STORED_LATER["epsilon" if name == "accountant" else f"{name}_epsilon"]
    assert_same_answer(restored.epsilon(delta=1e-6), stored)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = read(json.loads(json.dumps(restored.state_dict())))
    assert again.state_dict() == restored.state_dict()


def test_newer_states_are_refused() -> None:
    state = sa.FourierAccountant().state_dict()
    with pytest.raises(ValueError, match="schema must be an integer >= 1 and <= 3, got 4"):
        sa.FourierAccountant.from_state_dict(state | {"schema": 4})
    # the fields of a state are those of its schema
    for schema in (1, 2):
        with pytest.raises(ValueError, match=f"state of schema {schema} must have fields"):
            sa.FourierAccountant.from_state_dict(state | {"schema": schema})
    state.pop("adjacency")
    with pytest.raises(ValueError, match="state of schema 3 must have fields"):
        sa.FourierAccountant.from_state_dict(state)
