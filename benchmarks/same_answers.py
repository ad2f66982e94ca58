"""Every answer beside that of an older revision: `python -m benchmarks.same_answers OLD_REVISION`.

The older revision is checked out beside the working tree for as long as it is asked. Both get the
questions of ``questions.py``: those of all verified values in ``tests/refs``, and two hundred
random ones, the same for both. An answer is the same if

* whole numbers are equal, and other numbers agree to `ROUNDING`,
* brackets overlap, and either their ends agree to `ROUNDING`, or each end has moved by less than
  the wider bracket is wide and the new one is at most `WIDER` times as wide: grids are chosen by
  rounded numbers, and what is allowed for round-off is a part of the width,
* a question that was refused is refused; an answer to it is news, not a difference.

What is meant to differ is listed in `EXPECTED`, with its reason. Exit code 1 if anything else does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.revisions import ROOT, checked_out

__all__ = ["EXPECTED", "ROUNDING", "WIDER", "Difference", "compare", "main"]

# Thousands of roundings of 1e-16, or one of eps0 where delta changes a thousand times as fast.
ROUNDING = 1e-10
# Rounded numbers choose a tilt and where the points of a grid lie: widths vary by some hundredths.
WIDER = 1.05

_QUESTIONS = Path(__file__).resolve().with_name("questions.py")

Ends = tuple[float, float]


@dataclass(frozen=True)
class Reason:
    """Why an answer may differ.

    Attributes:
        text: the reason.
        excuses: whether it excuses one, given the question, the old ends and the new ones.
    """

    text: str
    excuses: Callable[[str, Ends, Ends], bool]


def _within(old: Ends, new: Ends) -> bool:
    """The new bracket lies in the old one, but for rounding."""
    slack = ROUNDING * max(abs(old[0]), abs(old[1]))
    return old[0] - slack <= new[0] <= new[1] <= old[1] + slack


def _meet(old: Ends, new: Ends) -> bool:
    """The brackets overlap."""
    return max(old[0], new[0]) <= min(old[1], new[1])


def _near(old: Ends, new: Ends, part: float) -> bool:
    """Both ends are where they were, but for a part of themselves."""
    return all(abs(a - b) <= part * max(abs(a), abs(b)) for a, b in zip(old, new, strict=True))


_BY_LETTERS = ("Gaussian", "Laplace", "Discrete", "RandomizedResponse")

EXPECTED = (
    Reason(
        "single rounds against `tail` reach their tolerance",
        lambda question, old, new: "variant='tail'" in question and _within(old, new),
    ),
    Reason(
        "blankets are bounded by laws that serve many alpha: brackets are within the tolerance, "
        "and not as far within as before",
        lambda question, old, new: any(map(question.__contains__, _BY_LETTERS)) and _meet(old, new),
    ),
    Reason(
        "a report of Gaussian noise asks for the reduction that its rounds name",
        lambda question, old, new: "report" in question and "reduction='blanket'" in question,
    ),
    Reason(
        "the last digits of what is searched for follow those of the brackets searched by",
        lambda question, old, new: question.startswith(("max_", "min_")) and _near(old, new, 1e-5),
    ),
    Reason(
        "Rényi moments are sums over fewer atoms",
        lambda question, old, new: question.startswith("rdp") and _near(old, new, 1e-9),
    ),
)


@dataclass(frozen=True)
class Difference:
    """Two answers to one question.

    Attributes:
        distance: largest difference of numbers or ends, relative to the larger one; inf if the
            answers cannot be compared.
        verdict: "same", "rounding", "within its width", "answered now", "too long", a reason, or
            "differs".
        text: the number it is about, old and new.
    """

    distance: float = 0.0
    verdict: str = "same"
    text: str = ""


def compare(old: dict[str, Any], new: dict[str, Any]) -> Difference:
    """The largest difference between two answers to one question.

    Args:
        old: a line of ``questions.py``.
        new: the same line from another revision.
    """
    if any(answer.get("error", "").startswith("TimeoutError") for answer in (old, new)):
        return Difference(0.0, "too long", old.get("error", f"now {new.get('error')}"))
    if "error" in new:
        if "error" in old:
            same = old["error"].partition(":")[0] == new["error"].partition(":")[0]
            kind = Difference() if same else Difference(math.inf, "differs")
        else:
            kind = Difference(math.inf, "differs")
        return Difference(kind.distance, kind.verdict, f"now {new['error']}")
    if "error" in old:
        return Difference(0.0, "answered now", old["error"])
    before, after = old["answer"], new["answer"]
    names = [[entry[0] for entry in answer] for answer in (before, after)]
    if names[0] != names[1]:
        return Difference(math.inf, "differs", f"{names[0]} became {names[1]}")
    found = [_numbers(new["question"], *pair) for pair in zip(before, after, strict=True)]
    return max(found, key=_severity, default=Difference())


def _severity(difference: Difference) -> tuple[bool, float]:
    return difference.verdict == "differs", difference.distance


def _numbers(question: str, old: Sequence[Any], new: Sequence[Any]) -> Difference:
    text = f"{old[0]} {old[1:]} became {new[1:]}".strip()
    if len(old) != len(new):
        return Difference(math.inf, "differs", text)
    first, second = (old[1], old[-1]), (new[1], new[-1])
    distance = max(_apart(a, b) for a, b in zip(first, second, strict=True))
    if distance == 0.0:
        return Difference()
    verdict = "differs"
    if isinstance(old[1], int):
        pass
    elif len(old) == 2:
        verdict = "rounding" if distance <= ROUNDING else verdict
    elif max(first[0], second[0]) <= min(first[1], second[1]) * (1 + ROUNDING):
        wider = max(first[1] - first[0], second[1] - second[0])
        moved = max(abs(a - b) for a, b in zip(first, second, strict=True))
        as_wide = second[1] - second[0] <= (first[1] - first[0]) * WIDER
        if distance <= ROUNDING:
            verdict = "rounding"
        elif as_wide and moved <= wider:
            verdict = "within its width"
    if verdict == "differs":
        reasons = (reason.text for reason in EXPECTED if reason.excuses(question, first, second))
        verdict = next(reasons, verdict)
    return Difference(distance, verdict, text)


def _apart(a: float, b: float) -> float:
    """Relative difference; 0 for two equal infinities."""
    if a == b:
        return 0.0
    largest = max(abs(a), abs(b))
    return abs(a - b) / largest if largest < math.inf else math.inf


# --------------------------------------------------------------------------------- the two codes


def ask(root: Path) -> list[dict[str, Any]]:
    """The answers of the package in a folder."""
    command = [sys.executable, "-P", str(_QUESTIONS), str(ROOT / "tests" / "refs")]
    # numbers must not depend on how many threads share a sum
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(f"the package in {root} cannot be asked:\n{done.stderr}")
    first, *answers = map(json.loads, done.stdout.splitlines())
    if root.resolve() not in Path(first["package"]).resolve().parents:
        raise SystemExit(f"{first['package']} was asked, not the package in {root}")
    return answers


# ------------------------------------------------------------------------------------- the table


@dataclass
class Row:
    """What became of the questions of one kind."""

    verdicts: Counter[str] = field(default_factory=Counter)
    distance: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])


def table(rows: dict[str, Row]) -> str:
    """Text, one line for each kind of question."""
    head = ("questions", "asked", "largest difference", "verdicts", "old, s", "new, s")
    cells = [head]
    for kind, row in rows.items():
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row.verdicts.most_common())
        seconds = [f"{second:.2f}" for second in row.seconds]
        cells.append((kind, str(row.verdicts.total()), f"{row.distance:.1e}", verdicts, *seconds))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask both revisions, print the largest difference of each kind and what else is to be told.

    Args:
        arguments: the command line without the program's name; that of the process if None.

    Returns:
        1 if an answer differs, else 0.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.same_answers",
        description="Compare every answer with that of an older revision.",
    )
    parser.add_argument("revision", metavar="OLD_REVISION", help="anything that git can check out")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=2)
    options = parser.parse_args(arguments)
    with checked_out(options.revision) as tree, ThreadPoolExecutor(options.processes) as pool:
        before, after = pool.map(ask, (tree, ROOT))
    rows: defaultdict[str, Row] = defaultdict(Row)
    remarks = []
    for old, new in zip(before, after, strict=True):
        found, row = compare(old, new), rows[new["kind"]]
        row.verdicts[found.verdict] += 1
        row.distance = max(row.distance, found.distance)
        for i, answer in enumerate((old, new)):
            row.seconds[i] += answer["seconds"]
        if found.verdict not in ("same", "rounding"):
            remarks.append(f"{found.verdict}: {new['question']}\n    {found.text}")
    print(table(rows), *remarks, sep="\n")
    print(*(f"expected: {reason.text}" for reason in EXPECTED), sep="\n")
    differing = sum(row.verdicts["differs"] for row in rows.values())
    print(f"{differing} of {len(after)} answers differ from those of {options.revision}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
