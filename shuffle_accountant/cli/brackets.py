"""`epsilon` and `delta`: one certified bracket of a protocol."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shuffle_accountant.bracket import Bracket
from shuffle_accountant.cli.options import AsJson, Delta, Epsilon, Verbose
from shuffle_accountant.cli.output import (
    json_number,
    print_json,
    print_warnings,
    recorded_warnings,
)
from shuffle_accountant.cli.parsing import examples
from shuffle_accountant.cli.protocol import Protocol, with_flags_of
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports.tables import columns, only_if, rounded_up

if TYPE_CHECKING:
    from shuffle_accountant import FourierAccountant

__all__ = ["delta", "epsilon"]

# Significant digits of the number to report, rounded up.
_DIGITS = 3


@examples(
    "epsilon --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "epsilon --randomizer hadamard --categories 1000 --eps0 2 --users 1e5 --delta 1e-8 --json",
)
@with_flags_of(Protocol)
def epsilon(
    protocol: Protocol, delta: Delta, as_json: AsJson = False, verbose: Verbose = False
) -> None:
    """Print the ε of shuffled rounds at a given δ: a number to report, and both certified ends."""
    answer = _ask(protocol, lambda accountant: accountant.epsilon(delta=delta))
    if as_json:
        _print_object("epsilon", {"delta": delta}, protocol, answer)
    else:
        _print_table("epsilon", {"delta": delta}, answer, verbose)


@examples(
    "delta --eps0 4 --users 1e4 --rounds 4 --epsilon 0.5",
)
@with_flags_of(Protocol)
def delta(
    protocol: Protocol, epsilon: Epsilon, as_json: AsJson = False, verbose: Verbose = False
) -> None:
    """Print the δ of shuffled rounds at a given ε: a number to report, and both certified ends."""
    answer = _ask(protocol, lambda accountant: accountant.delta(epsilon=epsilon))
    if as_json:
        _print_object("delta", {"epsilon": epsilon}, protocol, answer)
    else:
        _print_table("delta", {"epsilon": epsilon}, answer, verbose)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A bracket and the warnings that came with it, one line each."""

    bracket: Bracket
    warnings: list[str]


def _ask(protocol: Protocol, question: Callable[[FourierAccountant], Bracket]) -> _Answer:
    """Compose the protocol and put the question, with a progress bar when it takes long."""
    with recorded_warnings() as warnings, progress_bar("composing"):
        bracket = question(protocol.accountant())
    return _Answer(bracket, warnings)


def _print_object(quantity: str, at: dict[str, float], protocol: Protocol, answer: _Answer) -> None:
    """Print an answer as a JSON object; warnings go to stderr, too."""
    print_warnings(answer.warnings)
    print_json(_as_object(quantity, at, protocol, answer))


def _print_table(quantity: str, at: dict[str, float], answer: _Answer, verbose: bool) -> None:
    """Print an answer as a table; warnings go to stderr."""
    print_warnings(answer.warnings)
    print(_as_table(quantity, at, answer.bracket, verbose))


def _as_object(
    quantity: str, at: dict[str, float], protocol: Protocol, answer: _Answer
) -> dict[str, Any]:
    bracket = answer.bracket
    return {
        "quantity": quantity,
        "lower": json_number(bracket.lower),
        "upper": json_number(bracket.upper),
        "reduction": bracket.reduction,
        "adjacency": bracket.to_dict()["adjacency"],
        "conditions": list(bracket.conditions),
        "ledger": {name: json_number(width) for name, width in bracket.ledger.to_dict().items()},
        "limited_by": bracket.ledger.limited_by,
        "method": bracket.ledger.method,
        "question": {
            name: json_number(value) for name, value in (protocol.question() | at).items()
        },
        "warnings": answer.warnings,
    }


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
