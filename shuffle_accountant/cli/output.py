"""Printing of answers: aligned columns, JSON numbers, warnings on stderr."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffle_accountant.bracket import LooseBracketWarning, WeakPrivacyWarning, __version__
from shuffle_accountant.reports.drawing import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "PROGRAM",
    "json_number",
    "print_json",
    "print_warnings",
    "recorded_warnings",
    "saved_figure",
]

PROGRAM = "shuffle-accountant"


def json_number(value: Any) -> Any:
    """The value itself, or the text "inf" for infinity, which JSON has no number for."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def print_json(answer: dict[str, Any]) -> None:
    """Print one object on one line, with the version that computed it."""
    print(json.dumps(answer | {"version": __version__}, allow_nan=False))


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Warnings about brackets of the block, one line each; the list is filled at its end."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LooseBracketWarning)
        warnings.simplefilter("always", WeakPrivacyWarning)
        yield lines
    lines += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


def print_warnings(lines: Iterable[str]) -> None:
    """Print warnings to stderr."""
    for line in lines:
        print(f"{PROGRAM}: warning: {line}", file=sys.stderr)


@contextmanager
def saved_figure(output: Path) -> Iterator[Axes]:
    """Axes to draw on; at the end of the block their figure is written to the file."""
    try:
        figure = new_figure()
    except ImportError as missing:
        raise ValueError(str(missing)) from None
    yield figure.add_subplot()
    try:
        figure.savefig(output, dpi=150)
    except OSError as error:
        raise ValueError(
            f"output must be a file that can be written, got {str(output)!r}: {error.strerror}"
        ) from None
