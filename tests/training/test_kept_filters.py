"""Filters kept in a database, and their states, go on as the filter in memory does."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.training import BudgetExceeded, PrivacyFilter, ShuffleLedger
from shuffle_accountant.training.plans import KINDS

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra 'ledger')")

SURVEY = sa.ShuffleRound(sa.RandomizedResponse(categories=2, eps0=2.0), users=10_000)
OTHER = sa.ShuffleRound(sa.RandomizedResponse(categories=4, eps0=1.0), users=10_000)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "order": 40.0}  # planned at once


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/privacy.db"


@pytest.mark.parametrize(
    "kind",
    [pytest.param("auto", marks=pytest.mark.release), *KINDS[1:]],  # all kinds are planned
)
def test_it_goes_on_as_in_memory_does(url: str, kind: str) -> None:
    """Two handles on one filter, one made later, a pickled one and a state read back."""
    plan: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "kind": kind, "planned": SURVEY}
    memory, first = PrivacyFilter(**plan), PrivacyFilter.open(url, "search", **plan)
    for one, count in ((SURVEY, 2), (OTHER, 1)):
        memory.step(one, count)
        receipt = first.step(one, count)
    later = PrivacyFilter.open(url, "search", at_least=str(receipt))
    assert later.step(OTHER) == first.receipt
    assert first.receipt.number == 3
    memory.step(OTHER)
    copies = (
        PrivacyFilter.open(url, "search", **plan),
        pickle.loads(pickle.dumps(first)),
        PrivacyFilter.from_state_dict(json.loads(json.dumps(first.state_dict()))),
        pickle.loads(pickle.dumps(memory)),
    )
    for one in (first, later, *copies):
        assert len(one) == len(memory) == 4
        assert (one.spent, one.kind, one.order) == (memory.spent, memory.kind, memory.order)
        assert one.remaining(SURVEY) == memory.remaining(SURVEY) > 0
    for one in (*copies, first):
        with pytest.raises(BudgetExceeded):
            one.step(SURVEY, memory.remaining(SURVEY) + 1)
    steps = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=0.1)
    with pytest.raises(ValueError, match="adjacency REPLACE_ONE"):
        copies[0].step(steps)


def use_up(start: Any, said: Any, url: str) -> None:
    kept, steps = PrivacyFilter.open(url, "search"), 0
    start.wait()
    try:
        while True:
            kept.step(SURVEY)
            steps += 1
    except BudgetExceeded:
        said.put(steps)


def test_processes_never_exceed_it_together(url: str) -> None:
    kept = PrivacyFilter.open(url, "search", **BUDGET)
    most = kept.remaining(SURVEY)
    assert most > 10
    forked = multiprocessing.get_context("fork")
    start, said = forked.Event(), forked.Queue()
    workers = [forked.Process(target=use_up, args=(start, said, url)) for _ in range(3)]
    for worker in workers:
        worker.start()
    start.set()
    assert sum(said.get() for _ in workers) == len(kept) == most
    for worker in workers:
        worker.join()


def test_ledgers_and_filters_share_a_database(url: str) -> None:
    ledger = ShuffleLedger.open(url, "survey", randomizer=SURVEY.randomizer, users=10_000)
    kept = PrivacyFilter.open(url, "survey", **BUDGET)
    kept.step(SURVEY, 3)
    ledger.step(2)
    assert (len(ledger), len(kept)) == (2, 3)


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("UPDATE shuffle_filter_entries SET count = 0 WHERE number = 2", "altered at entry 2"),
        (
            "UPDATE shuffle_filter_entries SET round = replace(round, '10000', '99999')",
            "altered at entry 1",
        ),
        ("UPDATE shuffle_filter_entries SET round = 7 WHERE number = 2", "altered at entry 2"),
        ("DELETE FROM shuffle_filter_entries WHERE number = 3", "it has 2 entries, not 3"),
        ("UPDATE shuffle_filters SET config = replace(config, '1.0', '9.0')", "altered"),
        ("DELETE FROM shuffle_filters", "has entries, and no configuration"),
        ("UPDATE shuffle_filters SET schema = 7", "newer than 2"),
    ],
)
def test_an_altered_filter_is_refused(url: str, statement: str, match: str) -> None:
    kept = PrivacyFilter.open(url, "search", **BUDGET)
    for _ in range(3):
        receipt = kept.step(SURVEY)
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)
    with pytest.raises(ValueError, match=match):
        PrivacyFilter.open(url, "search")
    if match == "it has 2 entries, not 3":
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(
                "UPDATE shuffle_filters SET number = 2, digest = (SELECT digest FROM "
                "shuffle_filter_entries WHERE number = 2)"
            )
        assert len(PrivacyFilter.open(url, "search")) == 2  # which is seen only from outside
        with pytest.raises(ValueError, match="behind receipt 3:"):
            PrivacyFilter.open(url, "search", at_least=receipt)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": 2.0, "delta": 1e-6, "order": 40.0}, r"epsilon must be .* 1\.0, got 2\.0"),
        ({"epsilon": 1.0, "delta": 1e-7, "order": 40.0}, "delta must be that of the filter"),
        ({"epsilon": 1.0, "delta": 1e-6, "order": 41.0}, "order must be that of the filter"),
        ({**BUDGET, "kind": "renyi"}, "kind must be that of the filter"),
        ({"epsilon": 1.0, "delta": 1e-6}, "planned must be a round: .* got None"),
        ({"order": 40.0}, "need an epsilon, got None"),
        ({"kind": "unit"}, "need an epsilon, got None"),
        ({"at_least": "1:0"}, "at_least must be a receipt"),
    ],
)
def test_another_filter(url: str, options: dict[str, Any], match: str) -> None:
    PrivacyFilter.open(url, "search", **BUDGET)
    with pytest.raises(ValueError, match=match):
        PrivacyFilter.open(url, "search", **options)
    with pytest.raises(ValueError, match="there is no filter 'none'"):
        PrivacyFilter.open(url, "none")


def test_altered_states_are_refused() -> None:
    kept = PrivacyFilter(**BUDGET)
    kept.step(SURVEY, 3)
    state = kept.state_dict()
    for field, value in (("spent", [0.0, 0.0]), ("steps", 1), ("plan", None), ("epsilon", 9.0)):
        with pytest.raises(ValueError, match="does not fit its digest"):
            PrivacyFilter.from_state_dict({**state, field: value})
    with pytest.raises(ValueError, match="must have fields"):
        PrivacyFilter.from_state_dict({**state, "more": 1})
