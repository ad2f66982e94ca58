"""Rows of text as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["columns"]


def columns(rows: Iterable[Sequence[str]]) -> str:
    """Rows of text as aligned columns, two blanks apart."""
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
