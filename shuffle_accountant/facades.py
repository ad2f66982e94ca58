"""Lazy attributes of packages; and calls that do not fit a signature, answered with the one meant.

Python says how many positional arguments were expected; who types ``ShuffleRound(r, 1000)`` needs
the name of the second one. Functions and methods are wrapped, so that their signatures stay what
they are for `help`, for type checkers and for whoever reads the source.

Lazy attributes are imported when they are first asked for. Type checkers do not see them: a package
names them once more under ``if TYPE_CHECKING``, and hides its ``__getattr__`` from the checker, so
that a name that does not exist is an error.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import wraps
from types import FunctionType, MethodType, ModuleType
from typing import Any

from shuffle_accountant.validation import shown

__all__ = ["explain_calls", "explained", "lazy_attributes"]

ROOT = __name__.partition(".")[0]
# Methods with other names that begin with an underscore are called by Python, not by users.
_CALLED_BY_USERS = ("__init__", "__new__", "__call__")
_MARK = "_explained"
# Similarity, in [0, 1], from which on a wrong name is taken for an argument's.
_ALIKE = 0.5
# Number of characters beyond which a value stands in the message by its argument's name.
_LONG = 40


def explain_calls(module: str) -> None:
    """Explain wrong calls of what the ``__all__`` of a module names, at whose end this stands."""
    there = vars(sys.modules[module])
    for name in there["__all__"]:
        if name in there:
            there[name] = explained(there[name])


def explained(thing: Any) -> Any:
    """The thing, with wrong calls explained: a function as another, a class as it is.

    A function takes its own place in the module that defines it. What belongs to other packages,
    and what is no function or class, stays as it is.
    """
    if isinstance(thing, type):
        for kind in thing.__mro__:
            _explain_methods(kind)
    elif isinstance(thing, MethodType):
        owner: object = thing.__self__
        explained(type(owner))
        return getattr(owner, thing.__name__)
    elif isinstance(thing, FunctionType) and _own(thing.__module__) and not hasattr(thing, _MARK):
        call, home = _explaining(thing, None), vars(sys.modules[thing.__module__])
        name = thing.__name__
        if home.get(name) is thing:
            home[name] = call
        return call
    elif isinstance(thing, ModuleType) and _own(thing.__name__) and hasattr(thing, "__all__"):
        explain_calls(thing.__name__)
    return thing


def _own(module: object) -> bool:
    return str(module).partition(".")[0] == ROOT


def _explain_methods(kind: type) -> None:
    if not _own(kind.__module__) or issubclass(kind, Enum) or _MARK in vars(kind):
        return
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name not in _CALLED_BY_USERS:
            continue
        if isinstance(member, FunctionType):
            setattr(kind, name, _explaining(member, kind))
        elif isinstance(member, classmethod):
            setattr(kind, name, classmethod(_explaining(member.__func__, kind)))
        elif isinstance(member, staticmethod):
            owner = kind if name == "__new__" else None
            setattr(kind, name, staticmethod(_explaining(member.__func__, owner)))
    setattr(kind, _MARK, True)


def _explaining(function: Callable[..., Any], owner: type | None) -> Callable[..., Any]:
    """A function, or a method of the owner, that says which call was meant."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if not _refused(function, error):
                raise
            told = _told(function, owner, args, kwargs)
            if told is None:
                raise
            raise TypeError(told) from None

    setattr(call, _MARK, True)
    return call


def _refused(function: Callable[..., Any], error: TypeError) -> bool:
    """Whether Python refused the arguments of this call, or of the wrapped function it calls."""
    inner, traceback = inspect.unwrap(function), error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is inner.__code__:
            return False  # it was called, and went wrong inside
        traceback = traceback.tb_next
    return str(error).startswith(f"{inner.__qualname__}()")


