"""Checks of channel matrices, priors, gains and names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant.leakage.laws import law
from shuffle_accountant.leakage.qif.histograms import require_room
from shuffle_accountant.randomizers.checks import row_sums

__all__ = ["distinct_names", "gains_over", "prior_over", "stochastic"]

Array = NDArray[np.float64]


def prior_over(inputs: int, prior: ArrayLike | None) -> Array:
    """A checked prior over so many inputs; the uniform one for None.

    Raises:
        TypeError: a prior that does not hold numbers.
        ValueError: not a law, or of another length.
    """
    if prior is None:
        return np.full(inputs, 1.0 / inputs)
    array = law(prior=prior)
    if array.size != inputs:
        raise ValueError(f"prior must have one entry per input, {inputs}, got {array.size}")
    return array


def _numbers(name: str, values: ArrayLike) -> Array:
    try:
        given: NDArray[Any] = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ValueError(f"{name} must have rows of equal lengths, got ragged ones") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers, got one of {given.dtype}")
    return given.astype(np.float64)


def stochastic(values: ArrayLike) -> Array:
    """A checked channel matrix, as a copy.

    Raises:
        TypeError: entries that are not numbers.
        ValueError: not two-dimensional, empty, too large, entries outside [0, 1], or rows that do
            not sum to 1.
    """
    matrix = _numbers("matrix", values)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"matrix must have shape (inputs, outputs), got {matrix.shape}")
    require_room("matrix", matrix.size)
    row_sums(matrix=matrix)
    return matrix


def gains_over(inputs: int, gain: ArrayLike) -> Array:
    """Checked gains of guesses about so many inputs.

    Raises:
        TypeError: entries that are not numbers.
        ValueError: not of shape (guesses, inputs), or an entry that is negative or not finite.
    """
    array = _numbers("gain", gain)
    if array.ndim != 2 or array.shape[1] != inputs or not array.shape[0]:
        raise ValueError(f"gain must have shape (guesses, {inputs}), got {array.shape}")
    bad = ~((array >= 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"gain must be finite numbers >= 0, got {float(array[bad][0])!r}")
    return array


def distinct_names(
    which: str, names: Sequence[Hashable] | None, count: int
) -> tuple[Hashable, ...]:
    """The names of rows or columns; 0, 1, … for None.

    Raises:
        TypeError: a name that is not hashable.
        ValueError: not as many distinct names as there are rows or columns.
    """
    if names is None:
        return tuple(range(count))
    named = tuple(names)
    if len(named) != count or len(set(named)) != count:
        raise ValueError(f"{which} must be {count} distinct names, got {len(set(named))}")
    return named
