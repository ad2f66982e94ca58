"""What a reduction theorem delivers."""

from __future__ import annotations

from dataclasses import dataclass

from shuffle_accountant.decoys import TargetAmongDecoys
from shuffle_accountant.losses.base import PrivacyLoss

__all__ = ["Reduction"]


@dataclass(frozen=True)
class Reduction:
    """A pair that dominates a round, from a named theorem.

    Attributes:
        name: the theorem, as brackets report it.
        decoys: the pair as one target among decoys, given that the target takes part.
        loss: the privacy loss of the round, subsampling included.
    """

    name: str
    decoys: TargetAmongDecoys
    loss: PrivacyLoss
