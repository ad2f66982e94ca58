"""Mixtures of rounds: what they leave out, at the end of all losses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part
from shuffle_accountant.numerics.rounding import Bound


@dataclass(frozen=True)
class Harmless:
    """Three quarters that reveal nothing; nothing is known of the rest."""

    largest: float
    deviation: float = 1.0

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        return (Part(0.75, None),), 0.25


@pytest.mark.parametrize(("largest", "most"), [(math.inf, 0.25), (2.0, 0.0)])
def test_what_is_left_out_may_be_certain_to_tell_where_losses_have_no_end(
    largest: float, most: float
) -> None:
    loss, effort = MixtureLoss(Harmless(largest)), Effort(1e-12, 1e-3)
    assert loss.delta(math.inf, Bound.PESSIMISTIC, effort) == most
    assert loss.delta(math.inf, Bound.OPTIMISTIC, effort) == 0.0
