"""Ledgers in databases: many writers, killed ones, damaged files; SQLite, a real PostgreSQL."""

from __future__ import annotations

import contextlib
import copy
import json
import multiprocessing
import os
import pickle
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.training import (
    BudgetExceeded,
    ShuffleLedger,
    StorageError,
    database,
)
from shuffle_accountant.training.store import Entry, Receipt

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra 'ledger')")

RANDOMIZER = sa.GeneralRandomizer(eps0=1.0)
DELTA = 1e-6
ROUND = sa.ShuffleRound(RANDOMIZER, users=1000)


def test_what_waiting_does_not_mend_is_raised_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is gone, when reading and when writing; a log that no version can leave."""

    def wait(seconds: float) -> None:
        raise AssertionError("it waits for something that will not come")

    patient = SimpleNamespace(monotonic=time.monotonic, sleep=wait)
    monkeypatch.setattr(database, "time", patient)
    path = tmp_path / "privacy.db"
    kept = opened(f"sqlite:///{path}", "one")._store
    assert kept is not None
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE shuffle_ledgers")
    with pytest.raises(ValueError, match="no such table"):
        kept.entries(Receipt(0, ""))
    with pytest.raises(ValueError, match="no such table"):
        kept.append(Entry(10, None, 1), Receipt(0, ""), lambda *_: None)

    class Log:
        """A connection to a database that stays in its write-ahead mode."""

        def execute(self, statement: str) -> Any:
            if statement.endswith("DELETE"):
                raise sqlite3.OperationalError("disk I/O error")
            return SimpleNamespace(fetchone=lambda: ("wal",))

    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        database._roll_back_by_journal(Log())


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/privacy.db"
    return str(request.getfixturevalue("postgresql"))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:200]  # tests share a server


def opened(url: str, name: str, **options: Any) -> ShuffleLedger:
    return ShuffleLedger.open(url, name, randomizer=RANDOMIZER, users=1000, **options)


@pytest.mark.slow
def test_it_goes_on_where_it_was(url: str, name: str) -> None:
    first = opened(url, name, budget=(3.0, DELTA))
    first.step()
    first.step(4)
    first.step(2, users=900)
    again = ShuffleLedger.open(url, name)
    assert len(again) == len(first) == 7
    assert again.state_dict() == first.state_dict()
    assert again.epsilon() == sa.epsilon(
        [(ROUND, 5), (sa.ShuffleRound(RANDOMIZER, users=900), 2)], delta=DELTA
    )
    again.step()
    assert len(first) == 8  # it sees what the other did
    for other in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        other.step()
    assert first.num_releases == 10
    second = opened(url, f"{name[:190]}, second")
    assert len(second) == 0
    in_memory = ShuffleLedger.from_state_dict(first.state_dict())
    assert in_memory.epsilon() == first.epsilon()
    with pytest.raises(ValueError, match="a ledger kept in a database goes on from there"):
        first.load_state_dict(in_memory.state_dict())


def test_the_budget_refuses(url: str, name: str) -> None:
    most = int(sa.max_rounds(round=ROUND, target_epsilon=0.5, delta=DELTA))
    ledger = opened(url, name, budget=(0.5, DELTA))
    ledger.step(most)
    other = ShuffleLedger.open(url, name)
    for one in (ledger, other):
        with pytest.raises(BudgetExceeded, match=f"step {most + 1} would exceed epsilon = 0.5"):
            one.step()
        with pytest.raises(BudgetExceeded):
            one.step(users=500)
    assert len(other) == most
    assert other.epsilon() <= 0.5


def test_smaller_rounds_cost_more_and_are_refused_in_time(url: str, name: str) -> None:
    ledger = opened(url, name, budget=(0.5, DELTA))
    while not ledger.would_exceed(sa.ShuffleRound(RANDOMIZER, users=300)):
        ledger.step(users=300)
    with pytest.raises(BudgetExceeded):
        ledger.step(users=300)
    steps = len(ledger)
    small = sa.ShuffleRound(RANDOMIZER, users=300)
    assert steps == int(sa.max_rounds(round=small, target_epsilon=0.5, delta=DELTA))


def test_receipts(url: str, name: str) -> None:
    ledger = opened(url, name, budget=(3.0, DELTA))
    start = ledger.receipt
    receipts = [start, ledger.step(), ledger.step(4, users=900), ledger.step()]
    assert [one.number for one in receipts] == [0, 1, 2, 3]
    assert len({one.digest for one in receipts}) == 4
    assert ledger.receipt == receipts[-1]
    other = opened(url, f"{name[:190]}, other", budget=(3.0, DELTA))
    assert other.receipt != start  # the name counts
    other.step()
    for receipt in receipts:
        for told in (receipt, str(receipt)):
            assert ShuffleLedger.open(url, name, at_least=told).receipt == receipts[-1]
        assert len(opened(url, name, budget=(3.0, DELTA), at_least=receipt)) == 6
    with pytest.raises(ValueError, match="is another than that of receipt 1:"):
        opened(url, f"{name[:190]}, other", budget=(3.0, DELTA), at_least=receipts[1])
    with pytest.raises(ValueError, match=f"is behind receipt {receipts[2]}"):
        opened(url, f"{name[:190]}, other", budget=(3.0, DELTA), at_least=receipts[2])
    with pytest.raises(ValueError, match="there is no ledger"):  # and none is made
        opened(url, f"{name[:190]}, third", at_least=start)
    with pytest.raises(TypeError, match="at_least must be a receipt, got 3 of type int"):
        ShuffleLedger.open(url, name, at_least=3)  # type: ignore[arg-type]
    for wrong in ("", "3", f"-1:{start.digest}", f"1:{start.digest[1:]}", f"1:{start.digest}\n"):
        with pytest.raises(ValueError, match="at_least must be a receipt, NUMBER:DIGEST") as raised:
            ShuffleLedger.open(url, name, at_least=wrong)
        assert "\n" not in str(raised.value)


def stored_by_version_0_2_0(url: str) -> Any:
    """Put its ledger 'survey' into a database; what it answered, its lower and upper end first."""
    stored = json.loads((Path(__file__).parents[1] / "states" / "0.2.0.json").read_text())
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript("\n".join(stored["database"]))
        return stored["database_epsilon"]
    import sqlalchemy

    opened(url, "another")  # makes the tables, which are the same
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        for table in ("shuffle_ledger_entries", "shuffle_ledgers"):
            of = "ledger" if table == "shuffle_ledger_entries" else "name"
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE {of} = 'survey'")
        inserts = [line for line in stored["database"] if line.startswith("INSERT")]
        for line in sorted(inserts, key=lambda line: "shuffle_ledgers" not in line):
            connection.exec_driver_sql(line)
    engine.dispose()
    return stored["database_epsilon"]


def test_a_ledger_of_version_0_2_0(url: str) -> None:
    lower, upper, _ = stored_by_version_0_2_0(url)
    with pytest.warns(UserWarning, match="was kept by version 0.2.0 and not sealed: its 3") as told:
        ledger = ShuffleLedger.open(url, "survey")
    # connections of other tests may be collected meanwhile, with a warning of their own
    assert sum(issubclass(one.category, UserWarning) for one in told) == 1
    assert "\n" not in str(told[0].message)
    assert len(ledger) == 6
    assert ledger.epsilon().lower <= upper
    assert lower <= ledger.epsilon().upper
    receipt = ledger.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = opened(url, "survey", budget=(2.0, DELTA), at_least=receipt)
    assert again.state_dict() == ledger.state_dict()
    assert ledger._store is not None
    # of two processes that open it at once the second finds it sealed
    assert ledger._store._retried(ledger._store._seal, writing=True) == 4
    assert opened(url, "survey", budget=(2.0, DELTA)).state_dict() == ledger.state_dict()


def test_an_altered_ledger_of_version_0_2_0(tmp_path: Path) -> None:
    for statement, match in [
        ("UPDATE shuffle_ledger_entries SET count = 0 WHERE number = 2", "altered at entry 2"),
        ("DELETE FROM shuffle_ledger_entries WHERE number = 3", "it has 2 entries, not 3"),
        ("UPDATE shuffle_ledgers SET config = '{'", "was altered: its configuration: "),
        ("UPDATE shuffle_ledgers SET config = '[]'", "was altered: its configuration is "),
    ]:
        path = tmp_path / f"{len(match)}.db"
        stored_by_version_0_2_0(f"sqlite:///{path}")
        edited(path, statement)
        with pytest.raises(ValueError, match=match):
            ShuffleLedger.open(f"sqlite:///{path}", "survey")
        with contextlib.closing(sqlite3.connect(path)) as connection:  # nothing was sealed
            assert connection.execute("SELECT schema FROM shuffle_ledgers").fetchall() == [(1,)]


def together(doing: Callable[..., None], processes: int, *given: Any) -> list[int]:
    """What processes say that are let go at once."""
    forked = multiprocessing.get_context("fork")
    start, said = forked.Barrier(processes), forked.SimpleQueue()
    running = [forked.Process(target=doing, args=(start, said, *given)) for _ in range(processes)]
    for one in running:
        one.start()
    for one in running:
        one.join(timeout=300)
    assert [one.exitcode for one in running] == [0] * processes
    return [said.get() for _ in running]


def make(start: Any, said: Any, url: str, name: str) -> None:
    start.wait()
    said.put(opened(url, name).step().number)


def test_six_processes_make_one_ledger(url: str, name: str) -> None:
    assert sorted(together(make, 6, url, name)) == [1, 2, 3, 4, 5, 6]
    assert len(ShuffleLedger.open(url, name)) == 6


def use_up(start: Any, said: Any, url: str, name: str) -> None:
    ledger, steps = ShuffleLedger.open(url, name), 0
    start.wait()
    with contextlib.suppress(BudgetExceeded):
        while True:
            ledger.step()
            steps += 1
    said.put(steps)


@pytest.mark.slow
def test_six_processes_use_up_exactly_the_budget(url: str, name: str) -> None:
    ledger = opened(url, name, budget=(1.5, DELTA))
    most = int(sa.max_rounds(round=ROUND, target_epsilon=1.5, delta=DELTA))
    assert most > 60
    steps = together(use_up, 6, url, name)
    assert sum(steps) == len(ledger) == most
    assert sum(one > 0 for one in steps) > 1  # they did get in each other's way


def step_for_ever(url: str, name: str, acknowledge: Any) -> None:
    ledger = ShuffleLedger.open(url, name)
    acknowledge.send_bytes(b"!")
    while True:
        ledger.step()
        acknowledge.send_bytes(b".")


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.release)])
def test_kills_lose_no_acknowledged_step(url: str, name: str, kills: int) -> None:
    opened(url, name)
    forked = multiprocessing.get_context("fork")
    chance = random.Random(kills)
    recorded = 0
    for _ in range(kills):
        receive, send = forked.Pipe(duplex=False)
        writer = forked.Process(target=step_for_ever, args=(url, name, send))
        writer.start()
        send.close()
        assert receive.recv_bytes() == b"!"
        waited = chance.randrange(3)
        for _ in range(waited):
            assert receive.recv_bytes() == b"."
        time.sleep(chance.uniform(0.0, 0.03))  # so that kills come anywhere in a step
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        steps = waited
        with contextlib.suppress(EOFError):
            while receive.recv_bytes():
                steps += 1
        now = len(ShuffleLedger.open(url, name))  # which checks every digest
        assert recorded + steps <= now <= recorded + steps + 1
        recorded = now
    assert recorded > kills // 2


# Files that are not as they should be


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of 300 entries, nobody's at the moment."""
    path = tmp_path_factory.mktemp("template") / "privacy.db"
    ledger = opened(f"sqlite:///{path}", "survey", budget=(30.0, DELTA))
    for number in range(300):
        ledger.step(users=1000 + number % 7)
    assert ledger._store is not None
    ledger._store._engine.dispose()
    return path


