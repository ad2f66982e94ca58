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
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    """Explain wrong calls of everything that a module's ``__all__`` names and that is there.

    Args:
        module: its ``__name__``; to be called at the end of the module.
    """
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
    elif isinstance(thing, FunctionType) and _own(thing):
        return thing if hasattr(thing, _MARK) else _explained_function(thing)
    elif isinstance(thing, ModuleType) and _own_module(thing) and hasattr(thing, "__all__"):
        explain_calls(thing.__name__)
    return thing


def _explained_function(function: FunctionType) -> Callable[..., Any]:
    call, home = _explaining(function, None), sys.modules[function.__module__]
    if getattr(home, function.__name__, None) is function:
        setattr(home, function.__name__, call)
    return call


def _own(thing: Any) -> bool:
    return str(thing.__module__).partition(".")[0] == ROOT


def _own_module(thing: ModuleType) -> bool:
    return thing.__name__.partition(".")[0] == ROOT


def _explain_methods(kind: type) -> None:
    if not _own(kind) or issubclass(kind, Enum) or _MARK in vars(kind):
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
        call = _Call(parameters, args, kwargs)
        return f"{name} {call.reason()}: write {name.rpartition('.')[2]}({call.meant()})"
    return None


class _Call:
    """Arguments as they were given, and where each belongs."""

    def __init__(
        self,
        parameters: list[inspect.Parameter],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        kinds = inspect.Parameter
        self._parameters = [
            one for one in parameters if one.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        ]
        placed = [one for one in self._parameters if one.kind is not kinds.KEYWORD_ONLY]
        self._by_place = {one.name for one in placed[: len(args)]}
        self._values = dict(zip((one.name for one in placed), args, strict=False))
        self._twice = [name for name in kwargs if name in self._values]
        names = {one.name for one in self._parameters}
        self._values |= {name: value for name, value in kwargs.items() if name in names}
        self._missing = [name for name in self._free() if self._required(name)]
        self._unknown = [name for name in kwargs if name not in names]
        self._surplus = args[len(placed) :]
        self._named = list[str]()
        self._place_the_unknown({name: kwargs[name] for name in self._unknown})
        self._place_the_surplus()

    def _required(self, name: str) -> bool:
        return next(one for one in self._parameters if one.name == name).default is (
            inspect.Parameter.empty
        )

    def _free(self) -> list[str]:
        """Names without a value, those that must have one first."""
        free = [one.name for one in self._parameters if one.name not in self._values]
        return sorted(free, key=lambda name: not self._required(name))

    def _place_the_unknown(self, given: dict[str, Any]) -> None:
        """Put arguments of other names where the names are alike, or where one is missing."""
        for name in list(given):
            import difflib  # only for messages, and not quick to import

            alike = difflib.get_close_matches(name, self._free(), 1, _ALIKE)
            if alike:
                self._values[alike[0]] = given.pop(name)
        missing = [name for name in self._free() if self._required(name)]
        if len(given) == len(missing) == 1:
            self._values[missing[0]] = next(iter(given.values()))

    def _place_the_surplus(self) -> None:
        """Put arguments without a name where something is missing, in order."""
        for name, value in zip(self._free(), self._surplus, strict=False):
            self._values[name] = value
            self._named.append(name)

    def reason(self) -> str:
        """Phrase that says how the call does not fit the signature."""
        said = []
        if self._unknown:
            said.append(f"has no argument {_listed(map(repr, self._unknown))}")
        if self._twice:
            said.append(f"was given {_listed(self._twice)} twice")
        if len(self._named) < len(self._surplus):
            said.append(f"takes no more than {len(self._parameters)} arguments")
        elif self._named:
            said.append(f"takes {_listed(self._named)} by name")
        return ", ".join(said or [f"needs {_listed(self._missing)}"])

    def meant(self) -> str:
        """The arguments of the call that was meant."""
        written = []
        for one in self._parameters:
            if one.name in self._values:
                value = shown(self._values[one.name])
                value = value if len(value) <= _LONG else one.name
                written.append(value if one.name in self._by_place else f"{one.name}={value}")
            elif self._required(one.name):
                written.append(f"{one.name}=...")
        return ", ".join(written)


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def lazy_attributes(
    package: str,
    *,
    modules: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    missing: str | None = None,
    public: Sequence[str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, which lists what is public alone.

    Wrong calls of what is imported are explained, see `shuffle_accountant.facades.calls`.

    Args:
        package: its ``__name__``.
        modules: for each attribute that is a module, the module, relative to the package.
        names: for each other attribute, the module that defines it, relative to the package.
        missing: what to say if a module needs a library that is not installed.
        public: the ``__all__`` of a package that has none of its own, for all but pydoc. `help` of
            such a package is its docstring, which is to name what is public, and not the whole of
            every class.
    """
    homes = {**(modules or {}), **(names or {})}

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name == "__all__" and public is not None and not _asked_by_pydoc():
            return list(public)
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{homes[name]}")
        except ModuleNotFoundError as absent:
            own = (absent.name or "").split(".")[0] == package.split(".")[0]
            if missing is None or own:
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
