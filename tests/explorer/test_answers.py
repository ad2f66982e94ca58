"""What the explorer's page shows, without the page: numbers, and code that gives the same."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
import shlex
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant import explorer as serving
from shuffle_accountant.explorer import answers, settings
from shuffle_accountant.explorer.settings import Deployment, Memoised, Thresholds, Training
from shuffle_accountant.reports.samplings import compare_samplings
from shuffle_accountant.rounds.samplings import SAMPLINGS

Run = Callable[..., tuple[int, str, str]]

SMALL = {"users": 500, "rounds": 2, "eps0": 1.5, "delta": 1e-5, "categories": 8}
CHOICES = [Deployment(**SMALL, randomizer=name) for name in settings.RANDOMIZERS]
RUN = Training(noise_multiplier=2.0, steps=20, epochs=2, delta=1e-6)


def printed(program: str) -> list[str]:
    """What a program prints, line by line."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "page", "exec"), {})
    return out.getvalue().splitlines()


def by_hand(chosen: Deployment) -> sa.Protocol:
    """The protocol made without the settings."""
    eps0, k = chosen.eps0, chosen.categories
    randomizer = {
        "general": sa.GeneralRandomizer(eps0),
        "randomized-response": sa.RandomizedResponse(categories=k, eps0=eps0),
        "hadamard-response": sa.HadamardResponse(categories=k, eps0=eps0),
        "local-hashing": sa.LocalHashing(categories=k, eps0=eps0),
        "rappor": sa.RAPPOR(categories=k, eps0=eps0),
        "subset-selection": sa.SubsetSelection(categories=k, eps0=eps0),
    }[chosen.randomizer]
    return sa.Protocol([(sa.ShuffleRound(randomizer, users=chosen.users), chosen.rounds)])


@pytest.mark.slow
@pytest.mark.parametrize("chosen", CHOICES, ids=lambda chosen: chosen.randomizer)
def test_every_randomizer_is_asked_as_one_would_by_hand(chosen: Deployment, run: Run) -> None:
    protocol = by_hand(chosen)
    assert chosen.protocol == protocol
    answer = answers.epsilon_of(chosen)
    expected = sa.epsilon(protocol, delta=1e-5)
    assert (answer.bracket.lower, answer.bracket.upper) == (expected.lower, expected.upper)
    assert answer.ends == " to ".join(expected.ends())
    assert answer.local == 3.0
    assert answer.warnings == ()
    first, *table = printed(chosen.python)
    assert first == repr(expected)
    assert "\n".join(table) == str(sa.report(protocol, delta=1e-5))
    epsilon_line, report_line = chosen.command.splitlines()
    program, *words = shlex.split(epsilon_line)
    code, out, err = run(*words, "--json")
    assert (program, code, err) == ("shuffle-accountant", 0, "")
    found = json.loads(out)
    assert (found["lower"], found["upper"]) == (expected.lower, expected.upper)
    code, out, _ = run(*shlex.split(report_line)[1:])
    assert (code, out.splitlines()) == (0, table)


def test_a_delta_that_promises_little_is_said_each_time() -> None:
    """Python shows a warning once; the page has to show it with every answer."""
    weak = Deployment(**{**SMALL, "delta": 0.5}, randomizer="general")
    for _ in range(2):
        assert any("delta" in line for line in answers.epsilon_of(weak).warnings)


def test_attack_rows_are_those_of_the_report() -> None:
    chosen = CHOICES[1]
    rows = answers.attack_rows(chosen)
    expected = sa.report(by_hand(chosen), delta=1e-5).rows
    assert [row["measure"] for row in rows] == [row.measure for row in expected]
    assert [row["value"] for row in rows] == [row.value() for row in expected]
    assert [row["adversary"] for row in rows] == [row.adversary for row in expected]


def test_errors_are_the_randomizer_s() -> None:
    randomizer = sa.HadamardResponse(categories=8, eps0=1.5)
    nobody, average = answers.error_rows(Deployment(**SMALL, randomizer="hadamard"))
    assert nobody["error"] == f"{randomizer.frequency_error(users=500):.4g}"
    assert average["error"] == f"{randomizer.frequency_error(users=500, frequency=1 / 8):.4g}"
    assert float(nobody["error"]) > 0


def test_why_there_is_no_error() -> None:
    (row,) = answers.error_rows(Deployment(**SMALL, randomizer="general"))
    assert row["error"] == "n/a: needs a randomizer that is named"
    silent = Deployment(**{**SMALL, "eps0": 0.0})
    assert all(
        row["error"].startswith("n/a: eps0 must be > 0") for row in answers.error_rows(silent)
    )
    assert answers.epsilon_of(silent).bracket.upper == 0.0
    assert answers.profile_picture(silent).startswith(b"\x89PNG")


