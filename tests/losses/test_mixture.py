"""Mixtures of rounds: what they leave out, at the end of all losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

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


@dataclass(frozen=True)
class Named:
    """A loss that answers in a way of its own."""

    name: str

    def way(self, epsilon: float, effort: Effort) -> str:
        return self.name


class Uneven:
    """Rounds of which other ones are the likeliest from below."""

    largest, deviation = 2.0, 1.0

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        weights = (0.25, 0.125) if side is Bound.PESSIMISTIC else (0.125, 0.25)
        some = [Part(w, cast(Any, Named(n))) for w, n in zip(weights, "ab", strict=True)]
        return (Part(0.5, None), *some), 0.125


def test_the_way_is_that_of_the_likeliest_round_with_a_loss() -> None:
    """Of those that the upper end is made of; exact where none has a loss."""
    effort = Effort(1e-12, 1e-3)
    assert MixtureLoss(Uneven()).way(0.5, effort) == "a"
    assert MixtureLoss(Harmless(2.0)).way(0.5, effort) == "exact"
