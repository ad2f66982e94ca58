"""The command line `shuffle-accountant`: one module per group of commands.

A command turns its flags into library calls and prints the answer; every check of a value is the
library's. Errors are one line on stderr, with --json also an object on stdout, and exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from shuffle_accountant.bracket import __version__
from shuffle_accountant.cli import calibrate, certificates, design, plot, report
from shuffle_accountant.cli.design import DEPLOYMENT
from shuffle_accountant.cli.ledger import LEDGER
from shuffle_accountant.cli.output import PROGRAM, discard, print_json, spelled_out
from shuffle_accountant.cli.parsing import UsageError, add, epilog, flag, print_help_if_bare

__all__ = ["main"]

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

EXAMPLES = (
    "epsilon --eps0 4 --users 1e4 --rounds 4 --delta 1e-6",
    "calibrate --users 1e4 --rounds 4 --target-epsilon 1 --delta 1e-6",
    "epsilon -h",
)

# In the order of the help page.
COMMANDS = (
    report.epsilon,
    report.delta,
    calibrate.calibrate,
    design.design,
    report.compare,
    report.dpsgd,
    certificates.audit,
    report.report,
    plot.plot,
    plot.figures,
    plot.explore,
    report.statement,
    certificates.certify,
    certificates.verify,
    certificates.check,
)

app = typer.Typer(
    pretty_exceptions_enable=False,
    epilog=epilog(PROGRAM, *EXAMPLES),
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        flag("Print the version and exit.", "--version", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Certified privacy accounting for the shuffle model of differential privacy."""
    print_help_if_bare(context)


for _command in COMMANDS:
    add(app, _command)
app.add_typer(LEDGER, name="ledger")
app.add_typer(DEPLOYMENT, name="deployment")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0, or 2 after an error in the usage or in a value, printed as one line on
        stderr, or 130 after an interruption, or 141 if nobody reads the answer; `verify` and
        `check` return 1 for what is not proven.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    with spelled_out():
        try:
            code = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
        except BrokenPipeError:
            code = 141  # what a shell says of a program whose reader is gone
        except OSError as error:
            if error.filename is not None:  # no error of printing
                raise
            code = EXIT_ERROR
            _complain(f"cannot write the answer: {error.strerror}")
    discard(sys.stdout)
    return code


def _run(arguments: list[str]) -> int:
    """The exit code; what cannot be printed is raised."""
    as_json = "--json" in arguments
    try:
        code = typer.main.get_command(app).main(
            args=arguments, prog_name=PROGRAM, standalone_mode=False
        )
    except UsageError as error:
        return _fail(_usage(error), as_json)
    except (ValueError, TypeError) as error:
        return _fail(str(error), as_json)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", as_json, EXIT_INTERRUPTED)
    except SystemExit as stop:  # of completion, or Typer's for a reader that is gone
        if isinstance(stop.__context__, OSError):
            raise stop.__context__ from None
        code = stop.code
    if code == EXIT_INTERRUPTED:  # which newer Typers tell in this way
        return _fail("interrupted", as_json, EXIT_INTERRUPTED)
    return code if isinstance(code, int) else 0


def _usage(error: Any) -> str:
    """Message of a usage error, with the command that shows the help on it."""
    command = PROGRAM if error.ctx is None else error.ctx.command_path
    said = error.format_message().rstrip(".")
    if (missing := said.removeprefix("Missing option ")) != said:
        said = f"{missing.strip(chr(39))} must be given"
    return f"{said} (see {command} -h)"


def _fail(message: str, as_json: bool, code: int = EXIT_ERROR) -> int:
    message = " ".join(message.split())
    _complain(message)
    if as_json:
        print_json({"error": message})
    return code


def _complain(message: str) -> None:
    with suppress(OSError):
        print(f"{PROGRAM}: error: {message}", file=sys.stderr)