@pytest.mark.slow
def test_samplings_are_those_of_the_library(run: Run) -> None:
    expected = compare_samplings(noise_multiplier=2.0, steps=20, epochs=2, delta=1e-6)
    rows = answers.sampling_rows(RUN)
    assert [row["sampling"] for row in rows] == ["allocation", "shuffle", "poisson"]
    for row, wanted in zip(rows, expected, strict=True):
        lower, upper = map(float, row["epsilon"].split(" to "))
        # rounded outwards
        assert lower <= wanted.lower <= wanted.upper <= upper
    lines = [f"{row.sampling} {row.lower} {row.upper}" for row in expected]
    assert printed(RUN.python) == lines
    code, out, err = run(*shlex.split(RUN.command)[1:], "--json")
    assert (code, err) == (0, "")
    assert [row["upper"] for row in json.loads(out)["rows"]] == [row.upper for row in expected]


def test_correlated_noise_is_a_row_of_its_own(run: Run) -> None:
    banded = dataclasses.replace(RUN, steps=8, bands=2)
    *_, row = answers.sampling_rows(banded)
    assert row["sampling"] == "banded"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        last = printed(banded.python)[-1].split()
        code, out, _ = run(*shlex.split(banded.command.splitlines()[1])[1:], "--json")
    assert last[0] == "banded"
    assert code == 0
    assert [found["upper"] for found in json.loads(out)["rows"]] == [float(last[2])]
    lower, upper = map(float, row["epsilon"].split(" to "))
    assert lower <= float(last[1]) <= float(last[2]) <= upper


def test_the_curve_is_a_picture() -> None:
    assert answers.profile_picture(CHOICES[0]).startswith(b"\x89PNG")


def test_sliders_begin_at_one_of_their_values_and_have_only_valid_ones() -> None:
    sliders = {
        "users": settings.USERS,
        "rounds": settings.ROUNDS,
        "eps0": settings.EPS0,
        "delta": settings.DELTAS,
        "categories": settings.CATEGORIES,
        "noise_multiplier": settings.NOISE_MULTIPLIERS,
        "steps": settings.STEPS,
        "epochs": settings.EPOCHS,
        "bands": settings.BANDS,
        "arrivals": settings.ARRIVALS,
        "colluding": settings.COLLUDING,
        "target": settings.TARGETS,
        "probability": settings.SAMPLED,
        "threshold": settings.THRESHOLDS,
        "permanent": settings.EPS0,
        "instantaneous": settings.EPS0,
    }
    for name, values in sliders.items():
        every = Deployment(), Training(), Thresholds(), Memoised()
        first = next(one for one in every if hasattr(one, name))
        assert getattr(first, name) in values
        assert list(values) == sorted(set(values))
    for name in ("users", "rounds", "eps0", "categories", "arrivals", "colluding"):
        for value in (sliders[name][0], sliders[name][-1]):
            assert len(dataclasses.replace(Deployment(), **{name: value}).protocol) >= 1
    assert tuple(SAMPLINGS) == settings.PLAIN_SAMPLINGS
    assert settings.DELTAS[0] == 1e-12
    assert settings.USERS[-1] == 10**8


def test_arrivals_and_colluders_are_those_of_the_round(run: Run) -> None:
    chosen = dataclasses.replace(CHOICES[1], users=501, arrivals=0.9, colluding=0.1)
    one = sa.ShuffleRound(chosen.mechanism, users=450, colluding=45)
    assert chosen.protocol == sa.Protocol([(one, 2)])
    expected = sa.epsilon(one, rounds=2, delta=1e-5)
    assert answers.epsilon_of(chosen).bracket == expected
    assert printed(chosen.python)[0] == repr(expected)
    code, out, _ = run(*shlex.split(chosen.command.splitlines()[0])[1:], "--json")
    assert (code, json.loads(out)["upper"]) == (0, expected.upper)
    smallest = dataclasses.replace(chosen, users=1, arrivals=0.5, colluding=0.5)
    assert smallest.numbers == {"users": 1, "colluding": 0}


def in_a_file(lines: str, where: Path) -> list[list[str]]:
    """The commands of command lines whose first ones write a file, with the file's path in them."""
    script, *commands = lines.replace("python - > protocol.json <<'END'\n", "").split("END\n")
    file = where / "protocol.json"
    file.write_text("\n".join(printed(script)), encoding="utf-8")
    return [
        [str(file) if word == file.name else word for word in shlex.split(line)[1:]]
        for line in commands[0].splitlines()
    ]


