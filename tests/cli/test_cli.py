"""The command line in-process: the numbers are the library's, errors are one line and exit 2."""

import io
import json
import math
import subprocess
import sys
import threading
import warnings
from importlib import metadata

import pytest

import shuffle_accountant as sa
from shuffle_accountant import cli, progress

MAIN_JOB = ["--eps0", "4", "--users", "10000", "--rounds", "4"]
EPSILON = ["epsilon", *MAIN_JOB, "--delta", "1e-6"]
DELTA = ["delta", *MAIN_JOB, "--epsilon", "0.5"]
LEDGER = ["discretisation", "truncation", "aliasing", "round-off"]


@pytest.fixture
def one():
    return sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)


def ask(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_epsilon_is_the_library_s(run, one):
    answer = ask(run, *EPSILON)
    expected = sa.epsilon(one, delta=1e-6, rounds=4)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)
    assert answer["lower"] <= 0.853874 <= answer["upper"]
    assert answer["reduction"] == expected.reduction == "clones"
    assert answer["ledger"] == expected.ledger.to_dict()
    assert answer["limited_by"] == expected.ledger.limited_by
    assert answer["quantity"] == "epsilon"
    assert answer["warnings"] == []
    assert answer["question"] == {
        "eps0": 4.0,
        "users": 10_000,
        "rounds": 4,
        "population": None,
        "categories": None,
        "reduction": "auto",
        "variant": None,
        "interactive": False,
        "tolerance": 1e-3,
        "delta": 1e-6,
    }


def test_delta_is_the_library_s(run, one):
    answer = ask(run, *DELTA)
    expected = sa.delta(one, epsilon=0.5, rounds=4)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)
    assert answer["quantity"] == "delta"


def test_every_flag_reaches_the_library(run):
    answer = ask(
        run,
        *("epsilon", "--eps0", 3, "--users", 1000, "--population", 100_000, "--rounds", 100),
        *("--delta", 1e-6, "--tolerance", 1e-2, "--reduction", "clones", "--interactive"),
    )
    randomizer = sa.GeneralRandomizer(eps0=3.0, interactive=True)
    one = sa.ShuffleRound(randomizer, users=1000, population=100_000, reduction="clones")
    expected = sa.FourierAccountant(tolerance=1e-2).compose(one, count=100).epsilon(delta=1e-6)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)


KRR = ["--eps0", "2", "--users", "1000", "--categories", "4", "--epsilon", "0.5"]


def test_categories_make_it_randomized_response(run):
    answer = ask(run, "delta", *KRR)
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=4, eps0=2.0), users=1000)
    expected = sa.delta(one, epsilon=0.5)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)
    assert answer["reduction"] == expected.reduction
    assert answer["question"]["categories"] == 4
    assert answer["question"]["variant"] is None
    general = ask(run, "delta", *KRR[:4], "--epsilon", 0.5)
    assert answer["upper"] < general["lower"]


@pytest.mark.parametrize("variant", ["exact", "paper", "tail"])
def test_the_variants_of_the_strong_adversary(run, variant):
    answer = ask(run, "delta", *KRR, "--reduction", "strong", "--variant", variant)
    randomizer = sa.RandomizedResponse(categories=4, eps0=2.0)
    one = sa.ShuffleRound(randomizer, users=1000, reduction="strong", variant=variant)
    expected = sa.delta(one, epsilon=0.5)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)
    assert answer["question"]["variant"] == variant


def test_no_randomisation_is_still_json(run):
    code, out, err = run("delta", *KRR[2:], "--eps0", "inf", "--json")
    answer = json.loads(out)
    assert code == 0
    (warned,) = answer["warnings"]
    assert "rules out some value of its user" in warned
    assert warned in err
    assert answer["question"]["eps0"] == "inf"
    # the lower end allows for the rounding of a sum
    assert 1.0 - 1e-12 <= answer["lower"] <= answer["upper"] == 1.0


def test_exact_is_the_default_variant(run):
    strong = ["delta", *KRR, "--reduction", "strong"]
    answer, exact = ask(run, *strong), ask(run, *strong, "--variant", "exact")
    assert (answer["lower"], answer["upper"]) == (exact["lower"], exact["upper"])


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--categories", "1"], "categories"),
        (["--categories", "2.5"], "categories"),
        (["--categories", "4", "--interactive"], "interactive"),
        (["--categories", "4", "--reduction", "strong", "--variant", "magic"], "variant"),
        (["--reduction", "strong"], "reduction"),
        (["--variant", "tail"], "variant"),
    ],
)
def test_bad_values_of_randomized_response(run, words, named):
    assert_one_line_error(run, *EPSILON, *words)
    assert named in run(*EPSILON, *words)[2]


