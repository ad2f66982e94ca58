"""The command line as its user meets it: help, mistakes, completion, terminals, pipes, pictures."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from typer.models import ArgumentInfo, OptionInfo

import shuffle_accountant as sa
from shuffle_accountant import cli
from shuffle_accountant.cli import ledger, parsing
from shuffle_accountant.cli.flags import NAMES
from shuffle_accountant.cli.output import spelled_out
from shuffle_accountant.randomizers.registry import SHORT, parameters_of
from shuffle_accountant.rounds.samplings import CORRELATED, SAMPLINGS
from shuffle_accountant.rounds.shuffle import REDUCTIONS

Run = Callable[..., tuple[int, str, str]]

COMMANDS: dict[str, tuple[str, ...]] = {
    "": (),
    "ledger": ("ledger",),
    **{command.__name__: (command.__name__,) for command in cli.COMMANDS},
    **{f"ledger {one}": ("ledger", one) for one in ("create", "step", "show", "verify")},
}
PARAMETERS = {"categories": 4, "eps0": 1, "dimension": 3}
EPSILON = ["epsilon", "--eps0", "4", "--users", "10000", "--delta", "1e-6"]
HELP = "$sa epsilon -h"
# extras that an example needs
NEEDED = {"certify": "flint", "verify": "flint", "check": "flint", "plot": "matplotlib"}
# what spares seconds and shows no less
QUICKER = {"design": ("--tolerance", "0.5")}
SMALLER = {("--dimension", "100"): "2", ("--categories", "100"): "3"}


def examples_of(command: tuple[str, ...], run: Run) -> list[list[str]]:
    """The examples that a command's help shows, as arguments."""
    _, shown, _ = run(*command, "-h")
    _, found, text = shown.partition("Examples:\n")
    assert found, f"{command} has no examples"
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip()]


# ------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_help_has_examples_of_its_command_and_fits(
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    _, shown, _ = run(*command, "-h")
    assert max(map(len, shown.splitlines())) <= 80
    examples = examples_of(command, run)
    assert examples
    for example in examples:
        assert tuple(example[: len(command)]) == command


@pytest.mark.slow
def test_every_example_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scores = np.random.default_rng(1).normal(size=200)
    for name in ("with", "without"):  # for audit
        np.savetxt(f"{name}.txt", scores)
        np.save(f"{name}.npy", scores)
    steps = sa.Protocol(
        [(sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=1.0), 3)]
    )
    Path("protocol.json").write_text(json.dumps(steps.to_dict()), encoding="utf-8")
    for name, command in COMMANDS.items():
        if name in ("", "ledger", "explore"):
            continue  # examples of their commands, or a server that goes on until it is stopped
        needed = "sqlalchemy" if name.startswith("ledger") else NEEDED.get(name, "numpy")
        if importlib.util.find_spec(needed) is None:
            continue
        for example in examples_of(command, run):
            if name == "design":
                pairs = zip(["", *example], example, strict=False)
                example = [SMALLER.get(pair, pair[1]) for pair in pairs]
            if "RECEIPT" in example:  # that of the ledger which the examples before made
                shown = json.loads(run("ledger", "show", *example[2:4], "--json")[1])
                example = [shown["receipt"] if word == "RECEIPT" else word for word in example]
            code, out, err = run(*example, *QUICKER.get(name, ()))
            assert (code, err) == (0, ""), example
            if "--json" in example:
                assert json.loads(out)["version"] == sa.__version__
            else:
                assert max(map(len, out.splitlines())) <= 80, example


def words(text: str) -> str:
    """A help's text without its line breaks."""
    return " ".join(text.split()).replace("- ", "-")


def test_choices_are_listed(run: Run) -> None:
    shown = words(run("epsilon", "-h")[1])
    for choices in (NAMES, REDUCTIONS, ("exact", "paper", "tail")):
        assert f"ne of {', '.join(choices)}." in shown
    assert f"one of {', '.join([*SAMPLINGS, *CORRELATED])}, all." in words(run("dpsgd", "-h")[1])
    assert f"one of {', '.join(SAMPLINGS)}." in words(run("calibrate", "-h")[1])


