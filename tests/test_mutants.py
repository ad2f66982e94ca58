"""Mutants are made from the source as they should be, and some of them are killed."""

from __future__ import annotations

import ast
import importlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOMS = {
    *("baselines", "certificates", "engine", "lattice"),
    *("losses", "numerics", "reductions", "sums", "training"),
}

SOURCE = '''"""A loss; ε."""
from shuffle_accountant.numerics.rounding import outwards, roundings, share

def bound(value, part, side, tail, *, upper):
    number = low if side is Bound.PESSIMISTIC else high
    if upper and value > 0.0:
        value += tail
    missing = blocks.missing + 0.5 * tail
    return Atoms(outwards(number, roundings(8), upper=upper), missing=0.0, lost=missing)

def largest(loss):
    log_error = math.log(2.0)
    a = disturbed(a, roundings(2))
    return max(cost(one) for one in {loss, loss.reversed}) + share(a, b, error, upper=True)
'''

MADE = [
    ("bound", "other side", "side is Bound.PESSIMISTIC", "side is Bound.OPTIMISTIC"),
    ("bound", "other side", "upper and value > 0.0", "(not upper) and value > 0.0"),
    ("bound", "left out", "tail", "value += (0.0 * (tail))"),
    ("bound", "left out", "blocks.missing", "(0.0 * (blocks.missing)) + 0.5 * tail"),
    ("bound", "left out", "0.5 * tail", "blocks.missing + (0.0 * (0.5 * tail))"),
    ("bound", "not rounded", "outwards(number, roundings(8), upper=upper)", "Atoms([number][0],"),
    ("bound", "left out", "roundings(8)", "outwards(number, (0.0 * (roundings(8))), upper=upper)"),
    ("bound", "other side", "upper=upper", "roundings(8), upper=not upper)"),
    ("bound", "left out", "missing", "lost=(0.0 * (missing)))"),
    ("largest", "not rounded", "share(a, b, error, upper=True)", "+ ((a) * (b))"),
    ("largest", "one order", "{loss}", "for one in {loss})"),
    ("largest", "one order", "{loss.reversed}", "for one in {loss.reversed})"),
]


@pytest.fixture(scope="module")
def every() -> list[Any]:
    """All mutants of the package."""
    return list(importlib.import_module("benchmarks.mutants.generate").generated())


def test_the_mutants_of_a_small_source(benchmark_script: Any) -> None:
    made = benchmark_script("mutants.generate").mutants_of("losses/small.py", SOURCE)
    found = [(m.function, m.kind, m.piece) for m in made]
    assert sorted(found) == sorted(case[:3] for case in MADE)
    for function, kind, piece, text in MADE:
        mutant = made[found.index((function, kind, piece))]
        changed = mutant.applied(SOURCE)
        assert text in changed
        ast.parse(changed)
        line = SOURCE.splitlines()[mutant.line - 1]
        assert piece in line or kind == "one order"
        assert mutant.id == f"losses/small.py {function}: {kind}: {piece}"


def test_what_reads_files_is_asked_whether_it_checks_them(benchmark_script: Any) -> None:
    source = (
        "def check(state):\n"
        "    if state['name'] != name:\n"
        "        raise ValueError(name)\n"
        "def receipt(name, count):\n"
        "    return Receipt(digest_of([name, count]))\n"
    )
    generate = benchmark_script("mutants.generate")
    kinds = [m.kind for m in generate.mutants_of("training/small.py", source)]
    assert kinds == ["not checked", "not signed", "not signed"]
    assert [m.kind for m in generate.mutants_of("losses/small.py", source)] == kinds[1:]


def test_alike_mutants_have_ids_of_their_own(benchmark_script: Any) -> None:
    source = "def f(x, error):\n    return x + error, x - error\n"
    made = benchmark_script("mutants.generate").mutants_of("losses/small.py", source)
    ids = [m.id for m in made]
    assert ids == ["losses/small.py f: left out: error", "losses/small.py f: left out: error #2"]


