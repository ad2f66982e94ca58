"""Steps of a ledger in a database: an append-only log, written in transactions (extra ``ledger``).

Two tables. ``shuffle_ledgers`` has one row for each ledger: its configuration, and the number and
digest of its last entry. ``shuffle_ledger_entries`` has one row for each entry: which round, how
often, and its digest, which depends on the configuration and on all entries before
(`shuffle_accountant.training.receipts`). Filters have two tables of the same kind, with
``shuffle_filter`` in their names, whose entries hold the whole round as JSON.

*What is seen.* A database that was altered or cut by accident, in any field of these tables, is
refused. Whoever may write to the database can compute the digests anew, or put back an older copy
of all of it: that is seen only by a receipt that was kept elsewhere.

An entry is appended under a lock that all writers take first: SQLite's (``BEGIN IMMEDIATE``), or
PostgreSQL's on the ledger's row. It is on disk when the transaction returns. Of two writers who
got past each other the primary key would refuse the second. What the database undid because of
other writers is tried again; what may have been committed is not, and its error is raised: then
the entry may be there, but the caller must not release the round.

SQLite files have a rollback journal, which is there only while a step is being recorded, and every
commit synchronises the file and its directory: what is acknowledged is in the file itself. They
must be on a disk of the machine, not on a network's. A new file appears under its name with the
tables in it, so that an empty one is known to have lost its content.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose
from shuffle_accountant.training.database import (
    PATIENCE,
    StorageError,
    engine_of,
    make_file,
    storable,
    storage_errors,
    undone,
)
from shuffle_accountant.training.receipts import Receipt

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

__all__ = ["Entry", "FilterEntry", "LedgerStore", "Transaction"]

T = TypeVar("T")
E = TypeVar("E", bound="Entry | FilterEntry")

SCHEMA = 2
# Version 0.2.0's: its digests do not depend on the configuration.
_UNSEALED = 1
_MOST_NAME = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the log: a number of equal steps.

    Attributes:
        users: number of users of each step.
        population: number of users that they are drawn from, or None.
        count: number of steps.
    """

    owner: ClassVar[str] = "ledger"
    types: ClassVar[dict[str, Any]] = {"users": int, "population": int | None, "count": int}

    users: int
    population: int | None
    count: int


@dataclass(frozen=True, slots=True)
class FilterEntry:
    """An entry of a filter's log: a number of equal rounds.

    Attributes:
        round: the round, as JSON.
        count: number of rounds.
    """

    owner: ClassVar[str] = "filter"
    types: ClassVar[dict[str, Any]] = {"round": str, "count": int}

    round: str
    count: int


