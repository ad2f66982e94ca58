"""Deployment files: read back, checked, refused when altered; test vectors; the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deployment_cases import MECHANISMS, deployment

import shuffle_accountant as sa
from shuffle_accountant.cli import main
from shuffle_accountant.deployment.programs import Draws, Program
from shuffle_accountant.registry import sealed

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "deployment.schema.json"
RESPONSE = deployment(MECHANISMS["k-RR"])


def run(program: Program, vector: dict[str, Any]) -> Any:
    """The message of a vector's value and bytes, all of which the program uses."""
    source = io.BytesIO(bytes.fromhex(vector["bytes"]))
    message = program.message(vector["value"], Draws(source.read))
    assert not source.read()
    return message


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_file_is_read_back(mechanism: Any, tmp_path: Path) -> None:
    made = deployment(mechanism)
    path = tmp_path / "deployment.json"
    path.write_text(made.to_json(), encoding="utf-8")
    for source in (path, str(path), made.to_json()):
        again = sa.Deployment.load(source)
        assert again == made
        assert again.to_json() == made.to_json()
        assert again.bracket.upper == made.bracket.upper <= 5.0
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(made.to_json()), json.loads(SCHEMA.read_text()))


def test_colluders_and_random_attendance_are_kept() -> None:
    for users, colluding in ((10_000, 50), (sa.Binomial(trials=20_000, probability=0.5), 0)):
        one = sa.ShuffleRound(MECHANISMS["k-RR"], users=users, colluding=colluding)
        made = sa.Deployment(round=one, target_epsilon=5.0, delta=1e-6)
        assert sa.Deployment.load(made.to_json()) == made
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.validate(json.loads(made.to_json()), json.loads(SCHEMA.read_text()))


def altered(**fields: Any) -> str:
    """The file with other fields, and a digest that fits."""
    state = {**RESPONSE.to_dict(), **fields}
    del state["digest"]
    return json.dumps(sealed(state))


def test_every_field_is_checked() -> None:
    state = RESPONSE.to_dict()
    program = state["program"]
    wrong: dict[str, tuple[dict[str, Any], str]] = {
        "schema": ({"schema": 2}, "schema must be an integer"),
        "kind": ({"kind": "other"}, "kind must be"),
        "protocol": ({"protocol": {"adjacency": None, "rounds": []}}, "must have one round, got 0"),
        "more rounds": (
            {"protocol": {**state["protocol"], "rounds": [{"round": _round(), "count": 10**4}]}},
            "target_epsilon must be at least the certified",
        ),
        "target": ({"target": {"epsilon": 1e-3, "delta": 1e-6}}, "at least the certified"),
        "no target": ({"target": {"epsilon": 1.0}}, "target must have the fields"),
        "delta": ({"target": {"epsilon": 5.0, "delta": 2.0}}, "delta must be"),
        "claim": ({"claim": {**state["claim"], "upper": 1e-3}}, "claim must be at least"),
        "claim's fields": ({"claim": None}, "claim must have the fields"),
        "fit": ({"program": {**program, "fit": program["fit"] + 1}}, "program must be that of"),
        "eps0": ({"program": {**program, "eps0": 1.0}}, "program must be that of"),
        "conditions": ({"conditions": state["conditions"][:-1]}, "conditions must be those of"),
        "certificate": ({"certificate": {"claim": 1}}, "certificate must be an object"),
        "further": ({"more": 1}, "must have fields"),
    }
    for name, (fields, said) in wrong.items():
        with pytest.raises((ValueError, TypeError), match=said):
            sa.Deployment.load(altered(**fields))
        assert name


def _round() -> dict[str, Any]:
    return RESPONSE.round.to_dict()


def test_an_altered_file_does_not_fit_its_digest() -> None:
    text = RESPONSE.to_json().replace('"epsilon": 5.0', '"epsilon": 6.0')
    with pytest.raises(ValueError, match="does not fit its digest"):
        sa.Deployment.load(text)


