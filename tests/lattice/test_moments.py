"""Laws of sums with conditional moments, against convolution in exact fractions."""

from __future__ import annotations

import cmath
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.lattice.moments import MomentRows, MomentSpectrum, coarser, sharpened

fixed = settings(derandomize=True, deadline=None, max_examples=60)

Jet = tuple[Fraction, Fraction, Fraction, Fraction]
Exact = dict[int, Jet]


def add(a: Exact, b: Exact) -> Exact:
    """The law of a sum: at each point the mass and the moments of R, B and B^2."""
    result: dict[int, list[Fraction]] = {}
    for i, (w, r, s, t) in a.items():
        for j, (w2, r2, s2, t2) in b.items():
            cell = result.setdefault(i + j, [Fraction(0)] * 4)
            terms = w * w2, r * w2 + w * r2, s * w2 + w * s2, t * w2 + 2 * s * s2 + w * t2
            for row, term in enumerate(terms):
                cell[row] += term
    return {i: (c[0], c[1], c[2], c[3]) for i, c in result.items()}


def power(law: Exact, count: int) -> Exact:
    total = law
    for _ in range(count - 1):
        total = add(total, law)
    return total


@st.composite
def letters(draw: st.DrawFn) -> Exact:
    """A few lattice points; numbers are multiples of powers of two, so exact in floats."""
    places = draw(st.lists(st.integers(-6, 9), min_size=1, max_size=5, unique=True))
    weights = draw(st.lists(st.integers(1, 64), min_size=len(places), max_size=len(places)))
    weights[0] += -sum(weights) % 64 or 64
    whole = 1 << (sum(weights) - 1).bit_length()
    weights[0] += whole - sum(weights)
    law: Exact = {}
    for place, weight in zip(places, weights, strict=True):
        w = Fraction(weight, whole)
        r, b = (Fraction(draw(st.integers(-32, 32)), 32) for _ in range(2))
        law[place] = (w, w * r, w * b, w * b * b)
    return law


def rows(law: Exact) -> MomentRows:
    first, last = min(law), max(law)
    table = np.array([[float(x) for x in law.get(i, (0,) * 4)] for i in range(first, last + 1)]).T
    none = np.zeros(4)
    return MomentRows(first, table, none, none, np.zeros((4, 0)), 1.0)


def check(found: MomentRows, truth: Exact) -> None:
    """Every entry is within its bound of the exact one, and so are the norms of all errors."""
    size = found.rows.shape[1]
    wrapped = [[Fraction(0)] * 4 for _ in range(size)]
    for place, jet in truth.items():
        cell = wrapped[(place - found.first) % size]
        for row in range(4):
            cell[row] += jet[row]
    for row in range(4):
        errors = [Fraction(float(found.rows[row, i])) - wrapped[i][row] for i in range(size)]
        assert max(map(abs, errors)) <= Fraction(float(found.pointwise[row]))
        assert float(sum(map(abs, errors))) <= found.error[row]
        for j in range(found.near.shape[1]):
            turn = 2j * math.pi * (j + 0.37) / found.period
            total = sum(float(e) * cmath.exp(turn * i) for i, e in enumerate(errors))
            assert abs(total) <= found.near[row, j]


