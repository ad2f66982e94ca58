"""`calibrate` in other currencies than epsilon: the library's answers, one line for the rest."""

import json
import math

import pytest

import shuffle_accountant as sa


def ask(run, *arguments):
    code, out, err = run("calibrate", "--users", 1000, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_advantage(run):
    answer = ask(run, "--rounds", 4, "--target-advantage", 0.1)
    expected = sa.max_eps0(users=1000, rounds=4, target_advantage=0.1)
    assert answer["quantity"] == "eps0"
    assert answer["value"] == float(expected)
    assert answer["upper"] == expected.evidence.bracket.upper <= 0.1 < answer["next_upper"]
    assert answer["question"]["target_advantage"] == 0.1
    assert answer["question"]["target_epsilon"] is answer["question"]["delta"] is None


def test_advantage_without_a_shuffler_is_that_of_a_coin(run):
    """One user of randomized response on two values: total variation is tanh(eps0/2)."""
    code, out, err = run(
        *("calibrate", "--users", 1, "--target-advantage", 0.5, "--json"),
        *("--randomizer", "randomized-response", "--categories", 2),
    )
    assert (code, err) == (0, "")
    # six digits, downwards
    exact = 2.0 * math.atanh(0.5)
    assert exact * (1.0 - 2e-5) <= json.loads(out)["value"] <= exact


@pytest.mark.slow
def test_trade_off(run):
    answer = ask(run, "--target-trade-off", "0.01:0.9")
    expected = sa.max_eps0(users=1000, rounds=1, target_trade_off=(0.01, 0.9))
    assert answer["value"] == float(expected)
    assert answer["question"]["target_trade_off"] == [0.01, 0.9]


def test_reidentification(run):
    answer = ask(run, "--target-reidentification", 0.05)
    expected = sa.max_eps0(users=1000, rounds=1, target_reidentification=0.05)
    assert answer["value"] == float(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target-advantage", 0.1], "is the largest with advantage <= 0.1"),
        (
            ["--target-trade-off", "0.01:0.9"],
            "is the largest with false negative rate >= 0.9 at false positive rate 0.01",
        ),
        (
            ["--target-reidentification", 0.05],
            "is the largest with chance of re-identification <= 0.05",
        ),
    ],
)
def test_the_table_names_the_target(run, arguments, words):
    code, out, err = run("calibrate", "--users", 1000, *arguments)
    assert (code, err) == (0, "")
    assert words in " ".join(out.split())  # long cells are folded


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            [],
            "one of --target-epsilon, --target-advantage, --target-trade-off, ",
        ),
        (["--delta", 1e-6], "must be given, got none"),
        (["--target-epsilon", 1], "--delta must be given with --target-epsilon"),
        (
            ["--target-epsilon", 1, "--delta", 1e-6, "--target-advantage", 0.1],
            "got --target-epsilon, --target-advantage",
        ),
        (["--target-advantage", 0.1, "--delta", 1e-6], "--delta must be left out"),
        (["--target-advantage", 2], "--target-advantage must be a number in (0, 1), got 2.0"),
        (["--target-advantage", 0.1, "--eps0", 1], "--target-advantage is a target for eps0"),
        (
            ["--target-advantage", 0.1, "--sampling", "poisson", "--steps", 5],
            "--target-advantage is a target for eps0",
        ),
        (["--target-trade-off", "0.5"], "--target-trade-off must be two rates with a colon"),
        (["--target-trade-off", "0.6:0.9"], "--target-trade-off must be two rates whose sum"),
        (["--target-trade-off", "nan:0.9"], "--target-trade-off must be a number in (0, 1)"),
        (["--target-reidentification", 0.05, "--rounds", 2], "--rounds must be 1"),
    ],
)
def test_bad_targets_are_one_line(run, arguments, words):
    code, out, err = run("calibrate", "--users", 1000, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert words in err
