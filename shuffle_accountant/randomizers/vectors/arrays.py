"""Vectors as users pass them, NumPy arrays and PyTorch tensors alike: clipped, and summed up.

PyTorch is never imported here: who passes a tensor has done so already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

__all__ = ["Rows", "as_rows", "clipped", "is_tensor", "like", "vector_sums"]

Rows = NDArray[Any]
"""Vectors, one per row, or their sum: 32- or 64-bit floats."""

# Number of 64-bit floats in a block, which a core's cache holds.
_BLOCK = 2**17


def vector_sums(rows: Rows) -> tuple[Array, int]:
    """Sums of coordinates and of their squares, shape (2, d), and the number of rows."""
    count, dimension = rows.shape
    sums = np.zeros((2, dimension))
    size = max(_BLOCK // dimension, 1)
    for first in range(0, count, size):
        block = rows[first : first + size].astype(np.float64)
        sums[0] += block.sum(axis=0)
        sums[1] += np.einsum("ij,ij->j", block, block)
    return sums, count


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


def is_tensor(values: object) -> bool:
    """Whether the values are a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_rows(name: str, values: Any, dimension: int | None = None) -> Rows:
    """One vector per row, as an array of 32- or 64-bit floats; not copied if it is one.

    Args:
        name: name of the argument, for error messages.
        values: shape (batch, dimension), numbers. Tensors of any device and precision.
        dimension: length of the rows, if it is known.
    """
    wanted = f"an array of shape (batch, {'d' if dimension is None else dimension})"
    if is_tensor(values):
        detached = values.detach().cpu()
        if detached.is_floating_point() and detached.element_size() < 4:
            detached = detached.float()  # NumPy knows no bfloat16, and halves are coarse
        array: Rows = detached.numpy()
    else:
        try:
            array = np.asarray(values)
        except ValueError:  # nested lists of different lengths
            raise ValueError(f"{name} must be {wanted}, got a ragged sequence") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be {wanted} of real numbers, got one of {array.dtype}")
    if array.ndim != 2 or (dimension is not None and array.shape[1] != dimension):
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
    return array if array.dtype in (np.float32, np.float64) else np.asarray(array, np.float64)


def like(array: Rows, values: Any) -> Any:
    """The array as a tensor of the device and precision of ``values`` if that is a tensor."""
    if not is_tensor(values):
        return array
    tensor = sys.modules["torch"].from_numpy(array)
    kind = values.dtype if values.is_floating_point() else tensor.dtype
    return tensor.to(device=values.device, dtype=kind)
