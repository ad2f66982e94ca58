"""`shuffle-accountant ledger`: create, step, show, verify."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra 'ledger')")

CREATE = ["--eps0", "2", "--users", "1000", "--epsilon", "1", "--delta", "1e-6"]


@pytest.fixture
def where(tmp_path: Path) -> list[str]:
    return [f"sqlite:///{tmp_path}/privacy.db", "survey"]


@pytest.mark.slow
def test_a_budget_from_the_command_line(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", "create", *where, *CREATE]) == 0
    assert main(["ledger", "create", *where, *CREATE]) == 0  # the same again
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000)
    most = int(sa.max_rounds(round=one, target_epsilon=1.0, delta=1e-6))
    assert main(["ledger", "step", *where, "--count", str(most)]) == 0
    said = capsys.readouterr().out
    assert said.endswith(f"recorded: {most} of now {most} steps\n")
    assert f"receipt: {sa.training.ShuffleLedger.open(*where).receipt}\n" in said
    assert main(["ledger", "step", *where, "--users", "900"]) == 1
    assert capsys.readouterr().out.startswith("refused: step ")
    assert main(["ledger", "show", *where, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["steps"], shown["budget"], shown["another_fits"]) == (most, 1.0, False)
    assert shown["upper"] == float(sa.epsilon(one, rounds=most, delta=1e-6))
    receipt = sa.training.ShuffleLedger.open(*where).receipt
    assert shown["receipt"] == str(receipt)
    assert main(["ledger", "verify", *where, "--at-least", str(receipt)]) == 0
    assert capsys.readouterr().out == f"verified: {most} steps\n"
    later = f"{receipt.number + 1}:{receipt.digest}"
    assert main(["ledger", "verify", *where, "--at-least", later]) == 2
    assert f"is behind receipt {later}" in capsys.readouterr().err
    assert main(["ledger", "verify", *where, "--at-least", "7"]) == 2
    assert "--at-least must be a receipt" in capsys.readouterr().err
    assert main(["ledger", "show", *where]) == 0
    assert "another fits" in capsys.readouterr().out
    assert main(["ledger", "verify", *where]) == 0
    assert capsys.readouterr().out == f"verified: {most} steps\n"


def test_filters_are_shown_and_verified(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000)
    kept = sa.training.PrivacyFilter.open(*where, epsilon=3.0, delta=1e-6, order=30.0)
    receipt = kept.step(one, 2)
    assert main(["ledger", "show", *where, "--filter", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["receipt"] == str(receipt)
    assert (shown["steps"], shown["plan"], shown["used"]) == (2, "renyi", kept.spent)
    assert main(["ledger", "show", *where, "--filter"]) == 0
    assert "renyi" in capsys.readouterr().out
    assert main(["ledger", "verify", *where, "--filter", "--at-least", str(receipt)]) == 0
    assert capsys.readouterr().out == "verified: 2 steps\n"
    assert main(["ledger", "show", *where]) == 2
    assert "there is no ledger" in capsys.readouterr().err


def test_errors_are_one_line(where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "show", *where]) == 2
    assert "there is no ledger 'survey'" in capsys.readouterr().err
    assert main(["ledger", "create", *where, *CREATE]) == 0
    assert main(["ledger", "create", *where, *CREATE, "--population", "5000"]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert main(["ledger", "step", *where, "--count", "-1"]) == 2
    path = where[0].removeprefix("sqlite:///")
    assert main(["ledger", "step", *where]) == 0
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE shuffle_ledger_entries SET count = 0")
    capsys.readouterr()
    assert main(["ledger", "verify", *where]) == 2
    error = capsys.readouterr().err
    assert "was altered at entry 1" in error
    assert error.count("\n") == 1
