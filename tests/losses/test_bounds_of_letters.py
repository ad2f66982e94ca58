"""Bounds of single letters (messages) and their sums, whose roundings are made large and err."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.losses.alphabets import letters
from shuffle_accountant.losses.alphabets.letters import (
    MessagePair,
    gains,
    gains_above,
    lone_message,
    moment_bounds,
    row_bounds,
)
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound

UNIT = 2.0**-17
SIDES = pytest.mark.parametrize("side", list(Bound))


class Erring:
    """NumPy whose functions err by eight roundings, and its sums by 64 of each term, one way."""

    def __init__(self, sign: float) -> None:
        self.sign = sign

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def log(self, x: Any) -> Any:
        return np.log(x) * (1.0 + 8.0 * self.sign * UNIT)

    def expm1(self, x: Any) -> Any:
        found = np.expm1(x)
        return found + 8.0 * self.sign * UNIT * np.abs(found)

    def sum(self, x: Any, axis: int) -> Any:
        return np.sum(x + 64.0 * self.sign * UNIT * np.abs(x), axis=axis)


def test_the_largest_loss_of_rounded_probabilities() -> None:
    """Each probability is off by eight roundings of its own, the two of them opposite ways."""
    p0, p1 = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    for one, other in ((p0, p1), (p0, p0)):
        with stress(roundoff=UNIT):
            found = MessagePair(one, other, p0).largest
        truth = exact(float(np.max(one / other))) * ((1 + 8 * exact(UNIT)) / (1 - 8 * exact(UNIT)))
        assert MP.log(truth) <= exact(found) <= MP.log(truth) + 200 * exact(UNIT)


@SIDES
def test_gains_where_alpha_is_an_exponential_of_logarithms(
    side: Bound, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logarithm of 600 nats that is off by eight roundings of itself moves alpha by 5000."""
    epsilon, upper = 700.5, side is Bound.PESSIMISTIC
    p1 = np.array([math.exp(-600.0), 0.0])
    p0 = np.full(2, 1e43)
    monkeypatch.setattr(letters, "np", Erring(-1.0 if upper else 1.0))
    unit = 2.0**-40
    monkeypatch.setattr("test_bounds_of_letters.UNIT", unit)
    with stress(roundoff=unit):
        found = gains(p0, p1, epsilon, side)
    for value, a, b in zip(found.tolist(), p0.tolist(), p1.tolist(), strict=True):
        truth = exact(a) - MP.exp(exact(epsilon)) * exact(b)
        assert exact(value) >= truth if upper else exact(value) <= truth
        assert abs(exact(value) - truth) <= 1e5 * exact(unit) * (exact(a) + abs(truth))


@SIDES
@pytest.mark.parametrize("excess", [0.0, 0.4, 0.6, 1e10])
def test_gains_of_numbers_below_all_normal_doubles(excess: float, side: Bound) -> None:
    """Each number is off by the smallest double, a product is rounded to a multiple of it."""
    p0, p1 = np.array([5.0, 1e15, 1.0]) * SMALLEST, np.array([1.0, 1000.0, 0.0]) * SMALLEST
    found = gains_above(p0, p1, excess, side)
    for value, a, b in zip(found.tolist(), p0.tolist(), p1.tolist(), strict=True):
        for first, second in itertools.product((-1, 1), (-1, 1) if b > 0.0 else (0,)):
            off = Fraction(SMALLEST)
            truth = Fraction(a) + first * off
            truth -= (1 + Fraction(excess)) * (Fraction(b) + second * off)
            upper = side is Bound.PESSIMISTIC
            assert Fraction(value) >= truth if upper else Fraction(value) <= truth


def test_gains_of_nothing_are_exact() -> None:
    """A message that neither input sends adds nothing to any sum."""
    for side in Bound:
        assert gains_above(np.zeros(1), np.zeros(1), 0.5, side)[0] == 0.0


# Of 1e9 messages, each adds as much as it takes off, with equal probabilities.
MANY = 10**9
EVEN = np.array([[2.0, 0.0]]), np.array([[0.0, 2.0]]), np.array([[0.5, 0.5]])


