"""Waves ``e^(i j h y) - 1`` of letters y at all multiples j of a frequency h, from few of them.

With ``j = a + 4 b`` a wave is the product of one of the first four and of a multiple of ``4 h``,
and so on (of few letters, a larger power of 2 than four): a few sines and cosines of each letter
are enough, and a product of complex numbers takes a tenth of their time. They are kept less one,
``f + t (1 + f)``, so that low frequencies lose nothing: what is off is relative to the wave's
argument.

Rounding, in units of round-off, relative to the argument ``j h |y|``. Arguments are rounded twice.
NumPy's sines and cosines are off by eight of themselves, and ``2 i sin(x/2) (cos(x/2) + i
sin(x/2))`` by 17. What either factor is off is multiplied by the other wave, which is 1 in size;
the product with ``1 + f``, which is off by one, is off by 4 of ``|t|``, and the sum by 2 more of
``|f| + |t|``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

__all__ = ["MOST_WAVES", "WAVE_ERROR", "Complex", "waves"]

Complex = NDArray[np.complex128]

# Multiples that are looked up directly, and how often so many of them are multiplied.
_RADIX, _LEVELS = 4, 8
# Of few letters more are: so many waves are looked up as fast as a few.
_AT_ONCE = 1 << 11

MOST_WAVES = _RADIX**_LEVELS
"""The most multiples of one frequency."""

WAVE_ERROR = 19.0 + 7.0 * (_LEVELS - 1)
"""What a wave is off in units of round-off, relative to its argument."""


def waves(step: float | Array, count: int, y: Array) -> Complex:
    """All waves ``e^(i j step y) - 1``, shape (..., count, m).

    Args:
        step: distance h of frequencies, shape (...).
        count: number of multiples, from j = 0, in [1, `MOST_WAVES`].
        y: the letters' values, shape (..., m).
    """
    # a power of 2, so that multiples of the frequency are exact
    radix = max(_RADIX, 1 << max(_AT_ONCE // max(y.size, 1), 1).bit_length() - 1)
    few = min(count, radix)
    frequency = np.multiply.outer(0.5 * np.asarray(step), np.arange(1.0, few))
    half = frequency[..., None] * y[..., None, :]
    first = np.zeros((*y.shape[:-1], few, y.shape[-1]), dtype=np.complex128)
    # two real functions: a complex exponential takes longer
    sine = np.sin(half)
    np.multiply(sine, np.cos(half), out=first.imag[..., 1:, :])
    np.multiply(sine, -sine, out=first.real[..., 1:, :])
    first[..., 1:, :] *= 2.0
    if count <= few:
        return first
    first = first[..., None, :, :]
    then = waves(radix * step, -(-count // radix), y)[..., None, :]
    found = then * (1.0 + first)
    found += first
    return np.asarray(found.reshape(*y.shape[:-1], -1, y.shape[-1])[..., :count, :])
