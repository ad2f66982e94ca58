"""One step of DP-SGD as most people account for it: each record takes part now and then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.reductions.allocation import AllocationPair, poisson_sampling
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import Mechanism
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.steps import step_from_dict, step_ratio, zero_out_step

__all__ = ["PoissonSampled"]

LEAST_RATE = 1e-12


@dataclass(frozen=True, init=False)
class PoissonSampled(Round):
    """One step in which every record takes part with probability ``rate``, independently.

    An epoch of t steps at rate 1/t is t such rounds. It is what a loader does that draws every
    batch anew, record by record; a loader that shuffles does not (see `ShuffledBatches`).

    Adjacency: zero-out, one record against a null record that contributes nothing. The pair is
    exact for Gaussian, Laplace and pure steps: some query attains it.

    Args:
        mechanism: the step, as for `RandomAllocation`.
        rate: the probability, in [1e-12, 1].
    """

    kind: ClassVar[str] = "poisson-sampling"

    mechanism: Mechanism | PldRound
    rate: float

    def __init__(self, mechanism: Mechanism | PldRound, *, rate: float) -> None:
        object.__setattr__(self, "mechanism", zero_out_step(mechanism))
        rate = validate.positive(rate=rate)
        if not LEAST_RATE <= rate <= 1.0:
            raise ValueError(f"rate must be a number in [{LEAST_RATE:g}, 1], got {rate!r}")
        object.__setattr__(self, "rate", rate)

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how records are sampled, and on a step; a sentence each."""
        drawn = needed(
            "Poisson sampling",
            "Every record is in each step with the rate stated, independently of the other records "
            "and steps, and which steps it is in stays hidden: loaders that shuffle do not do that",
        )
        return drawn + self.mechanism.conditions

    def reduced(self) -> AllocationPair:
        """The dominating pair."""
        return _reduced(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "kind": self.kind,
            "mechanism": self.mechanism.to_dict(),
            "rate": self.rate,
        }

    @classmethod
    def from_dict(cls, state: Any) -> PoissonSampled:
        """Inverse of `to_dict`."""
        wanted = {"kind", "mechanism", "rate"}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        return cls(step_from_dict(state["mechanism"]), rate=state["rate"])


@lru_cache(maxsize=128)
def _reduced(round: PoissonSampled) -> AllocationPair:
    return poisson_sampling(partial(step_ratio, round.mechanism, 1), round.rate)
