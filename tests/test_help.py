"""`help`: short for the package, and its examples are executed."""

from __future__ import annotations

import doctest
import inspect
import io
import pydoc
import re

import pages
import pytest

import shuffle_accountant as sa

WITH_EXAMPLES = [
    name for name in ("", *sa.__all__) if ">>>" in (inspect.getdoc(getattr(sa, name, sa)) or "")
]


def help_of(thing: object) -> str:
    return pydoc.plain(pydoc.render_doc(thing))


def test_help_of_the_package_names_everything_in_less_than_300_lines() -> None:
    shown = help_of(sa)
    assert shown.count("\n") < 300
    listed = shown[shown.index("Questions") : shown.index("PACKAGE CONTENTS")]
    assert set(sa.__all__) <= set(re.findall(r"\w+", listed))
    named = re.findall(r"^ {8}(\w.*?)(?:  |,?$| [a-z])", listed, re.MULTILINE)
    assert {one for line in named for one in line.split(", ")} == set(sa.__all__)


def test_a_star_and_dir_bring_everything() -> None:
    names: dict[str, object] = {}
    exec("from shuffle_accountant import *", names)
    del names["__builtins__"]
    assert set(names) == set(sa.__all__) == set(dir(sa))


def test_help_of_a_class_has_its_methods() -> None:
    assert "epsilon(self, *, delta" in help_of(sa.ShuffleRound)


def test_questions_have_an_example() -> None:
    assert {"", "epsilon", "delta"} <= set(WITH_EXAMPLES)
    assert ">>> sa.epsilon(survey, delta=1e-6, rounds=4)" in help_of(sa.epsilon)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_show_what_is_printed(name: str) -> None:
    text = inspect.getdoc(getattr(sa, name, sa)) or ""
    test = doctest.DocTestParser().get_doctest(text, {"sa": sa}, name or "package", None, None)
    report = io.StringIO()
    runner = doctest.DocTestRunner(pages.Rounded(), optionflags=pages.OPTIONS)
    assert runner.run(test, out=report.write).failed == 0, report.getvalue()
