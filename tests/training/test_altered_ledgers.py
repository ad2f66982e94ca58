"""Ledgers whose file or state was altered, cut or lost in part: refused in one line, or the same.

What is compared is the whole state: round, budget, steps of all sizes, and the receipt.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.registry import digest_of
from shuffle_accountant.training import ShuffleLedger, StorageError
from shuffle_accountant.training.store import Entry, Receipt

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra 'ledger')")

RANDOMIZER = sa.GeneralRandomizer(eps0=2.0)
BUDGET = (3.0, 1e-6)
STEPS = 4


def opened(path: Path, **options: Any) -> ShuffleLedger:
    """The ledger, which is made if the file is not there."""
    return ShuffleLedger.open(
        f"sqlite:///{path}",
        "survey",
        randomizer=RANDOMIZER,
        users=1000,
        budget=BUDGET,
        **options,
    )


def closed(ledger: ShuffleLedger) -> dict[str, Any]:
    """Its state; no connection is left open."""
    state = ledger.state_dict()
    assert ledger._store is not None
    ledger._store._engine.dispose()
    return state


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    """A file with a few entries, in pages as small as they come, and the ledger's state."""
    path = tmp_path_factory.mktemp("whole") / "privacy.db"
    ledger = opened(path)
    for number in range(STEPS):
        ledger.step(users=1000 + number % 2)
    state = closed(ledger)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("VACUUM")
    assert [one.name for one in path.parent.iterdir()] == [path.name]  # no log beside it
    return path.read_bytes(), state


