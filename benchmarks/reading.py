"""`python -m benchmarks.reading --seed S`: thirty docstrings drawn by a seed, to be read aloud.

Someone who knows differential privacy but not the package must be able to say after one reading
what each function takes, returns and guarantees; those that fail are rewritten.
"""

from __future__ import annotations

import argparse
import ast
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import shuffle_accountant as sa

ROOT = Path(sa.__file__).parent


def docstrings() -> Iterator[tuple[str, str]]:
    """Names and docstrings of all modules, classes and functions, in order of their paths."""
    for path in sorted(ROOT.rglob("*.py")):
        place = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield f"{place}:{getattr(node, 'name', 'module')}", text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--count", type=int, default=30, help="default: %(default)s")
    parser.add_argument("--under", default="", help="only this room, such as sums")
    given = parser.parse_args(arguments)
    every = [one for one in docstrings() if one[0].startswith(given.under)]
    for name, text in random.Random(given.seed).sample(every, min(given.count, len(every))):
        print(f"{name}\n    " + text.replace("\n", "\n    ") + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
