"""Batches of users for each step, and the mean of their private messages.

There are two ways of sampling that a theorem covers.

*Fixed*: every step draws m of the N users anew, uniformly and without replacement, whatever was
drawn before. Each step is a `ShuffleRound` with ``users=m, population=N``.

*Epoch*: every epoch deals all N users into disjoint batches, at random; each user is in exactly
one. Replacing one user's value changes the output of that one batch. Given all other users' values
and the deal, everything else in the epoch is either independent of it (earlier batches) or computed
from it and from other users' fresh randomness (later batches, whose gradients see the model it
changed), which is post-processing. So an epoch costs what one shuffled round of that batch costs,
and no more than one of the smallest batch: ``users=floor(N/k), population=None``, once per epoch.
Sampling does not amplify here, even if the deal is secret, for it is not drawn anew between the
batches of an epoch.

Batches whose size depends on chance (Poisson sampling), weighted sampling, and sampling with
replacement are covered by neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.checks import as_rows, clipped, generator, like
from shuffle_accountant.randomizers.vectors import VectorRandomizer
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["UserBatches", "clip", "message_sum", "private_mean"]


class UserBatches:
    """Batches of user indices, one pass per iteration; each pass draws anew.

    Args:
        population: number of users N, >= 1.
        users: batch size m, in [1, N]. For "epoch" batches are as equal as can be and none is
            smaller.
        sampling: "fixed" or "epoch".
        rng: source of randomness; by default the operating system's cryptographic one.
    """

    def __init__(
        self,
        *,
        population: int,
        users: int,
        sampling: str = "fixed",
        rng: np.random.Generator | None = None,
    ) -> None:
        self.population = validate.integer(minimum=1, population=population)
        self.users = validate.integer(minimum=1, maximum=self.population, users=users)
        if not isinstance(sampling, str) or sampling not in ("fixed", "epoch"):
            raise ValueError(
                "sampling must be one of 'fixed', 'epoch' (batches of one size, without "
                f"replacement), which are what the theorems cover, got {validate.shown(sampling)}"
            )
        self.sampling = sampling
        self._rng = generator(rng)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the batches of a pass, in their order."""
        steps = len(self)
        if self.sampling == "fixed":
            return (self.users,) * steps
        each, more = divmod(self.population, steps)
        return (each + 1,) * more + (each,) * (steps - more)

    def __len__(self) -> int:
        """Number of steps in a pass: the number of full batches among the users."""
        return self.population // self.users

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one pass, each in random order."""
        if self.sampling == "fixed":
            for users in self.sizes:
                yield self._rng.choice(self.population, size=users, replace=False).tolist()
            return
        dealt = self._rng.permutation(self.population)
        for batch in np.split(dealt, np.cumsum(self.sizes)[:-1]):
            yield batch.tolist()

    def round(self, randomizer: LocalRandomizer) -> ShuffleRound:
        """The round to account for: one step ("fixed"), or one pass ("epoch")."""
        if self.sampling == "epoch":  # of the smallest batch
            return ShuffleRound(randomizer, users=self.population // len(self))
        sampled = self.population if self.population > self.users else None
        return ShuffleRound(randomizer, users=self.users, population=sampled)

    def rounds(self, passes: int) -> int:
        """Number of rounds in the given number of passes, >= 0."""
        passes = validate.integer(minimum=0, passes=passes)
        return passes * len(self) if self.sampling == "fixed" else passes


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
    """Sum of the messages of users, shape (dimension,), made of a few users' gradients at a time.

    The parts, of shape (batch, any) each, are the gradients side by side, one user's per row, which
    are clipped to a Euclidean norm of at most the randomizer's radius.
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
