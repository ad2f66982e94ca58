"""The README is executed: its Python blocks as doctests, its shell lines through the console entry.

A ```python block holds `>>>` examples with their output; all blocks share one namespace, from top
to bottom. A ```console block holds `$ shuffle-accountant ...` lines with their output. In both, an
ellipsis in an expected output matches anything. The two lines for a fresh machine stand in ```sh
blocks; the continuous integration script runs them as they are. A ```py block needs Opacus and is
run where that is, by tests/training/test_allocation_opacus.py.
"""

import contextlib
import doctest
import io
import re
import shlex
from pathlib import Path

import pytest

from shuffle_accountant.cli import main

README = Path(__file__).resolve().parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(language):
    """Pairs of (line number of the first line, text) of the fenced blocks of a language."""
    return [
        (TEXT.count("\n", 0, match.start(2)) + 1, match[2])
        for match in BLOCK.finditer(TEXT)
        if match[1] == language
    ]


CONSOLE_EXAMPLES = [
    pytest.param(*example.split("\n", 1), id=f"line-{line}-{example[:40]}")
    for line, text in blocks("console")
    for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
]


def test_every_block_is_of_a_kind_that_is_checked():
    languages = {match[1] for match in BLOCK.finditer(TEXT)}
    assert languages <= {"python", "py", "console", "sh"}


def test_python_blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = []
    for line, text in blocks("python"):
        found = doctest.DocTestParser().get_examples(text)
        assert found, f"README.md:{line}: a python block without >>>"
        for example in found:
            example.lineno += line - 1
        examples += found
    test = doctest.DocTest(examples, {}, "README.md", str(README), 0, TEXT)
    report = io.StringIO()
    outcome = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.write)
    assert outcome.attempted >= 10
    assert outcome.failed == 0, report.getvalue()


@pytest.mark.parametrize(("command", "expected"), CONSOLE_EXAMPLES)
def test_console_blocks(command, expected):
    program, *arguments = shlex.split(command)
    assert program == "shuffle-accountant"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(arguments)
    shown = out.getvalue() + err.getvalue()
    assert doctest.OutputChecker().check_output(expected, shown, OPTIONS), shown


def test_there_are_console_examples():
    assert len(CONSOLE_EXAMPLES) >= 2


def test_the_first_number_comes_before_line_40():
    line = TEXT[: TEXT.index("0.8538")].count("\n") + 1
    assert line < 40


def test_a_fresh_machine_needs_one_line():
    use, check, *demonstrations = (text for _, text in blocks("sh"))
    for command in (use, check, *demonstrations):
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ")
    *_, run = use.strip().split(" && ")
    program, *arguments = shlex.split(run)
    assert program == "shuffle-accountant"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(arguments) == 0
    assert "0.8538" in out.getvalue()
    assert check.rstrip().endswith("&& python -m pytest")
