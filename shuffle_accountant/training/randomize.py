"""One round of training: clip every user's gradient, randomize it, shuffle, average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.checks import as_rows, clipped, generator, like
from shuffle_accountant.randomizers.vectors import VectorRandomizer

__all__ = ["clip", "message_sum", "private_mean"]


def clip(gradients: Any, max_norm: float) -> Any:
    """Rows scaled down to a Euclidean norm of at most ``max_norm``, up to rounding.

    Args:
        gradients: one per row, shape (batch, d); a NumPy array or a PyTorch tensor.
        max_norm: finite, > 0.

    Returns:
        A new array (or tensor) of the same shape and precision. A row with a NaN or an infinity
        becomes the zero vector: an error would tell everybody of that one user.
    """
    max_norm = validate.positive(max_norm=max_norm)
    return like(clipped(as_rows("gradients", gradients), max_norm), gradients)


def private_mean(
    gradients: Any,
    randomizer: VectorRandomizer,
    *,
    max_norm: float | None = None,
    rng: np.random.Generator | None = None,
) -> Any:
    """The mean of the shuffled messages of a round, which the server sees.

    Unbiased for the mean of the clipped gradients; each coordinate's variance is about
    ``randomizer.variance() / (batch d)``. One `ShuffleLedger` step accounts for it, or for the
    release of all messages, if the rows are those of a round's users.

    Args:
        gradients: one user's per row, shape (batch, d); a NumPy array or a PyTorch tensor. A user
            whose row is not finite sends a randomized zero vector, as `clip` has it.
        randomizer: of dimension d.
        max_norm: Euclidean norm to clip to, at most the randomizer's radius, which is also what
            it is if left out.
        rng: source of randomness; by default the operating system's cryptographic one.

    Returns:
        Shape (d,), an array or tensor like ``gradients``.
    """
    randomizer = validate.instance(VectorRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    radius = randomizer.radius
    norm = radius if max_norm is None else validate.positive(max_norm=max_norm)
    if norm > radius:
        raise ValueError(
            f"max_norm must be at most the radius of the randomizer, {radius:g}, got {norm:g}"
        )
    rows = as_rows("gradients", gradients, randomizer.dimension)
    if len(rows) == 0:
        raise ValueError(f"gradients must hold at least one row, got shape {rows.shape}")
    mean = message_sum([rows], randomizer, norm, generator(rng)) / len(rows)
    return like(mean.astype(rows.dtype), gradients)


def message_sum(
    parts: Sequence[NDArray[Any]],
    randomizer: VectorRandomizer,
    norm: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Sum of the messages of users whose gradients come in parts, with a few users at a time.

    Args:
        parts: side by side they are the gradients, one user's per row; shape (batch, any) each,
            32- or 64-bit floats. A user whose row is not finite sends a randomized zero vector.
        randomizer: of the dimension of all parts together.
        norm: Euclidean norm to clip to, at most the randomizer's radius.
        rng: source of randomness.

    Returns:
        Shape (dimension,).
    """
    # In floating point even a sum depends on the order: shuffle before adding.
    order = rng.permutation(len(parts[0]))

    ends = np.cumsum([part.shape[1] for part in parts]).tolist()
    places = [slice(end - part.shape[1], end) for end, part in zip(ends, parts, strict=True)]

    def take(first: int, end: int) -> NDArray[Any]:
        rows = np.empty((end - first, randomizer.dimension), np.result_type(*parts))
        for row, user in zip(rows, order[first:end].tolist(), strict=True):
            for place, part in zip(places, parts, strict=True):
                row[place] = part[user]
        return rows

    return randomizer.randomized_sum(take, len(order), norm, rng)
