"""README's table of randomizers is the one that the code gives."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports import catalogue

README = Path(__file__).resolve().parents[2] / "README.md"
SECTION = re.compile(r"<!-- randomizers: begin -->\n(.*?)\n<!-- randomizers: end -->", re.DOTALL)


@pytest.fixture(scope="module")
def table():
    return catalogue.randomizer_table()


def test_readme_holds_the_table(table):
    sections = SECTION.findall(README.read_text(encoding="utf-8"))
    assert len(sections) == 1
    assert sections[0] == table, (
        "README.md is behind: python -m shuffle_accountant.reports.catalogue prints its table"
    )


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
        assert sampling != "no"


def test_the_module_prints_the_table(table, pytestconfig):
    command = [sys.executable, "-m", "shuffle_accountant.reports.catalogue"]
    done = subprocess.run(
        command, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (table + "\n", "")
