"""Steps of DP-SGD whose batch is drawn, epochs that are shuffled, and parts sampled in turn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from typing import ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.base import by_side, share_of
from shuffle_accountant.losses.combined.product import ProductLoss
from shuffle_accountant.losses.steps.mixed_gaussians import FixedSizePair, MixturePair
from shuffle_accountant.losses.steps.profiled import ProfiledLoss
from shuffle_accountant.numerics.rounding import quotient
from shuffle_accountant.reductions.allocation import poisson_sampling
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.reductions.clones import null_clones
from shuffle_accountant.rounds import mechanisms
from shuffle_accountant.rounds.base import Round, RoundOfParts, needed, reduced_once
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, Mechanism
from shuffle_accountant.rounds.pld import PldRound

MOST_CYCLES = MAX_STEPS = 10**9
LEAST_RATE = 1e-12
MOST_RECORDS = 10_000


@dataclass(frozen=True)
class FixedSizeSampled(RoundOfParts):
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
    parts: ClassVar = {"mechanism": mechanisms.mechanism_from_dict}
    adjacency = Adjacency.ZERO_OUT

    mechanism: GaussianMechanism
    _: KW_ONLY
    size: int
    population: int

    def __post_init__(self) -> None:
        mechanism = validate.instance(GaussianMechanism, mechanism=self.mechanism)
        population = validate.integer(minimum=1, maximum=2**53, population=self.population)
        _ = mechanism.sigma  # refuses a schedule
        size = validate.integer(minimum=1, maximum=population, size=self.size)
        self._hold(size=size, population=population)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how batches are drawn, and on a step; a sentence each."""
        drawn = needed(
            "fixed-size sampling",
            "Every batch is a uniformly random subset of the records of the size stated, drawn "
            "without replacement and anew for each step, and which records are in it stays hidden",
        )
        return drawn + self.mechanism.conditions

    def reduced(self) -> Pair:
        """The dominating pair."""
        return _reduced(self, attained=False)

    def attained_pair(self) -> Pair:
        """The pair of the dataset in which the target holds 1 and all others -1."""
        return _reduced(self, attained=True)


@lru_cache(maxsize=128)
def _reduced(one: FixedSizeSampled, *, attained: bool) -> Pair:
    rate, sigma = quotient(one.size, one.population), one.mechanism.sigma
    # with a larger share of the target both profiles are larger
    loss = by_side(lambda side: ProfiledLoss(FixedSizePair(sigma, share_of(rate, side), attained)))
    return Pair("fixed-size sampling", loss)


def sampling_rate(rate: float) -> float:
    """The probability that a record takes part, checked."""
    rate = validate.positive(rate=rate)
    if not LEAST_RATE <= rate <= 1.0:
        raise ValueError(f"rate must be a number in [{LEAST_RATE:g}, 1], got {rate!r}")
    return rate


@dataclass(frozen=True)
class PoissonSampled(RoundOfParts):
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
    parts: ClassVar = {"mechanism": mechanisms.step_from_dict}
    later: ClassVar = ("records_per_user",)
    adjacency = Adjacency.ZERO_OUT

    mechanism: Mechanism | PldRound
    _: KW_ONLY
    rate: float
    records_per_user: int = 1

    def __post_init__(self) -> None:
        mechanism, rate = mechanisms.zero_out_step(self.mechanism), sampling_rate(self.rate)
        records = validate.integer(
            minimum=1, maximum=MOST_RECORDS, records_per_user=self.records_per_user
        )
        self._hold(rate=rate, records_per_user=records)
        if records > 1 and not (isinstance(mechanism, GaussianMechanism) and rate < 1.0):
            raise ValueError(
                "records_per_user must be 1 but for a GaussianMechanism and a rate below 1, got "
                f"{records} with {mechanism!r:.60} and rate={rate!r}"
            )

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on how records are sampled, and on a step; a sentence each."""
        theorem = "Poisson sampling"
        drawn = [
            "Every record is in each step with the rate stated, independently of the other records "
            "and steps, and which steps it is in stays hidden: loaders that shuffle do not do that"
        ]
        if self.records_per_user > 1:
            theorem += " of several records"
            drawn.append("No user owns more records than stated, and each is clipped by itself")
        return needed(theorem, *drawn) + self.mechanism.conditions

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair."""
        if self.records_per_user > 1 and isinstance(self.mechanism, GaussianMechanism):
            pair = MixturePair.of_records(self.mechanism.sigma, self.rate, self.records_per_user)
            return Pair("Poisson sampling of several records", ProfiledLoss(pair))
        return poisson_sampling(partial(mechanisms.step_ratio, self.mechanism, 1), self.rate)


@dataclass(frozen=True)
class CyclicPoisson(RoundOfParts):
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
    parts: ClassVar = {"mechanism": mechanisms.step_from_dict}
    adjacency = Adjacency.ZERO_OUT

    mechanism: Mechanism | PldRound
    _: KW_ONLY
    rate: float
    cycles: int

    def __post_init__(self) -> None:
        mechanisms.zero_out_step(self.mechanism)
        rate = sampling_rate(self.rate)
        cycles = validate.integer(minimum=1, maximum=MOST_CYCLES, cycles=self.cycles)
        self._hold(rate=rate, cycles=cycles)

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

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair: the product of one sampled step for each cycle."""
        step = poisson_sampling(partial(mechanisms.step_ratio, self.mechanism, 1), self.rate)
        return Pair("cyclic Poisson sampling", ProductLoss(((step.loss, self.cycles),)))


@dataclass(frozen=True, kw_only=True)
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
    adjacency = Adjacency.ZERO_OUT
    conditions = (
        *needed(
            "null clones",
            "All records are shuffled uniformly at random and dealt into full batches of one size "
            "in that order, and the order stays hidden; several epochs are shuffled anew, but for "
            "passes",
        ),
        *GaussianMechanism.conditions,
    )

    noise_multiplier: float
    steps: int
    passes: int = 1

    def __post_init__(self) -> None:
        self._hold(
            noise_multiplier=validate.noise_multiplier(noise_multiplier=self.noise_multiplier),
            steps=validate.integer(minimum=1, maximum=MAX_STEPS, steps=self.steps),
            passes=validate.integer(minimum=1, maximum=10**6, passes=self.passes),
        )

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair by null clones."""
        return null_clones(self.noise_multiplier, self.steps, self.passes)
