"""Mixtures whose part is revealed: averages of the parts', in fractions, where arithmetic errs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.combined.mixture import PatternsLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

EFFORT = Effort(tail=1e-30, resolution=1e-3)


@dataclass(frozen=True)
class Part:
    """A loss with one atom, all of it twice as likely above as below."""

    mass: float
    infinite: float
    loss: float = 0.5

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        return self.mass * (2.0 if side is Bound.PESSIMISTIC else 1.0)

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        scale = 2.0 if side is Bound.PESSIMISTIC else 1.0
        return PldAtoms(
            side=side,
            mass=np.array([scale * self.mass]),
            loss=np.array([self.loss]),
            infinite=scale * self.infinite,
            truncated=0.5 * scale * self.infinite,
            round_off=1e-9 * self.mass,
            loss_error=1e-12 / self.loss,
        )


PARTS = [(0.3, Part(0.1, 0.05)), (0.7, Part(0.2, 0.025, loss=1.0))]


def average(values: list[float]) -> Fraction:
    weights = (Fraction(weight) for weight, _ in PARTS)
    return sum((w * Fraction(v) for w, v in zip(weights, values, strict=True)), Fraction(0))


@pytest.mark.parametrize("adverse", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("side", Bound)
def test_averages_are_on_their_side(side: Bound, adverse: float) -> None:
    upper = side is Bound.PESSIMISTIC
    scale = 2.0 if upper else 1.0
    sign = 1 if upper else -1
    with stress(roundoff=2.0**-30, adverse=adverse):
        loss = PatternsLoss(tuple(PARTS))
        delta = loss.delta(0.1, side, EFFORT)
        atoms = loss.atoms(side, lambda largest: (None, None), EFFORT)
    truth = float(average([scale * part.mass for _, part in PARTS]))
    never = float(average([scale * part.infinite for _, part in PARTS]))
    # doubles themselves err by less than this in the ends here
    off = 1e-15
    assert sign * (delta - truth) >= -off
    assert abs(delta - truth) <= 20 * 2.0**-30
    assert sign * (atoms.infinite - never) >= -off
    assert abs(atoms.infinite - never) <= 20 * 2.0**-30
    for found, (weight, part) in zip(atoms.mass.tolist(), PARTS, strict=True):
        exact = float(Fraction(weight) * Fraction(scale * part.mass))
        assert sign * (found - exact) >= -off
        assert abs(found - exact) <= 20 * 2.0**-30
    assert atoms.loss.tolist() == [part.loss for _, part in PARTS]
    assert atoms.side is side
    # the largest error of a loss, and what tails and rounding have of the masses
    assert atoms.loss_error == 2e-12
    assert atoms.truncated == pytest.approx(0.5 * never, rel=1e-15)
    assert atoms.round_off == pytest.approx(2e-10 + 4 * 2.0**-30, rel=1e-6)
