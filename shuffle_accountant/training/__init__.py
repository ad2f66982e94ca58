"""Training with shuffled, locally private gradients, and a ledger that counts the rounds.

`ShuffleLedger` goes into any training loop, and `ShuffleLedger.open` keeps it in a database;
`explain` says what a PyTorch loader really samples; `PrivacyFilter` is a budget for rounds that are
chosen as one goes along, which `PrivacyFilter.open` keeps in a database, and `Odometer` says what
they have cost so far. `private_mean` makes the round's output from per-user gradients with a
vector randomizer (`PrivUnit`, `DuchiL2`, `DuchiLInf`, `SampledCoordinates`);
`shuffle_accountant.training.opacus` is the same for Opacus, and
`shuffle_accountant.training.flower` for Flower; both are imported when they are first asked for.
NumPy arrays and PyTorch tensors are treated alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import explain_calls, lazy_attributes
from shuffle_accountant.randomizers.vectors import (
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
    VectorRandomizer,
)
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.database import StorageError
from shuffle_accountant.training.filters import Odometer, PersonalFilter, PrivacyFilter
from shuffle_accountant.training.ledger import ShuffleLedger
from shuffle_accountant.training.loaders import Explanation, explain
from shuffle_accountant.training.sampling import clip, private_mean
from shuffle_accountant.training.store import Receipt

if TYPE_CHECKING:
    from shuffle_accountant.training import flower as flower
    from shuffle_accountant.training import opacus as opacus

MISSING = (
    "training.opacus needs PyTorch and Opacus: install the extra, "
    "pip install '.[opacus]' in a clone"
)

__all__ = [
    "BudgetExceeded",
    "DuchiL2",
    "DuchiLInf",
    "Explanation",
    "Odometer",
    "PersonalFilter",
    "PrivUnit",
    "PrivacyFilter",
    "Receipt",
    "SampledCoordinates",
    "ShuffleLedger",
    "StorageError",
    "VectorRandomizer",
    "clip",
    "explain",
    "private_mean",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__, modules={"flower": "flower", "opacus": "opacus"}, missing=MISSING
    )

explain_calls(__name__)
