"""`compare` and `plot` on the command line, in-process."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.axes import Axes

import shuffle_accountant as sa
from shuffle_accountant.reports import plot
from shuffle_accountant.reports.comparison import compare

Run = Callable[..., tuple[int, str, str]]
JOB = ["--eps0", "4", "--users", "10000", "--rounds", "4"]
PNG = b"\x89PNG"


@pytest.mark.slow
def test_the_table(run: Run) -> None:
    code, out, err = run("compare", *JOB, "--delta", "1e-6")
    assert (code, err) == (0, "")
    header, further, *lines = out.splitlines()
    column = header.index("epsilon")
    assert header.split() == ["bound", "form", "sound", "epsilon", "at", "delta", "="]
    assert further.split() == ["1e-06"]
    rows = compare(eps0=4.0, users=10_000, rounds=4, delta=1e-6)
    # a cell that is folded goes on in a line that begins with a blank
    answers: list[tuple[str, str]] = []
    for line in lines:
        name = line[:column].split()[0] if line[0] != " " else ""
        if name:
            answers.append((name, line[column:]))
        else:
            answers[-1] = answers[-1][0], f"{answers[-1][1]} {line[column:]}".strip()
    assert [name for name, _ in answers] == [row.name for row in rows]
    said = dict(reversed(answers))
    low, high = said["certified"].split(" to ")
    assert float(low) <= 0.853874 <= float(high)
    assert said["erlingsson"] == "n/a: eps0 <= 0.5, got 4"
    assert said["girgis"] == f"{rows[3].epsilon:.6g}"
    assert max(map(len, out.splitlines())) <= 80


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


def test_plot_marks_the_delta_asked_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    keep = plot.profile

    def kept(*of: object, **how: object) -> Axes:
        ax = keep(*of, **how)  # type: ignore[arg-type]
        drawn.extend(text.get_text() for text in ax.get_legend().get_texts())
        return ax

    monkeypatch.setattr(plot, "profile", kept)
    output = tmp_path / "profile.svg"
    code, out, err = run("plot", *JOB, "--delta", "1e-6", "--output", output, "--json")
    assert (code, err) == (0, "")
    low, high = sa.epsilon(
        sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=10_000), rounds=4, delta=1e-6
    ).ends()
    assert drawn == [f"ε = {low} to {high} at δ = 1e-06"]
    answer = json.loads(out)
    assert answer["question"]["delta"] == 1e-6
    assert len(answer["lines"]) == 1


@pytest.mark.slow
def test_compare_draws_its_bounds(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "bounds.svg"
    flags = ("--eps0", 1, "--users", 1000, "--rounds", 3, "--delta", 1e-5)
    code, out, err = run("compare", *flags, "--output", output)
    assert (code, err) == (0, "")
    assert "<svg" in output.read_text(encoding="utf-8")
    assert run("compare", *flags) == (0, out, "")


@pytest.mark.slow
def test_plot_writes_the_comparison(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "bounds.svg"
    code, _, err = run(
        *("plot", "--eps0", 1, "--users", 1000, "--rounds", 5),
        *("--output", output, "--compare-at", 1e-5),
    )
    assert (code, err) == (0, "")
    assert "<svg" in output.read_text(encoding="utf-8")


@pytest.mark.slow
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
        (["plot", *JOB, "--delta", "2", "--output", "a.png"], "delta"),
        (
            ["plot", *JOB, "--delta", "0.1", "--compare-at", "0.1", "--output", "a.png"],
            "compare-at",
        ),
        (["compare", *JOB, "--delta", "1e-6", "--output", "/no/such/folder/a.png"], "output"),
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
    assert "pip install '.[plot]'" in err
