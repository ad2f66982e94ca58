"""Shuffled rounds in Google's dp_accounting (extra "dp-accounting").

`to_privacy_loss_distribution` makes a pessimistic `PrivacyLossDistribution` of composed rounds;
`ShuffleDpEvent` and `ShufflePLDAccountant` let its accountant and its calibration account for them.
The other way, `shuffle_accountant.PldRound` reads a distribution as a round.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shuffle_accountant.interop.dp_accounting.distribution import (
        to_privacy_loss_distribution as to_privacy_loss_distribution,
    )
    from shuffle_accountant.interop.dp_accounting.events import (
        ShuffleDpEvent as ShuffleDpEvent,
    )
    from shuffle_accountant.interop.dp_accounting.events import (
        ShufflePLDAccountant as ShufflePLDAccountant,
    )

__all__ = ["ShuffleDpEvent", "ShufflePLDAccountant", "to_privacy_loss_distribution"]

_HOMES = {
    "ShuffleDpEvent": "events",
    "ShufflePLDAccountant": "events",
    "to_privacy_loss_distribution": "distribution",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
