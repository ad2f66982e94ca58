"""Parsing beyond Typer's: counts such as 1e6, repeated flags, examples in the help."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

from shuffle_accountant.cli.output import PROGRAM
from shuffle_accountant.training.database import StorageError

# What the parser raises for bad usage: the public BadParameter is one kind of it.
UsageError: type[Any] = typer.BadParameter.__bases__[0]

F = TypeVar("F", bound=Callable[..., Any])

# Largest power of ten of an integer: larger ones would take long to write out.
_MOST_DIGITS = 400
_EXAMPLES = "_examples"
# Columns of an example's line.
_WIDTH = 75
# Arguments of the library in its messages: "users and delta must be …", "… with target_epsilon".
_SUBJECT = re.compile(r"[\w, ]*?(?= must | is no parameter)")
_NAME = re.compile(r"(?<![\w-])\w+")
_TWO_WORDS = re.compile(r"(?<![\w-])[a-z0-9]+(?:_[a-z0-9]+)+")


class _Command(TyperCommand):
    """A command that refuses a flag given twice, and names its flags in every error.

    Without any arguments it prints its help, if it needs some.
    """

    bare: ClassVar[bool] = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not self.bare and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit()
        if not ctx.resilient_parsing:  # which is completing
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
            for flag, times in Counter(order).items():
                if times > 1 and flag.param_type_name == "option" and not flag.multiple:
                    name = max(flag.opts, key=len)
                    raise UsageError(f"{name} was given {times} times", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (ValueError, TypeError, ImportError, StorageError) as error:
            raise ValueError(in_flags(str(error), self.params)) from error


class _BareCommand(_Command):
    """A command that needs no arguments."""

    bare = True


def in_flags(message: str, parameters: Iterable[Any]) -> str:
    """A message of the library with flags for the names of arguments: ``--min-users`` must be 1.

    What is replaced: the names that the message begins with, and everywhere those of two words.
    """
    every = (flag for parameter in parameters for flag in parameter.opts if flag.startswith("--"))
    flags: dict[str, str] = {flag[2:].replace("-", "_"): flag for flag in every}

    def in_flag(name: re.Match[str]) -> str:
        return flags.get(name.group(), name.group())

    subject = _SUBJECT.match(message)
    end = subject.end() if subject else 0
    return _NAME.sub(in_flag, message[:end]) + _TWO_WORDS.sub(in_flag, message[end:])


def count(typed: str) -> int:
    """An integer as typed, also as 1e6 or 1000.0."""
    with suppress(InvalidOperation):
        value = Decimal(typed)
        if value.is_finite() and value.adjusted() <= _MOST_DIGITS and value == int(value):
            return int(value)
    raise typer.BadParameter(f"{typed!r:.60} is not an integer")


def number(typed: str) -> float:
    """A number as typed."""
    try:
        return float(typed)
    except ValueError:
        raise typer.BadParameter(f"{typed!r:.60} is not a number") from None


def flag(help: str, *names: str, **settings: Any) -> Any:
    """An option with its help, which is named after its parameter if it is given no names."""
    return typer.Option(*names, help=help, **settings)


def one_of(names: Any, help: str) -> Any:
    """An option that is one of some words, which its help lists and completion offers."""
    words = tuple(names)
    *others, last = words
    return typer.Option(
        help=f"{help} {', '.join(others)}, {last}.",
        autocompletion=lambda incomplete: [one for one in words if one.startswith(incomplete)],
    )


def examples(*lines: str) -> Callable[[F], F]:
    """Command lines, without the program's name, that stand below a command's help."""

    def decorate(command: F) -> F:
        setattr(command, _EXAMPLES, lines)
        return command

    return decorate


def add(app: typer.Typer, command: Callable[..., None], program: str = PROGRAM) -> None:
    """Make a function, with `examples`, a command; its command lines begin with the program."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    # kept evaluated: options that are written in the signature would be made anew
    command.__annotations__ |= {one.name: one.annotation for one in parameters}
    for parameter in parameters:
        _parse_numbers(parameter.annotation)
    lines = getattr(command, _EXAMPLES, ())
    kind = _BareCommand if command.__name__ in lines else _Command
    app.command(cls=kind, epilog=epilog(program, *lines) if lines else None)(command)


def epilog(program: str, *lines: str) -> str:
    """Examples as they stand below a help."""
    # the parser leaves lines alone that stand below a backspace
    folded = (part for line in lines for part in _folded(f"{program} {line}"))
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in folded)])


def group(
    name: str, help: str, example: str, commands: Iterable[Callable[..., None]]
) -> typer.Typer:
    """Commands that belong together, below a word of their own."""
    app = typer.Typer(
        help=help,
        callback=print_help_if_bare,
        invoke_without_command=True,
        epilog=epilog(f"{PROGRAM} {name}", example),
    )
    for command in commands:
        add(app, command, f"{PROGRAM} {name}")
    return app


def print_help_if_bare(context: typer.Context) -> None:
    """Print the help of a group of commands of which none was given."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _parse_numbers(annotation: Any) -> None:
    """Let a flag that is a number be parsed here, where errors show what was typed."""
    if get_origin(annotation) is not Annotated:
        return
    kind, option = get_args(annotation)
    kinds = {kind, *get_args(kind)}
    if isinstance(option, OptionInfo) and int in kinds:
        option.parser, option.metavar = count, "<int>"
    elif isinstance(option, OptionInfo) and float in kinds:
        option.parser, option.metavar = number, "<float>"


def _folded(line: str) -> list[str]:
    """A command line, if it is long folded before flags as in a shell."""
    if len(line) <= _WIDTH:
        return [line]
    first, *flags = line.split(" --")
    folded = [first]
    for flag in flags:
        if len(folded[-1]) + len(flag) + len(" -- \\") > _WIDTH:
            folded[-1] += " \\"
            folded.append("   ")
        folded[-1] += f" --{flag}"
    return folded
