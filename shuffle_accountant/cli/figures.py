"""`figures`: the papers' figures as pictures and tables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from shuffle_accountant import validation as validate
from shuffle_accountant.cli.options import AsJson
from shuffle_accountant.cli.output import print_json, recorded_warnings, saved_figure
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports.figures import FIGURES

__all__ = ["figures"]

Name = Annotated[str, typer.Argument(help=f"Which one: {', '.join(FIGURES)}.", metavar="NAME")]
Output = Annotated[
    Path | None,
    typer.Option(help="Picture (.png, .pdf, .svg), by default NAME.png; a .csv stands beside it."),
]


@examples(
    "figures fig3",
    "figures qif --output vulnerability.svg",
)
def figures(name: Name, output: Output = None, as_json: AsJson = False) -> None:
    """Compute a figure of the papers on the shuffle model anew, as certified curves."""
    found = FIGURES[validate.choice(FIGURES, name=name)]
    output = Path(f"{name}.png") if output is None else output
    table = output.with_suffix(".csv")
    with saved_figure(output) as ax, recorded_warnings(), progress_bar(name):
        rows = found.rows()
        found.draw(rows, ax)
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if as_json:
        print_json({"rows": rows, "output": str(output), "table": str(table)})
    else:
        print(f"{found.about}\nwrote {output} and {table}")
