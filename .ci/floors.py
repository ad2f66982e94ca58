"""What pyproject.toml and the package state: the version, and the oldest allowed dependencies."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent


def package_version() -> str:
    """What the package says it is."""
    text = (ROOT / "shuffle_accountant" / "bracket.py").read_text(encoding="utf-8")
    return text.split('__version__ = "')[1].split('"')[0]


def floors(python: str) -> Iterator[str]:
    """The oldest allowed releases of the direct dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest: dict[str, Version] = {}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"python_version": python}):
            (bound,) = requirement.specifier
            assert bound.operator == ">=", text
            known = oldest.get(requirement.name, Version("0"))
            oldest[requirement.name] = max(known, Version(bound.version))
    return (f"{name}=={release}" for name, release in oldest.items())
