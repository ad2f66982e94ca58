"""README's first screen: short, a number at once, and the two lines for a fresh machine.

Its code blocks are executed like those of any other page, by test_pages.py; the continuous
integration script runs the two lines as they are.
"""

from __future__ import annotations

import shlex

import pages

TEXT = pages.README.read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert TEXT.count("\n") <= 200


def test_the_first_number_comes_before_line_40() -> None:
    line = TEXT[: TEXT.index("0.8538")].count("\n") + 1
    assert line < 40


def test_a_fresh_machine_needs_one_line() -> None:
    use, check = (text for _, text in pages.blocks(pages.README, "sh"))
    for command in (use, check):
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ")
    *_, run = use.strip().split(" && ")
    assert shlex.split(run)[0] == "shuffle-accountant"
    assert "0.8538" in pages.run_console(run)
    assert check.rstrip().endswith("&& python -m pytest")


def test_demonstrations_need_one_line_too() -> None:
    commands = [text for page in pages.PAGES for _, text in pages.blocks(page, "sh")]
    demonstrations = [text for text in commands if "-m benchmarks.training" in text]
    assert len(demonstrations) == 3
    for command in demonstrations:
        assert command.count("\n") == 1
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install ")
