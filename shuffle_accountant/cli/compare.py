"""`compare`: every published bound side by side with the certified bracket."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffle_accountant as sa
from shuffle_accountant.cli.options import (
    AsJson,
    Categories,
    Delta,
    Eps0,
    Population,
    Rounds,
    Tolerance,
    Users,
)
from shuffle_accountant.cli.output import (
    json_number,
    print_json,
    print_warnings,
    recorded_warnings,
    saved_figure,
)
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.cli.protocol import NamedRandomizer, Protocol, with_flags_of
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports import plot as pictures
from shuffle_accountant.reports.comparison import asked_round
from shuffle_accountant.reports.comparison import compare as compare_bounds

__all__ = ["compare"]

_OF_A_ROUND = ("eps0", "users", "population", "categories")

Picture = Annotated[
    Path | None,
    typer.Option(help="Also draw the bounds against rounds into this file (.png, .pdf, .svg)."),
]


@examples(
    "compare --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "compare --eps0 2 --users 1e4 --categories 10 --delta 1e-6 --json",
    "compare --eps0 1 --users 1e4 --rounds 16 --delta 1e-6 --output bounds.png",
)
@with_flags_of(NamedRandomizer)
def compare(
    law: NamedRandomizer,
    users: Users,
    delta: Delta,
    eps0: Eps0 = None,
    rounds: Rounds = 1,
    population: Population = None,
    categories: Categories = None,
    tolerance: Tolerance = 1e-3,
    output: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Put every published bound of ε beside the certified bracket."""
    question: dict[str, Any] = {
        "eps0": eps0,
        "users": users,
        "rounds": rounds,
        "population": population,
        "categories": categories,
        "tolerance": tolerance,
        "delta": delta,
    }
    with recorded_warnings() as warnings, progress_bar("comparing"):
        crowd: dict[str, Any] = {name: question[name] for name in _OF_A_ROUND}
        one: sa.ShuffleRound | sa.Protocol
        if law.given():
            one = Protocol(**asdict(law), **crowd).one_round()
        else:
            one = asked_round(None, **crowd)
        found = compare_bounds(one, delta=delta, rounds=rounds, tolerance=tolerance)
        if output is not None:
            with saved_figure(output) as ax:
                counts = pictures.doublings(rounds=rounds)
                pictures.compare(one, delta=delta, rounds=counts, ax=ax)
    question |= law.given()
    print_warnings(warnings)
    if as_json:
        answers = [{k: json_number(v) for k, v in asdict(row).items()} for row in found]
        print_json({"rows": answers, "question": question, "warnings": warnings})
    else:
        print(found)
