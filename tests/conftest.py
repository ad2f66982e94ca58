"""What tests of several rooms share: Hypothesis, PostgreSQL, the command line, the benchmarks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

# The same examples on every run; no deadline, because the first answer warms caches up.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=20)
settings.load_profile("same")

LONG = frozenset(Path(__file__).with_name("before_a_release.txt").read_text().splitlines())
"""Names of the tests that take long, as pytest has them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some tests wait for a release; short ones are traced, the first case of each.

    Those wait that are marked, or named in ``before_a_release.txt``. Tracing takes as long again
    as the tests themselves, and longest where cases are drawn.
    """
    seen: set[str] = set()
    before_a_release = bool(os.environ.get("CI_ALL"))
    for item in items:
        waits = item.get_closest_marker("release") or item.nodeid in LONG
        if waits and not before_a_release:
            item.add_marker(pytest.mark.skip("takes long, run before a release: CI_ALL=1"))
        test = item.nodeid.partition("[")[0]
        drawn = hasattr(getattr(item, "obj", None), "hypothesis")
        if item.get_closest_marker("slow") or test in seen or drawn:
            item.add_marker("untraced")
        seen.add(test)


def pytest_collection_finish() -> None:
    """What is there before the first test stays: the collector need not look at it each time."""
    gc.collect()
    gc.freeze()


def as_server(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run one of PostgreSQL's programs, which refuse to run as root."""
    prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    return subprocess.run([*prefix, *command], capture_output=True, text=True, cwd="/", timeout=120)


def postgresql_programs() -> Path:
    """Where PostgreSQL's programs are; they are installed from Debian's package if need be."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = "apt-get update -q && apt-get install -y -q --no-install-recommends postgresql"
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=400)
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("PostgreSQL is not installed, and cannot be from Debian's package")
    return found[-1].parent


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """URL of a server of its own, on a socket in a directory of its own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (extra 'ledger')")
    programs = postgresql_programs()
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        made = as_server(
            [f"{programs}/initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
        )
        assert made.returncode == 0, made.stderr
        options = f"-c listen_addresses= -c unix_socket_directories={folder}"
        control = [f"{programs}/pg_ctl", "-D", str(data), "-l", f"{folder}/log"]
        started = as_server([*control, "-w", "-o", options, "start"])
        assert started.returncode == 0, (folder / "log").read_text()
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            as_server([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_database(postgresql: str) -> str:
    """URL of an empty database of PostgreSQL."""
    import sqlalchemy

    name = f"d{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(postgresql, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return postgresql.replace("/postgres?", f"/{name}?")


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Neither these tests are traced nor what they are set up with.

    A worker of pytest-xdist has two tracers, of which pytest-cov's own marker stops the upper one.
    """
    if not item.get_closest_marker("untraced"):
        return (yield)
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.fixture
def benchmark_script(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], ModuleType]:
    """Imports a module of the benchmarks, which lie beside the package, not in it."""
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line: its exit code, and what it printed and complained about."""
    from shuffle_accountant import cli

    def run(*arguments: Any) -> tuple[int, str, str]:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def in_a_fresh_process(pytestconfig: pytest.Config) -> Callable[[str], str]:
    """Runs code in an interpreter of its own, in the root of the tree: what it printed."""

    # compiled code is kept, as an installation does
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def run(code: str) -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, cwd=pytestconfig.rootpath, env=env, capture_output=True, text=True, check=True
        )
        return done.stdout

    return run
