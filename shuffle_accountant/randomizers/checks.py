"""Checks that the randomizers share: users' values, the generator, the inputs asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.secure import secure_generator

__all__ = [
    "MOST_CATEGORIES",
    "category_values",
    "generator",
    "message_rows",
    "row_sums",
    "unit_values",
]

# Largest number of categories: every integer up to it is a double.
MOST_CATEGORIES = 2**53
# Largest error of a row's sum, which must be 1: the round-off of any sensible computation.
_ROW_SUM_ERROR = 1e-9


def generator(rng: object) -> np.random.Generator:
    """The source of randomness, if it is one; for None the operating system's cryptographic one."""
    if rng is None:
        return secure_generator()
    return validate.instance(np.random.Generator, rng=rng)


def category_values(
    values: ArrayLike, categories: int, *, name: str = "values"
) -> NDArray[np.int64]:
    """Users' values as integers in 0 … ``categories`` - 1.

    Args:
        values: the values.
        categories: number of categories.
        name: name of the argument, for error messages.
    """
    allowed = f"integers in [0, {categories - 1}]"
    array = _array(name, values, "iu", allowed)
    # the ends tell of all, without an array of answers
    if array.size and not (array.min() >= 0 and array.max() < categories):
        _require(name, (array >= 0) & (array < categories), array, allowed)
    return array.astype(np.int64, copy=False)


def unit_values(values: ArrayLike) -> NDArray[np.float64]:
    """Users' values as floats in [0, 1]."""
    allowed = "numbers in [0, 1]"
    array = _array("values", values, "iuf", allowed).astype(np.float64)
    _require("values", (array >= 0.0) & (array <= 1.0), array, allowed)
    return array


def row_sums(**named: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the rows of the named matrix (inputs, messages), if each row is a distribution."""
    ((name, matrix),) = named.items()
    bad = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0 + _ROW_SUM_ERROR)))
    if bad.size:
        at = tuple(bad[0].tolist())
        raise ValueError(f"{name} must have entries in [0, 1], got {float(matrix[at])} at {at}")
    sums: NDArray[np.float64] = matrix.sum(axis=1)
    row = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[row] - 1.0) > _ROW_SUM_ERROR:
        raise ValueError(
            f"{name} must have rows that sum to 1 within {_ROW_SUM_ERROR:g}, "
            f"got {float(sums[row])!r} in row {row}"
        )
    return sums


def message_rows(messages: NDArray[Any], length: int, wanted: str = "have") -> NDArray[Any]:
    """Messages that are arrays of this length, a row for each; ``wanted`` says what they are."""
    if messages.ndim == 0 or messages.shape[-1] != length:
        raise ValueError(f"messages must {wanted} shape (..., {length}), got {messages.shape}")
    return messages.reshape(-1, length)


def _array(name: str, values: ArrayLike, kinds: str, allowed: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{name} must be an array of {allowed}, got a ragged sequence") from None
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} must be {allowed}, got an array of {array.dtype}")
    return array


def _require(name: str, inside: NDArray[np.bool_], array: NDArray[Any], allowed: str) -> None:
    if not np.all(inside):
        raise ValueError(f"{name} must be {allowed}, got {array[~inside].flat[0].item()!r}")
