"""Connections to databases in which nothing that was acknowledged is lost (extra ``ledger``)."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from shuffle_accountant import validation as validate

if TYPE_CHECKING:
    from sqlalchemy import Engine, MetaData

__all__ = ["StorageError", "engine_of", "make_file", "patiently", "storable", "storage_errors"]

T = TypeVar("T")

# Seconds that a writer waits for other writers.
_PATIENCE = 60.0
# PostgreSQL's codes for what it undid because of other transactions.
_UNDONE = ("40001", "40P01")


class StorageError(OSError):
    """A database could not be read or written; nothing may be taken for recorded."""


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """The database's own errors as one line."""
    import sqlalchemy.exc

    try:
        yield
    except UnicodeDecodeError:  # of the database's own message about what is in the file
        raise ValueError(f"database {where} is damaged: no UTF-8 in it") from None
    except StorageError:
        raise
    except (sqlalchemy.exc.SQLAlchemyError, OSError) as error:
        own = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else None
        cause = f"{' '.join(str(own or error).split()):.200}"
        damaged = ("malformed", "not a database", "encrypted", "Could not decode", "no such ")
        if own is not None and any(word in cause for word in damaged):
            raise ValueError(f"database {where} is damaged: {cause}") from None
        raise StorageError(f"database {where} cannot be used: {cause}") from None


def storable(**named: object) -> str:
    """A text that databases can hold."""
    (argument,) = named
    text: str = validate.instance(str, **named)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{argument} must be text that UTF-8 can hold, got {text!a:.80}") from None
    if "\0" in text:
        raise ValueError(f"{argument} must not have null characters, got {text!a:.80}")
    return text


def engine_of(url: str) -> Engine:
    """The engine of a database, of which SQLite and PostgreSQL are supported."""
    try:
        import sqlalchemy
        from sqlalchemy import event
    except ImportError:
        raise ImportError(
            "ShuffleLedger.open and Server need SQLAlchemy: install the extra, pip install "
            "'.[ledger]' in a clone"
        ) from None
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
    if made.database in (None, "", ":memory:") or str(made.database).startswith("file:"):
        raise ValueError(f"url must name a file, since memory forgets, got {url!r:.80}")
    # connections are not kept: one would go on with a file that was removed or replaced meanwhile
    engine = sqlalchemy.create_engine(
        made, connect_args={"timeout": _PATIENCE}, poolclass=sqlalchemy.NullPool
    )
    prepared = threading.Lock()

    def connect(dialect: Any, record: Any, arguments: Any, options: Any) -> None:
        arguments[0] = f"{Path(arguments[0]).as_uri()}?mode=rw"  # never makes a file
        options["uri"] = True

    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # transactions begin where they are begun below
        with prepared:
            _roll_back_by_journal(connection)
        connection.execute("PRAGMA synchronous = EXTRA")  # the file, and then its directory

    def begin(connection: Any) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "connect", prepare)
    event.listen(engine, "begin", begin)
    return engine


def _roll_back_by_journal(connection: Any) -> None:
    """Leave the write-ahead mode of version 0.2.0, for which the file may not be in use."""

    def attempt() -> None:
        while connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            connection.execute("PRAGMA journal_mode = DELETE")

    patiently(attempt, lambda error: "locked" in str(error))


def make_file(path: Path, tables: MetaData) -> None:
    """Make a database with empty tables, which is whole when it appears under its name."""
    import sqlalchemy

    made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    engine = sqlalchemy.create_engine(f"sqlite:///{made}")
    try:
        try:
            tables.create_all(engine)
        finally:
            engine.dispose()
        try:
            os.link(made, path)
        except FileExistsError:
            pass  # another process was faster
        except OSError:  # a file system without hard links
            with suppress(FileExistsError), path.open("xb") as file:
                file.write(made.read_bytes())
                file.flush()
                os.fsync(file.fileno())
    finally:
        made.unlink(missing_ok=True)


def _undone(error: Exception) -> bool:
    """Whether the database certainly undid a transaction because of others."""
    cause = getattr(error, "orig", None)
    return getattr(cause, "sqlstate", None) in _UNDONE or "database is locked" in str(cause)


def patiently(attempt: Callable[[], T], undone: Callable[[Exception], bool] = _undone) -> T:
    """What an attempt returns, which is made again, for a minute, while others undo it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return attempt()
        except Exception as error:
            if not undone(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))
