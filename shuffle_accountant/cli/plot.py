"""`plot`: the privacy profile of a protocol, or the comparison of bounds, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shuffle_accountant import plot as pictures
from shuffle_accountant.cli.options import (
    Categories,
    Eps0,
    Interactive,
    Population,
    Reduction,
    Rounds,
    Tolerance,
    Users,
    Variant,
)
from shuffle_accountant.cli.output import print_warnings, recorded_warnings, saved_figure
from shuffle_accountant.cli.protocol import Protocol
from shuffle_accountant.progress import progress_bar

__all__ = ["plot"]

Output = Annotated[
    Path, typer.Option(help="File to write; its ending (.png, .pdf, .svg) is the format.")
]
CompareAt = Annotated[
    float | None,
    typer.Option(help="Draw ε at this δ against rounds, for every published bound, instead."),
]


def plot(
    eps0: Eps0,
    users: Users,
    output: Output,
    rounds: Rounds = 1,
    population: Population = None,
    categories: Categories = None,
    reduction: Reduction = "auto",
    variant: Variant = None,
    interactive: Interactive = False,
    tolerance: Tolerance = 1e-3,
    compare_at: CompareAt = None,
) -> None:
    """Draw δ(ε) of a shuffled protocol, or ε by every published bound against rounds."""
    protocol = Protocol(
        eps0=eps0,
        users=users,
        rounds=rounds,
        population=population,
        categories=categories,
        reduction=reduction,
        variant=variant,
        interactive=interactive,
        tolerance=tolerance,
    )
    with (
        saved_figure(output) as ax,
        recorded_warnings() as warnings,
        progress_bar("drawing"),
    ):
        if compare_at is None:
            pictures.profile(protocol.accountant(), ax=ax)
        else:
            pictures.compare(
                eps0=eps0,
                users=users,
                delta=compare_at,
                rounds=_doublings(rounds),
                population=population,
                categories=categories,
                ax=ax,
            )
    print_warnings(warnings)
    print(f"wrote {output}")


def _doublings(rounds: int) -> list[int]:
    """1, 2, 4, … up to the number of rounds, which is the last."""
    if rounds < 1:
        raise ValueError(f"rounds must be an integer >= 1, got {rounds}")
    return [*(2**i for i in range(rounds.bit_length()) if 2**i < rounds), rounds]
