"""The reference: a short page for each concept, every public name on one page, examples."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import Counter
from types import ModuleType

import pages
import pytest

import shuffle_accountant as sa
from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.order import experiments

NAMED = re.compile(r"^::: shuffle_accountant\.([\w.]+)$", re.MULTILINE)
REFERENCE = [
    page
    for page in sorted((pages.DOCS / "reference").glob("*.md"))
    if NAMED.search(page.read_text())
]
MODULES = (
    *(sa, sa.certificates, sa.deployment, sa.design, sa.order, sa.training),
    *(experiments, mutual_information, qif, reidentification),
)
# Constants, and modules for the papers' figures.
LEFT_OUT = {"examples", "published", "METHODS"}
OPTIONAL = {"training.opacus": "opacus", "training.flower": "flwr"}
# Entries of a page.
MOST = 13


def names_of(page: pages.Path) -> list[str]:
    return NAMED.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_a_page_is_short_and_has_an_example(page: pages.Path) -> None:
    assert len(names_of(page)) <= MOST
    title, sentence = page.read_text(encoding="utf-8").split("\n\n")[:2]
    assert title.startswith("# ")
    assert "\n" not in sentence
    assert len(pages.blocks(page, "python")) >= 1


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_what_is_named_is_public_and_there(page: pages.Path) -> None:
    for name in names_of(page):
        home, _, last = f"shuffle_accountant.{name}".rpartition(".")
        assert not last.startswith("_")
        library = OPTIONAL.get(home.partition(".")[2])
        if library is None or importlib.util.find_spec(library):
            found = hasattr(importlib.import_module(home), last)
            assert found or importlib.import_module(f"{home}.{last}")


def test_every_public_name_is_on_one_page() -> None:
    found = Counter(name for page in REFERENCE for name in names_of(page))
    assert [name for name, times in found.items() if times > 1] == []
    last = Counter(name.rpartition(".")[2] for name in found)
    public = {
        name
        for module in MODULES
        for name in module.__all__
        if not isinstance(getattr(module, name), ModuleType)
    }
    assert public - LEFT_OUT <= set(last)


def test_members_are_public_and_a_class_s_own() -> None:
    options = (pages.DOCS / "mkdocs.yml").read_text(encoding="utf-8")
    assert "inherited_members: false" in options
    assert 'filters: ["!^_"]' in options
