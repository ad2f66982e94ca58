"""Published bounds to compare with: one per file, each exactly its paper's.

All follow the interface of `shuffle_accountant.baselines.base`: ``name``, ``source``, ``sound``,
``valid(...)``, ``epsilon(...)`` and, where the bound is a curve, ``delta(...)``. A module is
imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shuffle_accountant.baselines import alpha_grid as alpha_grid
    from shuffle_accountant.baselines import blanket_bennett as blanket_bennett
    from shuffle_accountant.baselines import blanket_hoeffding as blanket_hoeffding
    from shuffle_accountant.baselines import clones_closed_form as clones_closed_form
    from shuffle_accountant.baselines import erlingsson as erlingsson
    from shuffle_accountant.baselines import girgis as girgis
    from shuffle_accountant.baselines import rdp as rdp
    from shuffle_accountant.baselines import specialised_clones as specialised_clones
    from shuffle_accountant.baselines import strong_clones_closed_form as strong_clones_closed_form
    from shuffle_accountant.baselines import strong_composition as strong_composition

__all__ = [
    "alpha_grid",
    "blanket_bennett",
    "blanket_hoeffding",
    "clones_closed_form",
    "erlingsson",
    "girgis",
    "rdp",
    "specialised_clones",
    "strong_clones_closed_form",
    "strong_composition",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
