"""Phrases that may not come back into comments, docstrings and messages."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import shuffle_accountant
from benchmarks import reading

ROOT = Path(shuffle_accountant.__file__).parent
PAGES = Path(__file__).parents[1]
PHRASES = re.compile(r"\b(so many|so much|so few|so long|next to nothing|told)\b", re.IGNORECASE)
TEXTS = ("COMMENT", "STRING", "FSTRING_MIDDLE")
# By file: sentences in which the words have their everyday meaning.
ALLOWED: dict[str, int] = {}


def found(source: str) -> list[str]:
    """Phrases in comments and strings of a file, also across the ends of lines."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts = [one.string for one in tokens if tokenize.tok_name[one.type] in TEXTS]
    text = re.sub(r"\s*\n?\s*#\s*|\s*\n\s*", " ", "\n".join(texts))
    text = re.sub(r"{[^{}]*}", "", text)  # names in messages
    return [match.group(0).lower() for match in PHRASES.finditer(text)]


def test_no_phrase_comes_back() -> None:
    """See docs/contribute/words.md for what is written instead."""
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in ROOT.rglob("*.py")}
    counts = {path: len(found(text)) for path, text in sorted(texts.items())}
    assert {path: count for path, count in counts.items() if count} == ALLOWED


def test_phrases_are_found_across_lines_but_not_in_names() -> None:
    """In a comment that is broken in the middle of one, too."""
    source = '# the tail is next to\n# nothing, so\n    # many cells\ntold = "so\\\n much"\n'
    assert found(source) == ["next to nothing", "so many"]


def test_examples_do_not_hide_what_python_calls_round() -> None:
    """A round is called survey, month or epoch in pages, notebooks and docstrings."""
    assigned = re.compile(r"(>>> |\.\.\. +|^|\")round = ", re.MULTILINE)
    every = (
        path
        for kind in ("README.md", "docs/**/*.md", "notebooks/*.ipynb")
        for path in PAGES.glob(kind)
    )
    assert [str(path) for path in every if assigned.search(path.read_text())] == []
    shown = re.compile(r">>> round = ")
    assert [str(path) for path in ROOT.rglob("*.py") if shown.search(path.read_text())] == []


def test_thirty_docstrings_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """The same ones for the same seed."""
    drawn = []
    for seed in (3, 3, 4):
        assert reading.main(["--seed", str(seed)]) == 0
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]
    names = [line for line in drawn[0].splitlines() if re.fullmatch(r"[\w/]+\.py:\w+", line)]
    assert len(names) == 30
