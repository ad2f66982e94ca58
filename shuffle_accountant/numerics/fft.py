"""The real FFT: SciPy's, imported on first use, as it would take a third of the import time.

It computes every output as one path of butterflies per input, which is what the componentwise error
bound of `shuffle_accountant.lattice.convolve` is about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

Spectrum = NDArray[np.complex128]


def good_length(at_least: int) -> int:
    """The next length with small prime factors."""
    import scipy.fft

    return int(scipy.fft.next_fast_len(max(at_least, 16), real=True))


def real_fft(values: Array) -> Spectrum:
    """Forward transform of real sequences, shape (…, n) to (…, n // 2 + 1)."""
    import scipy.fft

    return np.asarray(scipy.fft.rfft(values))


def inverse_real_fft(spectrum: Spectrum, length: int) -> Array:
    """Inverse of `real_fft`; ``spectrum`` may be overwritten."""
    import scipy.fft

    return np.asarray(scipy.fft.irfft(spectrum, n=length, overwrite_x=True))