def _told(
    function: Callable[..., Any],
    owner: type | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> str | None:
    """Error message for a call, in one line; None if the call fits the signature."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        parameters = list(signature.parameters.values())
        name = function.__name__
        if owner is not None:
            kind = type(args[0]) if args and isinstance(args[0], owner) else owner
            made = name in ("__init__", "__new__")
            name = kind.__name__ if made else f"{kind.__name__}.{name}"
            parameters, args = parameters[1:], args[1:]
        reason, meant = _explanation(parameters, args, kwargs)
        return f"{name} {reason}: write {name.rpartition('.')[2]}({meant})"
    return None


def _explanation(
    parameters: list[inspect.Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str, str]:
    """Phrase that says how a call does not fit, and the arguments of the call that was meant."""
    parameters = [
        one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    names = [one.name for one in parameters]
    required = {one.name for one in parameters if one.default is one.empty}
    placed = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    values = dict(zip(placed, args, strict=False))
    twice = [name for name in kwargs if name in values]
    values |= {name: value for name, value in kwargs.items() if name in names}

    def free() -> list[str]:
        """Names without a value, those that must have one first."""
        without = [name for name in names if name not in values]
        return sorted(without, key=lambda name: name not in required)

    missing = [name for name in free() if name in required]
    # arguments of other names go where the names are alike, or where one is missing
    unknown = {name: value for name, value in kwargs.items() if name not in names}
    homeless = dict(unknown)
    for name in unknown:
        import difflib  # only for messages, and not quick to import

        for alike in difflib.get_close_matches(name, free(), 1, _ALIKE):
            values[alike] = homeless.pop(name)
    still_missing = [name for name in free() if name in required]
    if len(homeless) == len(still_missing) == 1:
        values[still_missing[0]] = next(iter(homeless.values()))
    # arguments without a name go where something is missing, in order
    surplus = args[len(placed) :]
    by_name = dict(zip(free(), surplus, strict=False))
    values |= by_name

    said = []
    if unknown:
        said.append(f"has no argument {_listed(map(repr, unknown))}")
    if twice:
        said.append(f"was given {_listed(twice)} twice")
    if len(by_name) < len(surplus):
        said.append(f"takes no more than {len(parameters)} arguments")
    elif by_name:
        said.append(f"takes {_listed(by_name)} by name")
    meant = []
    for name in names:
        if name in values:
            value = shown(values[name])
            value = value if len(value) <= _LONG else name
            meant.append(value if name in placed[: len(args)] else f"{name}={value}")
        elif name in required:
            meant.append(f"{name}=...")
    return ", ".join(said or [f"needs {_listed(missing)}"]), ", ".join(meant)


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def lazy_attributes(
    package: str,
    *,
    modules: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    missing: str | None = None,
    public: bool = False,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, which lists what is public alone.

    Wrong calls of what is imported are explained, see `shuffle_accountant.facades.calls`.

    Args:
        package: its ``__name__``.
        modules: for each attribute that is a module, the module, relative to the package.
        names: for each other attribute, the module that defines it, relative to the package.
        missing: what to say if a module needs a library that is not installed.
        public: whether these attributes are the ``__all__`` of the package, for all but pydoc:
            its help is the docstring, which is to name them, and not the whole of every class.
    """
    homes = {**(modules or {}), **(names or {})}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__" and public and not _asked_by_pydoc():
            return sorted(homes)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{homes[name]}")
        except ModuleNotFoundError as absent:
            if missing is None or _own(absent.name or ""):
                raise
            raise ImportError(missing) from absent
        return explained(module if name in (modules or {}) else getattr(module, name))

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*getattr(sys.modules[package], "__all__", ()), *homes})

    return __getattr__, __dir__


def _asked_by_pydoc() -> bool:
    """Whether the module attribute that is looked up is wanted for the page of a module."""
    frame = inspect.currentframe()  # this function, __getattr__, and who looks it up
    asking = frame and frame.f_back and frame.f_back.f_back
    return asking is not None and asking.f_code.co_name == "docmodule"
