"""`plot`: the privacy profile of a protocol, or the comparison of bounds, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from shuffle_accountant.cli.options import AsJson
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot"]

# Smallest delta that a picture shows.
_SMALLEST_DELTA = 1e-12

Output = Annotated[
    Path, typer.Option(help="File to write; its ending (.png, .pdf, .svg) is the format.")
]
CompareAt = Annotated[
    float | None,
    typer.Option(help="Draw ε at this δ against rounds, for every published bound, instead."),
]
MarkAt = Annotated[
    float | None,
    typer.Option("--delta", help="Mark the point of this δ on the curve, with its ε."),
]


@examples(
    "plot --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --output profile.png",
    "plot --eps0 4 --users 1e4 --rounds 16 --compare-at 1e-6 --output bounds.svg",
)
@with_flags_of(Protocol)
def plot(
    protocol: Protocol,
    output: Output,
    mark_at: MarkAt = None,
    compare_at: CompareAt = None,
    as_json: AsJson = False,
) -> None:
    """Draw δ(ε) of a shuffled protocol, or ε by every published bound against rounds."""
    if mark_at is not None and compare_at is not None:
        raise ValueError(
            f"delta must not be given beside compare-at, which is a delta, got {mark_at} and "
            f"{compare_at}"
        )
    with recorded_warnings() as warnings, progress_bar("drawing"):
        _require_something(protocol)
        with saved_figure(output) as ax:
            if compare_at is None:
                pictures.profile(protocol.accountant(), delta=mark_at, ax=ax)
            else:
                pictures.compare(
                    protocol.one_round(),
                    delta=compare_at,
                    rounds=pictures.doublings(rounds=protocol.rounds),
                    ax=ax,
                )
    print_warnings(warnings)
    if as_json:
        question = protocol.question() | {"delta": mark_at, "compare_at": compare_at}
        asked = {name: json_number(value) for name, value in question.items()}
        print_json({"output": str(output), **_drawn(ax), "question": asked, "warnings": warnings})
    else:
        print(f"wrote {output}")


def _require_something(protocol: Protocol) -> None:
    """Refuse to draw what is 0 everywhere."""
    if protocol.rounds == 0:
        raise ValueError("nothing to draw: no rounds cost nothing, delta is 0 at every epsilon")
    if protocol.accountant().epsilon(delta=_SMALLEST_DELTA).upper == 0.0:
        raise ValueError(
            "nothing to draw: the messages say nothing about anybody, delta is 0 at every epsilon"
        )


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
