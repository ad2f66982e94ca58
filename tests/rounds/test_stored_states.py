"""States that version 0.1.0 wrote, with rounds of every kind, and what it answered about them.

The answers are its brackets: of the same exact number as today's, so both intersect, and as wide as
its tolerance, so today's ends are as near to them as that.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant.rounds.registry import round_from_dict

STORED = json.loads((Path(__file__).parents[1] / "states" / "0.1.0.json").read_text())
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
    accountant = sa.FourierAccountant.from_state_dict(STORED["accountant"])
    assert len(accountant) == sum(entry["count"] for entry in ROUNDS)
    # a population equal to the users was another round then
    assert len(accountant.rounds) == len(ROUNDS) - 1
    assert accountant.adjacency is sa.Adjacency.REPLACE_ONE
    again = json.loads(json.dumps(accountant.state_dict()))
    assert again["schema"] == 2
    assert sa.FourierAccountant.from_state_dict(again).protocol == accountant.protocol


@pytest.mark.slow
def test_the_accountant_answers() -> None:
    accountant = sa.FourierAccountant.from_state_dict(STORED["accountant"])
    found = accountant.epsilon(delta=1e-6)
    lower, upper, _ = STORED["epsilon"]
    assert found.lower <= upper
    assert lower <= found.upper
    assert found.upper == pytest.approx(upper, rel=TOLERANCE)


def test_a_tail_and_a_ledger() -> None:
    tail = sa.FourierAccountant.from_state_dict(STORED["tail"])
    assert_same_answer(tail.epsilon(delta=1e-4), STORED["tail_epsilon"])
    ledger = sa.training.ShuffleLedger.from_state_dict(STORED["ledger"])
    assert ledger.num_releases == 3
    assert_same_answer(ledger.epsilon(), STORED["ledger_epsilon"])


def test_newer_states_are_refused() -> None:
    state = sa.FourierAccountant().state_dict()
    with pytest.raises(ValueError, match="schema must be an integer >= 1 and <= 2, got 3"):
        sa.FourierAccountant.from_state_dict(state | {"schema": 3})
    # a state of schema 1 has no adjacency, one of schema 2 does
    with pytest.raises(ValueError, match="state of schema 1 must have fields"):
        sa.FourierAccountant.from_state_dict(state | {"schema": 1})
    state.pop("adjacency")
    with pytest.raises(ValueError, match="state of schema 2 must have fields"):
        sa.FourierAccountant.from_state_dict(state)
