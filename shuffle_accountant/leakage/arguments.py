"""Checks of what users pass to measures of leakage: distributions, priors and counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array

# Largest distance of a sum of probabilities from one, as for rows of a channel. What is left is
# spread over the messages, in proportion: that is the distribution a sampler runs.
_SLACK = 1e-9

MOST_USERS = 2**53
"""Largest number of users (messages): every integer up to it is a double."""


def numbers(**named: object) -> Array:
    """The one named argument as an array of doubles, of any shape."""
    ((name, values),) = named.items()
    try:
        array: NDArray[Any] = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be an array of numbers, got a ragged sequence") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be numbers, got an array of {array.dtype}")
    with np.errstate(over="ignore"):  # a longer float may be infinite as a double
        return array.astype(np.float64)


def law(**named: ArrayLike) -> Array:
    """The one named argument as a distribution over messages, shape (messages,), of sum one."""
    ((name, values),) = named.items()
    probabilities = numbers(**{name: values})
    if probabilities.ndim != 1 or not probabilities.size:
        raise ValueError(
            f"{name} must have one dimension and a letter, got shape {probabilities.shape}"
        )
    outside = ~((probabilities >= 0.0) & (probabilities <= 1.0 + _SLACK))  # NaN is outside too
    if outside.any():
        raise ValueError(
            f"{name} must be numbers in [0, 1], got {float(probabilities[outside][0])!r}"
        )
    total = math.fsum(probabilities)
    if abs(total - 1.0) > _SLACK:
        raise ValueError(f"{name} must sum to 1 within {_SLACK}, got sum {total!r}")
    return probabilities / total


def two_laws(p: ArrayLike, q: ArrayLike, other: str = "q") -> tuple[Array, Array]:
    """The target's law and the decoys' law, whose argument has a name, over the same letters."""
    one, two = law(p=p), law(**{other: q})
    if one.size != two.size:
        raise ValueError(
            f"{other} must have as many letters as p, which has {one.size}; got {two.size}"
        )
    return one, two


def prior_over(inputs: int, prior: ArrayLike | None) -> Array:
    """A checked prior, shape (inputs,); the uniform one for None."""
    if prior is None:
        return np.full(inputs, 1.0 / inputs)
    array = law(prior=prior)
    if array.size != inputs:
        raise ValueError(f"prior must have one entry per input, {inputs}, got {array.size}")
    return array


def checked_sizes(users: int, categories: int) -> tuple[int, int]:
    """Numbers of users, in [1, 2^53], and of values, in [2, 2^53]."""
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    return users, validate.integer(minimum=2, maximum=MOST_USERS, categories=categories)
