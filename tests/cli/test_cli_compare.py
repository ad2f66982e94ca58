"""`compare` and `plot` on the command line, in-process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shuffle_accountant.reports.comparison import compare

Run = Callable[..., tuple[int, str, str]]
JOB = ["--eps0", "4", "--users", "10000", "--rounds", "4"]
PNG = b"\x89PNG"


def test_the_table(run: Run) -> None:
    code, out, err = run("compare", *JOB, "--delta", "1e-6")
    assert (code, err) == (0, "")
    header, *lines = out.splitlines()
    assert header.split() == ["bound", "form", "sound", "epsilon", "at", "delta", "=", "1e-06"]
    rows = compare(eps0=4.0, users=10_000, rounds=4, delta=1e-6)
    assert len(lines) == len(rows)
    column = header.index("epsilon")
    answers = {line.split()[0]: line[column:] for line in reversed(lines)}
    low, high = answers["certified"].split(" to ")
    assert float(low) <= 0.853874 <= float(high)
    assert answers["erlingsson"] == "n/a: eps0 <= 0.5, got 4"
    assert answers["girgis"] == f"{rows[3].epsilon:.6g}"
    assert all(line[column - 1] == " " != line[column] for line in lines)


def test_json(run: Run) -> None:
    code, out, err = run(
        *("compare", "--eps0", 1, "--users", 50, "--population", 100, "--delta", 1e-3),
        *("--categories", 3, "--json"),
    )
    assert (code, err) == (0, "")
    answer = json.loads(out)
    rows = compare(eps0=1.0, users=50, population=100, delta=1e-3, categories=3)
    assert [row["name"] for row in answer["rows"]] == [row.name for row in rows]
    assert [row["epsilon"] for row in answer["rows"]] == [row.epsilon for row in rows]
    assert answer["rows"][-1]["sound"] is False
    assert answer["question"] == {
        "eps0": 1.0,
        "users": 50,
        "rounds": 1,
        "population": 100,
        "categories": 3,
        "tolerance": 1e-3,
        "delta": 1e-3,
    }
    assert answer["warnings"] == []


def test_plot_writes_the_profile(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "profile.png"
    code, out, err = run("plot", *JOB, "--output", output)
    assert (code, out, err) == (0, f"wrote {output}\n", "")
    assert output.read_bytes().startswith(PNG)


def test_plot_writes_the_comparison(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "bounds.svg"
    code, _, err = run(
        *("plot", "--eps0", 1, "--users", 1000, "--rounds", 5),
        *("--output", output, "--compare-at", 1e-5),
    )
    assert (code, err) == (0, "")
    assert "<svg" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["compare", *JOB, "--delta", "2"], "delta"),
        (["compare", *JOB], "delta"),
        (["compare", *JOB, "--delta", "1e-6", "--users", "0"], "users"),
        (["plot", *JOB], "output"),
        (["plot", *JOB, "--output", "/no/such/folder/a.png"], "output"),
        (["plot", *JOB, "--output", "a.nonsense"], "nonsense"),
        (["plot", *JOB, "--rounds", "0", "--compare-at", "0.1", "--output", "a.png"], "rounds"),
        (["plot", *JOB, "--compare-at", "0", "--output", "a.png"], "delta"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    run: Run, arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("shuffle-accountant: error: ")
    assert named in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_plot_without_matplotlib(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run("plot", *JOB, "--output", tmp_path / "a.png")
    assert code == 2
    assert "pip install 'shuffle-accountant[plot]'" in err
