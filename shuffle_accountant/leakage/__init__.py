"""The same round in other currencies: what an attacker learns about one target among decoys."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffle_accountant.leakage import mutual_information as mutual_information
    from shuffle_accountant.leakage import qif as qif
    from shuffle_accountant.leakage import reidentification as reidentification

__all__ = ["mutual_information", "qif", "reidentification"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
