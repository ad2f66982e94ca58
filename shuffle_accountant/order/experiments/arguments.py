"""Arrays as users pass them, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Floats", "Integers", "coordinates", "permutation_of", "values_below"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def coordinates(**named: ArrayLike) -> Floats:
    """The one named argument as points, shape (n, dimensions); numbers become one dimension.

    Raises:
        TypeError: not an array of numbers.
        ValueError: empty, of another shape, or not finite.
    """
    ((name, given),) = named.items()
    array = _numbers(name, given)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not array.size:
        raise ValueError(f"{name} must have shape (n,) or (n, d) and a row, got {array.shape}")
    points = array.astype(np.float64)
    if not np.isfinite(points).all():
        raise ValueError(f"{name} must be finite numbers, got {points[~np.isfinite(points)][0]!r}")
    return points


def values_below(limit: int, /, n: int | None = None, **named: ArrayLike) -> Integers:
    """The one named argument as whole numbers in [0, limit), shape (n,).

    Raises:
        TypeError: not an array of integers.
        ValueError: empty, of another shape or length, or out of range.
    """
    ((name, given),) = named.items()
    array = _numbers(name, given)
    if array.dtype.kind == "f":
        raise TypeError(f"{name} must be integers, got an array of {array.dtype}")
    if array.ndim != 1 or not array.size or array.size != (n or array.size):
        wanted = "(n,) with n >= 1" if n is None else f"({n},)"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    values = array.astype(np.int64)
    outside = (values < 0) | (values >= limit)
    if outside.any():
        raise ValueError(f"{name} must be integers in [0, {limit - 1}], got {values[outside][0]}")
    return values


def permutation_of(n: int, /, **named: ArrayLike) -> Integers:
    """The one named argument as a permutation of 0 … n - 1.

    Raises:
        TypeError: not an array of integers.
        ValueError: not a permutation.
    """
    ((name, _),) = named.items()
    order = values_below(n, n, **named)
    if np.bincount(order, minlength=n).max() > 1:
        raise ValueError(f"{name} must be a permutation of 0 … {n - 1}, got one with repetitions")
    return order


def _numbers(name: str, given: ArrayLike) -> NDArray[np.generic]:
    try:
        array = np.asarray(given)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{name} must be an array of numbers, got a ragged one") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got an array of {array.dtype}")
    return array
