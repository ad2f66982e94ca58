"""A reference shuffler and aggregator: messages in a database, rounds, a ledger, estimates.

Messages are kept with the round they arrived in and nothing else: no time, address or sender.
Until a round is closed the order in which parts of it arrived shows in the database; then their
tally is stored, and they are deleted in the same transaction.

*Killed at any moment* nothing is lost and nothing is released twice: a round is first cut off (what
arrives later belongs to the next one), then charged, then tallied. Whoever opens the database
again goes on with the round that was cut off, exactly as it was, and does not charge it again.
"""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.deployment.description import Deployment
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.randomizers.estimation import Estimate
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.database import engine_of, storage_errors
from shuffle_accountant.training.ledger import ShuffleLedger

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

__all__ = ["LOW_BATCHES", "Server"]

# Messages that one task of a cluster reads and tallies, unless they arrived together.
_TASK = 10**6
WAIT, SKIP = "wait", "skip"
LOW_BATCHES = (WAIT, SKIP)
_OPEN, _CUT, _CLOSED, _SKIPPED = "open", "cut", "closed", "skipped"


class Server:
    """Collects messages of a deployment's rounds in a database, shuffles them and estimates.

    *Low batches.* The deployment's epsilon is that of rounds with at least its number of users. A
    round of fewer messages, but no fewer than ``minimum_batch``, is answered and the ledger charged
    for the fewer users, so that fewer rounds may follow. A round of fewer than ``minimum_batch`` is
    not answered: ``low_batch="wait"`` keeps its messages until there are more, ``"skip"`` deletes
    them unseen, at no charge, and begins the next round. How many send must not depend on values.

    Any number of processes may receive for one server, on PostgreSQL of any number of machines.

    Args:
        url: of the database: ``sqlite:///survey.db``, a file on a disk of this machine, or
            ``postgresql+psycopg://user@host/database``.
        deployment: what devices run; a fixed number of users who send one message each.
        minimum_batch: fewest messages that a round is answered with, more than collude; by default
            the deployment's number of users.
        low_batch: "wait" or "skip", see above.
        name: of the server and of its ledger in the database, 1 to 200 characters.

    Raises:
        ValueError: the database has a server of that name for another deployment.
        StorageError: the database cannot be used.
        ImportError: SQLAlchemy is not installed (extra ``ledger``).
    """

    def __init__(
        self,
        url: str,
        deployment: Deployment,
        *,
        minimum_batch: int | None = None,
        low_batch: str = WAIT,
        name: str = "deployment",
    ) -> None:
        self.deployment = validate.instance(Deployment, deployment=deployment)
        one = self.deployment.round
        users, colluding = one.users, one.colluding
        plain = ShuffleRound(
            one.randomizer, users=users, colluding=colluding, reduction=one.reduction
        )
        if not isinstance(users, int) or one != plain:
            raise ValueError(
                "deployment of a server must have a fixed number of users who send one message "
                f"each, got {one!r:.120}"
            )
        fewest = users if minimum_batch is None else minimum_batch
        self.minimum_batch = validate.integer(minimum=colluding + 1, minimum_batch=fewest)
        self.low_batch = validate.choice(LOW_BATCHES, low_batch=low_batch)
        self._users, self._colluding = users, colluding
        self._url, self._engine = url, engine_of(url)
        self._where = self._engine.url.render_as_string(hide_password=True)
        self.ledger = ShuffleLedger.open(
            url,
            name,
            randomizer=one.randomizer,
            users=users - colluding,
            budget=(self.deployment.target_epsilon, self.deployment.delta),
        )
        self._name = name
        self._rounds, self._arrivals = _tables()
        with self._writing() as connection:
            self._rounds.metadata.create_all(connection)
            if connection.dialect.name == "postgresql":  # two makers would get in each other's way
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7302190414)")
            query = self._rounds.select().filter_by(server=self._name).limit(1)
            row = connection.execute(query).one_or_none()
            if row is None:
                self._begin(connection, 1)
            elif row.digest != self.deployment.digest:
                raise ValueError(
                    f"deployment must be the one of server {self._name!r}, with digest "
                    f"{validate.shown(row.digest)}, got {self.deployment.digest}"
                )

    def __repr__(self) -> str:
        return f"Server({self._where!r}, {self._name!r}, minimum_batch={self.minimum_batch})"

    def receive(self, messages: Any) -> int:
        """Store messages for the open round; they are on disk when this returns.

        Args:
            messages: of any number of users, as `Deployment.randomize` returns them or as nested
                lists of JSON; a single message is a list of one.

        Returns:
            How many there were.

        Raises:
            ValueError: a message is none of the deployment's; then none of them is stored.
        """
        mechanism, array = self.deployment.mechanism, np.asarray(messages)
        mechanism.tally(array)  # refuses what is no message
        array = array.reshape(-1, *array.shape[array.ndim - mechanism.message_axes :])
        if len(array):
            with self._writing() as connection:
                values = {
                    "round": self._open_round(connection, exclusive=False),
                    "count": len(array),
                    "content": _packed(array),
                }
                connection.execute(self._arrivals.insert().values(server=self._name, **values))
        return len(array)

    @property
    def waiting(self) -> int:
        """Number of messages that have arrived for the open round."""
        with self._writing() as connection:
            return self._arrived(connection, self._open_round(connection, exclusive=False))

    def close_round(
        self, *, shuffled: str | os.PathLike[str] | None = None, dask: bool = False
    ) -> Estimate:
        """Cut off the open round, charge the ledger, and estimate from its messages.

        Args:
            shuffled: file for the messages in random order, by the operating system's source, as a
                NumPy array (.npy); by default they are only tallied.
            dask: whether the workers of Dask's current client tally the messages, which each of
                them reads from the database, under the server's URL; the tally is the same.

        Returns:
            Unbiased frequencies of all categories, with intervals.

        Raises:
            ValueError: fewer messages than ``minimum_batch``, which wait or were skipped, or all
                rounds of the deployment have been answered.
            BudgetExceeded: the ledger does not allow a round of these users; the messages wait.
            StorageError: the database cannot be used; closing can be tried again.
            ImportError: Dask is asked for and not installed (extra ``dask``).
        """
        if validate.flag(dask=dask) and find_spec("dask") is None:
            raise ImportError("dask=True needs Dask: pip install '.[dask]' in a clone")
        number, count = self._cut()
        with self._writing() as connection:
            answered = self._answered(connection)
        if len(self.ledger) == answered:  # otherwise it was charged before a stop
            self.ledger.step(users=self._honest(count))
        return self._tallied(number, count, None if shuffled is None else Path(shuffled), dask)

    def estimates(self) -> dict[int, Estimate]:
        """Estimates of all rounds that were answered, by their numbers, which begin at 1."""
        query = self._rounds.select().filter_by(server=self._name, state=_CLOSED)
        with self._writing() as connection:
            rows = connection.execute(query.order_by(self._rounds.c.number)).all()
        return {row.number: self._estimated(_unpacked(row.tally), row.messages) for row in rows}

    def _cut(self) -> tuple[int, int]:
        """Number and messages of the round to be answered; new messages belong to the next one."""
        cut = self._rounds.select().filter_by(server=self._name, state=_CUT)
        low = None
        with self._writing() as connection:
            number = self._open_round(connection, exclusive=True)
            row = connection.execute(cut).one_or_none()
            if row is not None:
                return int(row.number), int(row.messages)
            if (done := self._answered(connection)) >= self.deployment.rounds:
                raise ValueError(
                    f"rounds of the deployment must be at most {self.deployment.rounds}, and "
                    f"{done} have been answered"
                )
            count = self._arrived(connection, number)
            if count < self.minimum_batch:
                least = f"minimum_batch = {self.minimum_batch}"
                low = f"messages of a round must be at least {least}, got {count}"
                if self.low_batch == WAIT:
                    raise ValueError(f"{low}; they wait for more")
                self._moved_on(connection, number, count, _SKIPPED)
                self._delete(connection, number)
            else:
                users = self._honest(count)
                event = ShuffleRound(self.deployment.round.randomizer, users=users)
                epsilon = self.deployment.target_epsilon
                if self.ledger.would_exceed(event, epsilon=epsilon):
                    raise BudgetExceeded(
                        f"a round of {count} messages would exceed epsilon = {epsilon:g} at delta "
                        f"= {self.deployment.delta:g}; they wait for more"
                    )
                self._moved_on(connection, number, count, _CUT)
        if low is not None:
            raise ValueError(f"{low}; they were skipped")
        return number, count

    def _tallied(self, number: int, count: int, shuffled: Path | None, dask: bool) -> Estimate:
        """Tally a round that was cut off and charged, and delete its messages."""
        mechanism, own = self.deployment.mechanism, {"server": self._name, "number": number}
        read = partial(_messages, self._url, self._name, number)
        parts = self._parts(number)  # nothing arrives for this round any more
        if dask and parts:
            from dask.bag import from_delayed
            from dask.delayed import delayed

            chunks = [delayed(read)(part) for part in parts]
            found = mechanism.tally(from_delayed(chunks))  # type: ignore[no-untyped-call]
        else:
            found = np.asarray(sum(mechanism.tally(read(part)) for part in parts))
        with self._writing() as connection:
            self._open_round(connection, exclusive=True)
            row = connection.execute(self._rounds.select().filter_by(**own)).one()
            if row.state != _CUT:  # another process has closed it meanwhile
                if shuffled is not None:
                    raise ValueError(
                        f"shuffled must be None, as another process has closed round {number} and "
                        f"deleted its messages, got {str(shuffled)!r:.80}"
                    )
                return self._estimated(_unpacked(row.tally), count)
            if shuffled is not None:
                _write_shuffled(_joined([read(part) for part in parts]), shuffled)
            values = {"state": _CLOSED, "tally": _packed(found)}
            connection.execute(self._rounds.update().filter_by(**own).values(**values))
            self._delete(connection, number)
        return self._estimated(found, count)

    def _parts(self, number: int) -> list[tuple[int, int]]:
        """First and last row of each part of a round's messages that one task reads."""
        import sqlalchemy as sql

        table = self._arrivals
        query = sql.select(table.c.id, table.c.count).order_by(table.c.id)
        with self._writing() as connection:
            rows = connection.execute(query.filter_by(server=self._name, round=number)).all()
        task = np.cumsum([row.count for row in rows]) // _TASK
        starts = np.flatnonzero(np.diff(task, prepend=-1))
        ends = [*(starts[1:] - 1), len(rows) - 1]
        return [(rows[a].id, rows[b].id) for a, b in zip(starts, ends, strict=True)] if rows else []

    def _honest(self, count: int) -> int:
        """Users of a round of ``count`` messages who do not collude."""
        return min(count, self._users) - self._colluding

    def _estimated(self, tally: NDArray[Any], count: int) -> Estimate:
        return self.deployment.mechanism.estimate_from(tally, count)

    def _begin(self, connection: Connection, number: int) -> None:
        values = {"number": number, "messages": 0, "state": _OPEN, "tally": None}
        own = {"server": self._name, "digest": self.deployment.digest}
        connection.execute(self._rounds.insert().values(**own, **values))

    def _moved_on(self, connection: Connection, number: int, count: int, state: str) -> None:
        """End a round in a state, and begin the next one."""
        own = self._rounds.update().filter_by(server=self._name, number=number)
        connection.execute(own.values(messages=count, state=state))
        self._begin(connection, number + 1)

    def _open_round(self, connection: Connection, *, exclusive: bool) -> int:
        """Number of the open round, which cannot be cut off until the transaction ends."""
        query = self._rounds.select().filter_by(server=self._name, state=_OPEN)
        query = query.with_for_update(read=not exclusive)
        row = connection.execute(query).one_or_none()
        if row is None:  # on PostgreSQL, cut off by another process while this one waited
            row = connection.execute(query).one()
        return int(row.number)

    def _arrived(self, connection: Connection, number: int) -> int:
        import sqlalchemy as sql

        query = sql.select(sql.func.coalesce(sql.func.sum(self._arrivals.c.count), 0))
        own = query.filter_by(server=self._name, round=number)
        return int(connection.execute(own).scalar_one())

    def _answered(self, connection: Connection) -> int:
        """Number of rounds that were answered."""
        import sqlalchemy as sql

        query = sql.select(sql.func.count(self._rounds.c.number))
        own = query.filter_by(server=self._name, state=_CLOSED)
        return int(connection.execute(own).scalar_one())

    def _delete(self, connection: Connection, number: int) -> None:
        if connection.dialect.name == "sqlite":  # what is deleted is overwritten in the file
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        connection.execute(self._arrivals.delete().filter_by(server=self._name, round=number))

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A transaction, on disk at its end; SQLite has one writer at a time."""
        with storage_errors(self._where), self._engine.connect() as connection:
            connection.execution_options(writing=True)
            with connection.begin():
                yield connection


def _tables() -> tuple[Table, Table]:
    """Tables of rounds and of the messages that have arrived for those not yet closed."""
    import sqlalchemy as sql

    metadata = sql.MetaData()
    rounds = sql.Table(
        "shuffle_server_rounds",
        metadata,
        sql.Column("server", sql.String(200), primary_key=True),
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=False),
        sql.Column("digest", sql.String(64), nullable=False),
        sql.Column("messages", sql.BigInteger, nullable=False),
        sql.Column("state", sql.String(10), nullable=False),
        sql.Column("tally", sql.LargeBinary),
    )
    arrivals = sql.Table(
        "shuffle_server_arrivals",
        metadata,
        sql.Column("id", sql.Integer, primary_key=True),
        sql.Column("server", sql.String(200), nullable=False),
        sql.Column("round", sql.Integer, nullable=False),
        sql.Column("count", sql.BigInteger, nullable=False),
        sql.Column("content", sql.LargeBinary, nullable=False),
        sql.Index("shuffle_server_arrivals_of", "server", "round"),
    )
    return rounds, arrivals


def _messages(url: str, server: str, number: int, rows: tuple[int, int]) -> NDArray[Any]:
    """A round's messages that arrived in some rows of the database."""
    _, table = _tables()
    query = table.select().filter_by(server=server, round=number).order_by(table.c.id)
    query = query.where(table.c.id.between(*rows))
    engine = engine_of(url)
    where = engine.url.render_as_string(hide_password=True)
    try:
        with storage_errors(where), engine.connect() as connection:
            found = [_unpacked(row.content) for row in connection.execute(query)]
    finally:
        engine.dispose()
    return _joined(found)


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Messages of several parts; large integers beside small ones would become floats."""
    if any(part.dtype == np.uint64 for part in parts):
        parts = [part.astype(np.uint64) for part in parts]
    return np.concatenate(parts)


def _packed(array: NDArray[Any]) -> bytes:
    """An array as the bytes of a .npy file, integers in the smallest type that holds them."""
    if array.dtype.kind in "iu" and array.size:
        kinds = np.result_type(*map(np.min_scalar_type, (array.min(), array.max())))
        array = array.astype(kinds)
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _unpacked(content: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    kind = np.uint64 if array.dtype == np.uint64 else np.int64
    return array.astype(kind) if array.dtype.kind in "iu" else array


def _write_shuffled(messages: NDArray[Any], path: Path) -> None:
    """Write messages in random order to a file that is whole when it appears under its name."""
    order = generator(None).permutation(messages.shape[0])
    made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with made.open("xb") as file:
            np.save(file, messages[order], allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)
