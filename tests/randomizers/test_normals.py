"""Normal numbers by Box and Muller, against SciPy's law and, in the tail, their own definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from shuffle_accountant.randomizers.vectors.base import _exponential, fill_normal


def drawn(count: int, seed: int = 1) -> np.ndarray:
    out = np.empty(count, np.float32)
    fill_normal(out, np.random.default_rng(seed))
    return out


def test_the_law_is_normal() -> None:
    numbers = drawn(10**6)
    # a fixed seed; by chance the distance is above this once in a thousand
    assert stats.kstest(numbers, "norm").statistic < 1.95e-3
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        spread = math.sqrt(math.prod(range(1, 2 * power, 2)) / numbers.size)
        assert np.mean(numbers.astype(float) ** power) == pytest.approx(moment, abs=5 * spread)


def test_all_far_ends_are_there() -> None:
    numbers = np.abs(drawn(2 * 10**7))
    for far in (3.0, 4.0, 5.0):
        expected = 2 * stats.norm.sf(far) * numbers.size
        assert abs((numbers > far).sum() - expected) < 5 * math.sqrt(expected)


def test_neighbours_and_pairs_are_independent() -> None:
    numbers = drawn(2**15, seed=3).astype(float)
    pairs = numbers.size // 2
    for distance in (1, 2, pairs):  # a pair stands half of a block apart
        a, b = numbers[:-distance], numbers[distance:]
        for power in (1, 2):
            correlation = np.corrcoef(a**power, b**power)[0, 1]
            assert abs(correlation) < 5 / math.sqrt(len(a))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 2**15 - 1, 2**15 + 1, 2**15 + 2])
def test_any_number_of_them(count: int) -> None:
    numbers = drawn(count, seed=4)
    assert np.isfinite(numbers).all()
    assert len(np.unique(numbers)) >= 0.9 * count
    shaped = np.empty((1, count), np.float32)
    fill_normal(shaped, np.random.default_rng(4))
    assert np.array_equal(shaped[0], numbers)


def test_bits_are_the_first_of_a_uniform_number() -> None:
    """All bits 0 is no largest number: what follows decides how far out it is."""
    bits = np.repeat(np.array([0, 1, 2**20 - 1, 2**20, 2**31, 2**32 - 1], np.uint32), 1000)
    exponential = _exponential(bits, np.random.default_rng(5)).reshape(6, 1000)
    first = bits.reshape(6, 1000)[:, 0].astype(float)
    # rounding of a logarithm
    assert np.all(exponential >= -np.log((first + 1) / 2.0**32)[:, None] - 1e-14)
    with np.errstate(divide="ignore"):
        assert np.all(exponential <= -np.log(first / 2.0**32)[:, None] + 1e-14)
    # of all 32 zeros: another exponential number on top
    assert stats.kstest(exponential[0] - 32 * math.log(2), "expon").pvalue > 1e-3
    assert np.all(exponential > 0.0)
