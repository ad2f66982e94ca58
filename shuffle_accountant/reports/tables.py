"""Rows of text as a table, numbers as short as they may be, and `Tabular`, the base of answers.

Data frames of pandas and CSV hold every field of a row as it is; HTML, for notebooks, and LaTeX
hold the short cells that the text has too.
"""

from __future__ import annotations

import csv
import decimal
import html
import io
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {letter: f"\\{letter}" for letter in "&%$#_{}"}
_LATEX |= {"ε": r"$\varepsilon$", "δ": r"$\delta$", "σ": r"$\sigma$", "∞": r"$\infty$"}
_LATEX |= {"≤": r"$\leq$", "≥": r"$\geq$"}
_LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}


WIDTH = 80
"""Columns of a terminal, which no table is wider than, but for words that are."""

TIED = "\N{NO-BREAK SPACE}"
"""Printed as a blank, at which no cell is folded."""

_GAP = 2
_ROUND_OFF = 1e-12


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
        return f"<table>\n{_html('th', header)}{''.join(_html('td', row) for row in rows)}</table>"


def _latex(cell: str) -> str:
    return re.sub(r"\W|[_εδσ]", lambda one: _LATEX.get(one.group(), one.group()), cell)


def _html(kind: str, row: Sequence[str]) -> str:
    inside = "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row)
    return f"<tr>{inside}</tr>\n"


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as aligned columns, two blanks apart, folded to `WIDTH` where words allow it."""
    return "\n".join(line for lines in rows_of_lines(rows) for line in lines)


def rows_of_lines(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """The lines of each row of `columns`."""
    cells = [tuple(row) for row in rows]
    widths, found = _fitted(cells), []
    for row in cells:
        lines = zip_longest(*map(_folded, row, widths), fillvalue="")
        padded = (map(str.ljust, parts, widths) for parts in lines)
        found.append([(" " * _GAP).join(one).replace(TIED, " ").rstrip() for one in padded])
    return found


def under(heading: str, text: str, *, indent: int = 4) -> str:
    """A heading, and below it, indented, a text that is folded."""
    blank = " " * indent
    return f"{heading}\n" + textwrap.fill(
        text, WIDTH, initial_indent=blank, subsequent_indent=blank, break_long_words=False
    )


def only_if(conditions: Sequence[str]) -> list[str]:
    """The lines below a table that say what must hold for its numbers; none for no conditions."""
    folded = [
        textwrap.fill(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")
        for text in conditions
    ]
    return ["holds only if:", *folded] if folded else []


def interval(ends: tuple[str, str]) -> str:
    """Both ends of a bracket, in one piece."""
    return f"{TIED}to{TIED}".join(ends)


def _folded(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    indent = cell[: len(cell) - len(cell.lstrip())]
    return textwrap.wrap(
        cell.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fitted(cells: list[tuple[str, ...]]) -> list[int]:
    """Widths of the columns: the widest give way, down to their longest words."""
    every = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in every]
    least = [max(len(word) for cell in column for word in cell.split(" ")) for column in every]
    while sum(widths) + _GAP * (len(widths) - 1) > WIDTH:
        wide = [i for i in range(len(widths)) if widths[i] > least[i]]
        if not wide:
            break
        widths[max(wide, key=lambda i: widths[i])] -= 1
    return widths


def rounded_up(value: float, digits: int) -> str:
    """A number of a few digits that is not below the value, but for round-off."""
    if not math.isfinite(value):
        return str(value)
    # an upper end may be some rounding errors above a number of few digits
    least = value * (1.0 - _ROUND_OFF)
    with decimal.localcontext(prec=digits, rounding=decimal.ROUND_CEILING):
        return f"{float(+decimal.Decimal(repr(least))):.{digits}g}"
