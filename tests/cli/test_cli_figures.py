"""The command `figures`: the papers' figures, against the values printed there that are right."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shuffle_accountant.reports.figures import FIGURES

Run = Callable[..., tuple[int, str, str]]

# Figure, curve, x: the value, and its relative error: of rounding, or of the published method.
KNOWN = {
    ("fig1", "T = 1", 0.1): (9.2094896e-3, 3e-4),  # published, above by that at most
    ("fig1", "T = 2", 1.0): (1.8996163e-13, 1e-7),  # a sum over all pairs of atoms
    ("fig3", "certified", 10.0): (0.01703, 1e-3),
    ("fig3", "certified", 10_000.0): (0.7325, 1e-3),
    ("fig4", "T = 1, strong, as published", 1e-4): (0.54733, 1e-4),
    ("fig4", "T = 16, strong", 1e-7): (3.3448, 1e-4),
    ("qif", "p = 0.9", 199.0): (0.5225, 3e-4),
}


def test_one_is_written_as_picture_and_table(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need Matplotlib")
    monkeypatch.chdir(tmp_path)
    code, out, err = run("figures", "qif", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert (told["output"], told["table"]) == ("qif.png", "qif.csv")
    assert (tmp_path / "qif.png").read_bytes()[:4] == b"\x89PNG"
    with (tmp_path / "qif.csv").open(encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    assert [(row["curve"], float(row["x"]), float(row["upper"])) for row in read] == [
        (row["curve"], row["x"], row["upper"]) for row in told["rows"]
    ]
    code, out, err = run("figures", "fig9")
    assert (code, out) == (2, "")
    assert "name must be one of 'fig1'" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.release] if name == "dpsgd" else [])
        for name in FIGURES
    ],
)
def test_curves_are_brackets_and_hold_the_known_values(name: str) -> None:
    figure = pytest.importorskip("matplotlib.figure", reason="pictures need Matplotlib").Figure()
    ax, rows = figure.add_subplot(), FIGURES[name].rows()
    FIGURES[name].draw(rows, ax)
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.get_lines()}
    found: dict[tuple[str, str, float], dict[str, Any]] = {}
    for row in rows:
        assert row["lower"] is None or 0.0 < row["lower"] <= row["upper"]
        found[name, row["curve"], row["x"]] = row
        assert row["upper"] in drawn[row["curve"]]
    for key, (value, error) in KNOWN.items():
        if key[0] == name:
            row = found[key]
            assert row["lower"] * (1.0 - error) <= value <= row["upper"] * (1.0 + error)