class LedgerStore(Generic[E]):
    """Access to one ledger, or one filter, in a database.

    Args:
        url: of the database, as SQLAlchemy has them.
        name: of the ledger, 1 to 200 characters.
        entry: class of the log's entries.

    Raises:
        StorageError: the database cannot be opened.
    """

    def __init__(self, url: str, name: str, entry: type[E]) -> None:
        self.url = storable(url=url)
        self.name = storable(name=name)
        if not 1 <= len(name) <= _MOST_NAME:
            raise ValueError(f"name must have 1 to {_MOST_NAME} characters, got {name!r:.60}")
        self._engine = engine_of(url)
        self._entry = entry
        self._ledgers, self._entries = _tables(entry)
        self._process = os.getpid()
        self._start = Receipt(0, "")

    def __repr__(self) -> str:
        return f"{self._where} {self.name!r}"

    @property
    def _where(self) -> str:
        return str(self._engine.url.render_as_string(hide_password=True))

    @property
    def _named(self) -> str:
        """The ledger and its database, for messages."""
        return f"{self._entry.owner} {self.name!r} in {self._where}"

    def open(self, config: dict[str, Any] | None) -> tuple[dict[str, Any], list[E], Receipt]:
        """The ledger's configuration, its entries, and where they end; all of it was checked.

        A new ledger is made if there is none and a configuration is given. One of version 0.2.0
        gets the digests of this version, with a warning.

        Raises:
            ValueError: there is no such ledger, its schema is newer, or the database is damaged.
            StorageError: the database cannot be read, or written.
        """
        with storage_errors(self._where):
            if self._engine.dialect.name == "sqlite":
                self._require_file(making=config is not None)
            schema = self._retried(
                lambda connection: self._found_or_made(connection, config),
                writing=config is not None,
            )
            if schema == _UNSEALED:
                count = self._retried(self._seal, writing=True)
                warn_loose(
                    f"{self._named} was kept by version 0.2.0 and not sealed: its {count} entries "
                    "are taken as they are and sealed now; compare them with what was released",
                    UserWarning,
                )
            return self._retried(self._whole)

    def require(self, receipt: Receipt) -> None:
        """Refuse a log, once opened, that does not have the entry of a receipt.

        Raises:
            StorageError: the database cannot be read.
        """
        table = self._entries
        query = table.select().where(table.c.ledger == self.name, table.c.number == receipt.number)
        with storage_errors(self._where):
            row = self._retried(lambda connection: connection.execute(query).one_or_none())
        digest = self._start.digest if receipt.number == 0 else getattr(row, "digest", None)
        if digest is None:
            raise ValueError(f"{self._named} is behind receipt {receipt}: it lost its last entries")
        if digest != receipt.digest:
            raise ValueError(
                f"{self._named} is another than that of receipt {receipt}: its entry of that "
                f"number has digest {validate.shown(digest)}"
            )

    @contextmanager
    def transaction(self) -> Iterator[Transaction[E]]:
        """A transaction that no other writer gets into; at its end it is on disk."""
        with storage_errors(self._where):
            deadline = time.monotonic() + PATIENCE
            while True:
                connection = self._live().connect().execution_options(writing=True)
                try:
                    begun = connection.begin()
                    head = self._head(connection, lock=True)
                    break
                except Exception as error:
                    connection.close()
                    if not undone(error) or time.monotonic() > deadline:
                        raise
                    time.sleep(random.uniform(0.001, 0.02))
            try:
                with begun:
                    yield Transaction(self, connection, head)
            finally:
                connection.close()

    def entries(self, after: Receipt) -> tuple[list[E], Receipt]:
        """The entries behind a place of the log, checked, and where the log ends now.

        Raises:
            ValueError: the log does not fit its digests, or ends before that place.
            StorageError: the database cannot be read.
        """
        with storage_errors(self._where):
            return self._retried(lambda connection: self._read(connection, after))

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def _live(self) -> Engine:
        if self._process != os.getpid():  # connections are not shared with a parent process
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _retried(self, work: Callable[[Connection], T], *, writing: bool = False) -> T:
        deadline = time.monotonic() + PATIENCE
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
                if not undone(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))

    def _require_file(self, *, making: bool) -> None:
        """Make the file of a new database; refuse one that has lost its content, or its name."""
        path = Path(str(self._engine.url.database))
        if path.exists():
            if path.stat().st_size == 0:
                raise ValueError(
                    f"database {self._where} is damaged: the file is empty; remove it only if no "
                    "ledger was ever in it"
                )
            return
        for beside in ("-journal", "-wal"):
            if path.with_name(path.name + beside).exists():
                raise ValueError(
                    f"database {self._where} is damaged: the file is gone, and its {beside} is not"
                )
        if not making:
            raise ValueError(f"there is no {self._named}")
        make_file(path, self._ledgers.metadata)

    def _found_or_made(self, connection: Connection, config: dict[str, Any] | None) -> int:
        """The schema of the ledger, made if there is none and a configuration is given."""
        import sqlalchemy

        if self._engine.dialect.name == "postgresql" and config is not None:
            # two creators would get in each other's way
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7302190413)")
        there = [
            sqlalchemy.inspect(connection).has_table(table.name)
            for table in (self._ledgers, self._entries)
        ]
        if any(there) and not all(there):
            raise ValueError(f"database {self._where} is damaged: one of its two tables is gone")
        row = self._row(connection) if all(there) else None
        if row is not None:
            if row.schema > SCHEMA:
                raise ValueError(
                    f"{self._named} has schema {row.schema}, newer than {SCHEMA}, which this "
                    "version knows"
                )
            return int(row.schema)
        # what a file has lost must not be taken for what was never there
        self._require_whole(connection)
        entries = self._entries.select().where(self._entries.c.ledger == self.name).limit(1)
        if all(there) and connection.execute(entries).first() is not None:
            raise ValueError(f"{self._named} was altered: it has entries, and no configuration")
        if config is None:
            raise ValueError(f"there is no {self._named}")
        self._ledgers.metadata.create_all(connection)
        text = json.dumps(config, sort_keys=True)
        start = Receipt.first(self.name, SCHEMA, text)
        values = {"name": self.name, "schema": SCHEMA, "config": text}
        connection.execute(
            self._ledgers.insert().values(**values, number=start.number, digest=start.digest)
        )
        return SCHEMA

    def _seal(self, connection: Connection) -> int:
        """Give a ledger of version 0.2.0 the digests of this version; the number of its entries."""
        row = self._require_row(connection, lock=True)
        if row.schema != _UNSEALED:  # another process was faster
            return int(row.number)
        self._config(row)
        entries, _ = self._read(connection, Receipt(0, ""), Receipt(row.number, row.digest))
        receipt = Receipt.first(self.name, SCHEMA, row.config)
        for entry in entries:
            receipt = receipt.after(self.name, *astuple(entry))
            one = self._entries.update().where(
                self._entries.c.ledger == self.name, self._entries.c.number == receipt.number
            )
            connection.execute(one.values(digest=receipt.digest))
        own = self._ledgers.update().where(self._ledgers.c.name == self.name)
        connection.execute(own.values(schema=SCHEMA, digest=receipt.digest))
        return receipt.number

    def _whole(self, connection: Connection) -> tuple[dict[str, Any], list[E], Receipt]:
        """Everything, checked from the first byte on."""
        self._require_whole(connection)
        row = self._require_row(connection)
        self._start = Receipt.first(self.name, row.schema, row.config)
        entries, end = self._read(connection, self._start, Receipt(row.number, row.digest))
        return self._config(row), entries, end

    def _config(self, row: Any) -> dict[str, Any]:
        try:
            config = json.loads(row.config)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self._named} was altered: its configuration: {error}") from None
        if not isinstance(config, dict):
            raise ValueError(
                f"{self._named} was altered: its configuration is {validate.shown(config)}"
            )
        return config

    def _require_whole(self, connection: Connection) -> None:
        if self._engine.dialect.name == "sqlite":
            found = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
            if found != "ok":
                told = " ".join(str(found).split())
                raise ValueError(f"database {self._where} is damaged: {told:.200}")

    def _row(self, connection: Connection, *, lock: bool = False) -> Any:
        """The ledger's own row, with fields of the right types; None if there is none."""
        query = self._ledgers.select().where(self._ledgers.c.name == self.name)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            return None
        wanted = {"name": str, "schema": int, "config": str, "number": int, "digest": str}
        for field, kind in wanted.items():
            held = getattr(row, field)
            if not isinstance(held, kind):
                raise ValueError(
                    f"{self._named} was altered: {field} must be of type {kind.__name__}, got "
                    f"{validate.shown(held)}"
                )
        if row.name != self.name:
            raise ValueError(f"{self._named} was altered: its row has name {row.name!r:.80}")
        return row

    def _require_row(self, connection: Connection, *, lock: bool = False) -> Any:
        row = self._row(connection, lock=lock)
        if row is None:
            raise ValueError(f"there is no {self._named}")
        return row

    def _head(self, connection: Connection, *, lock: bool = False) -> Receipt:
        if self._engine.dialect.name == "postgresql" and lock:
            # an acknowledged step must survive a crash of the server, whatever its settings
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        row = self._require_row(connection, lock=lock)
        if Receipt.first(self.name, row.schema, row.config) != self._start:
            raise ValueError(f"{self._named} was altered: it has another configuration now")
        return Receipt(row.number, row.digest)

    def _read(
        self, connection: Connection, after: Receipt, head: Receipt | None = None
    ) -> tuple[list[E], Receipt]:
        head = self._head(connection) if head is None else head
        if head == after:
            return [], head
        table = self._entries
        query = table.select().where(table.c.ledger == self.name, table.c.number > after.number)
        found: list[E] = []
        end = after
        for row in connection.execute(query.order_by(table.c.number)):
            entry = self._entry(**{field: getattr(row, field) for field in self._entry.types})
            known = isinstance(row.number, int) and all(
                isinstance(held, kind)
                for held, kind in zip(astuple(entry), self._entry.types.values(), strict=True)
            )
            if known:
                end = end.after(self.name, *astuple(entry))
            if not known or Receipt(row.number, row.digest) != end:
                raise ValueError(
                    f"{self._named} was altered at entry {after.number + len(found) + 1} or in its "
                    "configuration"
                )
            found.append(entry)
        if end.number != head.number:
            raise ValueError(
                f"{self._named} was cut: it has {end.number} entries, not {head.number}"
            )
        if end != head:
            raise ValueError(f"{self._named} was altered: it does not end in its own digest")
        return found, head


