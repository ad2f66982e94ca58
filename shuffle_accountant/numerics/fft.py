"""The real FFT: pyFFTW's for one long vector where it is installed, else SciPy's.

Either computes every output as one path of butterflies per input, so the componentwise error bound
of `shuffle_accountant.lattice.convolve` holds for either. Both are imported on first use: SciPy's
would take a third of the package's import time.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

Spectrum = NDArray[np.complex128]

# Below this length pyFFTW's planning costs more than its transform saves; above the other SciPy is
# as fast, and its arrays are not kept.
_PYFFTW_FROM, _PYFFTW_TO = 1 << 19, 1 << 22

_allowed = True
_module: ModuleType | None = None


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
    """Forward transform of real sequences, shape (…, n) to (…, n // 2 + 1)."""
    plans = _planned(values.size) if values.ndim == 1 else None
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
