"""`deployment`: files that say what devices do, checked, and test vectors for their programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

import shuffle_accountant as sa
from shuffle_accountant.cli.flags import AsJson
from shuffle_accountant.cli.output import PROGRAM, computing, print_json, writing
from shuffle_accountant.cli.parsing import add, epilog, examples, print_help_if_bare
from shuffle_accountant.reports.tables import columns

DEPLOYMENT = typer.Typer(
    help="Deployment files, and test vectors for devices.",
    callback=print_help_if_bare,
    invoke_without_command=True,
    epilog=epilog(f"{PROGRAM} deployment", "check deployment.json"),
)

File = Annotated[Path, typer.Argument(help="A deployment, as design --export writes it.")]


@examples("check deployment.json")
def check(file: File, as_json: AsJson = False) -> None:
    """Compute a deployment's ε and programs anew; exit code 2 if anything does not fit."""
    with computing():
        found = sa.Deployment.load(file)
        proven = found.certificate is not None
        try:
            bracket = found.check(proof=proven)
        except ImportError as error:
            raise ValueError(str(error)) from None
    target = {"epsilon": found.target_epsilon, "delta": found.delta}
    if as_json:
        claim = {"lower": bracket.lower, "upper": bracket.upper, "proven": proven}
        program = found.program.to_dict() | {"eps0": found.program.eps0}
        digest = {"digest": found.digest, "conditions": list(found.conditions)}
        print_json({"target": target, **claim, "program": program, **digest})
        return
    rows = [
        ("round", repr(found.round)),
        ("rounds", str(found.rounds)),
        ("target", f"epsilon = {found.target_epsilon:g} at delta = {found.delta:g}"),
        ("epsilon", repr(bracket)),
        ("certificate", "verified" if proven else "none"),
        ("devices", f"eps0 = {found.program.eps0!r}, rounded down to multiples of 2^-53"),
        ("digest", found.digest),
    ]
    print(columns(rows))


@examples(
    "vectors deployment.json --output vectors.json",
    "vectors deployment.json --count 10",
)
def vectors(
    file: File,
    count: Annotated[int, typer.Option(help="How many, >= 1.")] = 1000,
    output: Annotated[
        Path | None, typer.Option(help="File to write them to; printed otherwise.")
    ] = None,
) -> None:
    """Make test vectors of a deployment's program: random bytes in, message out."""
    with computing():
        found = sa.Deployment.load(file)
        made = found.vectors(count=count)
    text = json.dumps({"program": found.program.to_dict(), "vectors": made})
    if output is None:
        print(text)
        return
    with writing(output):
        output.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {len(made)} vectors to {output}")


for _command in (check, vectors):
    add(DEPLOYMENT, _command, f"{PROGRAM} deployment")
