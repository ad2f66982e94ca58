"""A measure that registers itself is in reports and on the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant import cli
from shuffle_accountant.reports.rows import (
    MEASURES,
    Measure,
    RoundMeasure,
    Stage,
    Subject,
)


def messages(subject: Subject) -> Iterator[sa.ReportRow]:
    """How many messages anybody has sent."""
    yield sa.ReportRow(
        measure="messages",
        scope="all rounds",
        upper=float(sum(one.users * count for one, count in subject.shuffled)),
        unit="messages",
        nothing=0.0,
        adversary="counts",
        source="by definition",
    )


def crowd(one: sa.ShuffleRound, scope: str) -> Iterator[sa.ReportRow]:
    """The entropy of a message's place."""
    yield sa.ReportRow(
        measure="crowd",
        scope=scope,
        upper=math.log(one.users),
        unit="nats",
        nothing=0.0,
        adversary="counts",
        source="by definition",
    )


@pytest.fixture
def registered() -> Iterator[None]:
    MEASURES.register(Measure(name="messages", rows=messages, stage=Stage.SUMS, uniform=False))
    MEASURES.register(RoundMeasure(name="crowd", rows=crowd))
    yield
    MEASURES.remove("messages")
    MEASURES.remove("crowd")


@pytest.mark.usefixtures("registered")
def test_they_are_in_the_report() -> None:
    small = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=10)
    large = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=20)
    rows = sa.report([(small, 3), (large, 2)], delta=0.01).rows
    assert (rows[-1].measure, rows[-1].value()) == ("messages", "at most 70")
    crowds = [(row.scope, row.upper) for row in rows if row.measure == "crowd"]
    assert crowds == [
        ("each round of kind 1", math.log(10)),
        ("each round of kind 2", math.log(20)),
    ]
    # after the package's own of the same round
    names = [row.measure for row in rows if row.scope == "each round of kind 1"]
    assert names.index("crowd") == len(names) - 1 == 4


@pytest.mark.usefixtures("registered")
def test_they_are_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    job = ["report", "--eps0", "1", "--users", "10", "--rounds", "3", "--delta", "0.01"]
    assert cli.main(job) == 0
    assert "\nmessages " in capsys.readouterr().out
    assert cli.main([*job, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["upper"] for row in rows if row["measure"] == "messages"] == [30.0]


@pytest.mark.usefixtures("registered")
def test_without_uniform_shuffles_only_those_that_need_none() -> None:
    groups = sa.order.Groups.from_scalar(np.arange(200.0), 2.0)
    shuffler = sa.order.DSigmaShuffler(groups, alpha=4.0)
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=200)
    names = [row.measure for row in sa.report(one, delta=1e-6, order=shuffler).rows]
    assert "messages" in names
    assert "crowd" not in names
    assert "total variation" not in names


def test_the_package_s_own_are_gone_when_removed() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=20)
    everything = sa.report(one, delta=0.01)
    taken = MEASURES.remove("Rényi epsilon")
    try:
        rows = sa.report(one, delta=0.01).rows
    finally:
        MEASURES.register(taken)
    assert rows == everything.rows[:1] + everything.rows[2:]


def test_protocols_and_lists_are_measured_as_what_an_accountant_recorded() -> None:
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=100)
    accountant = sa.FourierAccountant().compose(one, count=2)
    wanted = sa.report(accountant, delta=1e-5)
    assert sa.report(sa.Protocol([(one, 2)]), delta=1e-5) == wanted
    assert sa.report([(one, 2)], delta=1e-5) == wanted


def test_rows_say_which_datasets_are_told_apart() -> None:
    table = sa.LossTable([-1.0, 1.0], [0.25, 0.75])
    for adjacency in sa.Adjacency:
        one = sa.PldRound.from_tables(table, adjacency=adjacency)
        report = sa.report(one, delta=0.01)
        assert {row.adjacency for row in report.rows} == {adjacency.value}
        about = [line for line in str(report).splitlines() if line.startswith("    ")]
        assert len(about) >= len(report.rows)
        assert sum(adjacency.value in line for line in about) == len(report.rows)
    shuffled = sa.report(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=20), delta=0.01)
    told = {row.measure: row.adjacency for row in shuffled.rows}
    assert told["total variation"] == "replace-one"
    assert told["naming the message"] is None
