"""Waves of letters, against fifty digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from shuffle_accountant.lattice.waves import MOST_WAVES, WAVE_ERROR, waves

VALUES = np.array([0.0, 1e-300, -3e-9, 0.01, -0.7, 1.0, 3.1, -250.0, 4e4])


@pytest.mark.parametrize("step", [1e-7, 0.013, 2.0])
@pytest.mark.parametrize("count", [1, 2, 4, 5, 16, 63, 700])
def test_waves_are_off_by_what_is_stated(step: float, count: int) -> None:
    """Relative to their arguments: next to nothing at low frequencies."""
    found = waves(step, count, VALUES)
    assert found.shape == (count, VALUES.size)
    with mp.workdps(50):
        for j in sorted({0, 1, count // 3, count // 2, count - 1} & set(range(count))):
            for wave, y in zip(found[j].tolist(), VALUES.tolist(), strict=True):
                argument = j * mpf(step) * mpf(y)
                off = abs(mpc(wave) - mp.expjpi(argument / mp.pi) + 1)
                # numbers below the smallest normal double lose more
                assert off <= WAVE_ERROR * mpf(2) ** -53 * abs(argument) + mpf(10) ** -307


def test_the_last_wave_is_off_by_no_more() -> None:
    y = np.array([1.0 / 3.0, 2.7])
    found = waves(0.1, MOST_WAVES, y)[-1]
    with mp.workdps(50):
        for wave, value in zip(found.tolist(), y.tolist(), strict=True):
            argument = (MOST_WAVES - 1) * mpf(0.1) * mpf(value)
            off = abs(mpc(wave) - mp.expjpi(argument / mp.pi) + 1)
            assert off <= WAVE_ERROR * mpf(2) ** -53 * argument
