"""Which tests are asked about a file: those nearest to it by imports, then the rest of its room."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from benchmarks.mutants.mutant import PACKAGE, ROOT

# Test files that are asked, and those of them whose slow tests are asked as well.
_MOST, _MOST_SLOW = 8, 3


@cache
def stages(file: str, root: Path = ROOT) -> tuple[tuple[str, ...], ...]:
    """Arguments of pytest, one tuple for each run; the next is made if nothing has failed.

    Args:
        file: of the package, such as ``lattice/grid.py``.
        root: of the tree.
    """
    asked = _nearest(file, root)[:_MOST]
    fast = ("-m", "not slow")
    found = [(*fast, *asked[:_MOST_SLOW]), ("-m", "slow", *asked[:_MOST_SLOW])]
    if asked[_MOST_SLOW:]:
        found.insert(1, (*fast, *asked[_MOST_SLOW:]))
    return tuple(found)


def _nearest(file: str, root: Path) -> list[str]:
    """Test files, those first that reach the file by the fewest imports; one more for a stranger.

    Of those as near as each other come first the ones that speak most of the file.
    """
    users = _users(root)
    path = Path(file)
    module = ".".join((PACKAGE, *path.with_suffix("").parts)).removesuffix(".__init__")
    room, about = f"tests/{path.parts[0]}/", re.compile(path.stem.replace("_", "[_ ]"))
    reached, edge, steps = {module}, [module], 0
    found: list[tuple[int, int, str]] = []
    while edge:
        steps += 1
        edge = sorted({user for one in edge for user in users[one]} - reached)
        reached.update(edge)
        for test in edge:
            if test.startswith("tests/"):
                said = len(about.findall((root / test).read_text(encoding="utf-8")))
                found.append((steps + (not test.startswith(room)), -said, test))
    return [test for _, _, test in sorted(found)]


@cache
def _users(root: Path) -> dict[str, set[str]]:
    """For each module of the package, which modules and test files import it.

    A test that says ``sa.Name`` imports the module that the package has the name from.
    """
    users: dict[str, set[str]] = defaultdict(set)
    facade = root / PACKAGE / "__init__.py"
    named = dict(_named(facade.read_text(encoding="utf-8")))
    for path in sorted((root / PACKAGE).rglob("*.py")):
        if path == facade:
            continue
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for target in _imported(path, {}):
            users[target].add(name)
    for path in sorted((root / "tests").rglob("test_*.py")):
        for target in _imported(path, named):
            users[target].add(path.relative_to(root).as_posix())
    return users


def _named(source: str) -> Iterator[tuple[str, str]]:
    """Names that the package offers, and the modules that they are from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                yield alias.asname or alias.name, str(node.module)


def _imported(path: Path, named: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "sa"
            and node.attr in named
        ):
            yield named[node.attr]
