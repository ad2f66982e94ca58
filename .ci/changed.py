"""Tells whether a job of its own has to be run: python .ci/changed.py training.

Exit code 0 if what the job tests, or a file that this imports, changed, 1 if not; the reason is
printed. What those files import in turn has tests of its own, which every run passes. Compared with
the merge base of a branch with main, on main with the commit that .ci/passed names: all jobs passed
there. Without either, and where CI_ALL is set (before a release), everything is run.
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
# Names the commit at which all jobs passed.
PASSED = ".ci/passed"


def needed(job: str, root: Path = ROOT) -> set[str]:
    """Files that a job tests, and those that they import."""
    own = {path for pattern in JOBS[job] for path in root.glob(pattern)}
    code = [path for path in own if path.suffix == ".py"]
    others = {path for one in code for path in imported(one, root)}
    return {*ALWAYS} | {path.relative_to(root).as_posix() for path in own | others}


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
    passed = root / PASSED
    named = passed.read_text(encoding="utf-8").strip() if passed.exists() else ""
    return git("rev-parse", "--verify", "--quiet", f"{named}^{{commit}}", root=root)


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
        return True, "no commit to compare with"
    touched = sorted(needed(job, root) & changed(since, root))
    if touched:
        return True, f"{touched[0]} and {len(touched) - 1} more changed since {since[:12]}"
    return False, f"neither its rooms nor what they import changed since {since[:12]}"


if __name__ == "__main__":
    run, why = reason(sys.argv[1])
    print(f"{sys.argv[1]}: {'run' if run else 'SKIPPED'}, {why}")
    sys.exit(not run)
