"""Batches of users for each step, in the two ways of sampling that a theorem covers.

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

from collections.abc import Iterator

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["SAMPLINGS", "UserBatches"]

SAMPLINGS = ("fixed", "epoch")


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
        if sampling not in SAMPLINGS:
            raise ValueError(
                "sampling must be one of 'fixed', 'epoch' (batches of one size, without "
                f"replacement), which are what the theorems cover, got {sampling!r}"
            )
        self.sampling = sampling
        self._rng = generator(rng)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the batches of a pass, in their order."""
        steps = self.population // self.users
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
        ends = np.cumsum(self.sizes)
        for users, end in zip(self.sizes, ends.tolist(), strict=True):
            yield dealt[end - users : end].tolist()

    def round(self, randomizer: LocalRandomizer) -> ShuffleRound:
        """The round to account for: one step ("fixed"), or one pass ("epoch")."""
        if self.sampling == "fixed":
            sampled = self.population if self.population > self.users else None
            return ShuffleRound(randomizer, users=self.users, population=sampled)
        return ShuffleRound(randomizer, users=min(self.sizes))

    def rounds(self, passes: int) -> int:
        """Number of rounds in the given number of passes, >= 0."""
        passes = validate.integer(minimum=0, passes=passes)
        return passes * len(self) if self.sampling == "fixed" else passes
