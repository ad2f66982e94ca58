"""Pictures: `plot` of a protocol, `figures` of the papers, and `explore`, a page with sliders."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings

import numpy as np
import typer

from shuffle_accountant import explorer
from shuffle_accountant import validation as validate
from shuffle_accountant.cli.flags import AsJson, Protocol, with_flags_of
from shuffle_accountant.cli.output import computing, print_answer, saved_figure
from shuffle_accountant.cli.parsing import examples, flag
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports import plot as pictures
from shuffle_accountant.reports.figures import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@examples(
    "plot --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --output profile.png",
    "plot --eps0 4 --users 1e4 --rounds 16 --compare-at 1e-6 --output bounds.svg",
)
@with_flags_of(Protocol)
def plot(
    protocol: Protocol,
    output: Annotated[Path, flag("File to write; its ending (.png, .pdf, .svg) is the format.")],
    mark_at: Annotated[
        float | None, flag("Mark the point of this δ on the curve, with its ε.", "--delta")
    ] = None,
    compare_at: Annotated[
        float | None, flag("Draw ε at this δ against rounds, for every published bound, instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw δ(ε) of a shuffled protocol, or ε by every published bound against rounds."""
    if mark_at is not None and compare_at is not None:
        raise ValueError(
            f"delta must not be given beside compare-at, which is a delta, got {mark_at} and "
            f"{compare_at}"
        )
    with computing("drawing") as warnings:
        if protocol.rounds == 0:
            raise ValueError("nothing to draw: no rounds cost nothing, delta is 0 at every epsilon")
        if protocol.accountant().epsilon(delta=pictures.SMALLEST_DELTA).upper == 0.0:
            raise ValueError(
                "nothing to draw: the messages say nothing about anybody, delta is 0 at every "
                "epsilon"
            )
        with saved_figure(output) as ax:
            if compare_at is None:
                pictures.profile(protocol.accountant(), delta=mark_at, ax=ax)
            else:
                counts = pictures.doublings(rounds=protocol.rounds)
                pictures.compare(
                    protocol.composed(rounds=1), delta=compare_at, rounds=counts, ax=ax
                )
    question = protocol.question() | {"delta": mark_at, "compare_at": compare_at}
    found = {"output": str(output), **_drawn(ax), "question": question, "warnings": warnings}
    print_answer(as_json, found, f"wrote {output}")


def _drawn(ax: Axes) -> dict[str, Any]:
    """The lines of a picture as numbers, with what the axes are."""
    lines = []
    for line in ax.get_lines():
        x = np.asarray(line.get_xdata(), dtype=float).tolist()
        y = np.asarray(line.get_ydata(), dtype=float).tolist()
        label = str(line.get_label())
        if len(x) > 1:  # none that only marks a place
            lines.append({"label": None if label.startswith("_") else label, "x": x, "y": y})
    return {"xlabel": ax.get_xlabel(), "ylabel": ax.get_ylabel(), "lines": lines}


@examples("figures fig3", "figures qif --output vulnerability.svg")
def figures(
    name: Annotated[str, typer.Argument(help=f"Which one: {', '.join(FIGURES)}.", metavar="NAME")],
    output: Annotated[
        Path | None,
        flag("Picture (.png, .pdf, .svg), by default NAME.png; a .csv stands beside it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a figure of the papers on the shuffle model anew, as certified curves."""
    found = FIGURES[validate.choice(FIGURES, name=name)]
    output = Path(f"{name}.png") if output is None else output
    table = output.with_suffix(".csv")
    with saved_figure(output) as ax, catch_warnings(action="ignore"), progress_bar(name):
        rows = found.rows()
        found.draw(rows, ax)
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    answer = {"rows": rows, "output": str(output), "table": str(table)}
    print_answer(as_json, answer, f"{found.about}\nwrote {output} and {table}")


@examples("explore", "explore --headless --port 8000")
def explore(
    host: Annotated[str, flag("Name or address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None, flag(f"Port to listen at, 0 for any; by default {explorer.PORT} if it is free.")
    ] = None,
    headless: Annotated[bool, flag("Do not open a browser.", "--headless", "--no-browser")] = False,
) -> None:
    """Open a page to try protocols out with sliders (extra explore)."""
    explorer.serve(
        host=host, port=port, browser=not headless, say=lambda line: print(line, flush=True)
    )
