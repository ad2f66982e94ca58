"""Cosines and sines by the tangent, against mpmath."""

import math

import numpy as np
import pytest

from shuffle_accountant.numerics.angles import TURN, cos_sin
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 4.0, 1e5, 1e15])
def test_cosines_and_sines(size: float) -> None:
    """A sine is as near in units of itself, so that nothing is lost near 0."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 60
    angle = size * np.random.default_rng(1).uniform(-1.0, 1.0, 300)
    for x, cosine, sine in zip(angle.tolist(), *(y.tolist() for y in cos_sin(angle)), strict=True):
        assert abs(mp.cos(x) - cosine) <= TURN * UNIT_ROUNDOFF
        assert abs(mp.sin(x) - sine) <= TURN * UNIT_ROUNDOFF * abs(mp.sin(x)) + 5e-324


def test_where_the_tangent_is_largest_or_nothing() -> None:
    """Multiples of half a turn, from both sides, and 0, whose sign is kept."""
    mp = pytest.importorskip("mpmath").mp.clone()
    mp.dps = 60
    places = [k * math.pi * (1.0 + s * UNIT_ROUNDOFF) for k in range(-9, 10) for s in (-2, 0, 2)]
    for x, cosine, sine in zip(
        places, *(y.tolist() for y in cos_sin(np.array(places))), strict=True
    ):
        assert abs(mp.cos(x) - cosine) <= TURN * UNIT_ROUNDOFF
        assert abs(mp.sin(x) - sine) <= TURN * UNIT_ROUNDOFF * abs(mp.sin(x))
    assert [float(y[0]) for y in cos_sin(np.zeros(1))] == [1.0, 0.0]
