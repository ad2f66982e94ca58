"""Ends from sums over nodes, where everything that is stated to err does, one source at a time.

The true sums are chosen first; what is computed is moved away from them by all that one source may
move it, in every combination of directions. Then each end must be on its side of the truth.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.sums import nodes as module
from shuffle_accountant.sums import settings as chosen
from shuffle_accountant.sums.nodes import NodeTable
from shuffle_accountant.sums.question import MessageRows

USERS = 10
# Relative to ends; far above double rounding.
OFF = 2.0**-8


def near(
    value: list[float],
    error: list[float],
    *,
    excess: float,
    alias: tuple[float, float] = (0.0, 0.0),
    per_message: float = 0.0,
    log: float = 0.0,
) -> list[float]:
    """The four ends of `NodeTable._near` from these sums, at a scale of ``e^log``."""
    one = np.ones(1)
    scales = SimpleNamespace(
        index=np.zeros(1, dtype=np.intp),
        theta=one,
        variance=0.25 * one,
        # with the normal factor e^(1/8), and n in the denominator
        log_scale=np.array([(math.log(USERS) - 0.125 + log) / USERS]),
        per_message=np.array([per_message]),
        alias=np.array(alias)[:, None],
    )
    part: Any = SimpleNamespace(
        rows=scales, sums=lambda n: (np.array(value)[:, None], np.array(error)[:, None])
    )
    table = NodeTable.__new__(NodeTable)
    table.rows = MessageRows(np.zeros((3, 1, 1)), np.array([excess]), np.zeros(1, dtype=np.intp))
    return [float(x[0]) for x in table._near(part, USERS)]


def check(found: list[float], part: float, density: float, sent: float, excess: float) -> None:
    """Ends of ``E T_+``, of ``E T_+`` less the variance times the density, and its two parts."""
    upper, lower, q, d = found
    gain = part - 0.25 * density
    tiny = 1e-12  # of numbers of the size of one, which are rounded
    assert upper >= part - tiny
    assert lower <= gain + tiny
    assert q >= sent - tiny
    assert d <= gain + excess * sent + tiny


SIGNS = list(itertools.product((-1.0, 1.0), repeat=3))


@pytest.mark.parametrize("excess", [0.0, 0.75])
def test_sums_that_are_off(excess: float) -> None:
    true = 1.0, 0.5, 2.0
    for signs, which in itertools.product(SIGNS, range(3)):
        error = [OFF * (i == which) for i in range(3)]
        value = [x + s * e for x, s, e in zip(true, signs, error, strict=True)]
        check(near(value, error, excess=excess), *true, excess)


@pytest.mark.parametrize("excess", [0.0, 0.75])
def test_aliases_are_in_the_first_and_in_the_last_sum(excess: float) -> None:
    true = 1.0, 0.5, 2.0
    for first, third in itertools.product((0.0, OFF), repeat=2):
        value = [true[0] + first, true[1], true[2] + USERS * third]
        check(near(value, [0.0] * 3, excess=excess, alias=(first, third)), *true, excess)


@pytest.mark.parametrize("excess", [0.0, 0.75])
def test_weights_that_are_off(excess: float) -> None:
    """A message's weight by its relative error, all sums by that of n messages."""
    off = OFF / USERS
    for signs in SIGNS:
        for true in ((1.0, 0.5, 2.0), (0.1, 3.0, 2.0), (1.0, 0.0, 0.0)):
            value = [x / (1.0 + s * 0.999 * OFF) for x, s in zip(true, signs, strict=True)]
            check(near(value, [0.0] * 3, excess=excess, per_message=off), *true, excess)


