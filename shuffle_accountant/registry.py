"""Registries: bounds and measures by name, classes by the kind in a state; and states' digests.

A state in plain JSON types has a field ``digest``, the SHA-256 of all its other fields: one that
was altered or cut by accident is refused. It is no signature: who alters a state on purpose can
compute it anew.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_loose
from shuffle_accountant.validation import spelled

__all__ = ["Kinds", "Registry", "Stored", "digest_of", "load_installed", "sealed", "unsealed"]


def digest_of(content: Any) -> str:
    """SHA-256 (64 hexadecimal digits) of plain JSON types, the same for 1 and 1.0, in any order."""
    try:
        text = json.dumps(_whole(content), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(
            f"state must hold plain JSON types, got {validate.shown(content)}"
        ) from None
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """The state with its digest."""
    return {**state, "digest": digest_of(state)}


def unsealed(
    stored: Any, fields: Mapping[int, Collection[str]], *, sealed_since: int
) -> dict[str, Any]:
    """The state, if it has the fields of its schema and fits its digest.

    A state that was written before there were digests is returned with a warning.

    Args:
        stored: the state, with ``schema`` among its fields.
        fields: names of each schema's fields, without ``digest``.
        sealed_since: the first schema with a digest.
    """
    state: dict[str, Any] = validate.instance(dict, state=stored)
    schema = validate.integer(minimum=1, maximum=max(fields), schema=state.get("schema"))
    wanted = {*fields[schema]} | ({"digest"} if schema >= sealed_since else set())
    if set(state) != wanted:
        raise ValueError(
            f"state of schema {schema} must have fields {sorted(wanted)}, "
            f"got {validate.shown(sorted(map(str, state)))}"
        )
    if schema < sealed_since:
        warn_loose(
            f"a state of schema {schema} has no digest: what was altered in it cannot be seen; "
            "write it anew",
            UserWarning,
        )
    elif state["digest"] != digest_of({name: state[name] for name in fields[schema]}):
        raise ValueError(
            f"state was altered: it does not fit its digest {validate.shown(state['digest'])}"
        )
    return state


def _whole(value: Any) -> Any:
    """The value with whole floats as integers, as JavaScript and others write them."""
    if isinstance(value, dict):
        return {key: _whole(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(held) for held in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value


class _Entry(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def rank(self) -> float: ...


T = TypeVar("T", bound=_Entry)
K = TypeVar("K")

GROUP = "shuffle_accountant"
"""Group of the entry points by which installed packages name their randomizers and rounds."""


class Registry(Generic[T]):
    """Entries in the order of their ranks, of equal ranks in that of their names.

    The files of a package, which is given by its name, register their own, and are imported when
    the registry is first read; a file that is added needs no mention anywhere. Anybody else may
    register more.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._entries: dict[str, T] = {}
        self._complete = False

    def register(self, entry: T) -> T:
        """Add an entry, and hand it back."""
        if entry.name in self._entries:
            raise ValueError(f"name must be new in {self._package}, got {entry.name!r}")
        self._entries[entry.name] = entry
        return entry

    def remove(self, name: str) -> T:
        """Take an entry out, and hand it back; KeyError if there is none of the name."""
        return self._all().pop(name)

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(self._all().values(), key=lambda entry: (entry.rank, entry.name)))

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __getitem__(self, name: str) -> T:
        return self._all()[name]

    def _all(self) -> dict[str, T]:
        if not self._complete:
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._complete = True
        return self._entries


def as_json(value: Any) -> Any:
    """A field as plain JSON types."""
    if isinstance(value, tuple):
        return list(value)
    return value.to_dict() if hasattr(value, "to_dict") else value


class Stored:
    """Base of frozen dataclasses that are written as their ``kind`` and their fields.

    The fields must be constructor arguments of plain JSON types; who has others overrides both
    `to_dict` and `from_dict`.

    Attributes:
        kind: name of the class in states, in lower case with hyphens.
    """

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal object."""
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return {"kind": self.kind, **{name: as_json(getattr(self, name)) for name in names}}

    @classmethod
    def from_dict(cls, state: Any) -> Self:
        """Inverse of `to_dict`."""
        wanted = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        state = validate.fields(["kind", *wanted], kind=cls.kind, state=state)
        return cls(**{name: state[name] for name in wanted})


_loaded: list[EntryPoint] = []


def load_installed() -> bool:
    """Import what installed packages name as entry points of `GROUP`, once; whether any was new."""
    new = [entry for entry in entry_points(group=GROUP) if entry not in _loaded]
    _loaded.extend(new)
    for entry in new:
        entry.load()  # which registers itself
    return bool(new)


class Kinds(Mapping[str, type[K]], Generic[K]):
    """Classes by their ``kind``: the one name each has in states, JSON and on the command line.

    Args:
        what: the noun for messages, such as "randomizer".
        modules: full names of modules that are imported when their kind is asked for, by kind.
    """

    def __init__(self, what: str, modules: Mapping[str, str] | None = None) -> None:
        self._what = what
        self._modules = dict(modules or {})
        self._classes: dict[str, type[K]] = {}

    def add(self, cls: type[K]) -> None:
        """Register a class that has a ``kind`` of its own; abstract ones have none."""
        kind: str | None = cls.__dict__.get("kind")
        if kind is None:
            return
        owner = self._classes.get(kind, cls)
        # a decorator may make a class a second time
        if (owner.__module__, owner.__qualname__) != (cls.__module__, cls.__qualname__) or (
            self._modules.get(kind, cls.__module__) != cls.__module__
        ):
            raise ValueError(f"kind must be a name of its own, got {kind!r}, which is taken")
        self._classes[kind] = cls

    def remove(self, kind: str) -> type[K]:
        """Take a class out, and hand it back; KeyError if there is none of the kind."""
        return self._classes.pop(kind)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._classes, *self._modules}))

    def __len__(self) -> int:
        return len({*self._classes, *self._modules})

    def __getitem__(self, kind: str) -> type[K]:
        if kind not in self._classes and kind in self._modules:
            importlib.import_module(self._modules[kind])
        return self._classes[kind]

    def of(self, state: Any, name: str | None = None) -> type[K]:
        """The class whose kind a state names, also in the spellings of earlier versions.

        Messages call the state by its name.
        """
        kind = state.get("kind") if isinstance(state, dict) else None
        if isinstance(kind, str):
            for spelling in (kind, spelled(kind)):
                if spelling in self:
                    return self[spelling]
            if load_installed():
                return self.of(state, name)
        # classes of one's own may be any number: the line stays one that can be read
        kinds = textwrap.shorten(", ".join(self), 160, placeholder=" …")
        raise ValueError(
            f"{name or self._what} must be an object with a kind of {kinds}, got "
            f"{validate.shown(state)}"
        )
