"""The rooms of the package: who may import whom, read off the source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import shuffle_accountant

PACKAGE = "shuffle_accountant"
ROOT = Path(shuffle_accountant.__file__).parent

# Files at the top of the package that every room may use: arguments are checked, brackets are
# printed, names are looked up late. They are one room; so are the command line and its start.
GROUND = ("adjacency", "bracket", "facades", "progress", "registry", "registry", "validation")
ROOMS = {**dict.fromkeys(GROUND, "ground"), "__main__": "cli"}

# From the ground up: a room imports only from rooms before it. Rooms on one line know nothing of
# each other. All other files at the top of the package are rooms of their own.
FLOORS = (
    ("ground", "numerics"),
    ("lattice", "randomizers"),
    ("sums",),
    ("losses",),
    ("reductions", "engine"),
    ("rounds",),
    ("certificates",),
    ("accountant", "baselines", "leakage", "order", "sweeping", "interop", "tuning", "audit"),
    ("calibration", "reports"),
    ("training", "explorer"),
    ("deployment",),
    ("design", "", "cli"),
)
MOST_FLOORS, MOST_ARROWS = 12, 116

# Rooms whose numbers stand in frozen settings objects. Exceptions are what doubles hold, a part of
# the merge of atoms, and what compiled loops read, which cannot read attributes. Numbers that are
# derived from others, by a call or by name, are none.
SETTLED = ("engine", "lattice", "losses", "sums")
BESIDE_THEIR_PROOF = {
    "lattice.discretize": {"SUBCELLS"},  # a merge in cells this much finer costs a stated variance
    "lattice.positive": {"SCALE", "LOST"},  # what doubles hold
    "sums.pairs": {"_ROWS", "BLOCK"},
}

# These read the package as its users do, by the names at its top.
READERS = {
    f"{PACKAGE}.{one}" for one in ("reports.catalogue", "explorer.answers", "explorer.settings")
}

# Imported where they are used, because they raise where an optional library is missing.
OPTIONAL = {f"{PACKAGE}.interop.dp_accounting.library"}


def name_of(path: Path) -> str:
    parts = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def room(module: str) -> str:
    first = module.split(".")[1] if "." in module else ""
    return ROOMS.get(first, first)


def targets(node: ast.AST) -> Iterator[str]:
    """The package's own modules that an import statement names."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in FILES else str(node.module)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)


