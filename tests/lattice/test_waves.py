"""Waves of letters, against fifty digits."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpc, mpf

from shuffle_accountant.lattice.waves import MOST_WAVES, WAVE_ERROR, waves
from shuffle_accountant.numerics.rounding import Array

VALUES = np.array([0.0, 1e-300, -3e-9, 0.01, -0.7, 1.0, 3.1, -250.0, 4e4])
# Of many letters fewer waves are looked up directly.
MANY = np.resize(VALUES, 900)


@pytest.mark.parametrize("step", [1e-7, 0.013, 2.0])
@pytest.mark.parametrize("count", [1, 2, 4, 5, 16, 63, 700])
@pytest.mark.parametrize("values", [VALUES, MANY], ids=["few letters", "many"])
def test_waves_are_off_by_what_is_stated(step: float, count: int, values: Array) -> None:
    """Relative to their arguments: next to nothing at low frequencies."""
    every = waves(step, count, values)
    assert every.shape == (count, values.size)
    found = every[:, : VALUES.size]
    with mp.workdps(50):
        for j in sorted({0, 1, count // 3, count // 2, count - 1} & set(range(count))):
            for wave, y in zip(found[j].tolist(), VALUES.tolist(), strict=True):
                argument = j * mpf(step) * mpf(y)
                off = abs(mpc(wave) - mp.expjpi(argument / mp.pi) + 1)
                # numbers below the smallest normal double lose more
                assert off <= WAVE_ERROR * mpf(2) ** -53 * abs(argument) + mpf(10) ** -307


def test_the_last_wave_is_off_by_no_more() -> None:
    y = np.resize([1.0 / 3.0, 2.7], 513)
    found = waves(0.1, MOST_WAVES, y)[-1]
    with mp.workdps(50):
        for wave, value in zip(found.tolist()[:2], y.tolist()[:2], strict=True):
            argument = (MOST_WAVES - 1) * mpf(0.1) * mpf(value)
            off = abs(mpc(wave) - mp.expjpi(argument / mp.pi) + 1)
            assert off <= WAVE_ERROR * mpf(2) ** -53 * argument