@pytest.mark.parametrize("sending", settings.SENDING)
def test_what_users_send_is_that_of_the_round(sending: str, run: Run) -> None:
    chosen = dataclasses.replace(CHOICES[0], users=500, colluding=0.1, sending=sending)
    each = {"one message": 1, "two messages": 2, "five messages": 5}[sending]
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(1.5), users=500, colluding=50, messages_per_user=each
    )
    assert chosen.protocol == sa.Protocol([(one, 2)])
    expected = sa.epsilon(one, rounds=2, delta=1e-5)
    assert answers.epsilon_of(chosen).bracket == expected
    assert printed(chosen.python)[0] == repr(expected)
    code, out, _ = run(*shlex.split(chosen.command.splitlines()[0])[1:], "--json")
    assert (code, json.loads(out)["upper"]) == (0, expected.upper)
    assert ("for one message of each" in answers.target_met(chosen)) is (each > 1)
    named = dataclasses.replace(chosen, randomizer="rappor")
    assert ("needs one message" in answers.error_rows(named)[0]["error"]) is (each > 1)
    assert len(answers.attack_rows(chosen)) > 1


@pytest.mark.parametrize("shuffler", settings.SHUFFLERS)
@pytest.mark.filterwarnings("ignore::shuffle_accountant.LooseBracketWarning")  # of weights
def test_what_the_shuffler_does_is_that_of_the_round(
    shuffler: str, run: Run, tmp_path: Path
) -> None:
    chosen = dataclasses.replace(CHOICES[0], users=501, shuffler=shuffler)
    works = {
        "hides who sent what": None,
        "recognises a message with probability 1e-9": sa.Shuffler(exposure=1e-9),
        "recognises a message with probability 1e-7": sa.Shuffler(exposure=1e-7),
        "works in batches of 100 users or more": sa.Shuffler(minimum_batch=100),
        "works in two batches": sa.Shuffler(batches=[250, 251]),
        "works in two random batches": sa.Shuffler(batches=[250, 251], random_batches=True),
        "reveals who sent half of the messages": sa.Shuffler(
            weights=[0.0] * 250 + [1.0 / 251] * 251
        ),
    }[shuffler]
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.5), users=501, shuffler=works)
    assert chosen.protocol == sa.Protocol([(one, 2)])
    assert chosen.refused is None
    expected = sa.epsilon(one, rounds=2, delta=1e-5)
    answer = answers.epsilon_of(chosen)
    assert (answer.bracket, answer.conditions) == (expected, sa.conditions(one))
    first, *table = printed(chosen.python)
    assert first == repr(expected)
    assert ("a perfect shuffler" in answers.target_met(chosen)) is (works is not None)
    if works is not None:
        asked, reported = in_a_file(chosen.command, tmp_path)
        code, out, _ = run(*asked, "--json")
        assert (code, json.loads(out)["upper"]) == (0, expected.upper)
        code, out, _ = run(*reported)
        assert (code, out.splitlines()) == (0, table)


def test_choices_that_no_theorem_covers_are_refused_by_name() -> None:
    both = {"sending": "two messages", "shuffler": "works in two batches"}
    assert "one message each" in str(dataclasses.replace(CHOICES[0], **both).refused)
    few = {"users": 50, "shuffler": "works in batches of 100 users or more"}
    assert "minimum_batch must be" in str(dataclasses.replace(CHOICES[0], **few).refused)
    many = {"users": 10**8, "shuffler": "reveals who sent half of the messages"}
    assert "at most 1,000,000" in str(dataclasses.replace(CHOICES[0], **many).refused)


@pytest.mark.parametrize("kind", ["threshold", "memoised"])
def test_other_rounds_are_asked_as_one_would_by_hand(kind: str, run: Run, tmp_path: Path) -> None:
    counts = Thresholds(probability=0.2, threshold=10, rounds=2, delta=1e-5)
    copies = Memoised(
        permanent=2.0, instantaneous=1.0, users=100, colluding=9, rounds=3, delta=1e-5
    )
    kept, copied = (sa.RandomizedResponse(categories=2, eps0=eps0) for eps0 in (2.0, 1.0))
    chosen, one, rounds, local = {
        "threshold": (counts, sa.SampleAndThreshold(probability=0.2, threshold=10), 2, math.inf),
        "memoised": (
            copies,
            sa.MemoisedRounds(
                permanent=kept,
                instantaneous=copied,
                users=100,
                rounds=3,
                same_participants=True,
                colluding=9,
            ),
            1,
            2.0,
        ),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.LooseBracketWarning)
        expected = sa.epsilon(one, rounds=rounds, delta=1e-5)
        answer = answers.epsilon_of(chosen)
        assert (answer.bracket, answer.local) == (expected, local)
        assert printed(chosen.python) == [repr(expected)]
        asked, _ = in_a_file(chosen.command, tmp_path)
        code, out, _ = run(*asked, "--json")
    assert (code, json.loads(out)["upper"]) == (0, expected.upper)
    assert answer.conditions == sa.conditions(one)