def test_rounds_default_to_one(run, one):
    answer = ask(run, "delta", "--eps0", 4, "--users", 10_000, "--epsilon", 0.5)
    assert answer["question"]["rounds"] == 1
    assert answer["upper"] == sa.delta(one, epsilon=0.5).upper


def test_no_rounds_cost_nothing(run):
    assert ask(run, "epsilon", "--eps0", 4, "--users", 9, "--rounds", 0, "--delta", 0.1)[
        "upper"
    ] == pytest.approx(0.0, abs=0.0)


@pytest.mark.parametrize("verbose", [False, True])
def test_the_table(run, one, verbose):
    code, out, err = run(*EPSILON, *(["-v"] if verbose else []))
    assert (code, err) == (0, "")
    first, _, rest = out.partition("\n")
    assert first == "ε ≤ 0.854 (report this)"
    table, _, conditions = rest.partition("holds only if:\n")
    rows = dict(line.split(maxsplit=1) for line in table.splitlines())
    bracket = sa.epsilon(one, delta=1e-6, rounds=4)
    told = " ".join(conditions.split()).removeprefix("- ").split(" - ")
    assert tuple(told) == bracket.conditions
    budget = [*LEDGER, "method"] if verbose else []
    assert list(rows) == ["epsilon", "lower", "upper", "reduction", "adjacency", *budget]
    assert rows["epsilon"] == "at delta = 1e-06"
    assert (rows["lower"], rows["upper"]) == bracket.ends()
    assert rows["reduction"] == "clones"
    assert rows["adjacency"] == "replace-one"
    starts = {len(line) - len(line.split(maxsplit=1)[1]) for line in table.splitlines()}
    assert len(starts) == 1, "the second column is aligned"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"--eps0": "-1"}, "eps0"),
        ({"--eps0": "nan"}, "eps0"),
        ({"--eps0": "inf"}, "eps0"),
        ({"--users": "0"}, "users"),
        ({"--users": "1.5"}, "users"),
        ({"--population": "10"}, "population"),
        ({"--rounds": "-1"}, "rounds"),
        ({"--delta": "0"}, "delta"),
        ({"--delta": "1"}, "delta"),
        ({"--delta": "nan"}, "delta"),
        ({"--delta": "small"}, "delta"),
        ({"--tolerance": "0"}, "tolerance"),
        ({"--reduction": "magic"}, "reduction"),
    ],
)
def test_a_bad_value_is_one_line_and_exit_2(run, change, named):
    flags = dict(zip(EPSILON[1::2], EPSILON[2::2], strict=True)) | change
    assert_one_line_error(run, "epsilon", *(word for flag in flags.items() for word in flag))
    _, _, err = run("epsilon", *(word for flag in flags.items() for word in flag))
    assert named in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["epsilom"],
        ["epsilon", "--eps0", "4"],
        [*EPSILON, "--delat", "1"],
        [*EPSILON, "surplus"],
        [*EPSILON, "--tolerance"],
        ["delta", *MAIN_JOB, "--epsilon", "-0.1"],
        ["delta", *MAIN_JOB, "--epsilon", "nan"],
    ],
)
def test_bad_usage_is_one_line_and_exit_2(run, arguments):
    assert_one_line_error(run, *arguments)


def assert_one_line_error(run, *arguments):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("shuffle-accountant: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")


