"""The table of mutants fits the package, and some of them are noticed: all take minutes."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOMS = ("numerics", "lattice", "losses", "reductions", "engine", "certificates")


@pytest.fixture
def every(benchmark_script: Any) -> tuple[Any, ...]:
    """All mutants."""
    return tuple(benchmark_script("mutants.table").MUTANTS)


def test_every_mutant_applies_and_has_tests(every: Any, pytestconfig: pytest.Config) -> None:
    root = pytestconfig.rootpath
    for mutant in every:
        mutant.applied((root / "shuffle_accountant" / mutant.file).read_text(encoding="utf-8"))
        for test in mutant.tests.split():
            file, _, name = test.partition("::")
            assert f"def {name}(" in (root / file).read_text(encoding="utf-8") or not name, test
    assert len(every) >= 150
    assert {mutant.file.split("/")[0] for mutant in every} == set(ROOMS)
    assert max(Counter(mutant.name for mutant in every).values()) == 1
    for mutant in every:  # a proof is a sentence
        assert not mutant.equivalent or len(mutant.equivalent.split()) > 5


def test_a_piece_must_occur_exactly_once(benchmark_script: Any) -> None:
    made = benchmark_script("mutants.mutant").Mutant
    assert made("a.py", "b", "c", "t").applied("abd") == "acd"
    for source, new in (("bb", "c"), ("a", "c"), ("b", "b")):
        with pytest.raises(ValueError, match="must occur once and change"):
            made("a.py", "b", new, "t").applied(source)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="tests of mutants run in forks")
def test_some_are_killed_and_the_package_itself_is_not(
    every: Any, benchmark_script: Any, tmp_path: Path
) -> None:
    trial: ModuleType = benchmark_script("mutants.trial")
    quick = "tests/engine/test_stressed_classes.py"
    some = [mutant for mutant in every if mutant.tests == quick][:2]
    copy = trial.Copy(tmp_path, compiled=False)
    try:
        assert [copy.trial(mutant)[0] for mutant in some] == [trial.KILLED] * 2
        # every trial puts the file back
        assert copy.run(quick.split())[0] == trial.SURVIVED
        assert copy.run(["tests/no_such_test.py"])[0] == trial.BROKEN
    finally:
        copy.stop()


def test_the_command_line(
    benchmark_script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts that are known need no trial; survivors are named."""
    command = benchmark_script("mutants.__main__")
    assert command.main(["--list", "--only", "engine/classes.py"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert all(line.startswith("engine/classes.py: ") for line in listed)
    chosen = [mutant for mutant in command.MUTANTS if mutant.file == "engine/classes.py"]
    assert len(listed) == len(chosen)
    kept = tmp_path / "kept.json"
    verdicts = {m.key(): "survived" if m.equivalent else "killed" for m in chosen}
    proved = sum(bool(m.equivalent) for m in chosen)
    arguments = ["--only", "engine/classes.py", "--kept", str(kept)]
    kept.write_text(re.sub("'", '"', str(verdicts)), encoding="utf-8")
    assert command.main(arguments) == 0
    assert f"{len(chosen) - proved} killed, {proved} equivalent" in capsys.readouterr().out
    verdicts[chosen[0].key()] = "survived"
    kept.write_text(re.sub("'", '"', str(verdicts)), encoding="utf-8")
    assert command.main(arguments) == 1
    assert chosen[0].name in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["--only", "no such mutant"])
