"""The benchmarks beside those of an older revision: `python -m benchmarks.same_speed OLD_REVISION`.

Each script runs in fresh processes of both revisions in turn, forwards and backwards, quick. Two
figures are compared: the processor's seconds of the whole process, and the times that the script
itself has measured (the rows of its CSV file). The least of the turns
counts, for other work on the machine can only make them longer.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.revisions import ROOT, checked_out

# Those whose claims are about speed.
SCRIPTS = ("start_up", "scale_users", "scale_rounds", "scale_order", "randomizers", "vectors")


@dataclass(frozen=True)
class Run:
    """One run of a script: the processor's seconds, and the times it has measured."""

    processor: float
    measured: tuple[float, ...]


def run(tree: Path, script: str) -> Run:
    """Run one script of the benchmarks in a tree, quick."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks", "--quick", "--only", script]
        before = _children()
        done = subprocess.run(
            [*command, "--output", folder],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
        )
        taken = _children() - before
        if done.returncode > 1:  # 1 is a claim that fails, which is no matter here
            raise SystemExit(f"{script} in {tree}:\n{done.stderr}")
        file = Path(folder, f"{script.rpartition('.')[2]}.csv")
        return Run(taken, _measured(file))


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _measured(file: Path) -> tuple[float, ...]:
    """The least seconds of each row of a CSV file that has been timed."""
    with file.open(encoding="utf-8", newline="") as rows:
        return tuple(float(row["least"]) for row in csv.DictReader(rows) if row.get("least"))


def compare(script: str, old: Sequence[Run], new: Sequence[Run]) -> str:
    """A line of the table: seconds of both, their ratio, and that of what the script measured."""
    before, after = (min(run.processor for run in runs) for runs in (old, new))
    line = f"{script:14}{before:10.2f}{after:10.2f}{after / before:9.2f}"
    if len({len(run.measured) for run in (*old, *new)}) > 1:
        return f"{line}  other rows"
    pairs = zip(_least(old), _least(new), strict=True)
    ratios = [mine / its for its, mine in pairs if its > 0.0]
    if not ratios:
        return line
    return f"{line}{statistics.median(ratios):9.2f}{max(ratios):9.2f}{len(ratios):7}"


def _least(runs: Sequence[Run]) -> list[float]:
    """Of each row, over the runs."""
    return [min(row) for row in zip(*(run.measured for run in runs), strict=True)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time both revisions and print a table.

    Args:
        arguments: the command line without the program's name; that of the process if None.

    Returns:
        0; what is noise is for the reader to say.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_speed",
        description="Compare the speed with that of an older revision.",
    )
    parser.add_argument("revision", metavar="OLD_REVISION", help="anything that git can check out")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="a script (may be given again)"
    )
    parser.add_argument("--turns", type=int, default=2, help="runs of each (default: %(default)s)")
    options = parser.parse_args(arguments)
    print(
        f"{'script':14}{'old, s':>10}{'new, s':>10}{'ratio':>9}{'median':>9}{'most':>9}{'rows':>7}"
    )
    with checked_out(options.revision) as tree:
        for script in options.only or SCRIPTS:
            runs: dict[Path, list[Run]] = {tree: [], ROOT: []}
            for turn in range(options.turns):
                for place in (tree, ROOT) if turn % 2 == 0 else (ROOT, tree):
                    runs[place].append(run(place, script))
            print(compare(script, runs[tree], runs[ROOT]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
