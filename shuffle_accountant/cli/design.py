"""`design`: what to deploy for a number of users, a size of data and a target ε."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffle_accountant as sa
from shuffle_accountant.cli import flags
from shuffle_accountant.cli.output import computing, print_answer, saved_figure, writing
from shuffle_accountant.cli.parsing import examples, flag, group
from shuffle_accountant.reports.tables import columns

File = Annotated[Path, typer.Argument(help="A deployment, as design --export writes it.")]


@examples("check deployment.json")
def check(file: File, as_json: flags.AsJson = False) -> None:
    """Compute a deployment's ε and programs anew; exit code 2 if anything does not fit."""
    with computing():
        found = sa.Deployment.load(file)
        proven = found.certificate is not None
        bracket = found.check(proof=proven)
    target = {"epsilon": found.target_epsilon, "delta": found.delta}
    answer = {"target": target, "lower": bracket.lower, "upper": bracket.upper, "proven": proven}
    answer["program"] = found.program.to_dict() | {"eps0": found.program.eps0}
    answer |= {"digest": found.digest, "conditions": list(found.conditions)}
    rows = [
        ("round", repr(found.round)),
        ("rounds", str(found.rounds)),
        ("target", f"epsilon = {found.target_epsilon:g} at delta = {found.delta:g}"),
        ("epsilon", repr(bracket)),
        ("certificate", "verified" if proven else "none"),
        ("devices", f"eps0 = {found.program.eps0!r}, rounded down to multiples of 2^-53"),
        ("digest", found.digest),
    ]
    print_answer(as_json, answer, columns(rows))


@examples("vectors deployment.json --output vectors.json", "vectors deployment.json --count 10")
def vectors(
    file: File,
    count: Annotated[int, flag("How many, >= 1.")] = 1000,
    output: Annotated[Path | None, flag("File to write them to; printed otherwise.")] = None,
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


DEPLOYMENT = group(
    "deployment",
    "Deployment files, and test vectors for devices.",
    "check deployment.json",
    (check, vectors),
)


@examples(
    "design --users 1e5 --categories 100 --target-epsilon 1 --delta 1e-8",
    "design --users 1e5 --min-users 9e4 --categories 4 --target-epsilon 1 --delta 1e-8",
    "design --users 1e5 --categories 4 --budget-per-user 8bits --target-epsilon 1 --delta 1e-8",
    "design --users 1e5 --dimension 100 --target-epsilon 1 --delta 1e-8",
)
def design(
    users: flags.Users,
    target_epsilon: Annotated[float, flag("ε of all rounds together, > 0.")],
    delta: flags.Delta,
    categories: Annotated[int | None, flag("Number of categories, for frequencies, >= 2.")] = None,
    dimension: Annotated[
        int | None, flag("Length of vectors of norm at most 1, for their mean.")
    ] = None,
    min_users: flags.MinUsers = None,
    participation: flags.Participation = None,
    colluding: flags.Colluding = 0,
    rounds: flags.Rounds = 1,
    exclude: Annotated[
        list[str] | None, flag("Leave a mechanism out; may be repeated.", metavar="MECHANISM")
    ] = None,
    budget_per_user: Annotated[
        str | None,
        flag(
            "Most that a user may send in a round: a number of bits or of messages, as in 64bits "
            "or 1messages.",
            metavar="LIMIT",
        ),
    ] = None,
    tolerance: flags.Tolerance = 1e-3,
    as_json: flags.AsJson = False,
    output: Annotated[Path | None, flags.picture("error against ε")] = None,
    export: Annotated[
        Path | None, flag("Write the recommended deployment as a JSON file.", metavar="FILE")
    ] = None,
) -> None:
    """Find what to deploy: every mechanism that meets a target ε, sorted by its error."""
    if (categories is None) == (dimension is None):
        raise ValueError(
            "one of categories and dimension must be given: frequencies are asked for, or a mean; "
            f"got categories={categories} and dimension={dimension}"
        )
    question: dict[str, Any] = {
        "users": users,
        "min_users": min_users,
        "participation": participation,
        "colluding": colluding,
        "target_epsilon": target_epsilon,
        "delta": delta,
        "rounds": rounds,
        "tolerance": tolerance,
        "exclude": exclude or (),
        **_limit(budget_per_user),
    }
    with computing() as warnings:
        if categories is not None:
            found = sa.design.frequency(**question, categories=categories)
        else:
            assert dimension is not None
            found = sa.design.mean(**question, dimension=dimension)
        if output is not None and not (found.rows or found.local or found.central):
            warnings.append(f"nothing to draw: nothing meets the target; {output} is not written")
            output = None
    if output is not None:
        with saved_figure(output) as ax:
            found.plot(ax=ax)
    if export is not None:
        export.write_text(found.recommended.deployment().to_json(), encoding="utf-8")
    text = f"{found}" if output is None else f"{found}\nwrote {output}"
    print_answer(as_json, found.to_dict() | {"warnings": warnings}, text)


def _limit(text: str | None) -> dict[str, float]:
    """``64bits`` or ``1messages`` as an argument of the library."""
    if text is None:
        return {}
    for unit in ("bits", "messages"):
        if text.endswith(unit):
            try:
                return {f"most_{unit}": float(text.removesuffix(unit))}
            except ValueError:
                break
    raise ValueError(
        f"budget_per_user must be a number of bits or messages, such as 64bits, got {text!r:.60}"
    )
