"""Arrays of numbers as users pass them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["numbers"]


def numbers(**named: object) -> NDArray[np.float64]:
    """The one named argument as an array of doubles, of any shape.

    Raises:
        TypeError: not an array of numbers.
        ValueError: nested lists of different lengths.
    """
    ((name, values),) = named.items()
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of numbers, got a ragged sequence") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers, got an array of {array.dtype}")
    return array.astype(np.float64)
