"""One mutant in a copy of the package, and what the tests say there."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.mutant import PACKAGE, ROOT, Mutant

KILLED, SURVIVED, BROKEN, HUNG = "killed", "survived", "broken", "hung"

# A run of tests hangs if it takes this many seconds and this many times longer than without a
# mutant.
_PATIENCE, _LONGER = 120.0, 8.0
# Seconds for tests without any mutant.
_LONGEST = 3000.0
# Pytest's exit codes for "all passed", "some failed" and "no test was chosen".
_PASSED, _FAILED, _NONE = 0, 1, 5


class Copy:
    """A copy of the package and its tests, in which one mutant lives at a time.

    Args:
        folder: an empty one.
        compiled: whether to compile it, which pays for more than a few mutants.
    """

    def __init__(self, folder: Path, *, compiled: bool = True) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        for part in (PACKAGE, "tests", "benchmarks", "docs"):
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        shutil.copy(ROOT / "pyproject.toml", folder)
        if compiled:
            # sources are told apart by what is in them: two may be made within a clock tick
            command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode"]
            subprocess.run([*command, "checked-hash", PACKAGE, "tests"], cwd=folder, check=True)
        self._server: subprocess.Popen[bytes] | None = None

    def trial(
        self, mutant: Mutant, stages: Sequence[Sequence[str]], seconds: Sequence[float]
    ) -> tuple[str, str]:
        """The verdict on a mutant, and the tests' last lines.

        Args:
            mutant: what is put in; the file is put back afterwards.
            stages: arguments of pytest, one sequence for each run; the first failure ends it.
            seconds: what the runs take without a mutant.
        """
        path = self.folder / PACKAGE / mutant.file
        source = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(source), encoding="utf-8")
        verdict, said = SURVIVED, ""
        try:
            for tests, usual in zip(stages, seconds, strict=True):
                verdict, said = self.run(tests, _PATIENCE + _LONGER * usual)
                if verdict != SURVIVED:
                    break
        finally:
            path.write_text(source, encoding="utf-8")
        return verdict, said

    def timed(self, tests: Sequence[str]) -> float:
        """Seconds of a run without a mutant.

        Raises:
            RuntimeError: a test fails.
        """
        start = time.monotonic()
        verdict, said = self.run(tests, _LONGEST)
        if verdict != SURVIVED:
            raise RuntimeError(f"without any mutant: {verdict}: {' '.join(tests)}\n{said}")
        return time.monotonic() - start

    def run(self, tests: Sequence[str], limit: float) -> tuple[str, str]:
        """The verdict of some tests on the copy as it is, and their last lines.

        Args:
            tests: arguments of pytest.
            limit: seconds after which the tests hang.
        """
        server = self._server = self._server or self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        options = ["-q", "-x", "-n", "0", "--no-header", "-p", "no:cacheprovider", "--tb=line"]
        asked = json.dumps([*options, *tests]) + "\n"
        server.stdin.write(asked.encode())
        server.stdin.flush()
        if not select.select([server.stdout], [], [], limit)[0]:
            self.stop()
            return HUNG, ""
        line = server.stdout.readline()
        if not line:
            self.stop()
            return BROKEN, "the process of the tests has ended"
        code, said = json.loads(line)
        return {_PASSED: SURVIVED, _NONE: SURVIVED, _FAILED: KILLED}.get(code, BROKEN), said

    def _started(self) -> subprocess.Popen[bytes]:
        # options and coverage of a run that these tests are part of would decide their exit code
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_CORE_"))}
        environment = {
            **kept,
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(self.folder / ".numba"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / ".hypothesis"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mutants.server"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """End the tests that are running, if any are."""
        if self._server is not None:
            if self._server.poll() is None:
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None
