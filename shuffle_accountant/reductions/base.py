"""What a reduction theorem delivers."""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant.decoys import DensitiesAmongDecoys, TargetAmongDecoys
from shuffle_accountant.losses.base import PrivacyLoss

__all__ = ["Reduction"]


@dataclass(frozen=True)
class Reduction:
    """A pair that dominates a round, from a named theorem.

    Attributes:
        name: the theorem, as brackets report it.
        decoys: the pair as one target among decoys, given that the target takes part; of several
            pairs of inputs the one whose likelihood ratios differ most.
        loss: the privacy loss of the round, subsampling included.
    """

    name: str
    decoys: TargetAmongDecoys | DensitiesAmongDecoys
    loss: PrivacyLoss
