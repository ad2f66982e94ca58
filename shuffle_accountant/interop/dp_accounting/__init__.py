"""Shuffled rounds in Google's dp_accounting (extra "dp-accounting").

`to_privacy_loss_distribution` makes a pessimistic `PrivacyLossDistribution` of composed rounds;
`ShuffleDpEvent` and `ShufflePLDAccountant` let its accountant and its calibration account for them.
The other way, `shuffle_accountant.PldRound` reads a distribution as a round, and `protocol_of` a
tree of events as a protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.interop.dp_accounting.distribution import (
        ShuffleDpEvent,
        ShufflePLDAccountant,
        to_privacy_loss_distribution,
    )
    from shuffle_accountant.interop.dp_accounting.reading import protocol_of

__all__ = [
    "ShuffleDpEvent",
    "ShufflePLDAccountant",
    "protocol_of",
    "to_privacy_loss_distribution",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        names=dict.fromkeys(__all__, "distribution") | {"protocol_of": "reading"},
    )
