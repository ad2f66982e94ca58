"""Names of modules, packages and functions do not get into each other's way."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import shuffle_accountant as sa


def packages() -> Iterator[ModuleType]:
    """The package and all packages inside, but for those of an extra that is not installed."""
    yield sa
    for found in pkgutil.walk_packages(sa.__path__, f"{sa.__name__}."):
        if found.ispkg:
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                if error.name not in ("flwr", "opacus", "torch"):
                    raise


def exported(package: ModuleType) -> Iterator[tuple[str, object]]:
    """What a package offers by name, without the names that only an extra brings."""
    names = {*getattr(package, "__all__", ()), *vars(package)}
    for name in sorted(names):
        if not name.startswith("_"):
            yield name, getattr(package, name)


def test_the_walk_finds_the_rooms() -> None:
    names = {package.__name__ for package in packages()}
    rooms = ("baselines", "cli", "leakage.mutual_information", "order", "reports.measures")
    assert {f"shuffle_accountant.{room}" for room in rooms} <= names


def test_no_function_or_class_hides_a_module() -> None:
    """`package.name` is the module of that name, whatever was imported before."""
    hidden = []
    for package in packages():
        modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
        hidden += [
            f"{package.__name__}.{name}"
            for name, value in exported(package)
            if name in modules and not inspect.ismodule(value)
        ]
    assert hidden == []


def test_modules_do_not_differ_by_an_s_alone() -> None:
    for package in packages():
        modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
        assert not {name for name in modules if f"{name}s" in modules}, package.__name__


def test_tests_that_wait_for_a_release_are_there() -> None:
    """A test that was renamed is taken out of the list, or waits under its new name."""
    here = Path(__file__).parent
    named = [line for line in (here / "before_a_release.txt").read_text().splitlines() if line]
    for name in named:
        if not name.startswith("#"):
            file, test = name.partition("[")[0].split("::")
            assert f"def {test}(" in (here.parent / file).read_text(), name
