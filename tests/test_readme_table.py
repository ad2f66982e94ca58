"""README's table of randomizers is the one that the code gives."""

import re
from pathlib import Path

import pytest

import shuffle_accountant as sa
from shuffle_accountant import catalogue
from shuffle_accountant.randomizers.base import LocalRandomizer

README = Path(__file__).resolve().parent.parent / "README.md"
SECTION = re.compile(r"<!-- randomizers: begin -->\n(.*?)\n<!-- randomizers: end -->", re.DOTALL)


def test_readme_holds_the_table():
    sections = SECTION.findall(README.read_text(encoding="utf-8"))
    assert len(sections) == 1
    assert sections[0] == catalogue.randomizer_table(), (
        "README.md is behind: python -m shuffle_accountant.catalogue prints its table"
    )


def test_every_public_randomizer_is_in_the_table():
    public = {
        name
        for name in sa.__all__
        if isinstance(thing := getattr(sa, name), type) and issubclass(thing, LocalRandomizer)
    }
    assert public == {type(example).__name__ for example in catalogue.examples()}
    table = catalogue.randomizer_table()
    for name in public:
        assert table.count(f"| `{name}(") == 1


def test_every_randomizer_can_be_accounted_for():
    for line in catalogue.randomizer_table().splitlines()[2:]:
        _, reductions, auto, *_ = line.strip("| ").split(" | ")
        assert reductions
        assert auto


def test_the_module_prints_the_table(capsys):
    import runpy

    with pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module("shuffle_accountant.catalogue", run_name="__main__")
    assert capsys.readouterr().out == catalogue.randomizer_table() + "\n"
