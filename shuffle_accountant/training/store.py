"""Steps of a ledger in a database: an append-only log, written in transactions (extra ``ledger``).

Two tables. ``shuffle_ledgers`` has one row for each ledger: its configuration, the number of its
last entry and that entry's digest. ``shuffle_ledger_entries`` has one row for each entry: which
round, how often, and a SHA-256 digest of all that and of the entry before. A log that was cut, or
altered by mistake, does not fit its digests and is refused; a whole database that was put back to
an earlier state cannot be told from one that never went on, and who may write to it can forge it.

An entry is appended under a lock that all writers take first: SQLite's (``BEGIN IMMEDIATE``), or
PostgreSQL's on the ledger's row. It is on disk when the transaction returns. Of two writers who
got past each other the primary key would refuse the second. What the database undid because of
other writers is tried again; what may have been committed is not, and its error is raised: then
the entry may be there, but the caller must not release the round.

SQLite files are in its write-ahead mode, with every commit synchronised; they must be on a disk of
the machine, not on a network's.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from shuffle_accountant import validation as validate

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

__all__ = ["Entry", "LedgerStore", "StorageError", "Transaction"]

T = TypeVar("T")

SCHEMA = 1
_MISSING = (
    "ShuffleLedger.open needs SQLAlchemy: install the extra, pip install '.[ledger]' in a clone"
)
_MOST_NAME = 200
# Seconds that a writer waits for others.
_PATIENCE = 60.0
# PostgreSQL's codes for what it undid because of other transactions.
_UNDONE = ("40001", "40P01")


class StorageError(OSError):
    """A ledger's database could not be read or written; no step may be taken for recorded."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Some equal steps.

    Attributes:
        users: in each of them.
        population: that they are drawn from, or None.
        count: how many.
    """

    users: int
    population: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends: the number of the last entry, 0 if there is none, and its digest."""

    number: int
    digest: str


