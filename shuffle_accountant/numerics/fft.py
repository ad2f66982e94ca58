"""The real FFT (pyFFTW where it is installed, else SciPy's), and cosines of many angles.

Either FFT computes every output as one path of butterflies per input, so the componentwise error
bound of `shuffle_accountant.lattice.convolve` holds for either.

*Cosines and sines.* NumPy's own take 17 ns each where an exponential takes one. Angles are a
multiple of a 1024th of a turn, whose cosines and sines are in a table, and a rest of 0.0031 at
most, where four terms of a series are enough.

Error. The rest is off by a few roundings of itself and, for angles above 8e5, by one of the angle;
what the series leave out is below ``0.0031^6/720 < 2e-18``; the table and the sums that follow are
off by a few roundings of one.
"""

from __future__ import annotations

import math
import threading
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

TURN_ERROR = 16 * UNIT_ROUNDOFF
"""Absolute error of each cosine and sine, plus an eighth of it for each radian of the angle."""

_PARTS = 1024
_PER_PART = _PARTS / (2.0 * math.pi)
# A 1024th of a turn, in two parts: products of the first, which has 26 bits, and of numbers below
# 2^27 are exact.
_HIGH, _LOW = 52707178.0 * 2.0**-33, float.fromhex("0x1.110b4611a6263p-34")


# scipy.fft is imported on first use: it would take a third of the package's import time.


Spectrum = NDArray[np.complex128]

# Below this length pyFFTW's planning costs more than its transform saves; above the other SciPy is
# as fast, and its arrays are not kept.
_PYFFTW_FROM, _PYFFTW_TO = 1 << 19, 1 << 22

_allowed = True
_module: ModuleType | None = None


def _table() -> tuple[Array, Array]:
    """Cosines and sines of all parts of a turn, from those of its first eighth."""
    few = np.arange(_PARTS // 8 + 1) * (_HIGH + _LOW)
    quarter = np.append(np.sin(few), np.cos(few[-2::-1]))
    half = np.append(quarter, quarter[-2:0:-1])
    sine = np.append(half, -half)
    return np.roll(sine, -_PARTS // 4), sine


_COSINES, _SINES = _table()


def cosines_and_sines(angle: Array) -> tuple[Array, Array]:
    """The cosines and sines of angles below 1e12 in size, in radians, each of the angles' shape."""
    part = np.rint(angle * _PER_PART)
    rest = angle - part * _HIGH
    rest -= part * _LOW
    place = part.astype(np.int64)
    place &= _PARTS - 1
    cosine, sine = _COSINES[place], _SINES[place]
    square = rest * rest
    # cos - 1 and sin of the rest
    even = square * (1.0 / 24.0)
    even -= 0.5
    even *= square
    odd = square * (1.0 / 120.0)
    odd -= 1.0 / 6.0
    odd *= square
    odd *= rest
    odd += rest
    moved = cosine * odd
    moved += sine * even
    odd *= sine
    even *= cosine
    even -= odd
    cosine += even
    sine += moved
    return cosine, sine


class _Plans(threading.local):
    """A thread's plans for the last length it asked for: a refinement asks for it several times.

    Plans write to arrays of their own, so no two threads may share one. pyFFTW's own cache hands
    the same plan to all threads, and keeps what it holds if its cleaning thread dies.
    """

    length = 0
    values: Array
    spectrum: Spectrum
    forward: Any
    inverse: Any

    def of(self, module: ModuleType, length: int) -> _Plans:
        """Itself, for that length."""
        if length != self.length:
            self.length = 0  # while there are none
            self.values = module.empty_aligned(length, "float64")
            self.spectrum = module.empty_aligned(length // 2 + 1, "complex128")
            usual = {"flags": ("FFTW_ESTIMATE", "FFTW_DESTROY_INPUT"), "threads": 2}
            self.forward = module.FFTW(self.values, self.spectrum, **usual)
            self.inverse = module.FFTW(
                self.spectrum, self.values, direction="FFTW_BACKWARD", **usual
            )
            self.length = length
        return self


_plans = _Plans()


def use_pyfftw(allowed: bool) -> None:
    """Allow or forbid pyFFTW; it is allowed by default and used when it can be imported."""
    global _allowed
    _allowed = allowed


def _planned(length: int) -> _Plans | None:
    global _module, _allowed
    if not _allowed or not _PYFFTW_FROM <= length <= _PYFFTW_TO:
        return None
    if _module is None:
        try:
            import pyfftw
        except ImportError:
            _allowed = False
            return None
        _module = pyfftw
    return _plans.of(_module, length)


def good_length(at_least: int) -> int:
    """The next length with small prime factors."""
    import scipy.fft

    return int(scipy.fft.next_fast_len(max(at_least, 16), real=True))


def real_fft(values: Array) -> Spectrum:
    """Forward transform of a real sequence, shape (n,) to (n // 2 + 1,)."""
    plans = _planned(values.size)
    if plans is None:
        import scipy.fft

        return np.asarray(scipy.fft.rfft(values))
    plans.values[:] = values
    plans.forward()
    return plans.spectrum.copy()


def inverse_real_fft(spectrum: Spectrum, length: int) -> Array:
    """Inverse of `real_fft`; ``spectrum`` may be overwritten."""
    plans = _planned(length)
    if plans is None:
        import scipy.fft

        return np.asarray(scipy.fft.irfft(spectrum, n=length, overwrite_x=True))
    plans.spectrum[:] = spectrum
    plans.inverse()  # divides by the length
    return plans.values.copy()
