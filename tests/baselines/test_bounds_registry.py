"""A published bound that registers itself is in the comparison and on the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant import cli
from shuffle_accountant.baselines.closed_forms import OneRoundBound
from shuffle_accountant.baselines.question import (
    BOUNDS,
    OutsideValidityError,
    ProtocolBound,
    Question,
)
from shuffle_accountant.reports.catalogue import bounds_table
from shuffle_accountant.reports.comparison import compare

FEW = 100


def valid(*, eps0: float, users: int, delta: float) -> str | None:
    return None if users >= FEW else f"users >= {FEW}, got {users}"


def epsilon(*, eps0: float, users: int, delta: float) -> float:
    """Local privacy, whatever the shuffler does."""
    return eps0


@pytest.fixture
def local() -> Iterator[OneRoundBound]:
    """What everybody knows, as a bound defined here."""
    bound = BOUNDS.register(
        OneRoundBound(
            name="local",
            source="by definition",
            sound=True,
            about="one round of any randomizer",
            valid=valid,
            epsilon=epsilon,
            interactive=True,
        )
    )
    yield bound
    BOUNDS.remove("local")


def of(rows: list[Any], name: str) -> Any:
    (row,) = [row for row in rows if row.name == name]
    return row


def test_it_is_compared_like_any_other(local: OneRoundBound) -> None:
    rows = compare(eps0=0.5, users=1000, delta=1e-6)
    assert (rows[-1].name, rows[-1].epsilon, rows[-1].source) == ("local", 0.5, "by definition")
    assert of(compare(eps0=0.5, users=10, delta=1e-6), "local").condition == "users >= 100, got 10"
    sampled = of(compare(eps0=0.5, users=100, population=1000, delta=1e-6), "local")
    assert sampled.via == ("sampling",)
    assert sampled.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(0.5)), rel=1e-12)
    twice = of(compare(eps0=0.5, users=100, delta=1e-6, rounds=2), "local")
    assert twice.via == ("strong composition",)
    assert twice.epsilon == pytest.approx(1.0, rel=1e-12)


def test_it_is_on_the_command_line(
    local: OneRoundBound, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["compare", "--eps0", "0.5", "--users", "1000", "--delta", "1e-6"]
    assert cli.main(job) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["local", "yes", "0.5"]
    assert cli.main([*job, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][-1]["name"] == "local"


def test_it_is_in_the_table_of_bounds(local: OneRoundBound) -> None:
    assert "| `local` | one round of any randomizer |" in bounds_table()


def test_a_bound_of_whole_protocols() -> None:
    """Basic composition, for rounds of any kind."""

    def total(question: Question) -> float:
        return math.fsum(
            count * one.randomizer.eps0 for one, count in question.only_shuffled("basic")
        )

    bound = ProtocolBound(
        name="basic",
        source="by definition",
        sound=True,
        about="any shuffled rounds",
        valid=lambda **_: None,
        epsilon=total,
        forms={"": total},
        rank=0,
    )
    BOUNDS.register(bound)
    try:
        mixed = sa.Protocol(
            [
                (sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=100), 2),
                (sa.ShuffleRound(sa.LaplaceRandomizer(0.25), users=50), 4),
            ]
        )
        rows = compare(mixed, delta=1e-6)
        assert [row.epsilon for row in rows if row.name == "basic"] == [2.0]
        assert next(row.name for row in rows if row.name != "certified") == "basic"
        table = sa.LossTable([-1.0, 1.0], [0.25, 0.75])
        other = compare(sa.PldRound.from_tables(table), delta=0.01)
        assert of(other, "basic").condition == "shuffled rounds alone"
    finally:
        BOUNDS.remove("basic")


def test_a_name_is_taken_once(local: OneRoundBound) -> None:
    with pytest.raises(ValueError, match=r"name must be new in .*baselines, got 'local'"):
        BOUNDS.register(local)
    assert "local" in BOUNDS
    assert BOUNDS["local"] is local
    assert len(BOUNDS) == len(list(BOUNDS)) == 14


def test_questions_outside_say_so() -> None:
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=2.0), users=100)
    question = Question(protocol=sa.Protocol([(one, 1)]), delta=1e-6)
    with pytest.raises(OutsideValidityError, match="a finite eps0"):
        question.one_kind("some bound")
    interactive = sa.ShuffleRound(sa.GeneralRandomizer(0.4, interactive=True), users=10_000)
    rows = compare(interactive, delta=1e-6)
    refused = {row.name for row in rows if row.condition and "interactive" in row.condition}
    assert {"girgis", "strong_clones_closed_form", "blanket_bennett"} <= refused
    # these two are about randomizers that look at earlier messages
    assert of(rows, "erlingsson").epsilon == sa.baselines.erlingsson.epsilon(
        eps0=0.4, users=10_000, delta=1e-6
    )
    assert of(rows, "clones_closed_form").epsilon is not None
