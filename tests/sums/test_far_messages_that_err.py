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
        "far",
        "log_mass",
        "chance",
        "gain",
        "sent",
        "rest_gain",
        "rest_sent",
        "rest_size",
        "missed",
    ]
    stated = FAR | {"far": 1.0, "log_mass": 0.0, "rest_size": 1.25, "missed": 0.0}

    def table(**moved: float) -> FarMessages:
        values = stated | moved
        shapes = {"missed": (1,)}
        return FarMessages(*(np.full(shapes.get(x, (1, 1)), values[x]) for x in names))

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
def test_what_groups_miss_where_sums_are_off(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {"sum_error": 0.0, "mass_error": 0.0} | {source: OFF}
    settings = replace(far_messages._SET, steps=(2.0,), **errors)
    monkeypatch.setattr(far_messages, "_SET", settings)
    value, mass = np.array([[-3.0, 0.5, -0.25]]), np.array([[0.125, 0.5, 0.375]])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = far_messages._Groups.of(mass, value).errors((6, 6))[0]
    for group, (sign, before) in enumerate([(1.0, 0.0), (-1.0, 0.125)]):
        turn = sign * 2.0 / abs(value[0, group])
        grown = [mass[0, i] * math.expm1(turn * value[0, i]) for i in range(group, 3)]
        size = sum(map(abs, grown)) + before
        up = errors["sum_error"] * size + 0.99 * errors["mass_error"]
        power = 5.0 * math.log1p(sum(grown) - before + up)
        least = mass[0, group] * abs(value[0, group]) * math.exp(power - 2.0) / (2.0 * math.e)
        assert least <= found[group] <= 1.1 * least


def test_sums_of_messages_have_room_for_their_additions() -> None:
    """At most 128 of them, four times, and masses and values of 16 roundings."""
    assert far_messages._SET.sum_error >= (128 + 2 * 16) * UNIT_ROUNDOFF
    assert far_messages._SET.mass_error >= (128 + 16) * UNIT_ROUNDOFF


def test_sums_over_groups_whose_roundings_err(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms are powers times a number, and are added up group by group."""
    unit = 2.0**-20
    settings = replace(far_messages._SET, sum_error=0.0, mass_error=0.0)
    monkeypatch.setattr(far_messages, "_SET", settings)
    monkeypatch.setattr(far_messages, "UNIT_ROUNDOFF", unit)
    parts = [1.0, -0.25, 0.125, 0.5, 0.0625, 0.25, 0.75, 1.25]
    table = FarMessages(*(np.full((1, 20), x) for x in parts), np.zeros(1))
    gain, sent, off, off_sent = (float(x[0]) for x in table.probabilities(3))
    assert off >= (20 + 6) * unit * abs(gain)
    assert off_sent >= (20 + 6) * unit * sent


@pytest.mark.parametrize("negative", [False, True])
def test_what_far_messages_take_away_is_missed(negative: bool) -> None:
    """By enumeration of all sums of three: of either sign, less those that are as usual."""
    sign, n, row = -1.0 if negative else 1.0, 3, np.ones(1)
    value, mass = sign * np.array([[4.0, -3.0, 0.25]]), np.array([0.015625, 0.125, 0.859375])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = far_messages.far_messages(
            np.maximum(value, 0.0), np.maximum(-value, 0.0), mass, value, (n, n), 1e9 * row
        )
    assert found.far[0].tolist()[0]
    far = [v for v, is_far in zip(value[0].tolist(), found.far[0].tolist(), strict=True) if is_far]
    missed = 0.0
    for sums in itertools.product(zip(value[0].tolist(), mass.tolist(), strict=True), repeat=n):
        sent = [v for v, _ in sums if v in far]
        first = max(sent, key=abs, default=0.0)
        # what is linear instead of its positive part, and what is left out
        wrong = max(-sum(v for v, _ in sums), 0.0) if first > 0.0 else sum(v for v, _ in sums)
        missed += math.prod(p for _, p in sums) * max(wrong, 0.0) * (first != 0.0)
    assert missed > 1e-3
    assert missed / n <= float(found.missed[0]) <= 100.0 * missed
