"""Probability laws as users pass them: checked, and exactly normalised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["law", "two_laws"]

Array = NDArray[np.float64]

# As closely as the rows of a channel must add up to one. What is left is spread over the letters,
# in proportion: that is the law a sampler runs.
_SLACK = 1e-9


def law(**named: ArrayLike) -> Array:
    """The one named argument as a probability law over letters 0, 1, ….

    Returns:
        Probabilities, shape (letters,), adding up to one to round-off.

    Raises:
        TypeError: not an array of numbers.
        ValueError: empty, not one-dimensional, a negative or non-finite entry, or a sum that
            differs from one by more than 1e-9.
    """
    ((name, values),) = named.items()
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:  # nested lists of different lengths
        raise ValueError(f"{name} must be a sequence of numbers, got a ragged one") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers in [0, 1], got an array of {array.dtype}")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} must have one dimension and a letter, got shape {array.shape}")
    probabilities = array.astype(np.float64)
    outside = ~((probabilities >= 0.0) & (probabilities <= 1.0 + _SLACK))  # NaN is outside too
    if outside.any():
        raise ValueError(
            f"{name} must be numbers in [0, 1], got {float(probabilities[outside][0])!r}"
        )
    total = math.fsum(probabilities)
    if abs(total - 1.0) > _SLACK:
        raise ValueError(f"{name} must sum to 1 within {_SLACK}, got sum {total!r}")
    return probabilities / total


def two_laws(p: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """The target's law and the decoys' law over the same letters.

    Raises:
        TypeError: an argument that is not an array of numbers.
        ValueError: not a law, or two lengths.
    """
    one, other = law(p=p), law(q=q)
    if one.size != other.size:
        raise ValueError(
            f"q must have as many letters as p, which has {one.size}; got {other.size}"
        )
    return one, other