class LedgerStore:
    """One ledger in a database.

    Args:
        url: of the database, as SQLAlchemy has them.
        name: of the ledger, 1 to 200 characters.

    Raises:
        ImportError: SQLAlchemy, or the database's driver, is not installed.
        TypeError: an argument of the wrong type.
        ValueError: no URL of a database, or a database of another kind.
        StorageError: the database cannot be opened.
    """

    def __init__(self, url: str, name: str) -> None:
        self.url = validate.instance(str, url=url)
        self.name = validate.instance(str, name=name)
        if not 1 <= len(name) <= _MOST_NAME:
            raise ValueError(f"name must have 1 to {_MOST_NAME} characters, got {name!r:.60}")
        self._engine = _engine(url)
        self._ledgers, self._entries = _tables()
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"{self._engine.url.render_as_string(hide_password=True)} {self.name!r}"

    def open(self, config: dict[str, Any] | None) -> dict[str, Any]:
        """The ledger's configuration; a new ledger if there is none and one is given.

        Raises:
            ValueError: there is no such ledger, its schema is newer, or the database is damaged.
            StorageError: the database cannot be read, or written.
        """
        with self._errors():
            if config is None:
                self._require_tables()
                found = self._retried(lambda connection: self._config(connection))
            else:
                found = self._retried(
                    lambda connection: self._config_or_new(connection, config), writing=True
                )
        if found is None:
            raise ValueError(f"there is no ledger {self.name!r} in {self._engine.url!r}")
        return found

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """A transaction that no other writer gets into; at its end it is on disk."""
        with self._errors():
            deadline = time.monotonic() + _PATIENCE
            while True:
                connection = self._live().connect().execution_options(writing=True)
                try:
                    begun = connection.begin()
                    head = self._head(connection, lock=True)
                    break
                except Exception as error:
                    connection.close()
                    if not _undone(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(random.uniform(0.001, 0.02))
            try:
                with begun:
                    yield Transaction(self, connection, head)
            finally:
                connection.close()

    def entries(self, after: Head) -> tuple[list[Entry], Head]:
        """The entries behind a place of the log, checked, and where the log ends now.

        Raises:
            ValueError: the log does not fit its digests, or ends before that place.
            StorageError: the database cannot be read.
        """
        with self._errors():
            return self._retried(lambda connection: self._read(connection, after))

    def verify(self) -> None:
        """Read everything and check it.

        Raises:
            ValueError: the file is damaged, or the log does not fit its digests.
            StorageError: the database cannot be read.
        """
        with self._errors(), self._live().connect() as connection:
            self._require_whole(connection)
        self.entries(self.start())

    def start(self) -> Head:
        """The place before the first entry."""
        return Head(0, "")

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _live(self) -> Engine:
        if self._process != os.getpid():  # connections are not shared with a parent process
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _retried(self, work: Callable[[Connection], T], *, writing: bool = False) -> T:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with self._live().connect() as connection:
                    connection.execution_options(writing=writing)
                    if not writing and self._engine.dialect.name == "postgresql":
                        # head and entries are of one moment, as they always are in SQLite
                        connection.execution_options(isolation_level="REPEATABLE READ")
                    with connection.begin():
                        return work(connection)
            except Exception as error:
                if not _undone(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))

    def _require_tables(self) -> None:
        import sqlalchemy

        if not sqlalchemy.inspect(self._live()).has_table(self._ledgers.name):
            with self._live().connect() as connection:
                self._require_whole(connection)
            raise ValueError(f"there is no ledger {self.name!r} in {self._engine.url!r}")

    def _require_whole(self, connection: Connection) -> None:
        if self._engine.dialect.name == "sqlite":
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if found != "ok":
                told = " ".join(str(found).split())
                raise ValueError(f"database {self._engine.url!r} is damaged: {told}")

    def _config(self, connection: Connection) -> dict[str, Any] | None:
        row = self._row(connection)
        if row is None:
            # what a file has lost must not be taken for what was never there
            self._require_whole(connection)
            return None
        if row.schema > SCHEMA:
            raise ValueError(
                f"ledger {self.name!r} has schema {row.schema}, newer than {SCHEMA}, which this "
                "version knows"
            )
        return dict(json.loads(row.config))

    def _config_or_new(self, connection: Connection, config: dict[str, Any]) -> dict[str, Any]:
        if self._engine.dialect.name == "postgresql":  # two creators would get in each other's way
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7302190413)")
        self._ledgers.metadata.create_all(connection)
        found = self._config(connection)
        if found is None:
            values = {
                "name": self.name,
                "schema": SCHEMA,
                "config": json.dumps(config, sort_keys=True),
                "number": 0,
                "digest": "",
            }
            connection.execute(self._ledgers.insert().values(values))
            return config
        return found

    def _row(self, connection: Connection, *, lock: bool = False) -> Any:
        query = self._ledgers.select().where(self._ledgers.c.name == self.name)
        return connection.execute(query.with_for_update() if lock else query).one_or_none()

    def _head(self, connection: Connection, *, lock: bool = False) -> Head:
        if self._engine.dialect.name == "postgresql" and lock:
            # an acknowledged step must survive a crash of the server, whatever its settings
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        row = self._row(connection, lock=lock)
        if row is None:
            raise ValueError(f"there is no ledger {self.name!r} in {self._engine.url!r}")
        return Head(row.number, row.digest)

    def _read(
        self, connection: Connection, after: Head, head: Head | None = None
    ) -> tuple[list[Entry], Head]:
        head = self._head(connection) if head is None else head
        if head == after:
            return [], head
        table = self._entries
        query = table.select().where(table.c.ledger == self.name, table.c.number > after.number)
        found, digest, number = [], after.digest, after.number
        for row in connection.execute(query.order_by(table.c.number)):
            entry = Entry(row.users, row.population, row.count)
            number += 1
            digest = _digest(self.name, digest, number, entry)
            if row.number != number or row.digest != digest:
                raise ValueError(f"ledger {self.name!r} was altered at entry {number}")
            found.append(entry)
        if Head(number, digest) != head:
            raise ValueError(
                f"ledger {self.name!r} was cut: it has {number} entries, not {head.number}"
            )
        return found, head

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The database's own errors as one line."""
        import sqlalchemy.exc

        try:
            yield
        except sqlalchemy.exc.DBAPIError as error:
            cause = " ".join(str(error.orig).split())
            where = self._engine.url.render_as_string(hide_password=True)
            damaged = ("malformed", "not a database", "file is encrypted")
            if any(word in cause for word in damaged):
                raise ValueError(f"database {where} is damaged: {cause}") from None
            raise StorageError(f"database {where} cannot be used: {cause}") from None
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise StorageError(" ".join(str(error).split())) from None


