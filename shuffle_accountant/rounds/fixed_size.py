"""One step of DP-SGD whose batch is a random subset of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.combined.by_side import by_side, share_of
from shuffle_accountant.losses.steps.mixed_gaussians import FixedSizePair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.numerics.between import quotient
from shuffle_accountant.reductions.allocation import AllocationPair
from shuffle_accountant.rounds.base import Round, needed
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, Mechanism

__all__ = ["FixedSizeSampled"]

_MOST = 2**53


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
        return _reduced(self, attained=False)

    def attained_pair(self) -> AllocationPair:
        """The pair of the dataset in which the target holds 1 and all others -1."""
        return _reduced(self, attained=True)

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
def _reduced(one: FixedSizeSampled, *, attained: bool) -> AllocationPair:
    rate, sigma = quotient(one.size, one.population), one.mechanism.sigma
    # with a larger share of the target both profiles are larger
    loss = by_side(lambda side: ProfiledLoss(FixedSizePair(sigma, share_of(rate, side), attained)))
    return AllocationPair("fixed-size sampling", loss)
