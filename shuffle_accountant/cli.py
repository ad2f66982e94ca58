"""The command line `shuffle-accountant`: one small function per command.

A command turns its flags into library calls and prints the answer; every check of a value is the
library's. Errors are one line on stderr and exit code 2.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shuffle_accountant.bracket import Bracket, LooseBracketWarning
from shuffle_accountant.cli_calibrate import calibrate
from shuffle_accountant.progress import progress_bar

if TYPE_CHECKING:
    from shuffle_accountant import FourierAccountant
    from shuffle_accountant.randomizers.base import LocalRandomizer

PROGRAM = "shuffle-accountant"
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

# What the parser raises for bad usage: the public BadParameter is one kind of it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    help="Certified privacy accounting for the shuffle model of differential privacy.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Eps0 = Annotated[float, typer.Option(help="ε0 of the local randomizer, >= 0.")]
Users = Annotated[int, typer.Option(help="Users who send a message in each round, >= 1.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds, >= 0.")]
Population = Annotated[
    int | None,
    typer.Option(help="Draw the users of each round from this many, without replacement."),
]
Categories = Annotated[
    int | None,
    typer.Option(help="The randomizer is randomized response over this many values, >= 2."),
]
Reduction = Annotated[str, typer.Option(help="Theorem to use; auto takes the smallest bound.")]
Variant = Annotated[
    str | None,
    typer.Option(help="Form of the strong reduction: exact (the default), paper or tail."),
]
Interactive = Annotated[
    bool,
    typer.Option("--interactive", help="A user's randomizer may depend on earlier messages."),
]
Tolerance = Annotated[float, typer.Option(help="Relative width of the bracket in ε.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def epsilon(
    eps0: Eps0,
    users: Users,
    delta: Annotated[float, typer.Option(help="δ, in (0, 1).")],
    rounds: Rounds = 1,
    population: Population = None,
    categories: Categories = None,
    reduction: Reduction = "auto",
    variant: Variant = None,
    interactive: Interactive = False,
    tolerance: Tolerance = 1e-3,
    as_json: AsJson = False,
) -> None:
    """Bracket the ε of a shuffled protocol at a given δ."""
    protocol = _Protocol(
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
    answer = _ask(protocol, lambda accountant: accountant.epsilon(delta=delta))
    _print_bracket("epsilon", {"delta": delta}, protocol, answer, as_json)


@app.command()
def delta(
    eps0: Eps0,
    users: Users,
    epsilon: Annotated[float, typer.Option(help="ε, >= 0.")],
    rounds: Rounds = 1,
    population: Population = None,
    categories: Categories = None,
    reduction: Reduction = "auto",
    variant: Variant = None,
    interactive: Interactive = False,
    tolerance: Tolerance = 1e-3,
    as_json: AsJson = False,
) -> None:
    """Bracket the δ of a shuffled protocol at a given ε."""
    protocol = _Protocol(
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
    answer = _ask(protocol, lambda accountant: accountant.delta(epsilon=epsilon))
    _print_bracket("delta", {"epsilon": epsilon}, protocol, answer, as_json)


app.command()(calibrate)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 after an error in the usage or in a value, told in one line on
        stderr, or 130 after an interruption.
    """
    command = typer.main.get_command(app)
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        code = command.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except _UsageError as error:
        return _fail(f"{error.format_message()} (see {PROGRAM} --help)")  # type: ignore[attr-defined]
    except (ValueError, TypeError) as error:
        return _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", EXIT_INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int = EXIT_ERROR) -> int:
    print(f"{PROGRAM}: error: {' '.join(message.split())}", file=sys.stderr)
    return code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Protocol:
    """The flags that say what happens, as typed, in the order of the JSON object."""

    eps0: float
    users: int
    rounds: int
    population: int | None
    categories: int | None
    reduction: str
    variant: str | None
    interactive: bool
    tolerance: float

    def accountant(self) -> FourierAccountant:
        """An accountant that has recorded the rounds."""
        import shuffle_accountant as sa

        one = sa.ShuffleRound(
            self.randomizer(),
            users=self.users,
            population=self.population,
            reduction=self.reduction,
            variant=self.variant,
        )
        return sa.FourierAccountant(tolerance=self.tolerance).compose(one, count=self.rounds)

    def randomizer(self) -> LocalRandomizer:
        """Randomized response if its number of values is given, else any ε0-LDP randomizer."""
        import shuffle_accountant as sa

        if self.categories is None:
            return sa.GeneralRandomizer(self.eps0, interactive=self.interactive)
        if self.interactive:
            raise ValueError("interactive is for any randomizer; it cannot go with categories")
        return sa.RandomizedResponse(categories=self.categories, eps0=self.eps0)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A bracket and the warnings that came with it, one line each."""

    bracket: Bracket
    warnings: list[str]


def _ask(protocol: _Protocol, question: Callable[[FourierAccountant], Bracket]) -> _Answer:
    """Compose the protocol and put the question, with a progress bar when it takes long."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LooseBracketWarning)
        with progress_bar("composing"):
            bracket = question(protocol.accountant())
    return _Answer(bracket, [" ".join(str(warning.message).split()) for warning in caught])


def _print_bracket(
    quantity: str, at: dict[str, float], protocol: _Protocol, answer: _Answer, as_json: bool
) -> None:
    """Print an answer as a table or as a JSON object; warnings go to stderr."""
    for warning in answer.warnings:
        print(f"{PROGRAM}: warning: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(_as_object(quantity, at, protocol, answer), allow_nan=False))
    else:
        print(_as_table(quantity, at, answer.bracket))


def _as_object(
    quantity: str, at: dict[str, float], protocol: _Protocol, answer: _Answer
) -> dict[str, Any]:
    bracket = answer.bracket
    return {
        "quantity": quantity,
        "lower": _json_number(bracket.lower),
        "upper": _json_number(bracket.upper),
        "reduction": bracket.reduction,
        "ledger": {name: _json_number(width) for name, width in bracket.ledger.as_dict().items()},
        "limited_by": bracket.ledger.limited_by,
        "question": {
            name: _json_number(value) if isinstance(value, float) else value
            for name, value in (asdict(protocol) | at).items()
        },
        "warnings": answer.warnings,
    }


def _json_number(value: float) -> float | str:
    """The number itself, or the text "inf", which JSON has no number for."""
    return value if math.isfinite(value) else "inf"


def _as_table(quantity: str, at: dict[str, float], bracket: Bracket) -> str:
    given = ", ".join(f"{name} = {value:g}" for name, value in at.items())
    lower, upper = bracket.ends()
    ledger = bracket.ledger.as_dict()
    rows = [
        (quantity, f"at {given}"),
        ("lower", lower),
        ("upper", upper),
        *((name.replace("_", "-"), f"{width:.1e}") for name, width in ledger.items()),
        ("reduction", bracket.reduction),
    ]
    margin = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{margin}}  {value}" for name, value in rows)
