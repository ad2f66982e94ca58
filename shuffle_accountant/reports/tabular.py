"""Answers that are tables: as HTML in notebooks, as pandas' data frames, as CSV and as LaTeX.

Reports, designs and comparisons derive from `Tabular`. Frames and CSV hold every field of a row as
it is; HTML and LaTeX hold the short cells that the text has too.
"""

from __future__ import annotations

import csv
import html
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
}
_LATEX |= {"∞": r"$\infty$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}


class Tabular(ABC):
    """Base of answers with rows."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain Python types; infinities are floats."""

    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """Short texts of the table, the header first, as many in each row."""

    @abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Every field of each row, in plain Python types."""

    def to_frame(self) -> pandas.DataFrame:
        """The records as a data frame, a column for each field."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.records())

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """The records as CSV with a header, written in UTF-8 to a file, or returned without one."""
        records, out = self.records(), io.StringIO()
        writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        if path is None:
            return out.getvalue()
        Path(path).write_text(out.getvalue(), encoding="utf-8")
        return None

    def to_latex(self) -> str:
        r"""The cells as a ``tabular`` of LaTeX, with the rules of its package booktabs."""
        header, *rows = [" & ".join(map(_latex, row)) + r" \\" for row in self.cells()]
        columns = "l" * len(self.cells()[0])
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *rows]
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def _repr_html_(self) -> str:
        """The cells as a table of HTML, which notebooks show."""
        header, *rows = self.cells()
        lines = [_html("th", header), *(_html("td", row) for row in rows)]
        return f"<table>\n{''.join(lines)}</table>"


def _latex(cell: str) -> str:
    return re.sub(r"\W|[_εδσ]", lambda one: _LATEX.get(one.group(), one.group()), cell)


def _html(kind: str, row: Sequence[str]) -> str:
    inside = "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row)
    return f"<tr>{inside}</tr>\n"
