"""The 'Adult' census table of the UCI repository, from a copy that the user has."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AdultTable", "read_adult"]

# The columns of the file as distributed, which has no header.
_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
]
# Other names in use for them, with hyphens for blanks, dots and underscores.
_INCOMES = ("income", "income-per-year", "class", "salary", "target")


class AdultTable(NamedTuple):
    """The columns that the experiments need, one entry per person.

    Attributes:
        age: public, years, shape (n,).
        marital_status: what an attacker knows besides, shape (n,).
        income: private; 1 above 50,000 dollars a year, else 0, shape (n,).
    """

    age: NDArray[np.int64]
    marital_status: NDArray[np.str_]
    income: NDArray[np.int64]


def read_adult(path: str | os.PathLike[str]) -> AdultTable:
    """Read a CSV file of the table, as distributed (no header) or with a header.

    Args:
        path: of the file.

    Raises:
        ValueError: no such file, a column is missing, or a line is not of the table.
    """
    source = Path(path)
    if not source.is_file():
        raise ValueError(f"path must be a CSV file of the Adult table, got {str(path)!r}")
    with source.open(newline="", encoding="utf-8") as file:
        rows = [
            [cell.strip() for cell in row]
            for row in csv.reader(file, skipinitialspace=True)
            # empty lines, and the comment at the head of the test part
            if any(cell.strip() for cell in row) and not row[0].startswith("|")
        ]
    if not rows:
        raise ValueError(f"path must be a CSV file of the Adult table, got the empty {str(path)!r}")
    header = _COLUMNS if _is_number(rows[0][0]) else [_plain(cell) for cell in rows.pop(0)]
    income = next((name for name in _INCOMES if name in header), "income")
    places = []
    for name in ("age", "marital-status", income):
        if name not in header:
            raise ValueError(f"path must have a column {name!r}, got columns {', '.join(header)}")
        places.append(header.index(name))
    for number, row in enumerate(rows, 1):
        if len(row) <= max(places) or not _is_number(row[places[0]]):
            raise ValueError(f"path must hold rows of the Adult table, got {row!r} as row {number}")
    age, marital, earned = ([row[place] for row in rows] for place in places)
    return AdultTable(
        np.array([int(float(value)) for value in age], dtype=np.int64),
        np.array(marital, dtype=np.str_),
        np.array([_above(value) for value in earned], dtype=np.int64),
    )


def _plain(name: str) -> str:
    return name.lower().replace(" ", "-").replace("_", "-").replace(".", "-")


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _above(text: str) -> int:
    """1 for ">50K" (with a full stop in the test part), 0 for "<=50K"."""
    word = text.rstrip(".").upper()
    if word not in (">50K", "<=50K", "1", "0"):
        raise ValueError(f"path must have incomes '>50K' or '<=50K', got {text!r}")
    return int(word in (">50K", "1"))
