"""Steps of DP-SGD whose batch is drawn: each record now and then, or a subset of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.base import by_side, share_of
from shuffle_accountant.losses.steps.mixed_gaussians import FixedSizePair, SeveralRecordsPair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.numerics.rounding import quotient
from shuffle_accountant.reductions.allocation import AllocationPair, poisson_sampling
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import (
    GaussianMechanism,
    Mechanism,
    step_from_dict,
    step_ratio,
    zero_out_step,
)
from shuffle_accountant.rounds.pld import PldRound

__all__ = ["FixedSizeSampled", "PoissonSampled"]

_MOST = 2**53


LEAST_RATE = 1e-12
MOST_RECORDS = 10_000


@dataclass(frozen=True, init=False)
class FixedSizeSampled(Round):
    """One step whose batch is a uniformly random subset of a fixed size, drawn anew each step.

    It is what a loader does that draws a fixed number of records without replacement for each step.
    It is far weaker than Poisson sampling at the same rate: with the target's record in the batch
    another one is not, and moves the sum, too.

    Adjacency: zero-out, one record against a null record that takes its place. (Under addition and
    removal another record would fill the place, which is not covered.) The upper end is a bound;
    `attained_epsilon` is what one dataset loses.

    Args:
        mechanism: a `GaussianMechanism`; its noise multiplier is for records of norm at most 1.
        size: number of records of a batch, in 1 … population.
        population: number of records, >= 1.
    """

    kind: ClassVar[str] = "fixed-size"

    mechanism: GaussianMechanism
    size: int
    population: int

    def __init__(self, mechanism: GaussianMechanism, *, size: int, population: int) -> None:
        mechanism = validate.instance(GaussianMechanism, mechanism=mechanism)
        population = validate.integer(minimum=1, maximum=_MOST, population=population)
        _ = mechanism.sigma  # refuses a schedule
        object.__setattr__(self, "mechanism", mechanism)
        object.__setattr__(self, "population", population)
        size = validate.integer(minimum=1, maximum=population, size=size)
        object.__setattr__(self, "size", size)

    @property
    def adjacency(self) -> Adjacency:
        """Zero-out."""
        return Adjacency.ZERO_OUT

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how batches are drawn, and on a step; a sentence each."""
        drawn = needed(
            "fixed-size sampling",
            "Every batch is a uniformly random subset of the records of the size stated, drawn "
            "without replacement and anew for each step, and which records are in it stays hidden",
        )
        return drawn + self.mechanism.conditions

    def reduced(self) -> AllocationPair:
        """The dominating pair."""
        return _reduced_fixed_size(self, attained=False)

    def attained_pair(self) -> AllocationPair:
        """The pair of the dataset in which the target holds 1 and all others -1."""
        return _reduced_fixed_size(self, attained=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        return {
            "kind": self.kind,
            "mechanism": self.mechanism.to_dict(),
            "size": self.size,
            "population": self.population,
        }

    @classmethod
    def from_dict(cls, state: Any) -> FixedSizeSampled:
        """Inverse of `to_dict`."""
        wanted = {"kind", "mechanism", "size", "population"}
        state = validate.fields(wanted, kind=cls.kind, round=state)
        mechanism = Mechanism.kinds.of(state["mechanism"]).from_dict(state["mechanism"])
        mechanism = validate.instance(GaussianMechanism, mechanism=mechanism)
        return cls(mechanism, size=state["size"], population=state["population"])


@lru_cache(maxsize=128)
def _reduced_fixed_size(one: FixedSizeSampled, *, attained: bool) -> AllocationPair:
    rate, sigma = quotient(one.size, one.population), one.mechanism.sigma
    # with a larger share of the target both profiles are larger
    loss = by_side(lambda side: ProfiledLoss(FixedSizePair(sigma, share_of(rate, side), attained)))
    return AllocationPair("fixed-size sampling", loss)


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
