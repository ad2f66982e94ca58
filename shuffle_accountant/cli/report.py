"""`report`: one protocol, every measure; `statement`: a paragraph for a privacy notice."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import shuffle_accountant as sa
from shuffle_accountant.cli.flags import (
    AsJson,
    Categories,
    Delta,
    Eps0,
    NamedRandomizer,
    Population,
    Protocol,
    Rounds,
    Tolerance,
    Users,
    picture,
    with_flags_of,
)
from shuffle_accountant.cli.output import computing, print_json, saved_figure
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.reports.comparison import asked_round
from shuffle_accountant.reports.tables import WIDTH

# Share up to which a leak counts as round-off.
ROUND_OFF = 1e-12


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
    output: Annotated[Path | None, picture("the bounds against rounds")] = None,
    as_json: AsJson = False,
) -> None:
    """Put every published bound of ε beside the certified bracket."""
    crowd: dict[str, Any] = {
        "eps0": eps0,
        "users": users,
        "population": population,
        "categories": categories,
    }
    one: sa.ShuffleRound | sa.Protocol
    with computing("comparing") as warnings:
        if law.given():
            one = Protocol(**asdict(law), **crowd).one_round()
        else:
            one = asked_round(None, **crowd)
        found = sa.compare(one, delta=delta, rounds=rounds, tolerance=tolerance)
        if output is not None:
            with saved_figure(output) as ax:
                counts = sa.plot.doublings(rounds=rounds)
                sa.plot.compare(one, delta=delta, rounds=counts, ax=ax)
    if as_json:
        question = crowd | {"rounds": rounds, "tolerance": tolerance, "delta": delta}
        answer = {"rows": [asdict(row) for row in found], "question": question | law.given()}
        print_json(answer | {"warnings": warnings})
    else:
        print(found)


@examples(
    "report --eps0 4 --users 1e4 --rounds 4 --delta 1e-6 --categories 100",
)
@with_flags_of(Protocol)
def report(
    protocol: Protocol,
    delta: Delta,
    output: Annotated[Path | None, picture("the rows")] = None,
    as_json: AsJson = False,
) -> None:
    """Print every measure of what a protocol leaks, each with what its adversary knows."""
    with computing("measuring") as warnings:
        found = sa.report(protocol.accountant(), delta=delta)
        if output is not None and all((row.share or 0.0) <= ROUND_OFF for row in found.rows):
            warnings.append(f"nothing to draw: nothing leaks; {output} is not written")
            output = None
    if output is not None:
        with saved_figure(output) as ax:
            sa.plot.report(found, ax=ax)
    if as_json:
        rows = [asdict(row) for row in found.rows]
        question = protocol.question() | {"delta": delta}
        answer = {"rows": rows, "conditions": found.conditions, "question": question}
        print_json(answer | {"warnings": warnings})
    else:
        print(found)


@examples(
    "statement --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "statement --eps0 2 --categories 16 --users 2e5 --rounds 12 --delta 1e-9 --json",
)
@with_flags_of(Protocol)
def statement(protocol: Protocol, delta: Delta, as_json: AsJson = False) -> None:
    """Write a paragraph for a privacy notice, with all that its numbers depend on."""
    with computing("composing") as warnings:
        found = sa.statement(protocol.accountant(), delta=delta)
    if as_json:
        question = protocol.question() | {"delta": delta}
        print_json(found.to_dict() | {"question": question, "warnings": warnings})
    else:
        print(textwrap.fill(str(found), WIDTH, break_on_hyphens=False, break_long_words=False))
