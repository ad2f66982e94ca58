"""What users pass: values, vectors, messages and generators, checked, as arrays.

PyTorch is never imported here: who passes a tensor has done so already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.numerics.secure import secure_generator

Rows = NDArray[Any]
"""Vectors, one per row, or their sum: 32- or 64-bit floats."""

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
    """Users' values as integers in 0 … ``categories`` - 1; ``name`` is for error messages."""
    allowed = f"integers in [0, {categories - 1}]"
    array = _array(name, values, "iu", allowed)
    # the ends tell of all, without an array of answers
    if array.size and not (array.min() >= 0 and array.max() < categories):
        _require(name, (array >= 0) & (array < categories), array, allowed)
    return array.astype(np.int64, copy=False)


def unit_values(values: ArrayLike) -> Array:
    """Users' values as floats in [0, 1]."""
    allowed = "numbers in [0, 1]"
    array = _array("values", values, "iuf", allowed).astype(np.float64)
    _require("values", (array >= 0.0) & (array <= 1.0), array, allowed)
    return array


def row_sums(**named: Array) -> Array:
    """Sums of the rows of the named matrix (inputs, messages), if each row is a distribution."""
    ((name, matrix),) = named.items()
    bad = np.argwhere(~((matrix >= 0.0) & (matrix <= 1.0 + _ROW_SUM_ERROR)))
    if bad.size:
        at = tuple(bad[0].tolist())
        raise ValueError(f"{name} must have entries in [0, 1], got {float(matrix[at])} at {at}")
    sums: Array = matrix.sum(axis=1)
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


def array_of(values: Any, wanted: str) -> NDArray[Any]:
    """The values as an array; ``wanted`` says what they must be, for error messages."""
    try:
        return np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{wanted}, got a ragged sequence") from None


def _array(name: str, values: ArrayLike, kinds: str, allowed: str) -> NDArray[Any]:
    array = array_of(values, f"{name} must be an array of {allowed}")
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} must be {allowed}, got an array of {array.dtype}")
    return array


def _require(name: str, inside: NDArray[np.bool_], array: NDArray[Any], allowed: str) -> None:
    if not np.all(inside):
        raise ValueError(f"{name} must be {allowed}, got {array[~inside].flat[0].item()!r}")


def clipped(rows: Rows, max_norm: float) -> Rows:
    """New rows with a Euclidean norm of at most ``max_norm``, up to rounding.

    A row that is not finite becomes zero.
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
        short: Rows = np.multiply(rows, factors[:, None], out=shares)
    short[~finite] = 0.0
    return short


def _is_tensor(values: object) -> bool:
    """Whether the values are a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_rows(name: str, values: Any, dimension: int | None = None) -> Rows:
    """One vector per row, as an array of 32- or 64-bit floats; not copied if it is one.

    The ``values`` are numbers of shape (batch, dimension), or a tensor of any device and precision.
    """
    wanted = f"an array of shape (batch, {'d' if dimension is None else dimension})"
    if _is_tensor(values):
        detached = values.detach().cpu()
        if detached.is_floating_point() and detached.element_size() < 4:
            detached = detached.float()  # NumPy knows no bfloat16, and halves are coarse
        array: Rows = detached.numpy()
    else:
        array = array_of(values, f"{name} must be {wanted}")
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be {wanted} of real numbers, got one of {array.dtype}")
    if array.ndim != 2 or (dimension is not None and array.shape[1] != dimension):
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    return array if array.dtype in (np.float32, np.float64) else np.asarray(array, np.float64)


def like(array: Rows, values: Any) -> Any:
    """The array as a tensor of the device and precision of ``values`` if that is a tensor."""
    if not _is_tensor(values):
        return array
    tensor = sys.modules["torch"].from_numpy(array)
    kind = values.dtype if values.is_floating_point() else tensor.dtype
    return tensor.to(device=values.device, dtype=kind)
