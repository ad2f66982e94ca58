"""Federated learning with Flower (extra ``flower``): a client's mod and two server strategies.

* `LocalRandomizerMod` and `ShuffledStrategy`: every client clips and randomizes its own update; the
  server application shuffles, accounts in a `ShuffleLedger`, and stops at the budget. Clients must
  trust that application to forget who sent what, since messages carry their senders; nobody else.
* `AllocationStrategy`: central noise for clients who trust the server with their updates; all are
  dealt at random to the steps of an epoch.

Flower's own wrappers with differential privacy compose Gaussian events of their own, so no shuffled
ledger can be their accountant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.training.flower.client import LocalRandomizerMod as LocalRandomizerMod
    from shuffle_accountant.training.flower.strategies import (
        AllocationStrategy as AllocationStrategy,
    )
    from shuffle_accountant.training.flower.strategies import ShuffledStrategy as ShuffledStrategy

_HOMES = {
    "AllocationStrategy": "strategies",
    "LocalRandomizerMod": "client",
    "ShuffledStrategy": "strategies",
}
_MISSING = "training.flower needs Flower: pip install '.[flower]' in a clone"

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, names=_HOMES, missing=_MISSING)
