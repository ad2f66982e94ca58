"""What tests of several rooms share: Hypothesis, the command line, the benchmarks."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
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
