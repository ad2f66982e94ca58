"""Epochs over parts of the records: shuffled and dealt, or sampled one part after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.reductions.allocation import AllocationPair, poisson_sampling
from shuffle_accountant.reductions.clones import NullClonePair, null_clones
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import (
    GaussianMechanism,
    Mechanism,
    step_from_dict,
    step_ratio,
    zero_out_step,
)
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.sampled import sampling_rate

__all__ = ["CyclicPoisson", "ShuffledBatches"]

MOST_CYCLES = 10**9


MAX_STEPS = 10**9


@dataclass(frozen=True, init=False)
class CyclicPoisson(Round):
    """A run whose steps go through a fixed partition of the records in turn, Poisson-sampled.

    The records are split into b groups beforehand. Step s samples from group s mod b only, each
    record of it with probability ``rate``, so that a record can take part once in every b steps. A
    run of T steps has ``ceil(T / b)`` cycles. It is how banded matrix mechanisms are amplified: the
    noise of a step may be correlated with that of the b - 1 steps before it, because a record's
    contributions to steps b or more apart do not overlap in it. With columns of the encoder of
    2-norm 1, ``mechanism`` is the Gaussian step of the noise multiplier stated.

    Adjacency: zero-out, one record against a null record that contributes nothing.

    Args:
        mechanism: one step, as for `RandomAllocation`.
        rate: probability that a record of the group in turn takes part, in [1e-12, 1].
        cycles: number of times that each group is in turn, 1 to 1e9.
    """

    kind: ClassVar[str] = "cyclic-poisson"

    mechanism: Mechanism | PldRound
    rate: float
    cycles: int

    def __init__(self, mechanism: Mechanism | PldRound, *, rate: float, cycles: int) -> None:
        object.__setattr__(self, "mechanism", zero_out_step(mechanism))
        object.__setattr__(self, "rate", sampling_rate(rate))
        cycles = validate.integer(minimum=1, maximum=MOST_CYCLES, cycles=cycles)
        object.__setattr__(self, "cycles", cycles)

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on the partition, the sampling and a step; a sentence each."""
        drawn = needed(
            "cyclic Poisson sampling",
            "The partition is fixed beforehand and without regard to the records' values, and the "
            "steps go through its groups in turn",
            "Every record is in each of its group's steps with the rate stated, independently of "
            "the other records and steps, and which steps it is in stays hidden",
            "Noise is correlated over no more steps than there are groups, and the encoder's "
            "columns have 2-norm at most 1",
        )
        return drawn + self.mechanism.conditions

    def reduced(self) -> AllocationPair:
        """The dominating pair: the product of one sampled step for each cycle."""
        return _reduced_part(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "kind": self.kind,
            "mechanism": self.mechanism.to_dict(),
            "rate": self.rate,
            "cycles": self.cycles,
        }

    @classmethod
    def from_dict(cls, state: Any) -> CyclicPoisson:
        """Inverse of `to_dict`."""
        state = validate.fields({"kind", "mechanism", "rate", "cycles"}, kind=cls.kind, round=state)
        step = step_from_dict(state["mechanism"])
        return cls(step, rate=state["rate"], cycles=state["cycles"])


@lru_cache(maxsize=128)
def _reduced_part(one: CyclicPoisson) -> AllocationPair:
    step = poisson_sampling(partial(step_ratio, one.mechanism, 1), one.rate)
    return AllocationPair("cyclic Poisson sampling", ProductLoss(((step.loss, one.cycles),)))


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
