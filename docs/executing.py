"""Executes notebooks: for the site, and for the test that they run.

A copy with outputs is kept under build/notebooks, and made anew when the notebook, the package, or
the environment has changed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
EXECUTED = ROOT / "build" / "notebooks"


def executed(path: Path) -> Path:
    """The copy with outputs.

    Raises:
        RuntimeError: a cell failed; with what it complained about.
    """
    done, stamp = EXECUTED / path.name, EXECUTED / f".{path.stem}.sha256"
    state = state_of(path)
    if not (done.exists() and stamp.exists() and stamp.read_text() == state):
        EXECUTED.mkdir(parents=True, exist_ok=True)
        # beside no other file of the repository: what a notebook needs is installed
        command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", str(path)]
        command.append("--ExecutePreprocessor.startup_timeout=600")  # a minute where all are busy
        run([*command, "--output-dir", str(EXECUTED)], {"PYTHONPATH": str(ROOT)})
        stamp.write_text(state)
    return done


def state_of(path: Path) -> str:
    """A digest of all that the outputs depend on."""
    digest = hashlib.sha256(path.read_bytes())
    for source in sorted((ROOT / "shuffle_accountant").rglob("*.py")):
        digest.update(source.read_bytes())
    installed = sorted(f"{one.name} {one.version}" for one in distributions())
    digest.update("\n".join([sys.version, sys.prefix, *installed]).encode())
    return digest.hexdigest()


def run(command: list[str], environment: Mapping[str, str]) -> str:
    """What a command prints; an error with what it complained about."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | dict(environment),
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout
