"""Output streams: terminals that know ASCII alone, full disks, readers that are gone."""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

__all__ = ["discard", "spelled_out"]

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
