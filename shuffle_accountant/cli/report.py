"""`report`: one protocol, every measure."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffle_accountant.cli.options import AsJson, Delta
from shuffle_accountant.cli.output import (
    json_number,
    print_json,
    print_warnings,
    recorded_warnings,
    saved_figure,
)
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.cli.protocol import Protocol, with_flags_of
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports import plot as pictures
from shuffle_accountant.reports.compiling import report as measure

__all__ = ["report"]

# Share up to which a leak counts as round-off.
ROUND_OFF = 1e-12

Picture = Annotated[
    Path | None, typer.Option(help="Also draw the rows into this file (.png, .pdf, .svg).")
]


@examples(
    "report --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --categories 100",
)
@with_flags_of(Protocol)
def report(
    protocol: Protocol, delta: Delta, output: Picture = None, as_json: AsJson = False
) -> None:
    """Print every measure of what a protocol leaks, each with what its adversary knows."""
    with recorded_warnings() as warnings, progress_bar("measuring"):
        found = measure(protocol.accountant(), delta=delta)
    if output is not None and all((row.share or 0.0) <= ROUND_OFF for row in found.rows):
        warnings.append(f"nothing to draw: nothing leaks; {output} is not written")
        output = None
    print_warnings(warnings)
    if output is not None:
        with saved_figure(output) as ax:
            pictures.report(found, ax=ax)
    if as_json:
        rows = [{k: json_number(v) for k, v in asdict(row).items()} for row in found.rows]
        question: dict[str, Any] = protocol.question() | {"delta": delta}
        question = {name: json_number(value) for name, value in question.items()}
        print_json(
            {
                "rows": rows,
                "conditions": list(found.conditions),
                "question": question,
                "warnings": warnings,
            }
        )
    else:
        print(found)
