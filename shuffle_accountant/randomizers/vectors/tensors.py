"""NumPy arrays and PyTorch tensors alike: in as an array, out as what came in.

PyTorch is never imported here: who passes a tensor has done so already.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_rows", "is_tensor", "like"]


def is_tensor(values: object) -> bool:
    """Whether the values are a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def as_rows(name: str, values: Any, dimension: int | None = None) -> NDArray[Any]:
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
        array: NDArray[Any] = detached.numpy()
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


def like(array: NDArray[Any], values: Any) -> Any:
    """The array as a tensor of the device and precision of ``values`` if that is a tensor."""
    if not is_tensor(values):
        return array
    tensor = sys.modules["torch"].from_numpy(array)
    kind = values.dtype if values.is_floating_point() else tensor.dtype
    return tensor.to(device=values.device, dtype=kind)
