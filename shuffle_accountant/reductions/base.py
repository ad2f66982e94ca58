"""The results of reduction theorems: pairs of distributions that dominate a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from shuffle_accountant.losses.base import PrivacyLoss
from shuffle_accountant.reductions.decoys import DensitiesAmongDecoys, TargetAmongDecoys

__all__ = ["DominatingPair", "Reduction"]


class DominatingPair(Protocol):
    """A pair of laws (P, Q) that dominates a round, wherever it comes from."""

    @property
    def name(self) -> str:
        """The theorem that the pair comes from, as brackets report it."""

    @property
    def loss(self) -> PrivacyLoss:
        """The pair's privacy loss."""

    @property
    def two_sided(self) -> bool:
        """Whether a largest loss L means ``Q <= e^L P`` besides ``P <= e^L Q``."""


@dataclass(frozen=True)
class Reduction:
    """A pair that dominates a round, from a named theorem.

    Attributes:
        name: the theorem, as brackets report it.
        decoys: the pair as one target among decoys, given that the target takes part; of several
            pairs of inputs the one whose likelihood ratios differ most.
        loss: the privacy loss of the round, subsampling included.
    """

    two_sided: ClassVar[bool] = True

    name: str
    decoys: TargetAmongDecoys | DensitiesAmongDecoys
    loss: PrivacyLoss
