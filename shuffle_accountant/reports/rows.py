"""The rows of a report: what shuffled messages give away, and to whom.

Each row is one measure of the leakage of the same rounds, with its values if nothing and if
everything leaked, and with what its adversary knows: that, not the measure, is what makes the
numbers of two rows differ most.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from shuffle_accountant.bracket import format_ends
from shuffle_accountant.reports.tables import Tabular, only_if, rounded_up, rows_of_lines, under

# Relative width up to which a bracket is shown as one number, rounded up, and its digits.
_SAME, _DIGITS = 1e-7, 7
_HEADER = ("measure", "value", "no leak", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One row of a report: a measure of leakage with its certified ends.

    Attributes:
        measure: name of the measure, in a few words.
        scope: the rounds it is about: "all rounds", or one kind of round, each time it happens.
        lower: certified lower end of the measure; None if only an upper bound is known.
        upper: upper end, the number to report; None if the measure does not apply.
        unit: "nats" or "probability".
        nothing: its value if nothing leaked.
        everything: its value if everything leaked; None if that is not known, inf if there is no
            limit.
        adversary: knowledge and goal of the adversary.
        source: the theorem or method behind it.
        condition: why the measure does not apply; None if it does.
        adjacency: which datasets are neighbours, where the measure is about two datasets.
    """

    measure: str
    scope: str
    lower: float | None = None
    upper: float | None = None
    unit: str
    nothing: float
    everything: float | None = None
    adversary: str
    source: str
    condition: str | None = None
    adjacency: str | None = None

    def value(self) -> str:
        """Both ends as text, or the upper bound, or why there is none."""
        if self.upper is None:
            return f"n/a: {self.condition}"
        if self.lower is None:
            return f"at most {rounded_up(self.upper, _DIGITS)}"
        if self.upper - self.lower <= _SAME * self.upper < math.inf:
            return rounded_up(self.upper, _DIGITS)
        return " to ".join(format_ends(self.lower, self.upper))

    @property
    def share(self) -> float | None:
        """Upper end as a share of the way from ``nothing`` (0) to ``everything`` (1), or None."""
        if self.upper is None or self.everything is None:
            return None
        span = self.everything - self.nothing
        if not 0.0 < span < math.inf:
            return None
        return min(max((self.upper - self.nothing) / span, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Report(Tabular):
    """The measures of one protocol; its text is a table.

    Attributes:
        delta: of the differential privacy, over all rounds.
        rows: one for each measure.
        conditions: what must hold in reality for the numbers, a sentence each with its theorem.
        about: the protocol in one line.
    """

    delta: float
    rows: tuple[ReportRow, ...]
    conditions: tuple[str, ...] = ()
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types; infinities are floats."""
        return {
            "delta": self.delta,
            "rows": self.records(),
            "conditions": list(self.conditions),
        }

    as_dict = to_dict  # its name up to version 0.2.0

    def records(self) -> list[dict[str, Any]]:
        """Every field of each row."""
        return [asdict(row) for row in self.rows]

    def cells(self) -> list[tuple[str, ...]]:
        """Short texts of the table, the header first."""
        header = (*_HEADER, "about")
        return [header, *((*_numbers(row), _about(row)) for row in self.rows)]

    def __str__(self) -> str:
        first, *numbers = rows_of_lines([_HEADER, *map(_numbers, self.rows)])
        table = [
            under("\n".join(lines), _about(row))
            for lines, row in zip(numbers, self.rows, strict=True)
        ]
        return "\n".join([*first, *table, *only_if(self.conditions)])


def _numbers(row: ReportRow) -> tuple[str, ...]:
    return (
        row.measure,
        row.value(),
        f"{row.nothing:.4g}",
        "?" if row.everything is None else f"{row.everything:.4g}",
    )


def _about(row: ReportRow) -> str:
    """Line below a row's numbers: scope, unit, adjacency and adversary."""
    about = ", ".join(word for word in (row.scope, row.unit, row.adjacency) if word)
    return f"{about}: {row.adversary}"
