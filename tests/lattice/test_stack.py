"""Sums of very many grid variables, against transforms one by one and `numpy.convolve`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice.convolve import Factor, power_sum
from shuffle_accountant.lattice.stack import Stack, rows_times, stack_sum


def laws(rng: np.random.Generator, rows: int, width: int, spread: float) -> np.ndarray:
    """Bell-shaped laws with ragged edges."""
    x = np.arange(width) - 0.5 * width
    deviation = 0.08 * width * spread ** rng.uniform(size=(rows, 1))
    mass = np.exp(-0.5 * ((x - rng.normal(size=(rows, 1))) / deviation) ** 2)
    mass *= rng.uniform(0.5, 1.0, size=mass.shape)
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([1.0, 3.0]))
def test_against_direct_convolution(seed: int, rows: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    mass, counts = laws(rng, rows, 31, spread), rng.integers(1, 4, size=rows)
    exact = np.ones(1)
    for row, count in zip(mass, counts, strict=True):
        for _ in range(count):
            exact = np.convolve(exact, row)
    stack = Stack(-7, mass, counts.astype(float), np.full(rows, 1e-15))
    found = stack_sum(stack, -7 * int(counts.sum()), exact.size)
    wrong = np.linalg.norm(found.mass[: exact.size] - exact)
    assert wrong <= found.error + 1e-15  # what direct sums of a few hundred positive terms lose
    assert found.error < 1e-10


@pytest.mark.parametrize(("rows", "width"), [(300, 64), (40, 400)])
def test_against_the_transform_of_every_row(rows: int, width: int) -> None:
    rng = np.random.default_rng(rows)
    mass, counts = laws(rng, rows, width, 2.0), rng.integers(1, 30, size=rows)
    stack = Stack(0, mass, counts.astype(float), np.full(rows, 1e-15))
    centre = round(float(counts @ (mass @ np.arange(width))))
    length = 20 * round(float(np.sqrt(counts @ (mass @ (np.arange(width) - width / 2) ** 2))))
    found = stack_sum(stack, centre - length // 2, length)
    factors = [Factor(0, row, int(n), 1e-15) for row, n in zip(mass, counts, strict=True)]
    other = power_sum(factors, centre - length // 2, length)
    assert found.mass.size == other.mass.size
    assert np.linalg.norm(found.mass - other.mass) <= found.error + other.error
    assert found.error < 1e-8


def test_a_law_on_every_other_point_has_high_frequencies() -> None:
    """The bound of the high frequencies must see them: nothing may be left out there."""
    mass = np.zeros((30, 21))
    mass[:, ::2] = 1.0 / 11.0
    stack = Stack(-10, mass, np.full(30, 5.0), np.full(30, 1e-15))
    found = stack_sum(stack, -1500, 3001)
    inside = found.mass[:3001]
    assert float(np.abs(inside[1::2]).max()) <= found.error < 1e-9
    assert float(inside[::2].sum()) == pytest.approx(1.0, abs=1e-9)


def test_products_row_by_row_are_products() -> None:
    rng = np.random.default_rng(0)
    matrix, columns = rng.random((37, 50)), rng.random((50, 3))
    assert np.allclose(rows_times(matrix, columns), matrix @ columns, rtol=1e-13)
