"""`certify`, `verify` and `check`, through the program's own entry."""

from __future__ import annotations

import inspect
import json

import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

import shuffle_accountant as sa
from shuffle_accountant.cli import main
from shuffle_accountant.cli.certificates import verify

FLAGS = ["--eps0", "2", "--users", "1000", "--rounds", "4"]


@pytest.fixture
def written(tmp_path, capsys):
    path = tmp_path / "c.json"
    assert main(["certify", *FLAGS, "--delta", "1e-6", "--output", str(path)]) == 0
    capsys.readouterr()
    return path


def test_certify_writes_what_the_library_makes(tmp_path, capsys):
    path = tmp_path / "c.json"
    arguments = ["certify", *FLAGS, "--delta", "1e-6", "--output", str(path), "--json"]
    assert main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    made = sa.certificates.Certificate.from_json(path.read_text())
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000)
    accountant = sa.FourierAccountant().compose(one, count=4)
    assert made.content == accountant.certificate(delta=1e-6).content
    upper = accountant.epsilon(delta=1e-6).upper
    assert printed == {
        "epsilon": made.epsilon,
        "delta": 1e-6,
        "upper": upper,
        "output": str(path),
        "version": sa.__version__,
    }


def test_certify_takes_epsilon_too(tmp_path, capsys):
    path = tmp_path / "c.json"
    assert main(["certify", *FLAGS, "--epsilon", "0.5", "--output", str(path)]) == 0
    assert "above it" in capsys.readouterr().out
    assert sa.certificates.Certificate.from_json(path.read_text()).epsilon == 0.5


def test_verify_says_yes(written, capsys):
    assert main(["verify", str(written)]) == 0
    assert "verified" in capsys.readouterr().out


def test_verify_says_no(written, capsys):
    content = json.loads(written.read_text())
    content["claim"]["epsilon"] *= 0.9
    changed = sa.certificates.Certificate.from_content(content)
    written.write_text(changed.to_json())
    assert main(["verify", str(written), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["verified"] is False
    assert "delta" in printed["reason"]


def test_verify_takes_no_more_work_than_it_may(written, capsys):
    assert main(["verify", str(written), "--max-work", "1000", "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["verified"] is False
    assert "estimated at" in printed["reason"]
    assert main(["verify", str(written), "--max-work", "0"]) == 2
    assert capsys.readouterr().err.startswith("shuffle-accountant: error: --max-work must")


def test_the_default_work_is_the_library_s():
    usual = inspect.signature(sa.certificates.verify).parameters["max_work"].default
    assert inspect.signature(verify).parameters["max_work"].default == usual


@pytest.mark.parametrize("kind", ["accountant", "ledger", "certificate"])
def test_check_of_every_state(kind, written, capsys):
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000)
    if kind == "accountant":
        state = sa.FourierAccountant().compose(one, count=4).state_dict()
        written.write_text(json.dumps(state))
    elif kind == "ledger":
        ledger = sa.training.ShuffleLedger(sa.GeneralRandomizer(eps0=2.0), users=1000)
        ledger.step(4)
        written.write_text(json.dumps(ledger.state_dict()))
    upper = sa.epsilon(one, rounds=4, delta=1e-6).upper
    asked = ["check", str(written), "--delta", "1e-6", "--claim"]
    assert main([*asked, str(1.01 * upper)]) == 0
    assert main([*asked, str(0.99 * upper)]) == 1
    assert main([*asked, str(1.01 * upper), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["certified"] is True


def test_check_of_a_certificate_that_is_not_proven(written):
    content = json.loads(written.read_text())
    content["claim"]["epsilon"] = 0.1
    changed = sa.certificates.Certificate.from_content(content)
    written.write_text(changed.to_json())
    assert main(["check", str(written), "--claim", "1", "--delta", "1e-6"]) == 1


@pytest.mark.parametrize(
    ("text", "named"),
    [("nonsense", "JSON"), ("[]", "state|certificate"), ('{"steps": 1}', "schema"), (None, "file")],
)
@pytest.mark.parametrize("command", ["verify", "check"])
def test_bad_files_are_one_line_and_exit_2(command, text, named, tmp_path, capsys):
    path = tmp_path / "state.json"
    if text is not None:
        path.write_text(text)
    further = ["--claim", "1", "--delta", "1e-6"] if command == "check" else []
    assert main([command, str(path), *further]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    if command == "check":
        assert any(word in error for word in named.split("|"))


@pytest.mark.parametrize("command", ["verify", "check"])
def test_a_claim_given_twice_is_one_line_and_exit_2(command, written, capsys):
    """A reader would see the first, and the program check the second."""
    written.write_text('{"claim": {"epsilon": 0.1, "delta": 0.0}, ' + written.read_text()[1:])
    further = ["--claim", "5", "--delta", "1e-6"] if command == "check" else []
    assert main([command, str(written), *further]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "field 'claim' is given twice" in error


@pytest.mark.parametrize("change", [["--claim", "-1"], ["--claim", "nan"], ["--delta", "2"]])
def test_bad_claims_are_one_line_and_exit_2(written, change, capsys):
    assert main(["check", str(written), "--claim", "1", "--delta", "1e-6", *change]) == 2
    assert capsys.readouterr().err.count("\n") == 1
