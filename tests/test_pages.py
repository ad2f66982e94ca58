"""Every page of the site and the README are executed; `pages` says which blocks, and how."""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest

WITH_PYTHON = [page for page in pages.PAGES if "python" in pages.languages(page)]
CONSOLE_EXAMPLES = [
    pytest.param(command, expected, id=f"{pages.name_of(page)}-{line}-{command[19:50]}")
    for page in pages.PAGES
    for line, command, expected in pages.console_examples(page)
]
KINDS = {"python", "py", "console", "sh", "mermaid", "text"}
LINK = re.compile(r"(?<!`)\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
IN_A_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def test_there_are_pages_and_examples() -> None:
    names = {pages.name_of(page) for page in WITH_PYTHON}
    assert {"README.md", "docs/index.md", "docs/guides/dp-sgd.md"} <= names
    assert len(WITH_PYTHON) >= 15
    assert len(CONSOLE_EXAMPLES) >= 8


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    assert pages.languages(page) <= KINDS


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_PYTHON, ids=pages.name_of)
def test_python_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attempted, report = pages.run_python(page)
    assert attempted >= 2
    assert report == ""


@pytest.mark.slow
@pytest.mark.parametrize(("command", "expected"), CONSOLE_EXAMPLES)
def test_console_blocks(command: str, expected: str) -> None:
    shown = pages.run_console(command)
    assert pages.matches(expected, shown), shown


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_links_lead_somewhere(page: Path) -> None:
    prose = IN_A_FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(prose):
        if not target.startswith(("https://", "mailto:")):
            # the site has the notebooks beside its pages
            place = (page.parent / target).resolve()
            if "notebooks" in place.parts and pages.DOCS in place.parents:
                place = pages.ROOT / place.relative_to(pages.DOCS)
            assert place.exists(), f"{pages.name_of(page)}: {target}"


def test_every_page_begins_with_its_title() -> None:
    for page in pages.PAGES:
        first = page.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(("# ", "<!-- include: ")), pages.name_of(page)
