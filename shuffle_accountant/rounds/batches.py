"""DP-SGD's epochs as most loaders make them: records shuffled, then dealt into batches in order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.reductions.null_clones import NullClonePair, null_clones
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import GaussianMechanism

__all__ = ["ShuffledBatches"]

MAX_STEPS = 10**9


@dataclass(frozen=True, init=False)
class ShuffledBatches(Round):
    """One epoch over shuffled records in batches of one size: ``DataLoader(shuffle=True)``.

    Each step adds up vectors of 2-norm at most 1 (clipped gradients) and normal noise. This is
    neither Poisson sampling nor random allocation, and costs far more than both. Brackets enclose
    the bound by null clones; `attained_epsilon` is a certified lower bound of the truth.

    Adjacency: zero-out, one record against a null record that contributes nothing, in its place.

    Args:
        noise_multiplier: deviation of the noise over the largest norm, in [1e-100, 1e12].
        steps: number of *full* batches. A short last batch (which loaders keep unless set to drop
            it) does not count, because some places of a batch exist only in the full ones.
        passes: how often the same shuffle is gone through; epochs that are shuffled anew are
            several rounds instead.
    """

    kind: ClassVar[str] = "shuffled-batches"

    noise_multiplier: float
    steps: int
    passes: int

    def __init__(self, *, noise_multiplier: float, steps: int, passes: int = 1) -> None:
        values = {
            "noise_multiplier": validate.noise_multiplier(noise_multiplier=noise_multiplier),
            "steps": validate.integer(minimum=1, maximum=MAX_STEPS, steps=steps),
            "passes": validate.integer(minimum=1, maximum=10**6, passes=passes),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how records are shuffled, and on a step; a sentence each."""
        shuffled = needed(
            "null clones",
            "All records are shuffled uniformly at random and dealt into full batches of one size "
            "in that order, and the order stays hidden; several epochs are shuffled anew, but for "
            "passes",
        )
        return shuffled + GaussianMechanism.conditions

    def reduced(self) -> NullClonePair:
        """The dominating pair by null clones."""
        return _reduced(self)


@lru_cache(maxsize=128)
def _reduced(round: ShuffledBatches) -> NullClonePair:
    return null_clones(round.noise_multiplier, round.steps, round.passes)