def test_every_mutant_changes_its_file_and_has_tests(
    every: Any, benchmark_script: Any, pytestconfig: pytest.Config
) -> None:
    root, rooms = pytestconfig.rootpath, benchmark_script("mutants.rooms")
    assert {mutant.file.split("/")[0] for mutant in every} == ROOMS
    assert len({mutant.id for mutant in every}) == len(every)
    sources = {
        file: (root / "shuffle_accountant" / file).read_text(encoding="utf-8")
        for file in {mutant.file for mutant in every}
    }
    for file, source in sources.items():
        ast.parse(source)
        tests = [name for stage in rooms.stages(file) for name in stage if name.endswith(".py")]
        assert tests, file
        assert all((root / name).exists() for name in tests)
    for mutant in every[::100]:
        assert ast.dump(ast.parse(mutant.applied(sources[mutant.file]))) != ast.dump(
            ast.parse(sources[mutant.file])
        ), mutant.id


def test_the_nearest_tests_come_first(benchmark_script: Any) -> None:
    """Those that import the file; `sa.ShuffleRound` is the module that it is from."""
    stages = benchmark_script("mutants.rooms").stages
    assert "tests/losses/test_stressed_zero_out.py" in stages("losses/two_letters/zero_out.py")[0]
    assert "tests/engine/test_trade_off.py" in stages("engine/trade_off.py")[0]
    assert "tests/training/test_store.py" in stages("training/store.py")[0]
    assert any("test_shuffled_batches" in name for name in stages("losses/steps/antipodal.py")[0])
    assert stages("engine/trade_off.py")[-1][:2] == ("-m", "slow")


def test_every_proof_is_about_a_mutant_that_is_there(every: Any, benchmark_script: Any) -> None:
    equivalent = benchmark_script("mutants.equivalent")
    gone = equivalent.EQUIVALENT.keys() - {mutant.id for mutant in every}
    assert not gone, "\n".join(sorted(gone))
    named = [mutant for _, mutants in equivalent.PROOFS for mutant in mutants]
    assert len(named) == len(set(named))
    for proof, _ in equivalent.PROOFS:  # a proof is a sentence
        assert len(proof.split()) > 5


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="tests of mutants run in forks")
def test_some_are_killed_and_the_package_itself_is_not(
    every: Any, benchmark_script: Any, tmp_path: Path
) -> None:
    trial: ModuleType = benchmark_script("mutants.trial")
    quick = (("tests/numerics/test_rounding.py", "-k", "sum"),)
    sums = "sequential_sum", "pairwise_sum"
    some = [m for m in every if m.file == "numerics/rounding.py" and m.function in sums]
    copy = trial.Copy(tmp_path, compiled=False)
    try:
        usual = [copy.timed(quick[0])]
        assert [copy.trial(mutant, quick, usual)[0] for mutant in some] == [trial.KILLED] * 2
        # every trial puts the file back
        assert copy.run(quick[0], 600.0)[0] == trial.SURVIVED
        assert copy.run(["tests/no_such_test.py"], 600.0)[0] == trial.BROKEN
        with pytest.raises(RuntimeError, match="without any mutant"):
            copy.timed(["tests/no_such_test.py"])
        # no run of tests is that short, and the next one is not disturbed
        assert copy.run(quick[0], 0.0)[0] == trial.HUNG
        assert copy.run(quick[0], 600.0)[0] == trial.SURVIVED
    finally:
        copy.stop()


def test_the_command_line(
    benchmark_script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts that are known need no trial; survivors are named."""
    command = benchmark_script("mutants.__main__")
    file = "engine/question.py"
    assert command.main([file, "--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed
    assert all(line.startswith(f"{file} ") for line in listed)
    assert command.main(["engine", "--list", "--count", "5", "--seed", "3"]) == 0
    drawn = capsys.readouterr().out
    assert len(drawn.splitlines()) == 5
    assert command.main(["engine", "--list", "--count", "5", "--seed", "3"]) == 0
    assert capsys.readouterr().out == drawn
    chosen = [m for m in command.generated() if m.file == file and m.id not in command.EQUIVALENT]
    kept = tmp_path / "kept.json"
    arguments = [file, "--kept", str(kept)]
    verdicts = {command.key(mutant): "killed" for mutant in chosen}
    kept.write_text(json.dumps(verdicts), encoding="utf-8")
    assert command.main(arguments) == 0
    assert f"{len(chosen)} killed" in capsys.readouterr().out
    for other in ("survived", "hung"):
        verdicts[command.key(chosen[0])] = other
        kept.write_text(json.dumps(verdicts), encoding="utf-8")
        assert command.main(arguments) == 1
        assert f"{other}: {chosen[0].id}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["no/such/file"])