@pytest.fixture
def file(template: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(template, tmp_path / "privacy.db"))


def refused(error: type[Exception], path: Path, match: str, **options: Any) -> None:
    """Opening fails with one line, and the file stays as it is."""
    before = path.read_bytes()
    with pytest.raises(error, match=match) as raised:
        ShuffleLedger.open(f"sqlite:///{path}", "survey", **options)
    assert "\n" not in str(raised.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file(file: Path, share: float) -> None:
    os.truncate(file, int(share * file.stat().st_size))
    refused(ValueError, file, "is damaged")


@pytest.mark.parametrize("left", [100, 4096, 8192, -4096])
def test_what_a_short_file_has_lost_was_there(tmp_path: Path, left: int) -> None:
    """A ledger of a few entries, whose own row is in what is cut off: no new one is made."""
    path = tmp_path / "privacy.db"
    ledger = opened(f"sqlite:///{path}", "survey", budget=(30.0, DELTA))
    ledger.step()
    assert ledger._store is not None
    ledger._store._engine.dispose()
    os.truncate(path, left if left > 0 else path.stat().st_size + left)
    refused(ValueError, path, "is damaged")
    with pytest.raises(ValueError, match="is damaged"):
        opened(f"sqlite:///{path}", "survey", budget=(30.0, DELTA))


def test_no_database_at_all(file: Path) -> None:
    file.write_bytes(b"not a database, but long enough to be taken for one" * 100)
    refused(ValueError, file, "is damaged: file is not a database")


def edited(file: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("UPDATE shuffle_ledger_entries SET count = 0 WHERE number = 7", "altered at entry 7"),
        ("UPDATE shuffle_ledger_entries SET users = 9999 WHERE number = 300", "at entry 300"),
        ("DELETE FROM shuffle_ledger_entries WHERE number = 7", "altered at entry 7"),
        ("DELETE FROM shuffle_ledger_entries WHERE number > 290", "it has 290 entries, not 300"),
        ("UPDATE shuffle_ledgers SET number = 290", "was cut"),
        ("UPDATE shuffle_ledgers SET schema = 99", "has schema 99, newer than 2"),
        ("DELETE FROM shuffle_ledgers", "it has entries, and no configuration"),
    ],
)
def test_an_altered_log(file: Path, statement: str, match: str) -> None:
    edited(file, statement)
    refused(ValueError, file, match)