@pytest.mark.parametrize("text", ["{", '{"schema": 1, "schema": 1}', "{}", '{"schema": NaN}'])
def test_what_is_no_deployment_is_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        sa.Deployment.load(text)
    assert "\n" not in str(caught.value)


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a file that can be read"):
        sa.Deployment.load(tmp_path / "none.json")
    with pytest.raises(TypeError, match="must be a path or JSON"):
        sa.Deployment.load(3)  # type: ignore[arg-type]
    sampled = sa.ShuffleRound(MECHANISMS["k-RR"], users=10, population=100)
    mixed = sa.ShuffleRound(
        MECHANISMS["k-RR"], users=10, others={sa.RandomizedResponse(categories=5, eps0=1.0): 5}
    )
    for one in (sampled, mixed):
        with pytest.raises(ValueError, match="must have one randomizer and no population"):
            sa.Deployment(round=one, target_epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="randomizer of a deployment must be one of"):
        sa.Deployment(
            round=sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10),
            target_epsilon=1.0,
            delta=1e-6,
        )
    with pytest.raises(ValueError, match="certificate must be there"):
        RESPONSE.check(proof=True)


def test_a_certificate_is_kept_and_verified() -> None:
    pytest.importorskip("flint")
    small = deployment(MECHANISMS["binary RR"], users=1_000).certified()
    again = sa.Deployment.load(small.to_json())
    assert again.certificate == small.certificate
    assert again.check(proof=True).upper <= 5.0
    with pytest.raises(ValueError, match="of the deployment's protocol"):
        sa.Deployment(
            round=RESPONSE.round, target_epsilon=5.0, delta=1e-6, certificate=small.certificate
        )


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_vectors_are_the_same_each_time_and_are_reproduced(mechanism: Any) -> None:
    made = deployment(mechanism)
    vectors = made.vectors(count=200)
    assert vectors == json.loads(json.dumps(made.vectors(count=200)))
    assert vectors[:50] == made.vectors(count=50)
    assert all(run(made.program, one) == one["message"] for one in vectors)
    assert {one["value"] for one in vectors} == set(range(mechanism.categories))
    # edges are met: a draw at the threshold, and the largest below it
    words = {one["bytes"][i : i + 16] for one in vectors for i in range(0, len(one["bytes"]), 16)}
    drawn = {int(word, 16) >> 11 for word in words}
    assert {0, made.program.fit - 1, made.program.fit, 2**53 - 1} <= drawn
    assert made.estimate([one["message"] for one in vectors]).users == 200


def test_a_port_with_a_wrong_comparison_is_found_by_the_vectors() -> None:
    """``<=`` for ``<``: one draw of 2^53, which random draws alone would never meet."""
    from dataclasses import replace

    for mechanism in MECHANISMS.values():
        made = deployment(mechanism)
        program = replace(made.program, fit=made.program.fit + 1)
        vectors = made.vectors()
        assert any(run(program, one) != one["message"] for one in vectors)


def test_estimates_of_randomized_values() -> None:
    truth = np.arange(20_000) % 5
    found = RESPONSE.estimate(RESPONSE.randomize(truth, np.random.default_rng(2)))
    assert np.all(np.abs(found.values - 0.2) < 6.0 * found.standard_errors)
    assert RESPONSE.randomize(truth[:3]).shape == (3,)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, vectors = tmp_path / "deployment.json", tmp_path / "vectors.json"
    path.write_text(RESPONSE.to_json(), encoding="utf-8")
    assert main(["deployment", "check", str(path)]) == 0
    assert "certificate" in (shown := capsys.readouterr().out)
    assert RESPONSE.digest in shown
    assert main(["deployment", "check", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["upper"] == RESPONSE.bracket.upper
    assert main(["deployment", "vectors", str(path), "--count", "3"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["vectors"] == RESPONSE.vectors(count=3)
    assert main(["deployment", "vectors", str(path), "--output", str(vectors)]) == 0
    capsys.readouterr()
    assert len(json.loads(vectors.read_text())["vectors"]) == 1000
    path.write_text(RESPONSE.to_json().replace("5.0", "5.5"), encoding="utf-8")
    assert main(["deployment", "check", str(path)]) == 2
    assert "digest" in capsys.readouterr().err
