"""`epsilon` and `delta`: one certified bracket of a protocol."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from shuffle_accountant.bracket import Bracket
from shuffle_accountant.cli.flags import AsJson, Delta, Protocol, with_flags_of
from shuffle_accountant.cli.output import computing, print_json
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.reports.tables import columns, only_if, rounded_up

# Significant digits of the number to report, rounded up.
_DIGITS = 3

Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print the error budget and which method answered, too."),
]

Group = Annotated[
    int, typer.Option(help="Number of people whose data change at once: for them, too.")
]


@examples(
    "epsilon --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "epsilon --eps0 1 --users 1e4 --group 3 --delta 1e-6",
    "epsilon --eps0 2 --users 1e4 --exposure 1e-7 --delta 1e-6",
    "epsilon --randomizer hadamard --categories 1000 --eps0 2 --users 1e5 --delta 1e-8 --json",
)
@with_flags_of(Protocol)
def epsilon(
    protocol: Protocol,
    delta: Delta,
    group: Group = 1,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Print the ε of shuffled rounds at a given δ: a number to report, and both certified ends."""
    _answer("epsilon", {"delta": delta}, protocol, group, as_json, verbose)


@examples(
    "delta --eps0 4 --users 1e4 --rounds 4 --epsilon 0.5",
)
@with_flags_of(Protocol)
def delta(
    protocol: Protocol,
    epsilon: Annotated[float, typer.Option(help="ε, >= 0.")],
    group: Group = 1,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Print the δ of shuffled rounds at a given ε: a number to report, and both certified ends."""
    _answer("delta", {"epsilon": epsilon}, protocol, group, as_json, verbose)


def _answer(
    quantity: str,
    at: dict[str, float],
    protocol: Protocol,
    group: int,
    as_json: bool,
    verbose: bool,
) -> None:
    """Put a question and print the answer as a JSON object or as a table."""
    people = {"group": group} if group != 1 else {}
    with computing("composing") as warnings:
        bracket: Bracket = getattr(protocol.accountant(), quantity)(**at, **people)
    if not as_json:
        print(_as_table(quantity, at, bracket, verbose))
        return
    answer: dict[str, Any] = {
        "quantity": quantity,
        "lower": bracket.lower,
        "upper": bracket.upper,
        "reduction": bracket.reduction,
        "adjacency": bracket.to_dict()["adjacency"],
        "conditions": bracket.conditions,
        "ledger": bracket.ledger.to_dict(),
        "limited_by": bracket.ledger.limited_by,
        "method": bracket.ledger.method,
        "question": protocol.question() | at | people,
        "warnings": warnings,
    }
    print_json(answer)


def _as_table(quantity: str, at: dict[str, float], bracket: Bracket, verbose: bool) -> str:
    given = ", ".join(f"{name} = {value:g}" for name, value in at.items())
    letter = {"epsilon": "ε", "delta": "δ"}[quantity]
    lower, upper = bracket.ends()
    rows = [
        (quantity, f"at {given}"),
        ("lower", lower),
        ("upper", upper),
        ("reduction", bracket.reduction),
        ("adjacency", "no rounds" if bracket.adjacency is None else bracket.adjacency.value),
    ]
    if verbose:
        widths = bracket.ledger.to_dict()
        rows += [(name.replace("_", "-"), f"{width:.1e}") for name, width in widths.items()]
        rows.append(("method", bracket.ledger.method))
    first = f"{letter} ≤ {rounded_up(bracket.upper, _DIGITS)} (report this)"
    if math.isinf(bracket.upper):
        first = f"no finite {letter} holds (report this)"
    return "\n".join([first, columns(rows), *only_if(bracket.conditions)])