def test_every_listed_randomizer_is_known(run: Run) -> None:
    for name in NAMES:
        _, _, err = run("epsilon", "--randomizer", name, "--users", 9, "--delta", 0.1)
        assert "randomizer must be one of" not in err


@pytest.mark.parametrize(("short", "kind"), SHORT.items())
def test_short_names_are_the_same_randomizer(short: str, kind: str, run: Run) -> None:
    parameters = {name: PARAMETERS[name] for name, needed in parameters_of(kind).items() if needed}
    flags = [word for name, value in parameters.items() for word in (f"--{name}", value)]
    asked = [*flags, "--users", 50, "--delta", "1e-3", "--json"]
    code, out, _ = run("epsilon", "--randomizer", short, *asked)
    assert code == 0
    assert json.loads(out)["question"]["randomizer"] == kind
    assert run("epsilon", "--randomizer", kind, *asked) == (0, out, "")


OWN = """
from dataclasses import dataclass
from shuffle_accountant.randomizers import ChannelRandomizer, FromArguments
import numpy as np

@dataclass(frozen=True, repr=False)
class Coin(FromArguments, ChannelRandomizer):
    kind = "test-own-coin"
    arguments = ("mistake",)
    mistake: float

    @property
    def channel(self):
        return np.array([[1 - self.mistake, self.mistake], [self.mistake, 1 - self.mistake]])
"""


