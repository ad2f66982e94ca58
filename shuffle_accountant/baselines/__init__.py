"""Published bounds to compare with: one per file, each exactly its paper's.

Every module has the attribute ``sound``: whether the bound holds for everything that it accepts.
A module is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffle_accountant.baselines import specialised_clones as specialised_clones

__all__ = ["specialised_clones"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
