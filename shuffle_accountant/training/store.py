"""Logs of ledgers and filters, in memory or in a database (extra ``ledger``), and their receipts.

*Receipts.* The digest of a new log is that of its name, schema and configuration; each entry's is
that of the digest before, its number and what it says. So two logs that end in the same receipt are
the same from the first byte of their configuration on, and a receipt that is kept elsewhere shows
whether a log still has all that it had then.

*Databases.* ``shuffle_ledgers`` has one row for each ledger: its configuration, and the number and
digest of its last entry; ``shuffle_ledger_entries`` one row for each entry: which round, how often,
and its digest. Filters have two tables of the same kind, with ``shuffle_filter`` in their names,
whose entries hold the whole round as JSON. The log is append-only.

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
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose
from shuffle_accountant.registry import digest_of
from shuffle_accountant.training.database import (
    StorageError,
    engine_of,
    make_file,
    patiently,
    storable,
    storage_errors,
)

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

__all__ = ["Entry", "FilterEntry", "Kept", "LedgerStore", "Receipt"]

T = TypeVar("T")
E = TypeVar("E", bound="Entry | FilterEntry")
R = TypeVar("R")

SCHEMA = 2
# Version 0.2.0's: its digests do not depend on the configuration.
_UNSEALED = 1
_MOST_NAME = 200
_TEXT = re.compile("(0|[1-9][0-9]{0,17}):([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The last entry of a ledger's log, by number and digest; its text is ``number:digest``.

    Attributes:
        number: of the last entry, 0 if there is none. A call of `ShuffleLedger.step` makes one
            entry, however many steps it records.
        digest: SHA-256 of the configuration and of all entries so far, 64 hexadecimal digits.
    """

    number: int
    digest: str

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"

    @classmethod
    def read(cls, **named: object) -> Receipt:
        """The receipt that is given as one, or as its text."""
        ((name, value),) = named.items()
        text = str(value) if isinstance(value, Receipt) else value
        if not isinstance(text, str):
            raise TypeError(
                f"{name} must be a receipt, got {validate.shown(value)} of type "
                f"{type(value).__name__}"
            )
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{name} must be a receipt, NUMBER:DIGEST with 64 hexadecimal digits, got "
                f"{validate.shown(text)}"
            )
        return cls(int(found[1]), found[2])

    @classmethod
    def first(cls, name: str, schema: int, config: str) -> Receipt:
        """The receipt of a log without entries, of a configuration in JSON."""
        return cls(0, digest_of([name, schema, config]))

    def after(self, name: str, *entry: Any) -> Receipt:
        """The receipt after one more entry, of plain JSON types, of the ledger of that name."""
        number = self.number + 1
        return Receipt(number, digest_of([name, self.digest, number, *entry]))


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a ledger's log: a number of steps, their users, and whom these are drawn from."""

    owner: ClassVar[str] = "ledger"
    types: ClassVar[dict[str, Any]] = {"users": int, "population": int | None, "count": int}

    users: int
    population: int | None
    count: int


@dataclass(frozen=True, slots=True)
class FilterEntry:
    """An entry of a filter's log: a number of equal rounds, the round as JSON."""

    owner: ClassVar[str] = "filter"
    types: ClassVar[dict[str, Any]] = {"round": str, "count": int}

    round: str
    count: int