@pytest.mark.parametrize(
    "options",
    [
        {"users": 999, "budget": (30.0, DELTA)},
        {"users": 1000, "population": 5000, "budget": (30.0, DELTA)},
        {"users": 1000, "budget": (30.0, 1e-5)},
        {"users": 1000, "budget": (31.0, DELTA)},
        {"users": 1000},
    ],
)
def test_another_configuration(file: Path, options: dict[str, Any]) -> None:
    match = "ledger 'survey' is of another configuration"
    refused(ValueError, file, match, randomizer=RANDOMIZER, **options)


OPEN_AND_STEP = """
import json, sys
from shuffle_accountant.training import ShuffleLedger
steps = 0
try:
    ledger = ShuffleLedger.open(sys.argv[1], "survey")
    while steps < 100_000:
        ledger.step(users=1000)
        steps += 1
except Exception as error:
    print(json.dumps([type(error).__name__, str(error), steps]))
"""


def stepped(path: Path, *prefix: str, **options: Any) -> tuple[str, str, int]:
    """What a process says that steps until that fails: error, message, steps acknowledged."""
    command = [*prefix, sys.executable, "-c", OPEN_AND_STEP, f"sqlite:///{path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stderr
    kind, message, steps = json.loads(done.stdout)
    assert "\n" not in message
    return kind, message, steps


@pytest.mark.slow
def test_a_file_that_cannot_be_written(file: Path) -> None:
    before = file.read_bytes()
    file.chmod(0o444)
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:  # who may write everything
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed, and root may write to read-only files")
        prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    kind, message, steps = stepped(file, *prefix)
    assert (kind, steps) == ("StorageError", 0)
    assert "readonly database" in message
    assert file.read_bytes() == before


@pytest.mark.slow
def test_a_disk_that_is_full(file: Path) -> None:
    """No file may grow beyond a limit, which is what a full disk does to it."""
    most = file.stat().st_size + 10_000

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    kind, message, steps = stepped(file, preexec_fn=limit)
    assert kind == "StorageError"
    assert "cannot be used: " in message
    assert len(ShuffleLedger.open(f"sqlite:///{file}", "survey")) == 300 + steps


def test_arguments(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(ValueError, match=r"there is no ledger 'survey' in sqlite:"):
        ShuffleLedger.open(url, "survey")
    with pytest.raises(ValueError, match="need a randomizer, got none"):
        ShuffleLedger.open(url, "survey", users=3)
    with pytest.raises(TypeError, match=r"budget must be a pair \(epsilon, delta\), got 3"):
        opened(url, "survey", budget=3)
    with pytest.raises(ValueError, match="must name a file, since memory forgets"):
        opened("sqlite://", "survey")
    with pytest.raises(ValueError, match="url must be"):
        opened("mysql://localhost/x", "survey")
    with pytest.raises(ValueError, match="url must be of a database"):
        opened("privacy.db", "survey")
    with pytest.raises(ValueError, match="name must have 1 to 200 characters"):
        opened(url, "")
    with pytest.raises(StorageError, match="cannot be used: unable to open database file"):
        opened(f"sqlite:///{tmp_path}/missing/privacy.db", "survey")


def test_a_file_put_back_under_a_running_process(file: Path) -> None:
    url = f"sqlite:///{file}"
    ledger = ShuffleLedger.open(url, "survey")
    edited(file, "UPDATE shuffle_ledgers SET number = 10, digest = ''")
    with pytest.raises(ValueError, match="was cut"):
        ledger.step()