@pytest.mark.parametrize("randomizer", settings.RANDOMIZERS)
def test_the_eps0_of_a_target_meets_it(randomizer: str) -> None:
    chosen = Deployment(**SMALL, randomizer=randomizer, arrivals=0.8, target=0.5)
    eps0 = float(answers.target_met(chosen).split("ε0 = ")[1].split()[0])
    for step, met in ((0.0, True), (0.01, False)):
        one = dataclasses.replace(chosen, eps0=eps0 + step)
        assert (sa.epsilon(one.protocol, delta=one.delta).upper <= 0.5) is met
    refused = dataclasses.replace(chosen, delta=1e-300, target=0.1, users=1)
    assert answers.target_met(refused).startswith(("No eps0 is known", "For ε ≤ 0.1"))


def test_without_the_extra_it_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving.importlib.util, "find_spec", lambda name: None)
    code, out, err = run("explore", "--headless")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "pip install '.[explore]'" in err


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_are_checked(run: Run, port: int) -> None:
    code, _, err = run("explore", "--headless", "--port", port)
    assert code == 2
    assert "port must be an integer >= 0 and <= 65535" in err
    assert str(port) in err


def test_a_port_that_is_taken_is_told_and_the_usual_one_is_left_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(ValueError, match=f"^host and port must be .* and {taken}: [^(]*$"):
            serving._listening("127.0.0.1", taken)
        monkeypatch.setattr(serving, "PORT", taken)
        with serving._listening("127.0.0.1", None) as found:
            assert found.getsockname()[1] not in (0, taken)
    with pytest.raises(ValueError, match=r"^host and port must be"):
        serving._listening("no such host", 0)


@pytest.mark.parametrize(
    ("host", "written"),
    [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("0.0.0.0", "localhost"), ("::", "localhost")],
)
def test_addresses_are_written_as_browsers_read_them(host: str, written: str) -> None:
    assert serving._in_address(host) == written


def test_the_page_is_served_and_a_browser_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for both libraries: which are asked for what."""
    pytest.importorskip("matplotlib", reason="the explorer needs Matplotlib (extra 'explore')")
    asked: dict[str, Any] = {}

    class Builder:
        def with_app(self, **of: Any) -> Builder:
            asked["app"] = of
            return self

        def build(self) -> str:
            return "page"

    class Server:
        def __init__(self, config: Any) -> None:
            asked["config"] = config

        def run(self, *, sockets: list[socket.socket]) -> None:
            asked["port"] = sockets[0].getsockname()[1]
            raise KeyboardInterrupt  # Ctrl-C

    class Timer:
        def __init__(self, seconds: float, what: Callable[..., Any], given: list[str]) -> None:
            asked["opened"] = given

        def start(self) -> None:
            asked["started"] = True

    marimo = type(sys)("marimo")
    marimo.create_asgi_app = lambda **_: Builder()  # type: ignore[attr-defined]
    uvicorn = type(sys)("uvicorn")
    uvicorn.Server = Server  # type: ignore[attr-defined]
    uvicorn.Config = lambda page, **options: (page, options)  # type: ignore[attr-defined]
    for module in (marimo, uvicorn):
        module.__spec__ = serving.importlib.util.spec_from_loader(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(serving.threading, "Timer", Timer)
    monkeypatch.setattr(serving.os, "_exit", lambda code: asked.update(code=code))
    told: list[str] = []
    serving.serve(host="127.0.0.1", port=0, browser=True, say=told.append)
    address = f"http://127.0.0.1:{asked['port']}"
    assert told == [f"the explorer is at {address} until you press Ctrl-C"]
    assert (asked["opened"], asked["started"]) == ([address], True)
    assert asked["app"]["root"].endswith("app.py")
    assert asked["config"][0] == "page"
    assert asked["code"] == 0
    asked.clear()
    serving.serve(host="127.0.0.1", port=0, browser=False, say=told.append)
    assert "started" not in asked
