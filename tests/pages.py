"""The pages that users read, README and the site's: which blocks they hold, and how to run them.

A ```python block holds `>>>` examples with their output; all blocks of a page share one namespace,
from top to bottom. A ```console block holds `$ shuffle-accountant ...` lines with their output. In
both, an ellipsis in an expected output matches anything, and a number may be rounded. A ```py block
needs Opacus and is run where that is, by tests/training/test_allocation_opacus.py.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import math
import re
import shlex
from pathlib import Path
from typing import Any

from shuffle_accountant.cli import main

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = (README, *sorted(DOCS.rglob("*.md")))
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What a bracket may be wide by default: another way to an answer may move its ends by as much.
TOLERANCE = 1e-3

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)(?!\w|\.\d|\.\.\.)")
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    """A page, as one says it."""
    return page.relative_to(ROOT).as_posix()


def languages(page: Path) -> set[str]:
    """Languages of a page's fenced blocks."""
    return {match[1] for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))}


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """Pairs of (line number of the first line, text) of a page's fenced blocks of a language."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(2)) + 1, match[2])
        for match in _BLOCK.finditer(text)
        if match[1] == language
    ]


def console_examples(page: Path) -> list[tuple[int, str, str]]:
    """The command lines of a page: line of their block, command, what it prints."""
    found = []
    for line, text in blocks(page, "console"):
        for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, expected = example.partition("\n")
            found.append((line, command, expected))
    return found


class Rounded(doctest.OutputChecker):
    """Takes an output for the expected one if their numbers with a point agree to `TOLERANCE`."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """As doctest does, with white space and ellipses as in `OPTIONS`, or up to rounding."""
        if super().check_output(want, got, optionflags):
            return True
        found = set(_NUMBER.findall(got))
        pieces = re.split(rf"({_NUMBER.pattern}|\.\.\.)", " ".join(want.split()))
        pattern = "".join(_pattern(piece, found) for piece in pieces)
        return re.fullmatch(pattern, " ".join(got.split()), re.DOTALL) is not None


def _pattern(piece: str, found: set[str]) -> str:
    """What may stand in an output for a piece of the expected one."""
    if piece == "...":
        return ".*?"
    if not _NUMBER.fullmatch(piece):
        return re.escape(piece)
    close = [one for one in found if math.isclose(float(one), float(piece), rel_tol=TOLERANCE)]
    return "(?:" + "|".join(map(re.escape, [piece, *close])) + ")"


def run_python(page: Path, language: str = "python") -> tuple[int, str]:
    """Run a page's examples in one namespace: how many, and a report, empty if all are right."""
    examples = []
    for line, text in blocks(page, language):
        found = doctest.DocTestParser().get_examples(text)
        assert found, f"{name_of(page)}:{line}: a {language} block without >>>"
        for example in found:
            example.lineno += line - 1
        examples += found
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    test = doctest.DocTest(examples, namespace, name_of(page), str(page), 0, text)
    report = io.StringIO()
    outcome = doctest.DocTestRunner(Rounded(), optionflags=OPTIONS).run(test, out=report.write)
    return outcome.attempted, report.getvalue() if outcome.failed else ""


def run_console(command: str) -> str:
    """What a command line prints, errors after the rest."""
    program, *arguments = shlex.split(command)
    assert program == "shuffle-accountant"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(arguments)
    return out.getvalue() + err.getvalue()


def matches(expected: str, shown: str) -> bool:
    """Whether an output is the expected one, with ellipses and any white space."""
    return Rounded().check_output(expected, shown, OPTIONS)
