"""One step of DP-SGD as most people account for it: each record takes part now and then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.steps.mixed_gaussians import SeveralRecordsPair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.reductions.allocation import AllocationPair, poisson_sampling
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.steps import step_from_dict, step_ratio, zero_out_step

__all__ = ["PoissonSampled"]

LEAST_RATE = 1e-12
MOST_RECORDS = 10_000


def sampling_rate(rate: float) -> float:
    """The probability that a record takes part, checked."""
    rate = validate.positive(rate=rate)
    if not LEAST_RATE <= rate <= 1.0:
        raise ValueError(f"rate must be a number in [{LEAST_RATE:g}, 1], got {rate!r}")
    return rate


@dataclass(frozen=True, init=False)
class PoissonSampled(Round):
    """One step in which every record takes part with probability ``rate``, independently.

    An epoch of t steps at rate 1/t is t such rounds. It is what a loader does that draws every
    batch anew, record by record; a loader that shuffles does not (see `ShuffledBatches`).

    Adjacency: zero-out, one record against a null record that contributes nothing. The pair is
    exact for Gaussian, Laplace and pure steps: some query attains it.

    Args:
        mechanism: the step, as for `RandomAllocation`; a `GaussianMechanism` if a user owns several
            records.
        rate: the probability, in [1e-12, 1].
        records_per_user: number m of records, in 1 … 10,000, that one user owns at most, each drawn
            by itself; the privacy is that of the user, all of whose records are zeroed out. Aligned
            gradients of full norm are the worst for every epsilon.
    """

    kind: ClassVar[str] = "poisson-sampling"

    mechanism: Mechanism | PldRound
    rate: float
    records_per_user: int

    def __init__(
        self, mechanism: Mechanism | PldRound, *, rate: float, records_per_user: int = 1
    ) -> None:
        object.__setattr__(self, "mechanism", zero_out_step(mechanism))
        rate = sampling_rate(rate)
        object.__setattr__(self, "rate", rate)
        records = validate.integer(
            minimum=1, maximum=MOST_RECORDS, records_per_user=records_per_user
        )
        object.__setattr__(self, "records_per_user", records)
        if records > 1 and not (isinstance(mechanism, GaussianMechanism) and rate < 1.0):
            raise ValueError(
                "records_per_user must be 1 but for a GaussianMechanism and a rate below 1, got "
                f"{records} with {self.mechanism!r:.60} and rate={rate!r}"
            )

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how records are sampled, and on a step; a sentence each."""
        several: tuple[str, ...] = ()
        theorem = "Poisson sampling"
        if self.records_per_user > 1:
            theorem = "Poisson sampling of several records"
            several = ("No user owns more records than stated, and each is clipped by itself",)
        drawn = needed(
            theorem,
            "Every record is in each step with the rate stated, independently of the other records "
            "and steps, and which steps it is in stays hidden: loaders that shuffle do not do that",
            *several,
        )
        return drawn + self.mechanism.conditions

    def reduced(self) -> AllocationPair:
        """The dominating pair."""
        return _reduced(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        state = {
            "kind": self.kind,
            "mechanism": self.mechanism.to_dict(),
            "rate": self.rate,
        }
        if self.records_per_user > 1:  # others are written as they always were
            state["records_per_user"] = self.records_per_user
        return state

    @classmethod
    def from_dict(cls, state: Any) -> PoissonSampled:
        """Inverse of `to_dict`."""
        wanted = {"kind", "mechanism", "rate"}
        if isinstance(state, dict) and "records_per_user" in state:
            wanted.add("records_per_user")
        state = validate.fields(wanted, kind=cls.kind, round=state)
        records = state.get("records_per_user", 1)
        step = step_from_dict(state["mechanism"])
        return cls(step, rate=state["rate"], records_per_user=records)


@lru_cache(maxsize=128)
def _reduced(round: PoissonSampled) -> AllocationPair:
    if round.records_per_user > 1 and isinstance(round.mechanism, GaussianMechanism):
        sigma = round.mechanism.sigma
        pair = SeveralRecordsPair(sigma, round.rate, round.records_per_user)
        return AllocationPair("Poisson sampling of several records", ProfiledLoss(pair))
    return poisson_sampling(partial(step_ratio, round.mechanism, 1), round.rate)
