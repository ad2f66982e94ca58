"""A report's rows against outcomes listed one by one, and what it says where a measure fails."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from oracles import enumeration, exact_channels, reidentification

import shuffle_accountant as sa
from shuffle_accountant.order import OrderWarning

# Binary randomized response that keeps a value with probability 3/4, among three users.
KEEP = Fraction(3, 4)
ROWS = [[KEEP, 1 - KEEP], [1 - KEEP, KEEP]]
USERS = 3
# A few roundings of numbers of order one.
ROUND_OFF = 1e-12


def three_users() -> sa.ShuffleRound:
    return sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=math.log(3)), users=USERS)


def by_name(report: sa.Report) -> dict[tuple[str, str], sa.ReportRow]:
    return {(row.measure, row.scope): row for row in report.rows}


def information(laws: list[dict[Any, Fraction]]) -> float:
    """Between a uniform choice of a law and its outcome, nats, by listing."""
    mixture: dict[Any, Fraction] = {}
    for law in laws:
        for outcome, mass in law.items():
            mixture[outcome] = mixture.get(outcome, Fraction(0)) + mass / len(laws)
    return math.fsum(
        float(mass) / len(laws) * math.log(mass / mixture[outcome])
        for law in laws
        for outcome, mass in law.items()
        if mass
    )


def test_every_row_against_a_list_of_all_outcomes() -> None:
    rows = by_name(sa.report(three_users(), delta=1e-3))
    # what any two datasets attain is below the upper ends, what the weak adversary sees above
    pairs = [
        (enumeration.shuffled_law([ROWS[0], *others]), enumeration.shuffled_law([ROWS[1], *others]))
        for others in itertools.product(ROWS, repeat=USERS - 1)
    ]
    variation = rows["total variation", "all rounds"]
    attained = max(enumeration.hockey_stick(p, q, 1) for p, q in pairs)
    assert attained <= Fraction(variation.upper) * (1 + Fraction(ROUND_OFF))
    epsilon = rows["epsilon at delta = 0.001", "all rounds"]
    alpha = Fraction(math.exp(epsilon.upper) * (1 + ROUND_OFF))
    assert all(enumeration.hockey_stick(p, q, alpha) <= Fraction(1e-3) for p, q in pairs)
    guess = rows["telling two values apart", "all rounds"]
    assert guess.upper == pytest.approx(0.5 + 0.5 * variation.upper, rel=ROUND_OFF)
    assert rows["Rényi epsilon at delta = 0.001", "all rounds"].upper >= epsilon.lower

    named = rows["naming the message", "each round"]
    datasets = [
        reidentification.dataset_success([ROWS[0], *others])
        for others in itertools.product(ROWS, repeat=USERS - 1)
    ]
    assert float(max(datasets)) <= named.upper * (1 + ROUND_OFF)
    assert named.lower is not None
    assert named.lower == pytest.approx(float(max(datasets)), rel=ROUND_OFF)

    told = rows["information on the input", "each round"]
    most = max(
        information([enumeration.shuffled_law([row, *others]) for row in ROWS])
        for others in itertools.product(ROWS, repeat=USERS - 1)
    )
    assert most <= told.upper * (1 + ROUND_OFF)
    assert told.upper <= rows["information on the input", "all rounds"].upper

    vulnerable = rows["posterior vulnerability", "each round"]
    channel = exact_channels.cascade(
        exact_channels.local(exact_channels.krr(2, KEEP), USERS),
        exact_channels.reduced_shuffle(USERS, 2),
    )
    uniform = exact_channels.independent([Fraction(1, 2)] * 2)
    truth = exact_channels.target_vulnerability(channel, uniform, 2)
    assert vulnerable.upper == pytest.approx(float(truth), rel=ROUND_OFF)
    assert all(row.condition is None and row.share is not None for row in rows.values())


def test_the_answers_are_the_library_s() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(2.0), users=1000, population=5000)
    accountant = sa.FourierAccountant().compose(one, count=7)
    rows = by_name(sa.report(accountant, delta=1e-5))
    epsilon = accountant.epsilon(delta=1e-5)
    row = rows["epsilon at delta = 1e-05", "all rounds"]
    assert (row.lower, row.upper) == (epsilon.lower, epsilon.upper)
    assert row.everything == pytest.approx(14.0)
    named = sa.leakage.reidentification.bracket(one.randomizer, users=1000)
    assert rows["naming the message", "each round taken part in"].upper == named.upper
    # who is not drawn gives nothing away
    most = sa.leakage.mutual_information.universal_bounds(eps0=2.0, users=1000).least
    all_rounds = rows["information on the input", "all rounds"].upper
    assert all_rounds == pytest.approx(7 * 0.2 * most, rel=ROUND_OFF)
    unknown = rows["posterior vulnerability", "each round taken part in"]
    assert unknown.upper is None
    assert unknown.value() == "n/a: needs randomized response"


def test_no_more_is_told_than_there_is() -> None:
    """Gaussian noise has no finite eps0, but only two inputs."""
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.5), users=3, reduction="example")
    rows = by_name(sa.report(sa.FourierAccountant().compose(one, count=5), delta=0.01))
    told = rows["information on the input", "all rounds"].upper
    assert math.log(2.0) <= told <= math.log(2.0) * (1 + ROUND_OFF)


@pytest.mark.parametrize("eps0", [1e-17, 1e-9, 0.3])
def test_a_guess_is_rounded_outwards(eps0: float) -> None:
    """Half of a tiny variation is lost beside one half, and must not be."""
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=10)
    rows = by_name(sa.report(one, delta=1e-3))
    variation = rows["total variation", "all rounds"]
    guess = rows["telling two values apart", "all rounds"]
    assert variation.lower is not None
    assert guess.lower is not None
    assert Fraction(guess.upper) >= (1 + Fraction(variation.upper)) / 2
    assert Fraction(guess.lower) <= (1 + Fraction(variation.lower)) / 2


@pytest.mark.slow
def test_several_kinds_of_rounds_are_numbered() -> None:
    accountant = sa.FourierAccountant().compose(three_users(), count=2)
    accountant.compose(sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=20))
    scopes = {row.scope for row in sa.report(accountant, delta=0.01).rows}
    assert scopes == {"all rounds", "each round of kind 1", "each round of kind 2"}


def test_other_mechanisms_have_only_what_is_private() -> None:
    table = sa.LossTable([-1.0, 1.0], [0.25, 0.75])
    accountant = sa.FourierAccountant().compose(sa.PldRound.from_tables(table))
    rows = sa.report(accountant.compose(three_users()), delta=0.01).rows
    renyi = next(row for row in rows if row.measure.startswith("Rényi"))
    assert renyi.value() == "n/a: needs shuffled rounds"
    assert not any(row.measure == "information on the input" and row.scope == "all rounds"
                   for row in rows)  # fmt: skip


def test_a_variant_without_a_divergence_says_so() -> None:
    one = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=1.0), users=50, reduction="strong", variant="tail"
    )
    rows = by_name(sa.report(one, delta=0.01))
    assert "tail" in rows["total variation", "all rounds"].value()
    assert "tail" in rows["Rényi epsilon at delta = 0.01", "all rounds"].value()


def test_nothing_happened() -> None:
    rows = sa.report(sa.FourierAccountant(), delta=0.1).rows
    assert all(row.upper == row.nothing for row in rows)


def in_groups(alpha: float) -> sa.order.DSigmaShuffler:
    groups = sa.order.Groups.from_scalar(np.arange(200.0), 2.0)
    return sa.order.DSigmaShuffler(groups, alpha=alpha)


def test_an_order_that_is_kept_amplifies_nothing() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=200)
    accountant = sa.FourierAccountant().compose(one, count=3)
    shuffler = in_groups(4.0)
    rows = {row.measure: row for row in sa.report(accountant, delta=1e-6, order=shuffler).rows}
    assert rows["epsilon"].upper == pytest.approx(1.5)
    assert rows["alpha of the order"].upper == pytest.approx(12.0)
    # the smallest group is that at an end of the line: three users
    bound = sa.order.reidentification_bound(3, 1, 1.5, 12.0)
    assert rows["naming one message in a group of 3"].upper == bound.win_cap
    assert len(rows) == 3


def test_the_order_of_a_uniform_shuffle_is_amplified() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=200)
    with pytest.warns(OrderWarning, match="close to uniform"):
        shuffler = in_groups(0.0)
    rows = sa.report(one, delta=1e-6, order=shuffler).rows
    assert rows[: len(sa.report(one, delta=1e-6).rows)] == sa.report(one, delta=1e-6).rows
    assert rows[-2].upper == 0.0


@pytest.mark.parametrize("users", [{"users": 100}, {"users": 200, "population": 400}])
def test_an_order_of_other_users_is_refused(users: dict[str, int]) -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), **users)
    with pytest.raises(ValueError, match="order must be a shuffler of all users"):
        sa.report(one, delta=1e-6, order=in_groups(4.0))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="delta must be"):
        sa.report(three_users(), delta=0.0)
    with pytest.raises(TypeError, match="subject must be"):
        sa.report("a round", delta=0.1)  # type: ignore[arg-type]


def test_text_is_rounded_up_and_infinities_stay() -> None:
    row = sa.report(three_users(), delta=0.1).rows[0]
    assert replace(row, lower=0.1, upper=0.1).value() == "0.1"
    assert replace(row, lower=None, upper=0.12345671).value() == "at most 0.1234568"
    assert replace(row, lower=1.0, upper=math.inf).value().endswith("inf")
    assert replace(row, lower=None, upper=math.inf).value() == "at most inf"
    assert replace(row, everything=math.inf).share is None
    assert replace(row, upper=None, condition="because").value() == "n/a: because"


def test_the_picture_leaves_out_what_has_no_share() -> None:
    report = sa.report(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100), delta=1e-6)
    with mpl.rc_context({"backend": "Agg"}):
        ax = sa.plot.report(report)
    shares = [row.share for row in report.rows]
    assert len(ax.patches) == sum(share is not None for share in shares) > 3
    assert max(bar.get_width() for bar in ax.patches) == max(filter(None, shares))


Run = Callable[..., tuple[int, str, str]]


JOB = ["report", "--eps0", 1, "--users", 100, "--rounds", 2, "--delta", 1e-5, "--categories", 3]


@pytest.mark.slow
def test_the_command_line(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    code, out, err = run(*JOB, "--output", picture)
    assert (code, err) == (0, "")
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=100)
    expected = sa.report(sa.FourierAccountant().compose(one, count=2), delta=1e-5)
    assert out == f"{expected}\n"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_json(run: Run) -> None:
    code, out, err = run(*JOB, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["question"]["delta"] == 1e-5
    assert {"measure", "lower", "upper", "adversary"} <= set(answer["rows"][0])
    assert 0 < answer["rows"][0]["lower"] <= answer["rows"][0]["upper"]


def test_an_error_is_one_line(run: Run) -> None:
    code, out, err = run(*JOB[:-2], "--categories", 1)
    assert (code, out) == (2, "")
    assert err.startswith("shuffle-accountant: error: --categories must be")
    assert err.count("\n") == 1
