"""The command `design`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shuffle_accountant.cli import main

QUESTION = ["design", "--users", "2000", "--target-epsilon", "1", "--delta", "1e-6"]
QUESTION += ["--tolerance", "0.1"]  # what is asked for here is what is printed


@pytest.mark.slow
def test_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "design.png"
    assert main([*QUESTION, "--categories", "4", "--output", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Deploy ")
    assert "\n2000 users, 4 categories, 1 round: ε <= 1" in printed
    assert "randomized response" in printed
    assert picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUESTION, "--categories", "4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["question"]["categories"] == 4
    errors = [row["rmse"] for row in answer["rows"]]
    assert errors == sorted(errors)
    assert len(errors) > 5


@pytest.mark.parametrize(
    "flags", [[], ["--categories", "4", "--dimension", "3"], ["--categories", "1"]]
)
def test_bad_flags_are_one_line(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUESTION, *flags]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "categories" in told


def test_a_budget_per_user_is_bits_or_messages(run):
    base = ("design", "--users", 2000, "--categories", 4, "--target-epsilon", 2, "--delta", "1e-6")
    code, out, _ = run(*base, "--tolerance", "0.5", "--budget-per-user", "1bits", "--json")
    assert code == 0
    assert all(row["bits"] <= 1.0 for row in json.loads(out)["rows"])
    code, _, err = run(*base, "--budget-per-user", "1 stone")
    assert code == 2
    assert "--budget-per-user must be a number of bits or messages" in err
    code, _, err = run(*base, "--exclude", "stone")
    assert "--exclude must be one of" in err
