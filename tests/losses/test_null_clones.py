"""Gaussian vectors through a shuffler, against the Gaussian mechanism in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.special import ndtr

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.losses.steps import null_clones
from shuffle_accountant.losses.steps.null_clones import NullCloneLoss
from shuffle_accountant.numerics.rounding import Bound


@pytest.mark.parametrize("delta", [1e-5, 1e-12])
def test_shuffled_vectors_lose_less_than_one_alone(delta: float) -> None:
    sigma = 2.0
    found = sa.epsilon(
        sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=sigma), users=50), delta=delta
    )
    assert 0.0 < found.lower <= found.upper <= (1.0 + 1e-3) * found.lower
    shift = 1.0 / sigma
    alone = ndtr(shift / 2 - found.upper / shift)
    alone -= math.exp(found.upper) * ndtr(-shift / 2 - found.upper / shift)
    assert alone > 1.05 * delta


@pytest.mark.parametrize(("sigma", "steps"), [(1.2, 60), (0.6, 30), (1.3, 30)])
def test_total_variation_is_as_narrow_as_asked_for(
    sigma: float, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And around what narrower cells say, but for their own width."""
    loss, effort = NullCloneLoss(sigma, steps), Effort(tail=1e-20, resolution=1e-3)

    def ends() -> tuple[float, float]:
        low, high = (
            loss.delta(0.0, side, effort) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        return low, high

    low, high = ends()
    assert low <= high <= low * (1.0 + 1e-3)
    narrow = replace(null_clones.NULL_CLONES, width=0.7 * null_clones.NULL_CLONES.width)
    monkeypatch.setattr(null_clones, "NULL_CLONES", narrow)
    least, most = ends()
    assert most - least < high - low
    # both are ends of one number
    assert low <= most
    assert least <= high