class LedgerStore(Generic[E]):
    """Access to one ledger, or one filter, in a database whose url is as SQLAlchemy has them."""

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
        making = config is not None
        if self._engine.dialect.name == "sqlite":
            with storage_errors(self._where):
                self._require_file(making=making)
        schema = self._retried(lambda one: self._found_or_made(one, config), writing=making)
        if schema == _UNSEALED:
            count = self._retried(self._seal, writing=True)
            warn_loose(
                f"{self._named} was kept by version 0.2.0 and not sealed: its {count} entries "
                "are taken as they are and sealed now; compare them with what was released",
                UserWarning,
            )
        return self._retried(self._whole)

    def require(self, receipt: Receipt) -> None:
        """Refuse a log, once opened, that does not have the entry of a receipt."""
        query = self._select(self._entries.c.number == receipt.number)
        row = self._retried(lambda connection: connection.execute(query).one_or_none())
        digest = self._start.digest if receipt.number == 0 else getattr(row, "digest", None)
        if digest is None:
            raise ValueError(f"{self._named} is behind receipt {receipt}: it lost its last entries")
        if digest != receipt.digest:
            raise ValueError(
                f"{self._named} is another than that of receipt {receipt}: its entry of that "
                f"number has digest {validate.shown(digest)}"
            )

    def entries(self, after: Receipt) -> tuple[list[E], Receipt]:
        """The entries behind a place of the log, checked, and where the log ends now."""
        return self._retried(lambda connection: self._read(connection, after))

    def append(
        self, entry: E, after: Receipt, check: Callable[[list[E], Receipt], None]
    ) -> Receipt:
        """Append an entry, behind those that ``check`` accepts; the log's new end, on disk.

        No other writer gets into the transaction. What ``check`` raises leaves the log as it is.
        """

        def begin() -> tuple[Connection, Any, Receipt]:
            connection = self._live().connect().execution_options(writing=True)
            try:
                return connection, connection.begin(), self._head(connection, lock=True)
            except Exception:
                connection.close()
                raise

        with storage_errors(self._where):
            connection, begun, head = patiently(begin)
            with connection, begun:
                check(*self._read(connection, after, head))
                end = head.after(self.name, *astuple(entry))
                values = {"ledger": self.name, **asdict(entry), **asdict(end)}
                connection.execute(self._entries.insert().values(values))
                own = self._ledgers.c
                moved = self._ledgers.update().where(
                    own.name == self.name, own.number == head.number
                )
                if connection.execute(moved.values(**asdict(end))).rowcount != 1:
                    raise StorageError(f"{self._named} moved on in the middle of a step")
        return end

    def _live(self) -> Engine:
        if self._process != os.getpid():  # connections are not shared with a parent process
            self._engine.dispose(close=False)
            self._process = os.getpid()
        return self._engine

    def _retried(self, work: Callable[[Connection], T], *, writing: bool = False) -> T:
        def attempt() -> T:
            with self._live().connect() as connection:
                connection.execution_options(writing=writing)
                if not writing and self._engine.dialect.name == "postgresql":
                    # head and entries are of one moment, as they always are in SQLite
                    connection.execution_options(isolation_level="REPEATABLE READ")
                with connection.begin():
                    return work(connection)

        with storage_errors(self._where):
            return patiently(attempt)

    def _select(self, *which: Any) -> Any:
        """A query of entries of this log."""
        return self._entries.select().where(self._entries.c.ledger == self.name, *which)

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
        row = self._row(connection, needed=False) if all(there) else None
        if row is not None:
            if row.schema > SCHEMA:
                raise ValueError(
                    f"{self._named} has schema {row.schema}, newer than {SCHEMA}, which this "
                    "version knows"
                )
            return int(row.schema)
        # what a file has lost must not be taken for what was never there
        self._require_whole(connection)
        if all(there) and connection.execute(self._select().limit(1)).first() is not None:
            raise ValueError(f"{self._named} was altered: it has entries, and no configuration")
        if config is None:
            raise ValueError(f"there is no {self._named}")
        self._ledgers.metadata.create_all(connection)
        text = json.dumps(config, sort_keys=True)
        start = asdict(Receipt.first(self.name, SCHEMA, text))
        values = {"name": self.name, "schema": SCHEMA, "config": text, **start}
        connection.execute(self._ledgers.insert().values(values))
        return SCHEMA

    def _seal(self, connection: Connection) -> int:
        """Give a ledger of version 0.2.0 the digests of this version; the number of its entries."""
        row = self._row(connection, lock=True)
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
        row = self._row(connection)
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

    def _row(self, connection: Connection, *, lock: bool = False, needed: bool = True) -> Any:
        """The ledger's own row, with fields of the right types; None if none is needed."""
        query = self._ledgers.select().where(self._ledgers.c.name == self.name)
        row = connection.execute(query.with_for_update() if lock else query).one_or_none()
        if row is None:
            if needed:
                raise ValueError(f"there is no {self._named}")
            return None
        for column in self._ledgers.columns:
            held, kind = getattr(row, column.name), column.type.python_type
            if not isinstance(held, kind):
                raise ValueError(
                    f"{self._named} was altered: {column.name} must be of type {kind.__name__}, "
                    f"got {validate.shown(held)}"
                )
        if row.name != self.name:
            raise ValueError(f"{self._named} was altered: its row has name {row.name!r:.80}")
        return row

    def _head(self, connection: Connection, *, lock: bool = False) -> Receipt:
        if self._engine.dialect.name == "postgresql" and lock:
            # an acknowledged step must survive a crash of the server, whatever its settings
            connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        row = self._row(connection, lock=lock)
        if Receipt.first(self.name, row.schema, row.config) != self._start:
            raise ValueError(f"{self._named} was altered: it has another configuration now")
        return Receipt(row.number, row.digest)

    def _read(
        self, connection: Connection, after: Receipt, head: Receipt | None = None
    ) -> tuple[list[E], Receipt]:
        head = self._head(connection) if head is None else head
        if head == after:
            return [], head
        number = self._entries.c.number
        found: list[E] = []
        end = after
        for row in connection.execute(self._select(number > after.number).order_by(number)):
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


