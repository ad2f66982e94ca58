"""The convolution engine against exact rational convolution, and its two backends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from oracles import convolution

from shuffle_accountant.lattice.convolve import Factor, power_sum
from shuffle_accountant.numerics import fft as backend


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


@pytest.mark.slow
def test_pyfftw_and_scipy_agree() -> None:
    pytest.importorskip("pyfftw", reason="pyFFTW is not installed, so there is nothing to compare")
    values = np.random.default_rng(5).random(1 << 19)  # long enough for pyFFTW to be used
    assert backend._planned(values.size) is not None
    spectra, backs = [], []
    for allowed in (True, False):
        backend.use_pyfftw(allowed)
        try:
            spectra.append(backend.real_fft(values))
            backs.append(backend.inverse_real_fft(spectra[-1].copy(), values.size))
        finally:
            backend.use_pyfftw(True)
    # the bound of the engine: 10 u per level, of the 1-norm forwards
    assert np.abs(spectra[0] - spectra[1]).max() <= 2 * 10 * 2.0**-53 * 20 * values.sum()
    for back in backs:
        assert np.abs(back - values).max() <= 1e-13


def test_threads_share_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyfftw", reason="pyFFTW is not installed, so there are no plans")
    monkeypatch.setattr(backend, "_PYFFTW_FROM", 1)
    rng = np.random.default_rng(6)
    lengths = (1000, 1024, 1000, 1080)
    questions = [rng.random(lengths[i % 4]) for i in range(400)]
    with ThreadPoolExecutor(4) as pool:
        # no thread keeps more than one length
        kept = pool.map(lambda x: (backend.real_fft(x), backend._plans.length == x.size), questions)
        assert all(alone for _, alone in kept)
        found = list(pool.map(backend.real_fft, questions))
        backs = list(pool.map(backend.inverse_real_fft, found, [x.size for x in questions]))
    for values, spectrum, back in zip(questions, found, backs, strict=True):
        assert np.abs(spectrum - np.fft.rfft(values)).max() <= 1e-10
        assert np.abs(back - values).max() <= 1e-13


def test_without_pyfftw_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    import shuffle_accountant as sa

    one = sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=10_000)
    monkeypatch.setattr(backend, "_PYFFTW_FROM", 1)
    with_it = sa.epsilon(one, delta=1e-6, rounds=50)
    monkeypatch.setattr(backend, "_module", None)
    monkeypatch.setitem(sys.modules, "pyfftw", None)  # importing it now fails
    without = sa.epsilon(one, delta=1e-6, rounds=50)
    backend.use_pyfftw(True)
    # both backends keep the engine's error bound, far below the bracket's width
    assert without.upper == pytest.approx(with_it.upper, rel=1e-9)
    assert without.lower == pytest.approx(with_it.lower, rel=1e-9)
