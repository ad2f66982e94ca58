"""Nothing false is verified of a sample of altered certificates, and a false one would be seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

from shuffle_accountant.certificates import Certificate, Verification


@pytest.fixture(scope="module")
def contents() -> dict[str, Any]:
    return {}


@pytest.fixture
def alterations(
    benchmark_script: Callable[[str], ModuleType], contents: dict[str, Any]
) -> ModuleType:
    script = benchmark_script("altered_certificates")
    contents.update({} if contents else script.made())
    return script


def test_a_sample_of_altered_certificates(alterations: ModuleType, contents: Any) -> None:
    rng = random.Random(14)
    verified = 0
    for _ in range(400):
        done, content = alterations.altered(rng, contents)
        assert alterations.fault(content) == "", done
        try:
            found = alterations.verify(Certificate.from_content(content), max_work=3e7)
        except ValueError:
            continue
        verified += found.verified
    # weaker claims and other deployments that lose no more, so that the check of truth is reached
    assert verified > 5


def test_a_false_claim_that_is_verified_is_a_fault(
    alterations: ModuleType, contents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alterations, "verify", lambda *_, **__: Verification(True, 0.0, "verified"))
    right = contents["clones"]
    assert alterations.fault(right) == ""
    less = {**right, "claim": {"epsilon": 0.5 * right["claim"]["epsilon"], "delta": 1e-3}}
    assert "below" in alterations.fault(less)
    none = {**right, "claim": {"epsilon": right["claim"]["epsilon"], "delta": 0.0}}
    assert "below" in alterations.fault(none)
    without = {**right, "claim": {"epsilon": 0.0, "delta": 0.0}}
    assert "below" in alterations.fault(without)


def test_two_lines_and_none_are_faults(
    alterations: ModuleType, contents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for said in ("two\nlines", "", "x" * 600):
        monkeypatch.setattr(
            alterations, "verify", lambda *_, said=said, **__: Verification(False, 1.0, said)
        )
        assert "no line" in alterations.fault(contents["clones"])


def test_the_command_line(
    alterations: ModuleType,
    contents: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(alterations, "made", lambda: contents)
    assert alterations.main(["--count", "5", "--seed", "3"]) == 0
    assert "5 altered certificates, seed 3: 0 faults" in capsys.readouterr().out
    monkeypatch.setattr(alterations, "fault", lambda content: "wrong")
    assert alterations.main(["--count", "2"]) == 1
