"""Far messages, where everything that is stated to err does."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF
from shuffle_accountant.sums import far_messages
from shuffle_accountant.sums.far_messages import FarMessages

OFF = 2.0**-8

FAR = {"chance": 0.125, "gain": 0.5, "sent": 0.0625, "rest_gain": -0.25, "rest_sent": 0.75}


@pytest.mark.parametrize("source", ["sum_error", "mass_error"])
def test_far_messages_that_are_off(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of far messages and of the others, each relative to its terms; the total of all."""
    errors = {"sum_error": 0.0, "mass_error": 0.0} | {source: OFF}
    monkeypatch.setattr(far_messages, "_SET", replace(far_messages._SET, **errors))
    names = [
        "cut",
        "log_mass",
        "chance",
        "gain",
        "sent",
        "rest_gain",
        "rest_sent",
        "rest_size",
        "missed",
    ]
    stated = FAR | {"cut": 1.0, "log_mass": 0.0, "rest_size": 1.25, "missed": 0.0}

    def table(**moved: float) -> FarMessages:
        return FarMessages(*(np.array([(stated | moved)[name]]) for name in names))

    sizes = {"gain": 0.5, "sent": 0.0625, "rest_gain": 1.25, "rest_sent": 0.75}
    for n in (1, 2, 5):
        gain, sent, off, off_sent = (float(x[0]) for x in table().probabilities(n))
        for signs in itertools.product((-1.0, 1.0), repeat=5):
            moved = {
                name: stated[name] + s * errors["sum_error"] * size
                for s, (name, size) in zip(signs, sizes.items(), strict=False)
            }
            true = table(**moved, log_mass=signs[4] * 0.9 * errors["mass_error"])
            true_gain, true_sent, _, _ = (float(x[0]) for x in true.probabilities(n))
            assert abs(true_gain - gain) <= off + 1e-14
            assert abs(true_sent - sent) <= off_sent + 1e-14


@pytest.mark.parametrize("source", ["sum_error", "mass_error"])
def test_what_others_take_away_where_sums_are_off(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = {"sum_error": 0.0, "mass_error": 0.0} | {source: OFF}
    monkeypatch.setattr(far_messages, "_SET", replace(far_messages._SET, **errors))
    value, mass = np.array([[0.5, -0.25, -3.0]]), np.array([[0.5, 0.375, 0.125]])
    found, _ = far_messages._others(value, mass, (6, 6), np.ones(1), np.array([-2.0]))
    for step, log in zip(far_messages._SET.steps, found[0].tolist(), strict=True):
        grown = [0.5 * math.expm1(-0.5 * step), 0.375 * math.expm1(0.25 * step)]
        up = errors["sum_error"] * (sum(map(abs, grown)) + 0.125) + 0.99 * errors["mass_error"]
        assert log >= 5.0 * math.log1p(sum(grown) - 0.125 + up) - 1e-13


def test_sums_of_messages_have_room_for_their_additions() -> None:
    """At most 128 of them, four times, and masses and values of 16 roundings."""
    assert far_messages._SET.sum_error >= (128 + 2 * 16) * UNIT_ROUNDOFF
    assert far_messages._SET.mass_error >= (128 + 16) * UNIT_ROUNDOFF
