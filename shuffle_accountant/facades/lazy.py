"""Attributes of a package that are imported when they are first asked for.

Type checkers do not see them: a package names them once more under ``if TYPE_CHECKING``, and hides
its ``__getattr__`` from the checker, so that a name that does not exist is an error.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from shuffle_accountant.facades.calls import explained

__all__ = ["lazy_attributes"]


def lazy_attributes(
    package: str,
    *,
    modules: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    missing: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, which lists what is public alone.

    Wrong calls of what is imported are explained, see `shuffle_accountant.facades.calls`.

    Args:
        package: its ``__name__``.
        modules: for each attribute that is a module, the module, relative to the package.
        names: for each other attribute, the module that defines it, relative to the package.
        missing: what to say if a module needs a library that is not installed.
    """
    homes = {**(modules or {}), **(names or {})}

    def __getattr__(name: str) -> Any:  # noqa: N807
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
