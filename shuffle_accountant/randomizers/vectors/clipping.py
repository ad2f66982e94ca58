"""Vectors scaled down to a largest Euclidean norm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["clipped"]


def clipped(rows: NDArray[Any], max_norm: float) -> NDArray[Any]:
    """New rows with a Euclidean norm of at most ``max_norm``, up to rounding.

    Args:
        rows: shape (batch, d), 32- or 64-bit floats; one that is not finite becomes zero.
        max_norm: finite, > 0.
    """
    with np.errstate(all="ignore"):  # a warning would tell of single rows, too
        # by the largest entry first, so that no square overflows or vanishes
        largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
        finite = np.isfinite(largest)  # of the whole row: a NaN is the maximum of any row it is in
        unit = np.where(finite & (largest > 0.0), largest, rows.dtype.type(1.0))
        shares = rows / unit[:, None]
        np.square(shares, out=shares)
        norms = unit.astype(np.float64) * np.sqrt(shares.sum(axis=1))
        factors = np.minimum(1.0, max_norm / np.maximum(norms, max_norm)).astype(rows.dtype)
        short: NDArray[Any] = np.multiply(rows, factors[:, None], out=shares)
    short[~finite] = 0.0
    return short