def even_truth() -> Any:
    """``E|X - Y|/n`` of binomial X, Y = n - X: ``comb(n, n/2)/2^n``, by Stirling's series."""
    half = exact(MANY // 2)
    return 1 / MP.sqrt(MP.pi * half) * (1 - 1 / (8 * half))


@pytest.mark.parametrize("alone", [True, False])
def test_moments_whose_sums_err(alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ratios are off by eight roundings, functions by eight and sums by 64: all towards zero."""
    if alone:  # Scarf's bound by itself
        monkeypatch.setattr(letters, "_log_excess", lambda *_: np.full(1, np.inf))
    monkeypatch.setattr(letters, "np", Erring(-1.0))
    r0, r1, q = EVEN
    moved = 1.0 + 8.0 * UNIT
    with stress(roundoff=UNIT):
        found = row_bounds(r0 / moved, r1 * moved, q, MANY, np.zeros((1, 1)))
    assert exact(float(found[0])) >= even_truth()
    monkeypatch.undo()
    found = row_bounds(r0, r1, q, MANY, np.zeros((1, 1)))
    assert even_truth() <= exact(float(found[0])) <= 1.6 * even_truth()


def test_exponential_moments_whose_sums_err(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions err by eight roundings and sums by 64, towards zero; against 50 digits."""
    value, q, theta = np.array([[2.0, -2.0]]), np.array([[0.5, 0.5]]), 2.0**-10
    monkeypatch.setattr(letters, "np", Erring(-1.0))
    with stress(roundoff=UNIT):
        found = letters._log_excess(value, q, 1000, np.array([theta]))
    truth = 1000 * MP.log(MP.cosh(2 * exact(theta))) - 1 - MP.log(1000 * exact(theta))
    assert truth <= exact(float(found[0])) <= truth + 1000 * 400 * exact(UNIT) * 2 * exact(theta)


def test_moments_next_to_the_end_of_the_profile() -> None:
    """A value that is just above zero, from ratios whose roundings put it below."""
    r0, r1, q = np.array([[2.0]]), np.array([[1.0]]), np.ones((1, 1))
    truth, moved = 2.0 * UNIT, 1.0 + 8.0 * UNIT
    excess = np.array([[1.0 - truth]])
    with stress(roundoff=UNIT):
        found = row_bounds(r0 / moved, r1 * moved, q, 1, excess * (1.0 + 16.0 * UNIT))
    assert truth <= found[0] <= 400.0 * UNIT


def test_moments_below_all_normal_doubles() -> None:
    """A product of 2.4 of the least doubles is rounded to two of them."""
    r0, q = np.array([[2.4 * 2.0**-600, 0.0]]), np.array([[2.0**-474, 1.0]])
    found = row_bounds(r0, np.zeros((1, 2)), q, 1, np.zeros((1, 1)))
    assert Fraction(float(r0[0, 0])) * Fraction(float(q[0, 0])) <= Fraction(float(found[0]))
    assert found[0] <= 1e-300


def test_moments_and_exposed_messages_are_rounded_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their sum is raised by eight roundings."""
    monkeypatch.setattr(letters, "row_bounds", lambda *_: np.array([0.25]))
    monkeypatch.setattr(MessagePair, "exposure_bounds", lambda *_: (np.zeros(1), np.array([0.125])))
    pair = MessagePair(np.ones(1), np.ones(1), np.ones(1))
    with stress(roundoff=UNIT):
        found = moment_bounds([pair], 1, np.zeros(1))[0, 0]
    assert 0.375 * (1.0 + 7.9 * UNIT) <= found <= 0.375 * (1.0 + 10.0 * UNIT)


def test_a_lone_message_is_bounded_from_below() -> None:
    """One message alone: its positive part, less the ten digits that sums may lose."""
    pair = MessagePair(np.array([0.75, 0.25]), np.array([0.25, 0.75]), np.array([0.5, 0.5]))
    for epsilon in (0.0, 0.5, 1.0):
        truth = 0.75 - 0.25 * math.exp(epsilon)
        found = lone_message(pair, 1, epsilon)
        assert truth * (1.0 - 1.1e-10) <= found <= truth * (1.0 - 0.9e-10)
    with stress(roundoff=UNIT):
        # no more than rounding is left at the largest loss
        assert lone_message(pair, 1, math.log(3.0) - 2.0 * UNIT) == 0.0