def for_types_only(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


@cache
def imports(module: str) -> tuple[tuple[str, str], ...]:
    """Pairs of an imported module and the function that imports it ('' at the top of the file)."""
    found: list[tuple[str, str]] = []

    def walk(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            if for_types_only(child):
                continue
            found.extend((target, function) for target in targets(child))
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            walk(child, child.name if named else function)

    walk(ast.parse(FILES[module].read_text(encoding="utf-8")), "")
    return tuple(found)


def test_every_room_is_on_a_floor_and_at_the_top_are_few_files() -> None:
    rooms = {room(module) for module in FILES}
    assert rooms == {one for floor in FLOORS for one in floor}
    assert len(list(ROOT.glob("*.py"))) <= 10


@pytest.mark.slow
def test_rooms_import_only_from_floors_below() -> None:
    floor = {one: number for number, rooms in enumerate(FLOORS) for one in rooms}
    wrong = [
        f"{module} imports {target}"
        for module in FILES
        for target, _ in imports(module)
        if room(module) != room(target)
        and not (target == PACKAGE and (room(module) == "cli" or module in READERS))
        and floor[room(target)] >= floor[room(module)]
    ]
    assert not wrong, "\n".join(wrong)


def test_floors_and_arrows_between_rooms_are_few() -> None:
    arrows = {
        (room(module), room(target))
        for module in FILES
        for target, _ in imports(module)
        if room(module) != room(target)
    }
    assert len(FLOORS) <= MOST_FLOORS
    assert len(arrows) <= MOST_ARROWS, sorted(arrows)


def test_numbers_of_the_engine_stand_in_settings() -> None:
    found = {}
    for name, path in FILES.items():
        room = name.removeprefix(f"{PACKAGE}.")
        if room.split(".")[0] not in SETTLED or room.endswith("settings"):
            continue
        numbers = set()
        for node in ast.parse(path.read_text()).body:
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            if not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node.value)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                every = [part for target in targets for part in ast.walk(target)]
                names = {part.id for part in every if isinstance(part, ast.Name)}
                numbers |= {one for one in names if one.isupper()}
        if numbers:
            found[room] = numbers
    assert found == BESIDE_THEIR_PROOF


def test_numerics_imports_nothing_of_the_package() -> None:
    wrong = [
        f"{module} imports {target}"
        for module in FILES
        for target, _ in imports(module)
        if room(module) == "numerics" and room(target) != "numerics"
    ]
    assert not wrong, "\n".join(wrong)


def for_types(module: str) -> set[str]:
    """What a file that is no package's face imports for the sake of annotations alone."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    blocks = [node for node in ast.walk(tree) if for_types_only(node)]
    if FILES[module].name == "__init__.py":
        return set()
    return {target for block in blocks for node in ast.walk(block) for target in targets(node)}


def test_no_circles_between_files() -> None:
    """Nor between annotations: who names a type stands above it."""
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way[way.index(module) :], module))
        if module in done:
            return
        for target in {*(target for target, _ in imports(module)), *for_types(module)}:
            visit(target, (*way, module))
        done.add(module)

    for module in FILES:
        visit(module, ())


def test_own_modules_are_imported_at_the_top_of_the_file() -> None:
    wrong = [
        f"{module}.{function} imports {target}"
        for module in FILES
        for target, function in imports(module)
        if function and target not in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)


def test_names_of_files_differ_by_more_than_an_s() -> None:
    """No two files of one folder have names that differ by an s."""
    for module, path in FILES.items():
        plural = path.with_name(f"{path.stem}s.py")
        assert not plural.exists(), f"{module} and its plural"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from shuffle_accountant.numerics import binomial", f"{PACKAGE}.numerics.binomial"),
        ("from shuffle_accountant.bracket import Bracket", f"{PACKAGE}.bracket"),
        ("import shuffle_accountant as sa", PACKAGE),
    ],
)
def test_imports_are_read_as_python_reads_them(source: str, found: str) -> None:
    assert list(targets(ast.parse(source).body[0])) == [found]


def test_imports_of_other_packages_are_none_of_ours() -> None:
    assert not list(targets(ast.parse("import numpy, shuffle_accountants").body[0]))


# Where divergences are computed: numbers that grow with alpha = e^epsilon are subtracted, or
# subtracted from, in `numerics.hockey_stick` alone, which returns the absolute error as well.
# In the alphabets' rooms alpha is a parameter, and the errors of such differences are theirs.
DIVERGENCES = (
    "losses.steps",
    "losses.tabulated",
    "losses.dummies",
    "losses.combined",
    "losses.dealt",
    "losses.two_letters",
)
DIVERGENCES += ("losses.counts", "losses.decoy_counts", "sums.doubling", "engine.single")
ASKED_ABOUT = {"epsilon", "epsilons", "losses", "points"}


def called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def grows_with_alpha(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression holds ``exp`` or ``expm1`` of what was asked about, or such a name."""
    if isinstance(node, ast.Call):
        if called(node) in {"exp", "expm1"}:
            inside = list(ast.walk(node.args[0]))
            # e^-epsilon is at most 1, and a difference in the exponent keeps its digits
            small = any(isinstance(one, ast.UnaryOp | ast.Sub) for one in inside)
            return not small and any(getattr(one, "id", "") in ASKED_ABOUT for one in inside)
        if called(node) in {"log", "log1p", "searchsorted"}:
            return False
    if isinstance(node, ast.Name):
        return node.id in names
    return any(grows_with_alpha(child, names) for child in ast.iter_child_nodes(node))


def assigned(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                yield from zip(target.elts, node.value.elts) if pairs else [(target, node.value)]  # type: ignore[attr-defined]  # noqa: B905


def differences_with_alpha(function: ast.AST) -> list[str]:
    """Differences of which one side grows with alpha."""
    names: set[str] = set()
    for _ in range(3):  # through names that are made of such names
        for target, value in assigned(function):
            if grows_with_alpha(value, names):
                names |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    return [
        ast.unparse(node)
        for node in ast.walk(function)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and (grows_with_alpha(node.left, names) or grows_with_alpha(node.right, names))
    ]


def functions(module: str) -> Iterator[ast.FunctionDef]:
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_differences_with_alpha_come_with_their_error() -> None:
    wrong = [
        f"{module}.{function.name}: {found}"
        for module in FILES
        if module.removeprefix(f"{PACKAGE}.").startswith(DIVERGENCES)
        for function in functions(module)
        for found in differences_with_alpha(function)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("above = -growth - (1.0 + growth) * gain", 1),
        ("above = 1.0 - alpha * value", 1),
        ("cost = alpha * rest\nabove = gain - cost", 1),
        ("above = value - math.exp(epsilon)", 1),
        ("above = gain - math.expm1(epsilon)", 1),
        ("weight = -math.expm1(epsilon - loss)", 0),
        ("weight = 1.0 - math.exp(-epsilon)", 0),
        ("above = difference_of(gain, alpha * rest, error)", 0),
    ],
)
def test_differences_with_alpha_are_found(source: str, found: int) -> None:
    lines = f"growth, alpha = np.expm1(epsilon), math.exp(epsilon)\n{source}"
    assert len(differences_with_alpha(ast.parse(lines))) == found
