"""Every notebook is stored without outputs and runs from top to bottom."""

import importlib
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_is_one():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path, monkeypatch):
    """Executed in the folder of the notebooks, where nothing but what is installed is found."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    executing = importlib.import_module("executing")
    notebook = nbformat.read(executing.executed(path), as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    assert not [output for output in outputs if output.output_type == "error"]


def test_those_that_show_curves_draw_them():
    """Pictures in the quickstart and in the choice of eps0, for auditors and for DP-SGD."""
    for number in ("01", "02", "08", "09"):
        (path,) = (path for path in NOTEBOOKS if path.name.startswith(number))
        assert "plt." in path.read_text(encoding="utf-8")