def test_a_randomizer_of_ones_own(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_coins.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    rest = ["--users", 1000, "--delta", "1e-6", "--json"]
    coin = ["--randomizer", "own_coins:Coin", "--parameter", "mistake=0.25"]
    code, out, err = run("epsilon", *coin, *rest)
    assert (code, err) == (0, "")
    answer = json.loads(out)
    question = answer["question"]
    assert (question["randomizer"], question["mistake"]) == ("test-own-coin", 0.25)
    flip = ["--randomizer", "discrete", "--parameter", "channel=[[0.75, 0.25], [0.25, 0.75]]"]
    same = json.loads(run("epsilon", *flip, *rest)[1])
    assert (answer["lower"], answer["upper"]) == (same["lower"], same["upper"])
    for words, said in (
        (["--randomizer", "own_coins:Penny"], "randomizer must be package.module:Class"),
        (["--randomizer", "own_coins:np"], "randomizer must be package.module:Class"),
        (["--randomizer", "nowhere:Coin"], "--randomizer must be package.module:Class"),
        (["--randomizer", "own_coins:Coin"], "--mistake must be given"),
        ([*coin[:2], "--parameter", "mistake"], "--parameter must be NAME=VALUE"),
    ):
        code, out, err = run("epsilon", *words, *rest[:-1])
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said.removeprefix("--") in err


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_bare_command_prints_its_help(
    command: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == ("explore",):
        monkeypatch.setattr("shuffle_accountant.explorer.serve", lambda **_: None)
        assert run(*command) == (0, "", "")  # it needs no options
    else:
        assert run(*command) == (0, run(*command, "-h")[1], "")


CROWD = {"--users": 9, "--eps0": 1, "--rounds": 1, "--tolerance": 0.1}
AT = CROWD | {"--delta": 0.1}
RIGHT: dict[str, dict[str, Any]] = {
    "epsilon": AT,
    "delta": CROWD | {"--epsilon": 1},
    "compare": AT,
    "report": AT,
    "statement": AT,
    "plot": CROWD | {"--output": "x.png"},
    "certify": AT | {"--output": "x.json"},
    "calibrate": {"--users": 9, "--target-epsilon": 1, "--delta": 0.1, "--tolerance": 0.1},
    "design": {"--users": 9, "--categories": 3, "--target-epsilon": 1, "--delta": 0.1},
    "dpsgd": {"--noise-multiplier": 1, "--steps": 2, "--delta": 0.1, "--tolerance": 0.1},
}


@pytest.mark.parametrize("command", RIGHT)
def test_errors_name_the_flags_that_were_typed(command: str, run: Run) -> None:
    """In the place of each number in turn -1, which no option takes."""
    for wrong in RIGHT[command].keys() - {"--output"}:
        flags = RIGHT[command] | {wrong: -1}
        code, _, err = run(command, *(word for flag in flags.items() for word in flag))
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith(f"shuffle-accountant: error: {wrong} must "), err


# ----------------------------------------------------------------------------------------- counts


@pytest.mark.parametrize("typed", ["1e4", "10000.0", "1.0E+4", "10_000"])
def test_counts_may_be_typed_as_any_whole_number(typed: str, run: Run) -> None:
    _, expected, _ = run(*EPSILON, "--json")
    flags = [typed if word == "10000" else word for word in EPSILON]
    assert run(*flags, "--json") == (0, expected, "")


def test_every_flag_that_is_a_number_may_be_typed_so() -> None:
    """Of all commands, as the library reads them: none is left to its parser of digits alone."""
    apps = [cli.app, *(one.typer_instance for one in cli.app.registered_groups)]
    commands = [one.callback for app in apps if app for one in app.registered_commands]
    parsers = {parsing.count: int, parsing.number: float}
    seen = 0
    for command in commands:
        assert command is not None
        for name, hint in get_type_hints(command, include_extras=True).items():
            kind, option = (*get_args(hint), None, None)[:2]
            numbers = {kind, *get_args(kind)} & {int, float}
            if isinstance(option, OptionInfo | ArgumentInfo) and numbers:
                assert option.parser is not None, (command.__name__, name)
                assert parsers[option.parser] in numbers
                seen += 1
    assert seen > 100


def test_every_count_of_the_command_line_is_one(run: Run) -> None:
    response = ("--categories", "4e0", "--eps0", 2, "--delta", "1e-6")
    crowd = ("--users", "1e3", "--others", "3:1e2", "--colluding", "1e1", "--rounds", "2e0")
    code, out, _ = run("epsilon", *response, *crowd, "--json")
    asked = json.loads(out)["question"]
    assert code == 0
    assert (asked["users"], asked["colluding"], asked["rounds"], asked["categories"]) == (
        *(1000, 10, 2, 4),
    )
    assert all(type(asked[name]) is int for name in ("users", "colluding", "rounds"))


@pytest.mark.parametrize("typed", ["1.5", "1e-3", "x", "", "nan", "inf", "1e999999999", "0x10"])
def test_what_is_no_count_is_shown(typed: str, run: Run) -> None:
    code, out, err = run("epsilon", "--eps0", 4, "--users", typed, "--delta", 0.1)
    assert (code, out) == (2, "")
    assert f"Invalid value for '--users': {typed!r} is not an integer" in err
    assert err.count("\n") == 1


# --------------------------------------------------------------------------------------- mistakes

MISTAKES = {
    "another command": (["epsilom"], "No such command 'epsilom'"),
    "no number": (
        ["compare", "--users", "9", "--delta", "small"],
        "Invalid value for '--delta': 'small' is not a number (see shuffle-accountant compare -h)",
    ),
    "another flag": (["compare", "--usrs", "9"], "--usrs"),
    "a flag missing": (
        ["epsilon", "--users", "9"],
        "--delta must be given (see shuffle-accountant epsilon -h)",
    ),
    "surplus": (["epsilon", "--users", "9", "--delta", "0.1", "more"], "more"),
    "a flag twice": (
        [*EPSILON, "--users", "9"],
        "--users was given 2 times (see shuffle-accountant epsilon -h)",
    ),
    "a switch twice": (
        [*EPSILON, "--interactive", "--interactive"],
        "--interactive was given 2 times (see shuffle-accountant epsilon -h)",
    ),
    "a command of a group": (["ledger", "step", "--count", "x"], "(see shuffle-accountant ledger"),
}


@pytest.mark.parametrize(("arguments", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_shown_with_the_help_that_helps(
    arguments: list[str], said: str, run: Run
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("shuffle-accountant: error: ")
    assert err.count("\n") == 1
    assert said in err
    command = next((word for word in arguments[:1] if word in COMMANDS), "-h")
    assert f"(see shuffle-accountant {command}".rstrip() in err


def test_a_flag_that_may_be_repeated(run: Run) -> None:
    base = ("epsilon", "--categories", 4, "--eps0", 2, "--users", 500, "--delta", "1e-6", "--json")
    code, out, _ = run(*base, "--others", "3:100", "--others", "1:50")
    assert code == 0
    assert json.loads(out)["question"]["others"] == ["3:100", "1:50"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["epsilon", "--users", "x"],
        ["epsilom"],
        [*EPSILON[:-1], "2"],
        ["calibrate", "--target-epsilon", "1", "--delta", "0.1"],
        ["verify", "nowhere.json"],
        ["calibrate", "shuffler", "--target-epsilon", "1", "--delta", "0.1"],
        ["audit", "nowhere.txt", "nowhere.txt", "--users", "30", "--eps0", "1"],
        [*EPSILON, "--users", "3"],
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_errors_are_json_where_answers_would_be(arguments: list[str], run: Run) -> None:
    code, out, err = run(*arguments, "--json")
    assert code == 2
    told = json.loads(out)
    assert set(told) == {"error", "version"}
    assert err == f"shuffle-accountant: error: {told['error']}\n"
    assert run(*arguments)[1] == ""


def test_an_interruption_is_json_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Any, *, delta: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sa.FourierAccountant, "epsilon", interrupt)
    code, out, _ = run(*EPSILON, "--json")
    assert code == 130
    assert json.loads(out)["error"] == "interrupted"


# ------------------------------------------------------------------------------------- completion


def completed(words: str, monkeypatch: pytest.MonkeyPatch, run: Run) -> list[str]:
    monkeypatch.setenv("_SHUFFLE_ACCOUNTANT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    code, out, err = run()
    assert (code, err) == (0, "")
    return out.split("\n")[:-1]


def test_completion_knows_commands_flags_and_choices(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    def complete(words: str) -> list[str]:
        return completed(f"shuffle-accountant {words}", monkeypatch, run)

    assert complete("ep") == ["epsilon"]
    assert complete("ledger s") == ["step", "show"]
    assert complete("epsilon --reduction nu") == ["null clones", "null law"]
    assert complete("epsilon --randomizer h") == ["hadamard-response"]
    assert complete("dpsgd --sampling ") == [*SAMPLINGS, *CORRELATED, "all"]
    assert complete("calibrate --sampling p") == ["poisson"]
    assert "--interactive" in complete("report --in")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_what_a_shell_needs(
    shell: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("_SHUFFLE_ACCOUNTANT_COMPLETE", f"source_{shell}")
    code, out, err = run()
    assert (code, err) == (0, "")
    assert f"_SHUFFLE_ACCOUNTANT_COMPLETE=complete_{shell}" in out
    monkeypatch.delenv("_SHUFFLE_ACCOUNTANT_COMPLETE")
    assert "--show-completion" in run("-h")[1]


# ------------------------------------------------------------------------------ terminals and pipes


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of the shell in which `$sa` is the program."""
    root = str(Path(sa.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    program = f"{shlex.quote(sys.executable)} -m shuffle_accountant"
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("$sa", program)],
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path} | environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "asked"),
    [("ascii", f"$sa epsilon -h && $sa statement {' '.join(EPSILON[1:])}"), ("latin-1", HELP)],
)
def test_terminals_that_know_no_greek(encoding: str, asked: str) -> None:
    done = shell(asked, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "epsilon0 of the local randomizer" in text
    assert asked == HELP or "differential privacy" in text.replace("\n", " ")


def test_letters_are_spelled_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with spelled_out():
            print("ε0 ≤ 4, Δ, Rényi, 10⁻⁶, ok → “so” 漢")
        assert sys.stdout is stream
    assert (tmp_path / "out").read_text() == 'epsilon0 <= 4, Delta, Renyi, 10?6, ok -> "so" ?\n'


@pytest.mark.slow
def test_errors_too() -> None:
    done = shell("$sa verify ε.json", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.decode("ascii").startswith("shuffle-accountant: error: certificate must be")


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["-h", f"{' '.join(EPSILON)} --json"])
def test_a_full_disk_is_one_line(asked: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    done = shell(f"$sa {asked} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "shuffle-accountant: error: cannot write the answer: No space left on device\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_is_gone_is_no_error(unbuffered: str) -> None:
    asked = "{ $sa epsilon -h; echo $? >&2; } | head -n 1"
    done = shell(asked, PYTHONUNBUFFERED=unbuffered)
    assert done.stdout.startswith(b"Usage: shuffle-accountant epsilon")
    assert done.stderr in (b"0\n", b"141\n")  # whether the reader was gone in time
    # what is written to a reader that is gone kills who writes it
    until_gone = "while (echo 2>&-); do :; done"
    asked = f"{{ {until_gone}; $sa epsilon -h; echo $? >&2; }} | true"
    gone = shell(asked, PYTHONUNBUFFERED=unbuffered)
    assert gone.stderr == b"141\n"


# ---------------------------------------------------------------------------------------- pictures


@pytest.mark.slow
def test_plot_says_in_json_what_it_drew(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need Matplotlib")
    output = tmp_path / "a.png"
    asked = ("--eps0", 2, "--users", 1000, "--rounds", 2, "--output", output, "--json")
    code, out, err = run("plot", *asked)
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["output"] == str(output)
    assert output.stat().st_size > 1000
    assert told["question"]["rounds"] == 2
    assert told["version"] == sa.__version__
    x, y = max(((line["x"], line["y"]) for line in told["lines"]), key=lambda line: len(line[0]))
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=1000)
    middle = len(x) // 2
    delta = sa.FourierAccountant().compose(one, count=2).delta(epsilon=x[middle])
    # both are certified to the same accuracy
    assert y[middle] == pytest.approx(delta.upper, rel=1e-2)
    code, out, _ = run("plot", *asked, "--compare-at", "1e-6")
    assert code == 0
    assert any("certified" in (line["label"] or "") for line in json.loads(out)["lines"])


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--eps0", 0), "the messages say nothing"),
        (("--eps0", 4, "--rounds", 0), "no rounds"),
        (("--eps0", 0, "--compare-at", "1e-6"), "the messages say nothing"),
        (("--eps0", 4, "--rounds", 0, "--compare-at", "1e-6"), "no rounds"),
    ],
)
def test_nothing_is_drawn_empty(flags: tuple[Any, ...], why: str, run: Run, tmp_path: Path) -> None:
    output = tmp_path / "a.png"
    code, out, err = run("plot", *flags, "--users", 100, "--output", output)
    assert (code, out) == (2, "")
    assert f"nothing to draw: {why}" in err
    assert not output.exists()


@pytest.mark.slow
def test_an_answer_is_given_also_if_there_is_nothing_to_draw(run: Run, tmp_path: Path) -> None:
    output = tmp_path / "a.png"
    none = ("--users", 100, "--delta", "1e-6", "--output", output)
    rough = (*none[2:], "--tolerance", 0.5)
    for asked in (
        ("report", "--eps0", 0, *none),
        ("report", "--eps0", 4, "--rounds", 0, *none),
        ("dpsgd", "--noise-multiplier", 1, "--steps", 9, "--epochs", 0, *none[2:]),
        ("design", "--categories", 4, "--target-epsilon", "1e-3", "--users", 3, *rough),
    ):
        code, out, err = run(*asked)
        assert code == 0
        assert len(out.splitlines()) > 3
        assert err.startswith("shuffle-accountant: warning: nothing to draw: ")
        assert err.endswith(f"{output} is not written\n")
        assert not output.exists()


# --------------------------------------------------------------------------------------- statement


def test_statement(run: Run) -> None:
    asked = ("statement", "--eps0", 4, "--users", "1e4", "--rounds", 4, "--delta", "1e-6")
    code, out, err = run(*asked)
    assert (code, err) == (0, "")
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
    expected = sa.statement(sa.Protocol([(one, 4)]), delta=1e-6)
    assert " ".join(out.split()) == str(expected)
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = run(*asked, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["text"] == str(expected)
    assert told["epsilon"] == expected.epsilon
    assert told["question"]["users"] == 10_000


def test_the_ledger_s_commands_are_those_of_its_help(run: Run) -> None:
    listed = run("ledger", "-h")[1].partition("Commands:\n")[2]
    names = {line.split()[0] for line in listed.splitlines() if line.startswith("  ")}
    assert {f"ledger {name}" for name in names if hasattr(ledger, name)} == {
        name for name in COMMANDS if name.startswith("ledger ")
    }
