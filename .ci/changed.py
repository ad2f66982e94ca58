"""Tells whether a job of its own has to be run: python .ci/changed.py training.

Exit code 0 if what the job tests, or anything that this imports, changed, 1 if not; the reason is
printed. Compared with the merge base of a branch with main, on main with the last release tag;
without either, and where CI_ALL is set (before a release), everything is run.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The rooms of a job and what it runs, as patterns of files.
JOBS = {
    "training": (
        "shuffle_accountant/training/opacus/**/*.py",
        "tests/training/test_*opacus.py",
        "benchmarks/training/digits*.py",
        "docs/guides/dp-sgd.md",
        "docs/guides/federated-learning.md",
    ),
    "flower": (
        "shuffle_accountant/training/flower/**/*.py",
        "tests/training/test_flower.py",
        "benchmarks/training/flower_digits.py",
    ),
    "explorer": ("shuffle_accountant/explorer/**/*.py", "tests/explorer/*.py"),
}
# What every job depends on.
ALWAYS = (".ci/changed.py", ".ci/run", "pyproject.toml", "tests/conftest.py")
# Hands out names of all rooms: the job depends on the file, not on all it can hand out.
FACADE = "shuffle_accountant/__init__.py"


def needed(job: str, root: Path = ROOT) -> set[str]:
    """Files that a job tests, and all that they import, themselves or through others."""
    waiting = [path for pattern in JOBS[job] for path in root.glob(pattern)]
    found = {*ALWAYS}
    while waiting:
        path = waiting.pop()
        name = path.relative_to(root).as_posix()
        if name not in found:
            found.add(name)
            if path.suffix == ".py" and name != FACADE:
                waiting += imported(path, root)
    return found


def imported(path: Path, root: Path) -> Iterator[Path]:
    """Files of the repository that a file's import statements name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            for folder in (root, root / "tests"):
                place = folder.joinpath(*name.split("."))
                yield from filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py"))


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git prints, "" if it fails."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def base(root: Path = ROOT) -> str:
    """The commit to compare with, "" if there is none."""
    head = git("rev-parse", "HEAD", root=root)
    for main in ("origin/main", "main"):
        merged = git("merge-base", "HEAD", main, root=root)
        if merged and merged != head:
            return merged
    return git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", root=root)


def changed(since: str, root: Path = ROOT) -> set[str]:
    """Files that differ from a commit, new ones included."""
    listed = git("diff", "--name-only", since, root=root)
    listed += "\n" + git("ls-files", "--others", "--exclude-standard", root=root)
    return {*listed.splitlines()} - {""}


def reason(job: str, root: Path = ROOT) -> tuple[bool, str]:
    """Whether a job has to be run, and why."""
    if os.environ.get("CI_ALL"):
        return True, "CI_ALL is set"
    since = base(root)
    if not since:
        return True, "no release tag and no merge base with main to compare with"
    touched = sorted(needed(job, root) & changed(since, root))
    if touched:
        return True, f"{touched[0]} and {len(touched) - 1} more changed since {since[:12]}"
    return False, f"neither its rooms nor what they import changed since {since[:12]}"


if __name__ == "__main__":
    run, why = reason(sys.argv[1])
    print(f"{sys.argv[1]}: {'run' if run else 'SKIPPED'}, {why}")
    sys.exit(not run)