def _tables(entry: type[E]) -> tuple[Table, Table]:
    """The tables of all logs with such entries: one row for each log, one for each entry."""
    import sqlalchemy as sql

    said = [
        sql.Column(
            field, sql.Text if kind is str else sql.BigInteger, nullable=isinstance(None, kind)
        )
        for field, kind in entry.types.items()
    ]
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
        *said,
        sql.Column("digest", sql.String(64), nullable=False),
    )
    return ledgers, entries


class Kept(ABC, Generic[E, R]):
    """What is counted in a log of rounds R, in memory or in a database whose entries are E."""

    _recorded: int
    _store: LedgerStore[E] | None

    def _begin_log(self, schema: int, config: str) -> None:
        """Begin a log in memory."""
        self._store = None
        self._receipt = Receipt.first("", schema, config)
        self._lock = threading.RLock()

    @classmethod
    def _opened(
        cls,
        store: LedgerStore[E],
        asked: dict[str, Any] | None,
        least: Receipt | None,
        agree: Callable[[Self], None],
    ) -> Self:
        """What is kept in a database, made there if it is new, asked for, and no receipt given.

        ``agree`` refuses what is another than asked for.
        """
        config, entries, end = store.open(asked if least is None else None)
        try:
            kept = cls._configured(config)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{store._entry.owner} {store!r} cannot be read: {error}") from None
        agree(kept)
        if least is not None:
            store.require(least)
        kept._store = store
        kept._follow(entries, end)
        return kept

    @property
    def receipt(self) -> Receipt:
        """Number and digest of the last entry; kept elsewhere it shows that entries were lost."""
        with self._lock:
            self._refresh()
            return self._receipt

    def __len__(self) -> int:
        """Rounds recorded so far."""
        with self._lock:
            self._refresh()
            return self._recorded

    def __bool__(self) -> bool:
        """Always True, also without rounds."""
        return True

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        made: Any = type(self)
        if self._store is not None:
            return made.open, (self._store.url, self._store.name)
        return made.from_state_dict, (self.state_dict(),)

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it."""

    @classmethod
    @abstractmethod
    def _configured(cls, config: dict[str, Any]) -> Self:
        """One without rounds, of a stored configuration."""

    @abstractmethod
    def _require(self, round: R, count: int) -> None:
        """Refuse rounds that the budget does not allow."""

    @abstractmethod
    def _apply(self, round: R, count: int) -> None:
        """Count rounds, whether or not they are within the budget."""

    @abstractmethod
    def _entry_of(self, round: R, count: int) -> E:
        """The entry of rounds in a log."""

    @abstractmethod
    def _round_of(self, entry: E) -> R:
        """Inverse of `_entry_of`, but for the count."""

    def _record(self, round: R, count: int) -> Receipt:
        with self._lock:
            # of a log in a database costs are worked out before others have to wait
            self._refresh()
            self._require(round, count)
            if count > 0:
                if self._store is None:
                    after = self._next(round, int(count))
                else:

                    def check(entries: Iterable[E], end: Receipt) -> None:
                        self._follow(entries, end)
                        self._require(round, count)

                    entry = self._entry_of(round, int(count))
                    after = self._store.append(entry, self._receipt, check)
                self._apply(round, int(count))
                self._receipt = after
            return self._receipt

    def _next(self, round: R, count: int) -> Receipt:
        """The receipt of a log in memory after these rounds."""
        return self._receipt.after("", *astuple(self._entry_of(round, count)))

    def _refresh(self) -> None:
        """Read the entries that other processes have recorded."""
        if self._store is not None:
            self._follow(*self._store.entries(self._receipt))

    def _follow(self, entries: Iterable[E], end: Receipt) -> None:
        for entry in entries:
            self._apply(self._round_of(entry), entry.count)
        self._receipt = end
