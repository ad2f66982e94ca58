"""Cosines and sines by a table, against fifty digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from shuffle_accountant.numerics.fft import TURN_ERROR, cosines_and_sines
from shuffle_accountant.numerics.rounding import Array

PART = 2.0 * math.pi / 1024
ANGLES = {
    "every part of a turn": np.arange(-2048.0, 2049.0) * PART,
    "between two parts": (np.arange(-600.0, 600.0) + 0.5) * PART,
    "next to nothing": np.array([0.0, -0.0, 1e-300, -1e-17, 3e-9]),
    "of any size": np.geomspace(1e-6, 1e11, 2000) * np.resize([1.0, -1.0], 2000),
}


@pytest.mark.parametrize("name", ANGLES)
def test_cosines_and_sines_are_off_by_what_is_stated(name: str) -> None:
    angle = ANGLES[name]
    cosine, sine = cosines_and_sines(angle)
    with mp.workdps(50):
        for x, c, s in zip(angle.tolist(), cosine.tolist(), sine.tolist(), strict=True):
            most = TURN_ERROR * (1.0 + abs(x) / 8.0)
            assert abs(mp.cos(mpf(x)) - mpf(c)) <= most
            assert abs(mp.sin(mpf(x)) - mpf(s)) <= most


def test_the_angles_are_left_as_they_are() -> None:
    angle: Array = np.linspace(-3.0, 3.0, 12).reshape(3, 4)
    before = angle.copy()
    cosine, sine = cosines_and_sines(angle)
    assert np.array_equal(angle, before)
    assert cosine.shape == sine.shape == (3, 4)
    assert cosines_and_sines(np.array([0.0]))[0][0] == 1.0
