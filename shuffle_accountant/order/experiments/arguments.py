"""Values as users pass them to the experiments, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import IntArray, any_array, coordinates

__all__ = ["located", "table", "values_below"]


def located(**named: ArrayLike) -> Array:
    """The one named argument as points, shape (n, d); n numbers are points of one dimension."""
    found = coordinates((1, 2), **named)
    return found[:, None] if found.ndim == 1 else found


def table(**named: ArrayLike) -> Array:
    """The one named argument as finite numbers in rows, shape (n, k)."""
    return coordinates((2,), **named)


def values_below(limit: int, /, n: int | None = None, **named: ArrayLike) -> IntArray:
    """The one named argument as whole numbers in [0, limit), shape (n,)."""
    ((name, _),) = named.items()
    array = any_array(**named)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got an array of {array.dtype}")
    if array.ndim != 1 or not array.size or array.size != (n or array.size):
        wanted = "(n,) with n >= 1" if n is None else f"({n},)"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    values = array.astype(np.int64)
    outside = (values < 0) | (values >= limit)
    if outside.any():
        raise ValueError(f"{name} must be integers in [0, {limit - 1}], got {values[outside][0]}")
    return values
