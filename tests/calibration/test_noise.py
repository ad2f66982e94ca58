"""The least noise of DP-SGD for targets at the end of the range of doubles."""

from __future__ import annotations

import pytest

import shuffle_accountant as sa


@pytest.mark.parametrize("target", [1e160, 1.7976931348623157e308])
@pytest.mark.parametrize("sampling", ["allocation", "shuffle", "poisson"])
def test_any_noise_is_enough_for_an_enormous_target(sampling: str, target: float) -> None:
    found = sa.min_noise_multiplier(
        target_epsilon=target, sampling=sampling, steps=20, epochs=2, delta=1e-6, tolerance=0.05
    )
    assert found == 0.01  # the least that is looked at
