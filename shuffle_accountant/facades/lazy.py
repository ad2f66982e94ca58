"""Attributes of a package that are imported when they are first asked for.

Type checkers do not see them: a package names them once more under ``if TYPE_CHECKING``, and hides
its ``__getattr__`` from the checker, so that a name that does not exist is an error.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shuffle_accountant.facades.calls import explained

__all__ = ["lazy_attributes"]


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
