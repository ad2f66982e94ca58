"""The command line `shuffle-accountant`: one module per group of commands.

A command turns its flags into library calls and prints the answer; every check of a value is the
library's. Errors are one line on stderr and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from shuffle_accountant.bracket import __version__
from shuffle_accountant.cli import (
    brackets,
    calibrate,
    certificates,
    compare,
    design,
    dpsgd,
    plot,
    report,
)
from shuffle_accountant.cli.ledger import LEDGER
from shuffle_accountant.cli.output import PROGRAM

__all__ = ["main"]

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

# In the order of the help page.
COMMANDS = (
    brackets.epsilon,
    brackets.delta,
    calibrate.calibrate,
    design.design,
    compare.compare,
    dpsgd.dpsgd,
    report.report,
    plot.plot,
    certificates.certify,
    certificates.verify,
    certificates.check,
)

# What the parser raises for bad usage: the public BadParameter is one kind of it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Certified privacy accounting for the shuffle model of differential privacy."""


for _command in COMMANDS:
    app.command()(_command)
app.add_typer(LEDGER, name="ledger")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 after an error in the usage or in a value, told in one line on
        stderr, or 130 after an interruption; `verify` and `check` return 1 for what is not proven.
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
