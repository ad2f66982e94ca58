"""The real FFT: pyFFTW when it is installed, else SciPy's.

Both compute every output as one path of butterflies per input, so the componentwise error bound of
`shuffle_accountant.lattice.convolve` holds for either.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

# scipy.fft is imported on first use: it would take a third of the package's import time.

__all__ = ["good_length", "inverse_real_fft", "real_fft", "use_pyfftw"]

Spectrum = NDArray[np.complex128]

# Below this length pyFFTW's planning costs more than its transform saves.
_PYFFTW_FROM = 1 << 19

_allowed = True
_module: ModuleType | None = None


def use_pyfftw(allowed: bool) -> None:
    """Allow or forbid pyFFTW; it is allowed by default and used when it can be imported."""
    global _allowed
    _allowed = allowed


def _pyfftw(length: int) -> ModuleType | None:
    global _module, _allowed
    if not _allowed or length < _PYFFTW_FROM:
        return None
    if _module is None:
        try:
            from pyfftw.interfaces import cache, numpy_fft
        except ImportError:
            _allowed = False
            return None
        cache.enable()  # a refinement asks for the same length several times
        _module = numpy_fft
    return _module


def good_length(at_least: int) -> int:
    """The next length with small prime factors."""
    import scipy.fft

    return int(scipy.fft.next_fast_len(max(at_least, 16), real=True))


def real_fft(values: Array) -> Spectrum:
    """Forward transform of a real sequence, shape (n,) to (n // 2 + 1,)."""
    module = _pyfftw(values.size)
    if module is None:
        import scipy.fft

        return np.asarray(scipy.fft.rfft(values))
    return np.asarray(module.rfft(values, threads=2, planner_effort="FFTW_ESTIMATE"))


def inverse_real_fft(spectrum: Spectrum, length: int) -> Array:
    """Inverse of `real_fft`; ``spectrum`` may be overwritten."""
    module = _pyfftw(length)
    if module is None:
        import scipy.fft

        return np.asarray(scipy.fft.irfft(spectrum, n=length, overwrite_x=True))
    return np.asarray(
        module.irfft(
            spectrum, n=length, threads=2, planner_effort="FFTW_ESTIMATE", overwrite_input=True
        )
    )
