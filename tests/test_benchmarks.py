"""The benchmark suite runs and writes what it promises; speed itself is not tested here."""

import csv
import importlib
import json
import sys

import pytest

FIELDS = {"script", "name", "text", "measured", "holds"}


@pytest.fixture
def suite(pytestconfig, monkeypatch):
    """The suite's command-line module; it lives beside the package, not in it."""
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    return importlib.import_module("benchmarks.__main__")


def claims_in(folder):
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert results["quick"] is True
    return results["claims"]


def test_one_script_from_the_command_line_to_the_files(suite, tmp_path, capsys):
    output = tmp_path / "new" / "folder"
    code = suite.main(["--quick", "--only", "scale_users", "--output", str(output)])
    claims = claims_in(output)
    assert len(claims) == 4
    assert code == int(not all(claim["holds"] for claim in claims))
    printed = capsys.readouterr().out
    for claim in claims:
        assert set(claim) == FIELDS
        assert claim["script"] == "scale_users"
        assert claim["text"] in printed
        assert claim["measured"] in printed
    # the widths are no matter of speed
    assert all(claim["holds"] for claim in claims if claim["name"].startswith("width"))
    with (output / "scale_users.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["users"]) for row in rows} == {10**4, 10**8, 10**12}
    for row in rows:
        assert 0 < float(row["lower"]) <= float(row["upper"])
        assert 0 < float(row["least"]) <= float(row["seconds"]) <= float(row["most"])


def test_without_the_peer_its_claims_are_not_judged(suite, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert suite.main(["--quick", "--only", "peers", "--output", str(tmp_path)]) == 0
    claims = claims_in(tmp_path)
    assert len(claims) == 4
    for claim in claims:
        assert claim["holds"] is None
        assert "dp-accounting cannot be imported" in claim["measured"]
    assert "4 could not be tested" in capsys.readouterr().out
    assert (tmp_path / "peers.csv").exists()


@pytest.mark.parametrize(("verdict", "code"), [(True, 0), (False, 1), (None, 0)])
def test_the_exit_code_tells_of_a_failed_claim(suite, tmp_path, capsys, monkeypatch, verdict, code):
    shared = importlib.import_module("benchmarks.claims")
    script = importlib.import_module("benchmarks.scale_rounds")
    claim = shared.Claim(name="n", text="a sentence", measured="a figure", holds=verdict)
    monkeypatch.setattr(script, "run", lambda quick, note: shared.Outcome([claim]))
    assert suite.main(["--quick", "--only", "scale_rounds", "--output", str(tmp_path)]) == code
    assert claims_in(tmp_path)[0]["holds"] is verdict
    assert "a sentence" in capsys.readouterr().out


def test_every_script_names_its_claim_and_can_be_run(suite):
    for name in suite.SCRIPTS:
        script = importlib.import_module(f"benchmarks.{name}")
        assert script.__doc__.startswith("Claim: ")
        assert callable(script.run)


def test_an_unknown_script_is_refused(suite, capsys):
    with pytest.raises(SystemExit) as stop:
        suite.main(["--only", "no_such_script"])
    assert stop.value.code == 2
    assert "no_such_script" in capsys.readouterr().err


def test_long_cells_wrap_on_a_terminal(suite):
    shared = importlib.import_module("benchmarks.claims")
    claim = shared.Claim(name="n", text="word " * 30, measured="1 s", holds=True)
    lines = shared.format_table([("script", claim)], columns=80).splitlines()
    assert len(lines) > 4
    assert {len(line) for line in lines} == {len(lines[0])}
    assert len(lines[0]) <= 80


def test_timing_interleaves_and_leaves_the_first_round_out(suite):
    shared = importlib.import_module("benchmarks.claims")
    order = []
    calls = {name: (lambda name=name: order.append(name) or name.upper()) for name in "ab"}
    timings = shared.interleave(calls, 3, note=lambda text: None)
    assert order == list("abbaabba")
    for name, timing in timings.items():
        assert len(timing.seconds) == 3
        assert min(timing.seconds) <= timing.median <= max(timing.seconds)
        assert timing.result == name.upper()
