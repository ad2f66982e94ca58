"""Checks of channel matrices, priors, gains and names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.leakage.laws import law, numbers
from shuffle_accountant.leakage.qif.histograms import require_room
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.checks import row_sums

__all__ = ["distinct_names", "gains_over", "prior_over", "stochastic"]


def prior_over(inputs: int, prior: ArrayLike | None) -> Array:
    """A checked prior, shape (inputs,); the uniform one for None."""
    if prior is None:
        return np.full(inputs, 1.0 / inputs)
    array = law(prior=prior)
    if array.size != inputs:
        raise ValueError(f"prior must have one entry per input, {inputs}, got {array.size}")
    return array


def stochastic(**named: ArrayLike) -> Array:
    """The one named argument as a checked channel matrix, a copy."""
    ((name, values),) = named.items()
    matrix = numbers(**{name: values})
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{name} must have shape (inputs, outputs), got {matrix.shape}")
    require_room(name, "it", matrix.size)
    row_sums(**{name: matrix})
    return matrix


def gains_over(inputs: int, gain: ArrayLike) -> Array:
    """A checked matrix of gains, shape (guesses, inputs)."""
    array = numbers(gain=gain)
    if array.ndim != 2 or array.shape[1] != inputs or not array.shape[0]:
        raise ValueError(f"gain must have shape (guesses, {inputs}), got {array.shape}")
    bad = ~((array >= 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"gain must be finite numbers >= 0, got {float(array[bad][0])!r}")
    return array


def distinct_names(
    which: str, names: Sequence[Hashable] | None, count: int
) -> tuple[Hashable, ...]:
    """The names of rows or columns; 0, 1, … for None."""
    if names is None:
        return tuple(range(count))
    try:
        named = tuple(names)
        distinct = len(set(named))
    except TypeError:
        raise TypeError(
            f"{which} must be {count} distinct names, which can be hashed, got an object of type "
            f"{type(names).__name__}"
        ) from None
    if len(named) != count or distinct != count:
        raise ValueError(f"{which} must be {count} distinct names, got {distinct}")
    return named