class Transaction(Generic[E]):
    """A transaction in which entries are read and appended while no other writer can write.

    Args:
        store: of the ledger.
        connection: with a transaction begun.
        head: receipt of the log's last entry.
    """

    def __init__(self, store: LedgerStore[E], connection: Connection, head: Receipt) -> None:
        self._store, self._connection, self._head = store, connection, head

    def entries(self, after: Receipt) -> tuple[list[E], Receipt]:
        """The entries behind a place of the log, and its end, as `LedgerStore.entries`."""
        return self._store._read(self._connection, after, self._head)

    def append(self, entry: E) -> Receipt:
        """Append an entry; return the receipt of the log's new end."""
        store, before = self._store, self._head
        after = before.after(store.name, *astuple(entry))
        values = {
            "ledger": store.name,
            "number": after.number,
            **asdict(entry),
            "digest": after.digest,
        }
        self._connection.execute(store._entries.insert().values(values))
        ledgers = store._ledgers
        moved = ledgers.update().where(
            ledgers.c.name == store.name, ledgers.c.number == before.number
        )
        changed = self._connection.execute(moved.values(number=after.number, digest=after.digest))
        if changed.rowcount != 1:
            raise StorageError(f"{store._named} moved on in the middle of a step")
        self._head = after
        return after


def _tables(entry: type[E]) -> tuple[Table, Table]:
    """The tables of all logs with such entries: one row for each log, one for each entry."""
    import sqlalchemy as sql

    columns = {
        int: (sql.BigInteger, False),
        int | None: (sql.BigInteger, True),
        str: (sql.Text, False),
    }
    metadata = sql.MetaData()
    ledgers = sql.Table(
        f"shuffle_{entry.owner}s",
        metadata,
        sql.Column("name", sql.String(_MOST_NAME), primary_key=True),
        sql.Column("schema", sql.Integer, nullable=False),
        sql.Column("config", sql.Text, nullable=False),
        sql.Column("number", sql.BigInteger, nullable=False),
        sql.Column("digest", sql.String(64), nullable=False),
    )
    entries = sql.Table(
        f"shuffle_{entry.owner}_entries",
        metadata,
        sql.Column("ledger", sql.ForeignKey(ledgers.c.name), primary_key=True),
        sql.Column("number", sql.BigInteger, primary_key=True, autoincrement=False),
        *(
            sql.Column(field, columns[kind][0], nullable=columns[kind][1])
            for field, kind in entry.types.items()
        ),
        sql.Column("digest", sql.String(64), nullable=False),
    )
    return ledgers, entries
