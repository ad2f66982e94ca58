"""Losses of subsampled rounds whose own are large and whose chance to take part is small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.combined.subsampled import SubsampledLoss
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

FRACTIONS = pytest.mark.parametrize("fraction", [1.0, 0.3, 1e-3, 1e-14, 1e-150, 1e-300])
LOSSES = (1e-9, 0.7, 5.0, 29.0, 31.0, 32.33049829130824, 60.0, 350.0, 690.0, 705.0, 745.0, 1500.0)


def high_precision() -> Any:
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 700
    return mp


class Known(PrivacyLoss):
    """A loss of which only the largest value is asked, or what epsilon it is asked at."""

    def __init__(self, most: float) -> None:
        self.most, self.asked = most, [0.0]

    largest = property(lambda self: self.most)
    deviation = property(lambda self: self.most)

    def delta(self, epsilon: float, side: Bound, effort: Effort) -> float:
        self.asked.append(epsilon)
        return 0.5

    def atoms(self, *given: Any) -> Any:
        raise NotImplementedError


@FRACTIONS
def test_the_largest_loss_is_rounded_up(fraction: float) -> None:
    """Also where the logarithm of the chance cancels nearly all of the loss."""
    mp = high_precision()
    for loss in LOSSES:
        truth = mp.log1p(mp.mpf(fraction) * mp.expm1(mp.mpf(loss)))
        found = SubsampledLoss(Known(loss), fraction).largest
        assert truth <= found <= truth * (1 + 1e-14) + (1e-14 * loss if loss > 700.0 else 1e-320)


class Huge(Known):
    """One gain so large that its ratio overflows, and none."""

    def atoms(self, side: Bound, edges: Any, effort: Effort) -> PldAtoms:
        return PldAtoms(side, np.array([0.5, 0.5]), np.array([0.0, self.most]), 0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("loss", [31.0, 705.0, 1500.0])
def test_what_cancels_in_a_large_loss_is_an_error_of_it(loss: float) -> None:
    """A sum of a large loss and a logarithm errs by their sizes, not by that of the result."""
    fraction = np.exp(-min(loss, 690.0))
    with stress(roundoff=2.0**-30):
        atoms = SubsampledLoss(Huge(loss), fraction).atoms(
            Bound.PESSIMISTIC, lambda _: np.arange(2.0), Effort(1e-20, 1e-4)
        )
    size = loss if loss > 690.0 else 0.0
    least = 20.0 * 2.0**-30 * (size + float(atoms.loss.max()))
    assert least <= atoms.loss_error <= 1.1 * least


@FRACTIONS
def test_a_round_is_asked_on_the_safe_side(fraction: float) -> None:
    mp = high_precision()
    for epsilon in (1e-12, 0.1, 1.0, 29.0, 31.0, 700.0):
        truth = mp.log1p(mp.expm1(mp.mpf(epsilon)) / mp.mpf(fraction))
        for side in Bound:
            one = Known(1e4)
            SubsampledLoss(one, fraction).delta(epsilon, side, Effort(1e-20, 1e-4))
            asked = one.asked[-1]
            assert np.isfinite(asked)
            assert (asked <= truth) if side is Bound.PESSIMISTIC else (asked >= truth)
            assert abs(asked - truth) <= 1e-14 * truth


def test_next_to_the_largest_loss_of_a_rare_user() -> None:
    """One of 1e15 people: epsilon is a rounding of the round's loss below the largest."""
    mp = high_precision()
    eps0, epsilon, people = 32.33049829130824, 0.1042606449705958, 10**15
    krr = sa.RandomizedResponse(categories=10, eps0=eps0)
    survey = sa.ShuffleRound(krr, users=1, population=people, reduction="blanket")
    truthful, lie = mp.e ** mp.mpf(eps0), mp.mpf(1)
    gain = (truthful - lie) / people - mp.expm1(mp.mpf(epsilon)) * lie
    truth = gain / (truthful + 9)
    found = sa.delta(survey, epsilon=epsilon)
    assert 0 < truth < 2e-31
    assert found.lower <= truth <= found.upper