@pytest.mark.parametrize("excess", [0.0, 0.75])
def test_ratios_that_are_off(excess: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities of the event under both laws, each by its error, relative to itself.

    The event was found at an alpha that is lower by four times the error; its true probabilities
    are those under P and under Q of the same event, whose sums were computed from other ratios.
    """
    error = 2.0**-12
    monkeypatch.setattr(chosen, "NODES", replace(chosen.NODES, ratio_error=error))
    anchor = excess - 4.0 * error * (1.0 + excess)
    for value in ([1.0, 0.5, 2.0], [0.3, 0.0, 2.0], [0.1, 4.0, 2.0], [1.0, 0.5, 1e-3]):
        gain = value[0] - 0.25 * value[1]
        _, lower, _, d = near(value, [0.0] * 3, excess=excess)
        p = gain + (1.0 + anchor) * value[2]
        assert p > 0.0
        for first, second in itertools.product((-error, error), repeat=2):
            true_p, true_q = p * (1.0 + first), value[2] * (1.0 + second)
            assert lower <= true_p - (1.0 + excess) * true_q
            assert d <= true_p - true_q


def test_products_below_all_normal_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that are rounded to 0, by less than their stated absolute error."""
    monkeypatch.setattr(module, "LIMITS", replace(module.LIMITS, underflow=OFF))
    upper, _, q, _ = near([0.0] * 3, [0.0] * 3, excess=0.5)
    assert upper >= OFF
    assert q >= OFF


def far(**rows: float) -> Any:
    """Sums with a far message: probabilities and their errors, and what is missed."""
    known = rows["gain"], rows["sent"], rows["off"], rows["off_sent"]
    found = tuple(np.array([x]) for x in known)
    return SimpleNamespace(probabilities=lambda n: found, missed=np.array([rows["missed"]]))


@pytest.mark.parametrize("excess", [0.0, 0.75])
@pytest.mark.parametrize("source", ["off", "off_sent", "missed"])
def test_sums_with_far_messages_that_are_off(source: str, excess: float) -> None:
    """Joined to an event of the others, they are an event; what they take away is missed."""
    table: Any = NodeTable.__new__(NodeTable)
    table.rows = MessageRows(np.zeros((3, 1, 1)), np.array([excess]), np.zeros(1, dtype=np.intp))
    near = np.array([[0.4], [0.3], [0.25], [0.5]])
    errors = dict.fromkeys(("off", "off_sent", "missed"), 0.0) | {source: OFF}
    for first, second in itertools.product((-1.0, 1.0), repeat=2):
        gain = 0.5 + first * errors["off"]
        sent = 0.125 + second * errors["off_sent"]
        table.question = SimpleNamespace(far=far(gain=0.5, sent=0.125, **errors))
        upper, lower, q, d = (float(x[0]) for x in table._with_far(near, USERS))
        whole, tiny = gain - excess * sent, 1e-14
        assert upper >= 0.4 + whole + errors["missed"] - tiny
        assert lower <= 0.3 + whole + tiny
        assert q >= 0.25 + sent - tiny
        assert d <= 0.5 + gain + tiny


def test_far_messages_have_no_negative_part() -> None:
    """A sum that is negative by what it is rounded to adds nothing."""
    table: Any = NodeTable.__new__(NodeTable)
    table.rows = MessageRows(np.zeros((3, 1, 1)), np.array([0.5]), np.zeros(1, dtype=np.intp))
    errors = {"off": OFF, "off_sent": 0.0, "missed": 0.0}
    table.question = SimpleNamespace(far=far(gain=0.0, sent=1.0, **errors))
    assert table._with_far(np.array([[0.4], [0.3], [0.25], [0.5]]), USERS)[0, 0] >= 0.4


@pytest.mark.parametrize("log", [-30.0, 0.0, 30.0])
def test_a_scale_whose_roundings_err(log: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exponential is off by eight roundings, and by that of a large exponent."""
    unit = 2.0**-14
    monkeypatch.setattr(module, "UNIT_ROUNDOFF", unit)
    size = math.exp(log)
    for sign in (-1.0, 1.0):
        true = [x * (1.0 + sign * unit * (12.0 + 2.0 * abs(log))) for x in (1.0, 0.5, 2.0)]
        found = near([1.0, 0.5, 2.0], [0.0] * 3, excess=0.75, log=log)
        check([x / size for x in found], *true, 0.75)


def test_sums_with_far_messages_whose_roundings_err(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two roundings of every term, whichever way."""
    unit, excess = 2.0**-12, 0.75
    monkeypatch.setattr(module, "UNIT_ROUNDOFF", unit)
    table: Any = NodeTable.__new__(NodeTable)
    table.rows = MessageRows(np.zeros((3, 1, 1)), np.array([excess]), np.zeros(1, dtype=np.intp))
    table.question = SimpleNamespace(far=far(gain=0.5, sent=0.125, off=0.0, off_sent=0.0, missed=0))
    upper, lower, q, _ = table._with_far(np.array([[0.4], [0.3], [0.25], [0.5]]), USERS)[:, 0]
    assert upper >= (0.4 + 0.5 - excess * 0.125) * (1.0 + 2.0 * unit)
    assert lower <= 0.3 + 0.5 - excess * 0.125 - 2.0 * unit * (0.3 + 0.5 + excess * 0.125)
    assert q >= (0.25 + 0.125) * (1.0 + 2.0 * unit)