@pytest.mark.slow
@pytest.mark.parametrize("sharp", [False, True])
@fixed
@given(law=letters(), count=st.integers(1, 12), size=st.sampled_from([45, 64, 250]))
def test_powers(sharp: bool, law: Exact, count: int, size: int) -> None:
    start = rows(law)
    centre = start.centre
    spectrum = sharpened(start, size, centre, count) if sharp else start.spectrum(size, centre)
    found = spectrum.power(count).rows(count * centre - size // 2, count * centre)
    check(found, power(law, count))


@pytest.mark.slow
@fixed
@given(
    law=letters(), other=letters(), count=st.integers(1, 5), size=st.sampled_from([64, 100, 250])
)
def test_products(law: Exact, other: Exact, count: int, size: int) -> None:
    first, second = rows(law), rows(other)
    left: MomentSpectrum = first.spectrum(size, first.centre).power(count)
    both = left.times(second.spectrum(size, second.centre))
    centre = count * first.centre + second.centre
    check(both.rows(centre - size // 2, centre), add(power(law, count), other))


@pytest.mark.slow
@settings(fixed, max_examples=20)
@given(law=letters(), count=st.integers(2, 6), again=st.integers(2, 4))
def test_powers_of_powers(law: Exact, count: int, again: int) -> None:
    """Errors of a first sum are carried into a second one, on a longer circle."""
    start = rows(law)
    first = sharpened(start, 128, start.centre, count).power(count)
    middle = first.rows(count * start.centre - 64, count * start.centre)
    second = middle.spectrum(540, middle.centre).power(again)
    truth = power(power(law, count), again)
    check(second.rows(again * middle.centre - 270, again * middle.centre), truth)


def moments(law: MomentRows, spacing: float, tilt: float) -> Array:
    """Untilted totals of w, T + R, B and B^2."""
    place = spacing * (law.first + np.arange(law.rows.shape[1]))
    plain = law.rows * np.exp(-tilt * place)
    totals = plain.sum(axis=1)
    totals[1] += float(np.sum(place * plain[0]))
    return np.asarray(totals)


@fixed
@given(
    law=letters(), factor=st.integers(1, 7), tilt=st.floats(0.0, 2.0), spacing=st.floats(0.01, 2.0)
)
def test_a_coarser_lattice_keeps_moments(
    law: Exact, factor: int, tilt: float, spacing: float
) -> None:
    fine = rows(law)
    places = spacing * (fine.first + np.arange(fine.rows.shape[1]))
    tilted = MomentRows(
        fine.first, fine.rows * np.exp(tilt * places), fine.error, fine.pointwise, fine.near, 1.0
    )
    result = coarser(tilted, factor, spacing, tilt)
    # a few roundings of terms of this size
    size = np.abs(fine.rows).sum(axis=1) + np.array([0.0, 20.0 * spacing * factor, 0.0, 0.0])
    slack = 1e-13 * math.exp(2.0 * tilt * spacing * factor) * (1.0 + size)
    difference = moments(result, factor * spacing, tilt) - moments(tilted, spacing, tilt)
    assert np.all(np.abs(difference) <= slack)


@fixed
@given(law=letters(), factor=st.integers(2, 5), count=st.integers(1, 4), tilt=st.floats(0.0, 0.5))
def test_errors_on_a_coarser_lattice(law: Exact, factor: int, count: int, tilt: float) -> None:
    """A known error of a law is still within its bounds after rounding: rounding is linear."""
    start = rows(law)
    rng = np.random.default_rng(factor + 10 * count)
    size = 90
    spectrum = start.spectrum(size, start.centre).power(count)
    window = spectrum.rows(count * start.centre - size // 2, count * start.centre)
    # errors as large as anything, with the bounds that the transform's own would have
    noise = rng.normal(size=(4, size))
    transform = np.abs(np.fft.rfft(noise, axis=1))
    blurred = MomentSpectrum(
        size, spectrum.values, transform, np.zeros(transform.shape[1], dtype=bool)
    ).rows(window.first, count * start.centre)
    assert np.all(np.abs(noise).sum(axis=1) <= blurred.error)
    changed = MomentRows(
        window.first, window.rows + noise, blurred.error, blurred.pointwise, blurred.near, size
    )
    spacing = 0.3
    after, before = coarser(changed, factor, spacing, tilt), coarser(window, factor, spacing, tilt)
    errors = after.rows - before.rows
    assert np.all(np.abs(errors).sum(axis=1) <= after.error)
    points = np.arange(errors.shape[1])
    for j in range(after.near.shape[1]):
        for part in (0.0, 0.5, 1.0):
            wave = np.exp(2j * math.pi * (j + part) / after.period * points)
            assert np.all(np.abs(errors @ wave) <= after.near[:, j])
