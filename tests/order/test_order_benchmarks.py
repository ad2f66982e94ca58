"""The figure about shuffling in groups, and the errata of its paper; speed is not tested here."""

from __future__ import annotations

import csv
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def suite(benchmark_script: Callable[[str], Any]) -> Any:
    """The suite's command-line module."""
    return benchmark_script("__main__")


def claims_of(suite: Any, name: str, folder: Path) -> dict[str, bool | None]:
    suite.main(["--quick", "--only", name, "--output", str(folder)])
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {claim["name"]: claim["holds"] for claim in results["claims"]}


def test_errata(suite: Any, tmp_path: Path) -> None:
    found = claims_of(suite, "errata_order", tmp_path)
    assert len(found) == 9
    assert all(found.values())


@pytest.mark.slow
def test_figure(suite: Any, tmp_path: Path) -> None:
    found = claims_of(suite, "figures.order", tmp_path)
    found.pop("speed")
    learnt = importlib.util.find_spec("sklearn") is not None
    for name in ("staircase", "exact"):
        assert found.pop(name) is (True if learnt else None)
    assert found == {"attack": True, "preservation": True, "fifty trials": True}
    with (tmp_path / "order.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    rhos = [float(row["rho"]) for row in rows if row["rho"]]
    assert all(0.0 <= rho <= 1.0 for rho in rhos)
    assert len([row for row in rows if row["kept"]]) == 2
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "order.png").read_bytes().startswith(b"\x89PNG")
