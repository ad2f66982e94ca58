"""The convolution engine against exact rational convolution."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles import convolution

from shuffle_accountant.lattice.convolve import Factor, power_sum


def dyadic(size: int, seed: int) -> list[Fraction]:
    """Random probabilities that are exact in binary."""
    parts = np.random.default_rng(seed).integers(1, 1 << 20, size)
    parts[0] += (1 << 26) - parts.sum()
    return [Fraction(int(x), 1 << 26) for x in parts]


@pytest.mark.parametrize(("size", "count"), [(2, 1), (3, 7), (9, 5), (30, 12)])
def test_power_is_within_its_error_bound(size: int, count: int) -> None:
    mass = dyadic(size, seed=size)
    truth = convolution.power(mass, count)
    found = power_sum([Factor(-4, np.array(mass, dtype=float), count, 0.0)], -4 * count, len(truth))
    difference = [float(Fraction(x) - t) for x, t in zip(found.mass.tolist(), truth, strict=False)]
    spilled = found.mass[len(truth) :].tolist()
    assert np.linalg.norm(difference + spilled) <= found.error
    assert found.error < 1e-12  # a bound that allows anything would prove nothing


def test_different_factors_multiply() -> None:
    a, b = dyadic(5, seed=1), dyadic(8, seed=2)
    truth = convolution.product(convolution.power(a, 3), b)
    factors = [
        Factor(2, np.array(a, dtype=float), 3, 0.0),
        Factor(-7, np.array(b, dtype=float), 1, 0.0),
    ]
    found = power_sum(factors, 6 - 7, len(truth))
    assert found.mass[: len(truth)] == pytest.approx([float(x) for x in truth], abs=found.error)


def test_mass_outside_the_window_wraps_around() -> None:
    mass = dyadic(6, seed=3)
    found = power_sum([Factor(0, np.array(mass, dtype=float), 9, 0.0)], 10, 4)
    truth = convolution.power(mass, 9)
    wrapped = np.zeros(found.mass.size)
    for i, x in enumerate(truth):
        wrapped[(i - 10) % found.mass.size] += float(x)
    assert found.mass == pytest.approx(wrapped, abs=1e-14)


def test_a_factor_longer_than_the_window_wraps_around() -> None:
    mass = np.full(100, 0.01)
    found = power_sum([Factor(0, mass, 1, 0.0)], 0, 16)
    assert found.mass.size == 16
    assert found.mass == pytest.approx([0.07] * 4 + [0.06] * 12, abs=1e-14)


def test_a_large_power_keeps_its_bound() -> None:
    """A fair coin tossed a million times: the mass at the mean, from Stirling's series."""
    count = 10**6
    found = power_sum([Factor(0, np.array([0.5, 0.5]), count, 0.0)], 500_000 - 5_000, 10_001)
    n = count
    exact = (2 / (np.pi * n)) ** 0.5 * (1 - 1 / (4 * n) + 1 / (32 * n**2))
    assert abs(found.mass[5_000] - exact) <= found.error < 1e-7
