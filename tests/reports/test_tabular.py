"""Reports, designs and comparisons as HTML, data frames, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant.reports.tables import Tabular

SURVEY = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=200)
MAKE = {
    "report": lambda: sa.report(SURVEY, delta=1e-4),
    "comparison": lambda: sa.compare(SURVEY, delta=1e-4),
    "design": lambda: sa.design.frequency(
        users=1000, categories=3, target_epsilon=1.0, delta=1e-5, tolerance=0.1
    ),
}


@pytest.fixture(scope="module", params=MAKE)
def table(request: pytest.FixtureRequest) -> Tabular:
    made: Tabular = MAKE[request.param]()
    return made


class Cells(HTMLParser):
    """The texts of a table, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip("\n")


@pytest.mark.slow
def test_html_has_the_cells(table: Tabular) -> None:
    assert Cells(table._repr_html_()).rows == [list(row) for row in table.cells()]


@pytest.mark.slow
def test_csv_has_the_records(table: Tabular, tmp_path: Path) -> None:
    text = table.to_csv()
    assert text is not None
    read = list(csv.DictReader(io.StringIO(text)))
    wanted = [{k: "" if v is None else str(v) for k, v in row.items()} for row in table.records()]
    assert read == wanted
    assert table.to_csv(tmp_path / "a.csv") is None
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_frames_have_the_records(table: Tabular) -> None:
    pytest.importorskip("pandas", reason="data frames are pandas'")
    frame, records = table.to_frame(), table.records()
    assert list(frame.columns) == list(records[0])
    for name in frame.columns:
        for found, row in zip(frame[name], records, strict=True):
            missing = row[name] is None and (found is None or math.isnan(found))
            assert missing or found == row[name]


@pytest.mark.slow
def test_latex_has_as_many_cells_and_nothing_that_it_reads_as_a_command(table: Tabular) -> None:
    first, *rows, last, _ = table.to_latex().split("\n")
    body = [row for row in rows if not row.endswith("rule")]
    assert first == rf"\begin{{tabular}}{{{'l' * len(table.cells()[0])}}}"
    assert last == r"\end{tabular}"
    assert len(body) == len(table.cells())
    for row, cells in zip(body, table.cells(), strict=True):
        assert row.endswith(r" \\")
        assert len(re.split(r"(?<!\\)&", row)) == len(cells)
        assert not re.search(r"(?<!\\)[%#_]", row)


@pytest.mark.slow
def test_without_pandas_one_line_says_what_is_missing(
    table: Tabular, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_frame needs pandas: pip install pandas$"):
        table.to_frame()
    assert table.to_csv() is not None
    assert table.to_latex()


def test_a_comparison_is_a_sequence_of_its_rows() -> None:
    found = sa.compare(SURVEY, delta=1e-4)
    assert list(found) == list(found.rows) == [found[i] for i in range(len(found))]
    assert found[:2] == found.rows[:2]
    assert found.to_dict()["rows"][0]["epsilon"] == found[0].epsilon
    assert str(found).startswith("bound")


def test_one_name_for_plain_types() -> None:
    bracket = SURVEY.epsilon(delta=1e-4)
    report = sa.report(SURVEY, delta=1e-4)
    assert bracket.as_dict() == bracket.to_dict()
    assert report.as_dict() == report.to_dict()
