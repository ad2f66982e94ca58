"""Moments of losses on a grid, on their side of sums in 50 digits, at both ends of the doubles."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.baselines.moments import LogMoments, log_moments
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import HOCKEY_STICK, Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

SIDES = pytest.mark.parametrize("side", list(Bound))


def moments(side: Bound, losses: Any, log_masses: Any, infinite: float = 0.0) -> LogMoments:
    losses, logs = (np.array(x, dtype=np.float64) for x in (losses, log_masses))
    return LogMoments(side, losses, logs, infinite, 1e3, None)


@SIDES
@pytest.mark.parametrize("budget", [{}, *({"roundoff": 2.0**-30, "adverse": x} for x in (-1, 1))])
def test_sums_are_on_their_side(budget: dict[str, float], side: Bound) -> None:
    rng = np.random.default_rng(3)
    for size in (1, 5, 400):
        losses, logs = rng.uniform(-3.0, 5.0, size), rng.uniform(-300.0, -1.0, size)
        for t in (0.1, 1.0, 30.0, 700.0):
            truth = MP.log(
                MP.fsum(
                    MP.exp(exact(p) + exact(t) * exact(x))
                    for p, x in zip(logs.tolist(), losses.tolist(), strict=True)
                )
            )
            with stress(**budget):
                found = exact(moments(side, losses, logs).kept(t))
            assert found >= truth if side is Bound.PESSIMISTIC else found <= truth
            # some eighty roundings of exponents up to 4000 and logs of masses down to -300
            assert abs(found - truth) <= (1e-2 if budget else 1e-9)


def test_exponents_that_are_no_doubles() -> None:
    largest = sys.float_info.max
    for loss, ends in ((1e200, (largest, math.inf)), (-1e200, (-math.inf, -largest))):
        found = [
            moments(side, [loss], [0.0]).kept(1e200)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        ]
        assert tuple(found) == ends
    assert moments(Bound.PESSIMISTIC, [], []).kept(1.0) == -math.inf


def test_losses_that_may_be_infinite() -> None:
    """Known to be infinite they have no moment; cut off, they are at most the largest loss."""
    some = [1.0], [math.log(0.5)]
    assert moments(Bound.OPTIMISTIC, *some, infinite=0.25).bound(2.0) == math.inf
    found = moments(Bound.PESSIMISTIC, *some, infinite=1e-9).bound(0.01)
    assert found >= MP.log(0.5 * MP.exp(exact("0.01")) + exact(1e-9) * MP.exp(10))
    assert found < 0.01


class Rare:
    """A loss of which all but an atom is next to the end of the doubles."""

    largest, deviation, divergence = 1.0, 1.0, HOCKEY_STICK

    def __init__(self, rare: float, infinite: float) -> None:
        self.rare, self.infinite = rare, infinite
        self.reversed = self

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        edges(self.largest)
        masses, losses = np.array([0.5, self.rare]), np.array([0.0, 1.0])
        return PldAtoms(side, masses, losses, self.infinite, 0.0, 0.0, 0.0)


def test_masses_without_digits_count_for_the_upper_end_alone() -> None:
    t = 900.0
    for loss in (Rare(1e-305, 0.0), Rare(0.25, 1e-305)):
        one: Any = loss
        upper, lower = (log_moments(one, side) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC))
        truth = MP.log(exact(loss.rare) + exact(loss.infinite)) + t
        assert truth <= upper.bound(t) <= t
        assert lower.bound(t) < math.inf
        assert lower.log_mass.min() > math.log(1e-300)
        assert upper.infinite >= loss.infinite >= lower.infinite == 0.0
