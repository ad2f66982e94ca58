"""Steps with different noise: deviations that are gathered, and a step drawn at random."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shuffle_accountant.losses.steps import product_ratio
from shuffle_accountant.losses.steps.product_ratio import UnequalRatios, gathered_noise
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30
SIDES = pytest.mark.parametrize("side", list(Bound))


@SIDES
def test_deviations_are_gathered_where_noise_reveals_more_or_less(side: Bound) -> None:
    """Step by step: less noise from above, more from below, by a 32nd of the range at most."""
    steps = [(sigma, 1 + i % 3) for i, sigma in enumerate(np.geomspace(0.5, 2.0, 97).tolist())]
    found = gathered_noise(steps, side)
    assert len(found) <= 32
    each = [sigma for sigma, count in steps for _ in range(count)]
    taken = [sigma for sigma, count in found for _ in range(count)]
    assert len(taken) == len(each)
    for mine, true in zip(taken, each, strict=True):
        ratio = mine / true if side is Bound.OPTIMISTIC else true / mine
        assert 1.0 <= ratio <= 4.0 ** (1.0 / 32.0) * (1.0 + 1e-12)
    assert gathered_noise(steps[:32], side) == tuple(steps[:32])


class Known:
    """One step's divergence: a sixteenth of its deviation."""

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    def alone(self, epsilon: float, side: Bound, swapped: bool) -> float:
        return self.sigma / 16.0


@SIDES
def test_a_step_drawn_at_random_and_revealed(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over all steps, with four roundings of it and two of each deviation's share."""
    monkeypatch.setattr(product_ratio, "GaussianRatio", Known)
    with stress(roundoff=UNIT):
        found = UnequalRatios(((0.5, 3), (1.5, 4), (4.0, 1))).alone(1.0, side)
    moved = Fraction(found) / Fraction(11.5 / 128.0) - 1
    sign = 1 if side is Bound.PESSIMISTIC else -1
    assert 9.9 * UNIT <= sign * moved <= 10.1 * UNIT
