"""The release, in clean environments: nox -f .ci/noxfile.py (extra 'release').

Builds the wheel and the source archive, and installs the wheel for each Python with the newest and
with the oldest allowed dependencies. Tests run against what was installed, not against this tree.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent))

from floors import ROOT, floors, package_version

DIST = ROOT / "dist"
PYTHONS = ["3.11", "3.12", "3.13"]
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "mpmath")
# Short tests of every room that need nothing but the tools.
SMOKE = (
    "tests/test_bracket.py",
    "tests/test_validation.py",
    "tests/engine/test_single_round.py",
    "tests/numerics",
    "tests/rounds/test_protocol.py",
    "tests/rounds/test_stored_states.py",
    "tests/cli/test_cli.py",
)

nox.options.sessions = ["build", "newest", "oldest"]
nox.options.error_on_missing_interpreters = False


def wheel() -> str:
    """The wheel of this version."""
    (found,) = DIST.glob(f"shuffle_accountant-{package_version()}-*.whl")
    return str(found)


def smoke(session: nox.Session) -> None:
    """What is installed answers, and passes the short tests."""
    session.chdir(ROOT)
    session.run("python", ".ci/smoke.py", package_version())
    session.run("pytest", "-q", "-m", "not slow", *SMOKE)


@nox.session
def build(session: nox.Session) -> None:
    """Wheel and source archive, checked as an index will read them."""
    session.install("build", "twine")
    session.chdir(ROOT)
    session.run("python", "-m", "build", "--outdir", str(DIST))
    files = sorted(str(path) for path in DIST.glob(f"shuffle_accountant-{package_version()}*"))
    session.run("twine", "check", "--strict", *files)


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """The newest releases of everything."""
    session.install("--upgrade", wheel(), *TOOLS)
    smoke(session)


@nox.session(python=PYTHONS)
def oldest(session: nox.Session) -> None:
    """The floors that pyproject.toml allows."""
    session.install(wheel(), *floors(str(session.python)), *TOOLS)
    smoke(session)
