"""The pages' tables of randomizers and of published bounds are those that the code gives."""

import re
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports import catalogue

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "randomizers": ROOT / "docs/guides/choosing-a-mechanism.md",
    "bounds": ROOT / "docs/guides/auditing-a-claim.md",
}
SECTION = r"<!-- {0}: begin -->\n(.*?)\n<!-- {0}: end -->"


@pytest.fixture(scope="module")
def table():
    return catalogue.randomizer_table()


@pytest.fixture(scope="module")
def bounds():
    return catalogue.bounds_table()


@pytest.mark.slow
@pytest.mark.parametrize("section", ["randomizers", "bounds"])
def test_the_pages_hold_the_tables(section, table, bounds):
    text = PAGES[section].read_text(encoding="utf-8")
    sections = re.findall(SECTION.format(section), text, re.DOTALL)
    assert len(sections) == 1
    assert sections[0] == {"randomizers": table, "bounds": bounds}[section], (
        "a table is behind: python -m shuffle_accountant.reports.catalogue prints its tables"
    )


def test_every_published_bound_is_in_the_table(bounds):
    _, _, *lines = bounds.splitlines()
    named = [line.split("`")[1] for line in lines]
    assert set(named) == set(sa.baselines.__all__) - {"BOUNDS", "alpha_grid"}  # a construction
    unsound = [line.split("`")[1] for line in lines if "| no |" in line]
    assert unsound == ["specialised_clones"]


@pytest.mark.slow
def test_every_public_randomizer_is_in_the_table(table):
    public = {
        name
        for name in sa.__all__
        if isinstance(thing := getattr(sa, name), type) and issubclass(thing, LocalRandomizer)
    }
    assert public <= set(catalogue.makers())
    for name in public | {"BinaryRandomizedResponse"}:
        assert f"| `{name}(" in table


def test_every_randomizer_can_be_accounted_for(table):
    _, _, *lines = table.splitlines()
    assert len(lines) == len(catalogue.makers())
    for line in lines:
        _, reductions, answer, sampling, _ = line.strip("| ").split(" | ")
        assert reductions
        assert answer.endswith(")")
        # no theorem amplifies null clones or null laws by sampling
        assert (sampling == "no") == ("null " in reductions)


def test_the_module_prints_the_tables(monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "randomizer_table", lambda: "| one |")
    monkeypatch.setattr(catalogue, "bounds_table", lambda: "| other |")
    catalogue.main()
    assert capsys.readouterr() == ("| one |\n\n| other |\n", "")
