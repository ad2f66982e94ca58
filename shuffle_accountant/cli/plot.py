"""`plot`: the privacy profile of a protocol, or the comparison of bounds, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffle_accountant.cli.output import print_warnings, recorded_warnings, saved_figure
from shuffle_accountant.cli.protocol import Protocol, with_flags_of
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports import plot as pictures

__all__ = ["plot"]

Output = Annotated[
    Path, typer.Option(help="File to write; its ending (.png, .pdf, .svg) is the format.")
]
CompareAt = Annotated[
    float | None,
    typer.Option(help="Draw ε at this δ against rounds, for every published bound, instead."),
]


@with_flags_of(Protocol)
def plot(protocol: Protocol, output: Output, compare_at: CompareAt = None) -> None:
    """Draw δ(ε) of a shuffled protocol, or ε by every published bound against rounds."""
    with (
        saved_figure(output) as ax,
        recorded_warnings() as warnings,
        progress_bar("drawing"),
    ):
        if compare_at is None:
            pictures.profile(protocol.accountant(), ax=ax)
        else:
            pictures.compare(
                protocol.one_round(),
                delta=compare_at,
                rounds=pictures.doublings(rounds=protocol.rounds),
                ax=ax,
            )
    print_warnings(warnings)
    print(f"wrote {output}")
