"""Printing of answers: JSON numbers, warnings on stderr, figures, and streams of all kinds.

Streams may be terminals that know ASCII alone, full disks, or have no reader any more.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from shuffle_accountant.bracket import Bracket, __version__, recorded_warnings
from shuffle_accountant.progress import progress_bar
from shuffle_accountant.reports.drawing import new_figure
from shuffle_accountant.sweeping import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PROGRAM = "shuffle-accountant"


def json_of(bracket: Bracket) -> dict[str, Any]:
    """The ends of a bracket with what they rest on."""
    return {
        "lower": bracket.lower,
        "upper": bracket.upper,
        "reduction": bracket.reduction,
        "conditions": bracket.conditions,
    }


def rows_of(bracket: Bracket) -> list[tuple[str, str]]:
    """Rows of a table: both ends and the theorem."""
    lower, upper = bracket.ends()
    return [("lower", lower), ("upper", upper), ("reduction", bracket.reduction)]


def print_json(answer: dict[str, Any]) -> None:
    """Print one object on one line, with the version that computed it; infinity is "inf"."""
    print(json.dumps(plain(answer) | {"version": __version__}, allow_nan=False))


def print_answer(as_json: bool, answer: dict[str, Any], text: object) -> None:
    """Print the object, or the text."""
    if as_json:
        print_json(answer)
    else:
        print(text)


@contextmanager
def computing(label: str | None = None) -> Iterator[list[str]]:
    """Warnings about brackets of the block, one line each, printed to stderr at its end.

    The list is complete after the block, which may add to it. With a label there is a progress bar.
    """
    with recorded_warnings() as lines, progress_bar(label) if label else nullcontext():
        yield lines
    for line in lines:
        print(f"{PROGRAM}: warning: {line}", file=sys.stderr)


@contextmanager
def saved_figure(output: Path) -> Iterator[Axes]:
    """Axes to draw on; at the end of the block their figure is written to the file."""
    figure = new_figure()
    yield figure.add_subplot()
    with writing(output):
        figure.savefig(output, dpi=150)


@contextmanager
def writing(output: Path) -> Iterator[None]:
    """A file that cannot be written in the block is one line, as any other error."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"output must be a file that can be written, got {str(output)!r}: {error.strerror}"
        ) from None


# Spelling in ASCII of characters without letters in their name, or with a name that is too long.
_SPELLED = {"≤": "<=", "≥": ">=", "×": "x", "·": "*", "—": "-", "–": "-", "−": "-", "→": "->"}
_SPELLED |= {"’": "'", "“": '"', "”": '"', "∞": "inf", "±": "+-"}


class _Spelled:
    """A stream that spells out what its encoding has no letters for."""

    def __init__(self, stream: TextIO, claimed: str) -> None:
        self._stream = stream
        # Typer would go round a stream of ASCII, and write UTF-8 into it
        self.encoding, self.errors = claimed, "strict"

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # Typer finds out in this way what a stream takes
            raise TypeError(f"text must be a str, got {type(text).__name__}")
        return self._stream.write("".join(_spelled(one, self._stream.encoding) for one in text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _known(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _spelled(letter: str, encoding: str) -> str:
    """A letter as the encoding can show it: ε as epsilon, é as e."""
    if letter.isascii() or _known(letter, encoding):
        return letter
    words = unicodedata.name(letter, "").split()
    if words[:1] == ["GREEK"] and "LETTER" in words:
        name = words[words.index("LETTER") + 1].lower()
        return name.capitalize() if "CAPITAL" in words else name
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _SPELLED.get(letter) or plain or "?"


@contextmanager
def spelled_out() -> Iterator[None]:
    """Spell out, on streams that cannot show them, the letters that mathematics needs."""
    before = sys.stdout, sys.stderr
    try:
        if _poor(sys.stdout):
            sys.stdout = _Spelled(sys.stdout, "utf-8")
        if _poor(sys.stderr):
            sys.stderr = _Spelled(sys.stderr, sys.stderr.encoding)
        yield
    finally:
        sys.stdout, sys.stderr = before


def _poor(stream: TextIO | None) -> bool:
    encoding = getattr(stream, "encoding", None)
    return encoding is not None and not _known("ε", encoding)


def discard(stream: TextIO | None) -> None:
    """Drop what a stream still holds, so that Python does not complain at its end."""
    # streams of tests are no files
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]
        os.close(nowhere)