@pytest.mark.parametrize("arguments", [["--help"], ["epsilon", "--help"], ["delta", "--help"]])
def test_help(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "Usage: shuffle-accountant" in out
    flags = ["--eps0", "--users", "--rounds", "--population", "--reduction"]
    flags += ["--categories", "--variant", "--interactive", "--tolerance", "--json"]
    assert all(flag in out for flag in flags) == (len(arguments) == 2)


def answer_with(monkeypatch, function):
    monkeypatch.setattr(sa.FourierAccountant, "epsilon", lambda self, *, delta: function())


def test_a_loose_bracket_is_an_answer_and_a_warning(run, monkeypatch):
    def loose():
        warnings.warn("limited by\n memory_limit", sa.LooseBracketWarning, stacklevel=2)
        return sa.Bracket(lower=0.1, upper=0.2, reduction="clones")

    answer_with(monkeypatch, loose)
    code, out, err = run(*EPSILON)
    assert code == 0
    assert "lower" in out
    assert err == "shuffle-accountant: warning: limited by memory_limit\n"
    code, out, _ = run(*EPSILON, "--json")
    assert json.loads(out)["warnings"] == ["limited by memory_limit"]


def test_an_infinite_end_is_still_json(run, monkeypatch):
    answer_with(monkeypatch, lambda: sa.Bracket(lower=1.0, upper=math.inf, reduction="clones"))
    assert ask(run, *EPSILON)["upper"] == "inf"


def test_an_interruption_is_exit_130(run, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    answer_with(monkeypatch, interrupt)
    assert run(*EPSILON)[0] == 130


def test_a_bug_is_not_mistaken_for_bad_input(monkeypatch):
    def bug():
        raise ZeroDivisionError

    answer_with(monkeypatch, bug)
    with pytest.raises(ZeroDivisionError):
        cli.main(EPSILON)


def test_the_arguments_of_the_process_are_the_default(run, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["shuffle-accountant", *EPSILON])
    assert cli.main() == 0


@pytest.mark.slow
def test_python_dash_m(pytestconfig):
    command = [sys.executable, "-m", "shuffle_accountant", *EPSILON, "--json"]
    done = subprocess.run(
        command, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    assert answer["lower"] <= 0.853874 <= answer["upper"]
    assert done.stderr == ""


def test_the_console_script_is_main():
    try:
        scripts = metadata.distribution("shuffle-accountant").entry_points
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed here")
    assert scripts["shuffle-accountant"].load() is cli.main


class Terminal(io.StringIO):
    def __init__(self, awaited="\0"):
        super().__init__()
        self.awaited, self.seen = awaited, threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        written = super().write(text)
        if self.awaited in self.getvalue():
            self.seen.set()
        return written


def test_no_progress_bar_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress_bar("composing") as report:
        report(0.5)
    assert sys.stderr.getvalue() == ""


def test_no_progress_bar_for_short_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "DELAY", 3600.0)  # however busy the machine is
    with progress.progress_bar("composing") as report:
        report(0.5)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(("fraction", "shown"), [(None, "0%"), (0.5, "50%"), (2.0, "100%")])
def test_a_progress_bar_for_long_work_on_a_terminal(monkeypatch, fraction, shown):
    terminal = Terminal(f"composing: {shown:>4} |")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0.05)
    monkeypatch.setattr(progress, "_TICK", 0.01)
    with progress.progress_bar("composing") as report:
        if fraction is not None:
            report(fraction)
            report(fraction / 2)  # never runs backwards
        assert terminal.seen.wait(300.0)  # the work is as long as that takes


def test_any_named_randomizer(run):
    answer = ask(
        run,
        *("epsilon", "--randomizer", "hadamard", "--categories", 1000, "--eps0", 2),
        *("--users", 10_000, "--delta", 1e-6),
    )
    one = sa.ShuffleRound(sa.HadamardResponse(categories=1000, eps0=2.0), users=10_000)
    expected = sa.epsilon(one, delta=1e-6)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)
    assert answer["reduction"] == "blanket"
    assert answer["question"]["randomizer"] == "hadamard-response"
    noise = ("--randomizer", "gaussian", "--sigma", 3, "--users", 50)
    answer = ask(run, "delta", *noise, "--epsilon", 0.1)
    expected = sa.delta(sa.ShuffleRound(sa.GaussianRandomizer(3.0), users=50), epsilon=0.1)
    assert (answer["lower"], answer["upper"]) == (expected.lower, expected.upper)


@pytest.mark.slow
def test_a_named_randomizer_is_compared_and_calibrated(run):
    named = ("--randomizer", "subset-selection", "--categories", 50, "--size", 9)
    rest = ("--eps0", 1, "--users", 1000, "--delta", 1e-6)
    rows = ask(run, "compare", *named, *rest)["rows"]
    one = sa.ShuffleRound(sa.SubsetSelection(categories=50, eps0=1.0, size=9), users=1000)
    assert rows[0]["epsilon"] == sa.epsilon(one, delta=1e-6).upper
    answer = ask(run, "calibrate", *named, *rest, "--target-epsilon", 0.5)
    assert answer["value"] == sa.max_rounds(one, target_epsilon=0.5, delta=1e-6)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--randomizer", "magic"], "hadamard"),
        (["--randomizer", "hadamard", "--eps0", "1"], "categories"),
        (["--randomizer", "gaussian", "--eps0", "1", "--sigma", "1"], "eps0"),
        (["--randomizer", "gaussian", "--sigma", "-1"], "sigma"),
        (
            ["--randomizer", "rappor", "--eps0", "1", "--categories", "5", "--interactive"],
            "interac",
        ),
        (["--randomizer", "discrete"], "channel"),
        (["--sigma", "1", "--eps0", "1"], "sigma"),
    ],
)
def test_a_bad_randomizer_is_one_line_and_exit_2(run, flags, named):
    arguments = ("epsilon", *flags, "--users", "9", "--delta", "0.1")
    assert_one_line_error(run, *arguments)
    assert named in run(*arguments)[2]


def test_version_and_short_help(run):
    assert run("--version") == (0, f"shuffle-accountant {sa.__version__}\n", "")
    for command in ((), ("epsilon",), ("ledger",)):
        code, shown, said = run(*command, "-h")
        assert (code, said) == (0, "")
        assert shown == run(*command, "--help")[1]
