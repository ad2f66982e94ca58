"""Runs tests in forks of one process that has imported what takes long, and nothing of ours.

One line of JSON in, a list of pytest's arguments; one line out, pytest's exit code and the end of
what it said.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from contextlib import suppress

_HEAVY = (
    "_pytest.assertion.rewrite",
    "hypothesis.strategies",
    "mpmath",
    "numba",
    "numpy",
    "pytest",
    "scipy.fft",
    "scipy.interpolate",
    "scipy.special",
)


def serve() -> None:
    """Answer until the input ends."""
    for name in _HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        with tempfile.TemporaryFile() as said:
            child = os.fork()
            if child == 0:
                _run(json.loads(line), said.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            text = said.read().decode(errors="replace").strip()
        print(json.dumps([code, "\n".join(text.splitlines()[-8:])]), flush=True)


def _run(arguments: list[str], output: int) -> None:
    """Run pytest in this process, which ends."""
    import pytest

    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 3
    try:
        code = int(pytest.main(arguments))
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