class Transaction:
    """What may be read and appended while no other writer can.

    Args:
        store: of the ledger.
        connection: with a transaction begun.
        head: where the log ends.
    """

    def __init__(self, store: LedgerStore, connection: Connection, head: Head) -> None:
        self._store, self._connection, self._head = store, connection, head

    def entries(self, after: Head) -> tuple[list[Entry], Head]:
        """As `LedgerStore.entries`."""
        return self._store._read(self._connection, after, self._head)

    def append(self, entry: Entry) -> Head:
        """Append an entry; where the log ends then."""
        number = self._head.number + 1
        digest = _digest(self._store.name, self._head.digest, number, entry)
        values = {
            "ledger": self._store.name,
            "number": number,
            "users": entry.users,
            "population": entry.population,
            "count": entry.count,
            "digest": digest,
        }
        self._connection.execute(self._store._entries.insert().values(values))
        ledgers = self._store._ledgers
        moved = ledgers.update().where(
            ledgers.c.name == self._store.name, ledgers.c.number == self._head.number
        )
        changed = self._connection.execute(moved.values(number=number, digest=digest))
        if changed.rowcount != 1:
            raise StorageError(f"ledger {self._store.name!r} moved on in the middle of a step")
        self._head = Head(number, digest)
        return self._head


def _digest(name: str, before: str, number: int, entry: Entry) -> str:
    text = json.dumps([name, before, number, entry.users, entry.population, entry.count])
    return hashlib.sha256(text.encode()).hexdigest()


def _engine(url: str) -> Engine:
    try:
        import sqlalchemy
        from sqlalchemy import event
    except ImportError:
        raise ImportError(_MISSING) from None
    try:
        made = sqlalchemy.make_url(url)
        dialect = made.get_backend_name()
    except sqlalchemy.exc.ArgumentError:
        raise ValueError(
            f"url must be of a database, sqlite:///FILE or so, got {url!r:.80}"
        ) from None
    if dialect not in ("sqlite", "postgresql"):
        raise ValueError(f"url must be sqlite:///… or postgresql+psycopg://…, got {made!r:.80}")
    if dialect == "postgresql":
        return sqlalchemy.create_engine(made, pool_pre_ping=True, isolation_level="READ COMMITTED")
    if made.database in (None, "", ":memory:"):
        raise ValueError(f"url must name a file, since memory forgets, got {url!r:.80}")
    engine = sqlalchemy.create_engine(made, connect_args={"timeout": _PATIENCE})
    prepared = threading.Lock()

    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where they are begun below
        with prepared:
            _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")

    def begin(connection: Any) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _write_ahead(connection: Any) -> None:
    """Switch a file to write-ahead mode, for which it may not be in use; it stays in it."""
    if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))


def _tables() -> tuple[Table, Table]:
    import sqlalchemy as sql

    metadata = sql.MetaData()
    ledgers = sql.Table(
        "shuffle_ledgers",
        metadata,
        sql.Column("name", sql.String(_MOST_NAME), primary_key=True),
        sql.Column("schema", sql.Integer, nullable=False),
        sql.Column("config", sql.Text, nullable=False),
        sql.Column("number", sql.BigInteger, nullable=False),
        sql.Column("digest", sql.String(64), nullable=False),
    )
    entries = sql.Table(
        "shuffle_ledger_entries",
        metadata,
        sql.Column("ledger", sql.ForeignKey(ledgers.c.name), primary_key=True),
        sql.Column("number", sql.BigInteger, primary_key=True, autoincrement=False),
        sql.Column("users", sql.BigInteger, nullable=False),
        sql.Column("population", sql.BigInteger),
        sql.Column("count", sql.BigInteger, nullable=False),
        sql.Column("digest", sql.String(64), nullable=False),
    )
    return ledgers, entries


def _undone(error: Exception) -> bool:
    """Whether the database certainly undid a transaction because of others."""
    cause = getattr(error, "orig", None)
    if cause is None:
        return False
    return getattr(cause, "sqlstate", None) in _UNDONE or "database is locked" in str(cause)