def outcome(read: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """What is read; None if it is refused in one line that names the ledger or its database."""
    refusal: Exception | None = None
    try:
        return read()
    except (ValueError, TypeError, StorageError) as error:
        refusal = error
    said = str(refusal)
    assert not isinstance(refusal, UnicodeError), said
    assert len(said.splitlines()) == 1, said
    assert any(word in said for word in ("database sqlite:", "ledger 'survey'")), said
    return None


def outcomes(path: Path, content: bytes, journal: bytes | None = None) -> Iterator[Any]:
    """Of a file opened as it is, and opened or made anew."""
    openings: tuple[Callable[[], ShuffleLedger], ...] = (
        lambda: opened(path),
        lambda: ShuffleLedger.open(f"sqlite:///{path}", "survey"),
    )
    for opening in openings:
        for beside in path.parent.iterdir():
            beside.unlink()
        path.write_bytes(content)
        if journal is not None:
            path.with_name(f"{path.name}-journal").write_bytes(journal)
        yield outcome(lambda opening=opening: closed(opening()))  # type: ignore[misc]


# A thousand of the 30,000 bits before a release; all of them have been tried.
@pytest.mark.parametrize("bits", [60, pytest.param(1000, marks=pytest.mark.release)])
def test_a_flipped_bit_of_the_file(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, bits: int
) -> None:
    content, state = whole
    refused = 0
    for place in random.Random(bits).sample(range(8 * len(content)), bits):
        altered = bytearray(content)
        altered[place // 8] ^= 1 << place % 8
        for found in outcomes(tmp_path / "privacy.db", bytes(altered)):
            assert found in (None, state), f"bit {place}: {found}"
            refused += found is None
    # a third of the bits are of fields and the tables' structure, the others of empty space
    assert refused > bits / 3


@pytest.mark.parametrize("step", [151, pytest.param(7, marks=pytest.mark.release)])
def test_a_file_cut_anywhere(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, step: int
) -> None:
    content, _ = whole
    for length in range(0, len(content), step):
        assert list(outcomes(tmp_path / "privacy.db", content[:length])) == [None, None], length


def test_a_flipped_bit_of_a_state(whole: tuple[bytes, dict[str, Any]]) -> None:
    state = whole[1]
    made = sa.FourierAccountant().compose(sa.ShuffleRound(RANDOMIZER, users=1000), count=3)
    readers: list[tuple[dict[str, Any], Callable[[Any], Any]]] = [
        (state, ShuffleLedger.from_state_dict),
        (made.state_dict(), sa.FourierAccountant.from_state_dict),
    ]
    for written, read in readers:
        content = json.dumps(written).encode()
        same = read(json.loads(content)).state_dict()
        for place in range(8 * len(content)):
            altered = bytearray(content)
            altered[place // 8] ^= 1 << place % 8
            found, said = same, ""
            try:
                found = read(json.loads(altered.decode())).state_dict()
            except (ValueError, TypeError) as error:
                said = str(error)
            assert found == same, f"bit {place}"
            assert len(said.splitlines()) <= 1, said


def test_states_are_the_same_in_other_programs(whole: tuple[bytes, dict[str, Any]]) -> None:
    """Fields in another order, and whole numbers without a point, are the same state."""
    state = whole[1]
    told = json.loads(json.dumps(state, sort_keys=True), parse_float=_as_javascript)
    assert told["max_epsilon"] == 3
    assert isinstance(told["max_epsilon"], int)
    assert ShuffleLedger.from_state_dict(told).state_dict() == state


def _as_javascript(text: str) -> float | int:
    return int(float(text)) if float(text).is_integer() else float(text)


# Fields


def edited(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("statement", "match"),
    [
        ("config = replace(config, '\"eps0\": 2.0', '\"eps0\": 0.0')", "or in its configuration"),
        ("config = replace(config, '3.0', '30.0')", "or in its configuration"),
        ("config = config || ' '", "or in its configuration"),
        ("config = ''", "or in its configuration"),
        ("config = 7", "or in its configuration"),
        ("config = x'7b7d'", "config must be of type str, got b'{}'"),
        ("config = CAST(x'ff' AS TEXT)", "is damaged: Could not decode"),
        ("schema = 1", "was altered at entry 1"),
        ("schema = 0", "was altered at entry 1"),
        ("schema = 3", "has schema 3, newer than 2"),
        ("schema = 'two'", "schema must be of type int, got 'two'"),
        ("number = 'x'", "number must be of type int, got 'x'"),
        ("number = -1", "was cut: it has 4 entries, not -1"),
        ("digest = ''", "does not end in its own digest"),
        ("digest = x'00'", r"digest must be of type str, got b'\\x00'"),
        ("name = 'other'", "it has entries, and no configuration"),
    ],
)
def test_an_altered_configuration(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, statement: str, match: str
) -> None:
    path = tmp_path / "privacy.db"
    path.write_bytes(whole[0])
    edited(path, f"UPDATE shuffle_ledgers SET {statement}")
    before = path.read_bytes()
    for options in ({}, {"randomizer": RANDOMIZER, "users": 1000, "budget": BUDGET}):
        with pytest.raises(ValueError, match=match) as raised:
            ShuffleLedger.open(f"sqlite:///{path}", "survey", **options)
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)
    assert path.read_bytes() == before


def test_a_ledger_without_entries_keeps_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    closed(opened(path))
    edited(path, "UPDATE shuffle_ledgers SET config = replace(config, '3.0', '30.0')")
    with pytest.raises(ValueError, match="does not end in its own digest"):
        ShuffleLedger.open(f"sqlite:///{path}", "survey")


@pytest.mark.parametrize(
    "statement",
    [
        "users = 'x'",
        "users = x'00'",
        "users = 1e3",
        "count = 'x'",
        "population = 'x'",
        "digest = 3",
    ],
)
def test_a_field_of_the_wrong_type(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, statement: str
) -> None:
    path = tmp_path / "privacy.db"
    path.write_bytes(whole[0])
    # a type that SQLite would convert is written into the column as it is
    edited(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'BIGINT', 'BLOB')",
    )
    edited(path, f"UPDATE shuffle_ledger_entries SET {statement} WHERE number = 2")
    with pytest.raises(ValueError, match=r"ledger 'survey' in .* was altered at entry 2"):
        ShuffleLedger.open(f"sqlite:///{path}", "survey")


def test_a_table_that_is_gone(whole: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    for table in ("shuffle_ledgers", "shuffle_ledger_entries"):
        path = tmp_path / f"{table}.db"
        path.write_bytes(whole[0])
        edited(path, f"DROP TABLE {table}")
        with pytest.raises(ValueError, match="is damaged: one of its two tables is gone"):
            opened(path)


def test_entries_of_another_branch(whole: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    """An entry fits what was before it: its own digest in order is not enough."""
    paths = tmp_path / "one.db", tmp_path / "other.db"
    receipts = []
    for path, users in zip(paths, (900, 100_000), strict=True):
        path.write_bytes(whole[0])
        ledger = opened(path)
        ledger.step(users=users)
        receipts.append(ledger.step())
        closed(ledger)
    assert receipts[0].number == receipts[1].number
    assert receipts[0].digest != receipts[1].digest
    edited(
        paths[0],
        f"ATTACH '{paths[1]}' AS other",
        "UPDATE shuffle_ledger_entries AS mine SET (users, digest) = (SELECT users, digest FROM "
        f"other.shuffle_ledger_entries WHERE number = mine.number) WHERE number = {STEPS + 1}",
    )
    with pytest.raises(ValueError, match=f"was altered at entry {STEPS + 2}"):
        opened(paths[0])


def test_a_configuration_altered_under_a_running_process(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "privacy.db"
    path.write_bytes(whole[0])
    ledger = opened(path)
    edited(path, "UPDATE shuffle_ledgers SET config = replace(config, '3.0', '30.0')")
    with pytest.raises(ValueError, match="was altered: it has another configuration now"):
        ledger.step()


# Files beside the database, and no database


def test_what_is_acknowledged_is_in_the_file_itself(tmp_path: Path) -> None:
    """A copy of the file alone has every step, while the ledger is open."""
    path, copy = tmp_path / "privacy.db", tmp_path / "copy.db"
    ledger = opened(path)
    for number in range(1, 4):
        receipt = ledger.step()
        assert sorted(one.name for one in tmp_path.glob("privacy.db*")) == ["privacy.db"]
        shutil.copy(path, copy)
        assert len(ShuffleLedger.open(f"sqlite:///{copy}", "survey", at_least=receipt)) == number
    assert ledger._store is not None
    with ledger._store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA


def interrupted(path: Path) -> tuple[bytes, bytes, bytes]:
    """The file before and after a step, and the journal that a kill in between leaves."""
    before = path.read_bytes()
    ledger = opened(path)
    assert ledger._store is not None
    after = ledger.receipt.after("survey", 999, None, 1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # the journal is complete at once
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO shuffle_ledger_entries VALUES ('survey', ?, 999, NULL, 1, ?)",
            (after.number, after.digest),
        )
        connection.execute(
            "UPDATE shuffle_ledgers SET number = ?, digest = ?", (after.number, after.digest)
        )
        journal = path.with_name(f"{path.name}-journal").read_bytes()
        connection.execute("COMMIT")
    closed(ledger)
    return before, path.read_bytes(), journal


@pytest.mark.parametrize("bits", [20, pytest.param(400, marks=pytest.mark.release)])
def test_kills_in_the_middle_of_a_step(
    whole: tuple[bytes, dict[str, Any]], tmp_path: Path, bits: int
) -> None:
    """Whatever pages are written, and whatever becomes of the journal, no recorded step is lost."""
    path = tmp_path / "privacy.db"
    path.write_bytes(whole[0])
    before, after, journal = interrupted(path)
    recorded = whole[1]
    (released,) = {json.dumps(one) for one in outcomes(path, after)}
    allowed = [None, recorded, json.loads(released)]

    # the journal undoes whatever was written
    assert list(outcomes(path, after, journal)) == [recorded, recorded]
    assert list(outcomes(path, before, journal)) == [recorded, recorded]
    # it is gone, and some pages were written
    size = 512
    pages = [
        at for at in range(0, len(after), size) if before[at : at + size] != after[at : at + size]
    ]
    assert len(pages) >= 3
    for written in itertools.product((False, True), repeat=len(pages)):
        mixed = bytearray(before)
        for at, new in zip(pages, written, strict=True):
            mixed[at : at + size] = after[at : at + size] if new else mixed[at : at + size]
        assert all(found in allowed for found in outcomes(path, bytes(mixed)))
    # it was cut, or altered
    chance = random.Random(bits)
    for _ in range(bits):
        altered = bytearray(journal)
        place = chance.randrange(8 * len(journal))
        altered[place // 8] ^= 1 << place % 8
        assert all(found in allowed for found in outcomes(path, after, bytes(altered))), place
        length = chance.randrange(len(journal))
        assert all(found in allowed for found in outcomes(path, after, journal[:length])), length


@pytest.mark.parametrize("beside", ["-journal", "-wal"])
def test_a_file_that_is_gone(tmp_path: Path, beside: str) -> None:
    path = tmp_path / "privacy.db"
    path.with_name(path.name + beside).write_bytes(b"something")
    with pytest.raises(ValueError, match=f"the file is gone, and its {beside} is not"):
        opened(path)
    assert not path.exists()


def test_a_file_removed_or_replaced_under_a_running_process(tmp_path: Path) -> None:
    path, copy = tmp_path / "privacy.db", tmp_path / "copy.db"
    ledger = opened(path)
    ledger.step()
    shutil.copy(path, copy)
    ledger.step()
    copy.replace(path)
    with pytest.raises(ValueError, match=r"was cut|does not end in its own digest"):
        ledger.step()
    path.unlink()
    with pytest.raises(StorageError, match="unable to open database file"):
        ledger.step()
    assert not path.exists()


def test_a_name_altered_where_it_is_found(tmp_path: Path) -> None:
    """In the row or in its index, of a ledger that nothing else in the file refers to."""
    path = tmp_path / "privacy.db"
    closed(opened(path))
    content = path.read_bytes()
    places = [at for at in range(len(content)) if content.startswith(b"survey", at)]
    assert len(places) == 2
    for at in places:
        assert list(outcomes(path, content[:at] + b"t" + content[at + 1 :])) == [None, None]


def test_an_index_that_does_not_fit(whole: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    """Every field fits its digest, and the file is not whole."""
    path = tmp_path / "privacy.db"
    path.write_bytes(whole[0])
    edited(
        path,
        "CREATE TABLE more (name TEXT PRIMARY KEY)",
        "INSERT INTO more VALUES ('something else')",
    )
    content = path.read_bytes()
    assert list(outcomes(path, content)) == [whole[1]] * 2
    altered = content.replace(b"something else", b"something Else", 1)
    assert list(outcomes(path, altered)) == [None, None]


def test_an_empty_file_is_no_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    path.touch()
    with pytest.raises(ValueError, match="is damaged: the file is empty"):
        opened(path)
    assert path.stat().st_size == 0


def test_opening_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no ledger 'survey' in sqlite:"):
        ShuffleLedger.open(f"sqlite:///{tmp_path}/privacy.db", "survey")
    assert list(tmp_path.iterdir()) == []


def test_a_database_with_other_tables(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    edited(path, "CREATE TABLE goods (name TEXT)", "INSERT INTO goods VALUES ('tea')")
    with pytest.raises(ValueError, match="there is no ledger 'survey'"):
        ShuffleLedger.open(f"sqlite:///{path}", "survey")
    opened(path).step()
    assert len(opened(path)) == 1


# Names


@pytest.mark.parametrize(
    ("url", "name", "match"),
    [
        ("sqlite:///{}/privacy.db", "\udcff", "name must be text that UTF-8 can hold, got"),
        ("sqlite:///{}/\udcff.db", "survey", "url must be text that UTF-8 can hold, got"),
        ("sqlite:///{}/privacy.db", "a\0b", "name must not have null characters, got"),
        ("sqlite:///{}/\0.db", "survey", "url must not have null characters, got"),
        ("sqlite:///file:{}/x.db?uri=true&nolock=1", "survey", "url must name a file"),
    ],
)
def test_names_that_no_database_holds(tmp_path: Path, url: str, name: str, match: str) -> None:
    with pytest.raises(ValueError, match=match) as raised:
        ShuffleLedger.open(url.format(tmp_path), name, randomizer=RANDOMIZER, users=10)
    assert "\n" not in str(raised.value)
    str(raised.value).encode()


def test_a_row_that_is_gone_or_of_another_name(tmp_path: Path) -> None:
    """Removed under a running process; found by an index that says another name than the row."""
    path = tmp_path / "privacy.db"
    kept = opened(path)._store
    assert kept is not None
    row = SimpleNamespace(name="tally", schema=2, config="{}", number=0, digest="")
    found: Any = SimpleNamespace(execute=lambda _: SimpleNamespace(one_or_none=lambda: row))
    with pytest.raises(ValueError, match=r"was altered: its row has name 'tally'$"):
        kept._row(found)
    edited(path, "DELETE FROM shuffle_ledgers")
    with pytest.raises(ValueError, match=r"^there is no ledger 'survey' in sqlite:"):
        kept.entries(Receipt(0, ""))


def test_a_log_that_moved_on_in_the_middle_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is appended behind another entry than the last one is rolled back."""
    ledger = opened(tmp_path / "privacy.db")
    ledger.step()
    kept = ledger._store
    assert kept is not None

    elsewhere = Receipt(7, "")
    monkeypatch.setattr(kept, "_head", lambda connection, lock: elsewhere)
    with pytest.raises(
        StorageError, match=r"^ledger 'survey' in .* moved on in the middle of a step"
    ):
        kept.append(Entry(10, None, 1), elsewhere, lambda *_: None)
    assert len(opened(tmp_path / "privacy.db")) == 1


# What a ledger has, and what it is asked


def test_what_a_ledger_was_not_given_it_asks_for() -> None:
    with pytest.raises(ValueError, match=r"^max_epsilon needs a target_delta in \(0, 1\)"):
        ShuffleLedger(RANDOMIZER, users=10, max_epsilon=1.0)
    ledger = ShuffleLedger(RANDOMIZER, users=10)
    with pytest.raises(ValueError, match=r"^epsilon must be given to a ledger without max_epsilon"):
        ledger.would_exceed(delta=1e-6)
    with pytest.raises(ValueError, match=r"^delta must be given to a ledger without target_delta"):
        ledger.epsilon()


def test_rounds_and_configurations_of_other_ledgers(tmp_path: Path) -> None:
    ledger = ShuffleLedger(RANDOMIZER, users=10)
    others = (
        sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10),
        sa.ShuffleRound(RANDOMIZER, users=10, reduction="clones"),
    )
    for other in others:
        with pytest.raises(ValueError, match=r"^event must be a round of this ledger's randomizer"):
            ledger.compose(other)
    config = ledger._configuration()
    with pytest.raises(ValueError, match=r"^configuration must have fields"):
        ShuffleLedger._configured({"round": config["round"]})
    with pytest.raises(ValueError, match=r"^round must be of reduction='auto' in a ledger"):
        ShuffleLedger._configured({**config, "round": others[1].to_dict()})
    kept = opened(tmp_path / "privacy.db")
    with pytest.raises(ValueError, match=r"^a ledger kept in a database goes on from there"):
        kept.load_state_dict(kept.state_dict())


def test_digests_do_not_depend_on_how_numbers_are_written() -> None:
    assert digest_of({"a": 1, "b": [2.0, 0.5]}) == digest_of({"b": [2, 0.5], "a": 1.0})
    assert digest_of({"a": 1}) != digest_of({"a": True})
    assert digest_of([1, 2]) != digest_of([2, 1])
    endless: list[Any] = []
    endless.append(endless)
    for one in (endless, {3: 1, "a": 2}, object()):
        with pytest.raises(ValueError, match="state must hold plain JSON types, got"):
            digest_of(one)
