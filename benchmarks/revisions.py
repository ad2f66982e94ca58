"""Another revision of this repository, checked out beside the working tree for a while."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ROOT", "checked_out"]

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A working tree of the revision, removed afterwards.

    Args:
        revision: anything that git can check out.

    Raises:
        SystemExit: git cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
