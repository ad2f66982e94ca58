"""How answers are printed: aligned columns, JSON numbers, warnings on stderr."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from shuffle_accountant.bracket import LooseBracketWarning

__all__ = ["PROGRAM", "columns", "json_number", "print_json", "print_warnings", "recorded_warnings"]

PROGRAM = "shuffle-accountant"


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as aligned columns, two blanks apart."""
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def json_number(value: Any) -> Any:
    """The value itself, or the text "inf" for infinity, which JSON has no number for."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def print_json(answer: dict[str, Any]) -> None:
    """Print one object on one line."""
    print(json.dumps(answer, allow_nan=False))


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Loose brackets' warnings of the block, one line each; the list is filled at its end."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LooseBracketWarning)
        yield lines
    lines += [" ".join(str(warning.message).split()) for warning in caught]


def print_warnings(lines: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for line in lines:
        print(f"{PROGRAM}: warning: {line}", file=sys.stderr)
