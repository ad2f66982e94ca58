"""Registry of named things (randomizers, measures, …) that register themselves from own files."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

__all__ = ["Registry"]


class _Entry(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> float: ...


T = TypeVar("T", bound=_Entry)


class Registry(Generic[T]):
    """Entries in the order of their ranks, of equal ranks in that of their names.

    The files of a package register their own, and are imported when the registry is first read; a
    file that is added to the package needs no mention anywhere. Anybody else may register more.

    Args:
        package: name of the package whose modules register entries.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._entries: dict[str, T] = {}
        self._complete = False

    def register(self, entry: T) -> T:
        """Add an entry, and hand it back.

        Raises:
            ValueError: the name is taken.
        """
        if entry.name in self._entries:
            raise ValueError(f"name must be new in {self._package}, got {entry.name!r}")
        self._entries[entry.name] = entry
        return entry

    def remove(self, name: str) -> T:
        """Take an entry out, and hand it back.

        Raises:
            KeyError: no such name.
        """
        return self._all().pop(name)

    def __iter__(self) -> Iterator[T]:
        entries = list(self._all().values())
        return iter(sorted(entries, key=lambda entry: (entry.rank, entry.name)))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __getitem__(self, name: str) -> T:
        return self._all()[name]

    def _all(self) -> dict[str, T]:
        if not self._complete:
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._complete = True
        return self._entries
