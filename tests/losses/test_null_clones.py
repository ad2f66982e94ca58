"""Gaussian vectors through a shuffler, against the Gaussian mechanism in closed form."""

from __future__ import annotations

import math

import pytest
from scipy.special import ndtr

import shuffle_accountant as sa


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
