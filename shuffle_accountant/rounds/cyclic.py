"""A fixed partition of the records, of which the steps use one part after the other, sampled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.reductions.allocation import AllocationPair, poisson_sampling
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import Mechanism
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.poisson import sampling_rate
from shuffle_accountant.rounds.steps import step_from_dict, step_ratio, zero_out_step

__all__ = ["CyclicPoisson"]

MOST_CYCLES = 10**9


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
        return _reduced(self)

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
def _reduced(one: CyclicPoisson) -> AllocationPair:
    step = poisson_sampling(partial(step_ratio, one.mechanism, 1), one.rate)
    return AllocationPair("cyclic Poisson sampling", ProductLoss(((step.loss, one.cycles),)))
