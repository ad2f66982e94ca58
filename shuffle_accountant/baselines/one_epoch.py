"""Bounds of one epoch of random allocation, by its privacy profile, and how epochs compose.

Feldman and Shenfeld 2025, for an epoch of t steps; zero-out adjacency; upper bounds.

*allocation_decomposition*, the bound by decomposition, with ``l = 1 - (1 - 1/t)^t``, the chance
that Poisson sampling at rate 1/t uses a record at all in t steps, and ``d`` the profiles of t
Poisson-sampled steps:

    remove(e) <= d_remove(log(1 + l (e^e - 1))) / l,
    add(e) <= d_add(-log(1 - l (1 - e^-e))) (l + e^e (1 - l)) / l.

*allocation_poisson*, Theorem 4.1, for steps that are (eps0, delta0)-private: an epoch loses no more
than t Poisson-sampled steps at the higher rate

    eta = 1 / (t (1 - g)),   g = min(cosh(eps0) sqrt((2/t) log(1/delta')), 1 - 1/t),

but for ``t delta0 + delta'``, in both orders. Here ``t delta0`` and ``delta'`` are a quarter of an
epoch's share of delta each. Where g is 1 - 1/t every step counts in full, which is taken for a
condition that is not met.

*allocation_berry_esseen*, for steps with normal noise: the total variation of an epoch. With
``x = 1/sigma`` and a standard normal N, ``Y = exp(x N - x^2/2)`` has the variance
``s^2 = e^(x^2) - 1`` and the third absolute moment ``r = E|Y - 1|^3``. The likelihood ratio L of an
epoch is the mean of t copies of Y without the record; with it, the law of one copy is weighted by
Y, and its excess W over 1 has the mean s^2. The best test is ``L <= 1``. The theorem of Berry and
Esseen (B = 0.4748, Shevtsova 2011) for t and for t - 1 copies, and
``Phi(h) - 1/2 <= phi(0) (h + |h|^3/6 1[h < 0])``, give

    TV <= B r/s^3 (1/sqrt(t) + 1/sqrt(t - 1)) + phi(0) (s/sqrt(t - 1) + r/(6 s^3 (t - 1)^1.5)),

and E epochs have no more than ``1 - (1 - TV)^E``. At a delta below that it says nothing at all. The
paper's first versions are about shuffled batches, the third about random allocation. The proof
needs the latter: other records of shuffled batches reveal where a record is, and the pair that it
is about is not their worst one.

The lower convex hull of points of a profile is a profile again, that of a pair of laws (Doroshenko
et al. 2022), and several epochs are the composition of that pair, certified by the package's own
accountant. So nothing is lost but what the bound itself loses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines.question import (
    Answer,
    OutsideValidityError,
    PublishedBound,
    Question,
    register,
    require,
)
from shuffle_accountant.engine.composed_law import composed_law
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.losses.tabulated import PldTable
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import certified_at
from shuffle_accountant.rounds.batches import PoissonSampled
from shuffle_accountant.rounds.mechanisms import GaussianMechanism, step_ratio
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.protocol import MAX_ROUNDS

__all__ = [
    "AllocationBerryEsseen",
    "AllocationDecomposition",
    "AllocationPoisson",
    "allocation_berry_esseen",
    "allocation_decomposition",
    "allocation_poisson",
]

# Points of a profile; spacing of loss grids relative to the deviation; relative tolerance.
_POINTS = 600
_SPACING = 2e-3
_TOLERANCE = 1e-3
# Share of an epoch's delta for t delta0, and the same for delta'.
_SHARE = 0.25
# Largest eps0 (nats) of a step: above, cosh overflows.
_LARGEST_EPS0 = 700.0
# Constant of the theorem of Berry and Esseen for equal laws, upper end of what is proved.
_BERRY_ESSEEN = 0.4748
# Relative error, far above that of a dozen roundings and of the exponential of x^2 up to 13.
_ROUNDED = 1e-13

# From losses >= 0 (nats) to upper bounds of the profile there: record removed, record added.
EpochProfile = Callable[[Array], tuple[Array, Array]]
# A profile, and the largest loss (nats) at which it is looked at.
Followed = tuple[EpochProfile, float]


@dataclass(frozen=True, kw_only=True)
class EpochBound(PublishedBound):
    """A bound of epochs of random allocation, and of nothing else.

    ``valid`` and ``epsilon`` take the round, ``rounds`` and ``delta``.
    """

    def answers(self, question: Question) -> Iterator[Answer]:
        """One answer, if there are epochs of random allocation among the rounds."""
        kinds = question.protocol.distinct
        epochs = [(one, count) for one, count in kinds if isinstance(one, RandomAllocation)]
        if not epochs:
            return
        if len(kinds) > 1:
            yield Answer(condition=f"epochs of one kind alone, got {len(kinds)} kinds of rounds")
            return
        ((one, count),) = epochs
        yield Answer.of(lambda: self.epsilon(one, rounds=count, delta=question.delta))


def one_use(round: RandomAllocation) -> str | None:
    """The condition that is not met, or None: a whole epoch in which a record is used once."""
    if round.selected > 1 or round.released is not None:
        return (
            "whole epochs of one selected step, got "
            f"selected={round.selected}, released={round.released}"
        )
    if round.passes > 1:
        return f"epochs that are dealt anew, got passes={round.passes}"
    if round.records_per_user > 1:
        return f"users of one record, got records_per_user={round.records_per_user}"
    schedule = getattr(round.mechanism, "schedule", None)
    if schedule is not None:
        return f"steps of equal noise, got {len(schedule)} noise multipliers"
    return None


@dataclass(frozen=True)
class PoissonEpoch:
    """Laws of the composed loss of as many Poisson-sampled steps as an epoch has, from above.

    The record is in P in the law ``remove``, in Q in the law ``add``.
    """

    remove: PldGrid
    add: PldGrid

    @property
    def reach(self) -> float:
        """Largest loss of either order that is followed, nats, at most 600."""
        top = max(float(law.losses[-1]) for law in (self.remove, self.add))
        return min(max(top, self.remove.spacing), 600.0)


@lru_cache(maxsize=8)
def poisson_epoch(round: RandomAllocation, rate: float) -> PoissonEpoch:
    """The laws for the epoch's number of steps, each Poisson-sampled at a rate in (0, 1]."""
    loss = PoissonSampled(round.mechanism, rate=rate).reduced().loss
    interval = _SPACING * min(loss.deviation * math.sqrt(round.steps), 10.0)
    orders = (((one, round.steps),) for one in (loss, loss.reversed))
    return PoissonEpoch(*(composed_law(one, interval, _TOLERANCE) for one in orders))


def composed_epsilon(
    name: str, profile: EpochProfile, reach: float, rounds: int, delta: float
) -> float:
    """Epsilon (nats) of ``rounds`` >= 1 epochs with a profile, composed; an upper bound.

    Losses up to ``reach`` (nats) are looked at.

    Raises:
        OutsideValidityError: the profile does not fall to delta.
    """
    near = np.linspace(0.0, 0.1 * reach, _POINTS // 2)
    losses = np.append(near, np.linspace(0.1 * reach, reach, _POINTS // 2 + 1)[1:])
    # a profile falls: a bound is one for all larger losses, too
    removed, added = (np.minimum.accumulate(np.minimum(x, 1.0)) for x in profile(losses))
    tables = []
    for one, other in ((removed, added), (added, removed)):
        atoms = profile_atoms(losses, (one, one), (other, other), 0.0, Bound.PESSIMISTIC)
        order, infinite = np.argsort(atoms.loss), min(atoms.infinite, 1.0)
        tables.append(PldTable(atoms.loss[order], atoms.mass[order], infinity_mass=infinite))
    epoch = PldRound.from_tables(*tables, adjacency=Adjacency.ZERO_OUT)
    found, _ = certified_at([(epoch, rounds)], _TOLERANCE, delta=delta)
    if found.upper == math.inf:
        raise OutsideValidityError(name, f"larger delta: its profile does not fall to {delta:g}")
    return found.upper


def profile_of(law: PldGrid, losses: Array) -> Array:
    """``E_P(1 - e^(x - L))_+`` at each x >= 0, from above: the law's losses are no less than L."""
    x, mass = law.losses, law.mass
    # sums from the largest loss down, of masses and of masses times e^-(L - first)
    shift = float(x[0])
    above, scaled = (
        np.append(np.cumsum(one[::-1])[::-1], 0.0)
        for one in (mass, mass * np.exp(-np.minimum(x - shift, 700.0)))
    )
    at = np.searchsorted(x, losses, side="right")
    growth = np.exp(np.minimum(losses - shift, 700.0))
    noise = 1e-11 * above[at]  # far more than sums and the exponential are off
    return np.asarray(above[at] - growth * scaled[at] + noise + law.infinite)


class _EpochBound(ABC):
    """A bound of epochs of random allocation; see `PublishedBound`."""

    name: ClassVar[str]
    source: ClassVar[str]
    sound: ClassVar[bool] = True

    def valid(self, round: RandomAllocation, *, rounds: int = 1, delta: float = 0.5) -> str | None:
        """The condition that is not met, or None, for the arguments of `epsilon`."""
        round, rounds, delta = _checked(round, rounds, delta)
        missing = one_use(round)
        return missing if missing or not rounds else self._unmet(round, rounds, delta)

    def epsilon(self, round: RandomAllocation, *, rounds: int = 1, delta: float) -> float:
        """Epsilon (nats) of all epochs.

        Args:
            round: one epoch.
            rounds: how many, each dealt anew, >= 0.
            delta: in (0, 1).
        """
        require(self.name, self.valid(round, rounds=rounds, delta=delta))
        round, rounds, delta = _checked(round, rounds, delta)
        return self._epsilon(round, rounds, delta) if rounds else 0.0

    def _unmet(self, round: RandomAllocation, rounds: int, delta: float) -> str | None:
        """The condition on the steps that is not met, or None."""
        return None

    @abstractmethod
    def _epsilon(self, round: RandomAllocation, rounds: int, delta: float) -> float:
        """Epsilon (nats) of one epoch or more, of which all conditions are met."""


class _ProfileBound(_EpochBound):
    """A bound of the profile of one epoch."""

    def _epsilon(self, round: RandomAllocation, rounds: int, delta: float) -> float:
        profile, reach = self._profile(round, rounds, delta)
        return composed_epsilon(self.name, profile, reach, rounds, delta)

    @abstractmethod
    def _profile(self, round: RandomAllocation, rounds: int, delta: float) -> Followed:
        """The profile of one epoch."""


class AllocationDecomposition(_ProfileBound):
    """Poisson sampling at rate 1/t, given that a record is used."""

    name = "allocation_decomposition"
    source = "Feldman and Shenfeld 2025, by decomposition"

    def _profile(self, round: RandomAllocation, rounds: int, delta: float) -> Followed:
        t = round.steps
        sampled = poisson_epoch(round, 1.0 / t)
        used = -math.expm1(t * math.log1p(-1.0 / t)) if t > 1 else 1.0

        def profile(losses: Array) -> tuple[Array, Array]:
            inner = np.log1p(used * np.expm1(losses))
            with np.errstate(divide="ignore"):
                outer = -np.log1p(used * np.expm1(-losses))
            factor = (used + np.exp(losses) * (1.0 - used)) / used
            return profile_of(sampled.remove, inner) / used, profile_of(sampled.add, outer) * factor

        # removed: what Poisson sampling loses, once it is known that the record is used
        return profile, math.log1p(math.expm1(min(sampled.reach, 600.0)) / used)


class AllocationPoisson(_ProfileBound):
    """Poisson sampling at a higher rate than 1/t."""

    name = "allocation_poisson"
    source = "Feldman and Shenfeld 2025, Theorem 4.1"

    def rate(self, round: RandomAllocation, *, rounds: int = 1, delta: float) -> float:
        """The theorem's sampling rate eta, in (0, 1].

        Args:
            round: one epoch.
            rounds: how many, >= 1.
            delta: in (0, 1).
        """
        validate.integer(minimum=1, rounds=rounds)
        round, rounds, delta = _checked(round, rounds, delta)
        require(self.name, one_use(round))
        t = round.steps
        g = min(_excess(round, rounds, delta), 1.0 - 1.0 / t)
        return min(1.0 / (t * (1.0 - g)), 1.0)

    def _unmet(self, round: RandomAllocation, rounds: int, delta: float) -> str | None:
        g = _excess(round, rounds, delta)
        if g < 1.0 - 1.0 / round.steps:
            return None
        return f"cosh(eps0) sqrt((2/t) log(1/delta')) < 1 - 1/t, got {g:.3g}"

    def _profile(self, round: RandomAllocation, rounds: int, delta: float) -> Followed:
        sampled = poisson_epoch(round, self.rate(round, rounds=rounds, delta=delta))
        more = 2.0 * _SHARE * delta / rounds

        def profile(losses: Array) -> tuple[Array, Array]:
            removed, added = (profile_of(law, losses) for law in (sampled.remove, sampled.add))
            return removed + more, added + more

        return profile, sampled.reach


class AllocationBerryEsseen(_EpochBound):
    """The total variation of epochs with normal noise."""

    name = "allocation_berry_esseen"
    source = "van Dijk and Ertan 2026, Theorem 3.1"

    def total_variation(self, round: RandomAllocation, *, rounds: int = 1) -> float:
        """Upper bound of delta at epsilon = 0, in [0, 1], in both orders.

        Args:
            round: one epoch.
            rounds: how many, each dealt anew, >= 0.
        """
        round, rounds, _ = _checked(round, rounds, 0.5)
        require(self.name, one_use(round) or self._outside(round))
        sigma = _sigma(round)
        assert sigma is not None
        t, (s, third) = round.steps, _moments(sigma)
        normal = _BERRY_ESSEEN * third * (1.0 / math.sqrt(t) + 1.0 / math.sqrt(t - 1.0))
        shift = s / math.sqrt(t - 1.0) + third / (6.0 * (t - 1.0) ** 1.5)
        one = min((normal + shift / math.sqrt(2.0 * math.pi)) * (1.0 + _ROUNDED), 1.0)
        if one == 1.0:
            return float(rounds > 0)
        return min(-math.expm1(rounds * math.log1p(-one)) * (1.0 + _ROUNDED), 1.0)

    def _outside(self, round: RandomAllocation) -> str | None:
        """The condition of the theorem that is not met, or None."""
        sigma = _sigma(round)
        if sigma is None:
            return f"steps with normal noise, got {type(round.mechanism).__name__}"
        least = math.sqrt(3.0 / math.log(round.steps)) if round.steps > 1 else math.inf
        if round.steps >= 3 and sigma >= least:
            return None
        return (
            "three steps or more and a noise multiplier of at least sqrt(3 / log(steps)) = "
            f"{least:.4g}, got {round.steps} and {sigma:g}"
        )

    def _unmet(self, round: RandomAllocation, rounds: int, delta: float) -> str | None:
        outside = self._outside(round)
        if outside:
            return outside
        least = self.total_variation(round, rounds=rounds)
        return None if delta >= least else f"delta >= {least:.3g}, got {delta:g}"

    def _epsilon(self, round: RandomAllocation, rounds: int, delta: float) -> float:
        return 0.0


def _sigma(round: RandomAllocation) -> float | None:
    """The noise multiplier of every step; None for other steps than those with normal noise."""
    mechanism = round.mechanism
    return mechanism.sigma if isinstance(mechanism, GaussianMechanism) else None


def _moments(sigma: float) -> tuple[float, float]:
    """``s`` and ``r / s^3`` of steps with a noise multiplier, both from above."""
    x = 1.0 / sigma
    deviation = math.sqrt(math.expm1(x * x))
    # E Y^k 1[Y > 1] = e^(k (k - 1) x^2 / 2) Phi((k - 1/2) x)
    orders = ((-1.0, 0), (3.0, 1), (-3.0, 2), (1.0, 3))
    terms = [
        sign * math.exp(k * (k - 1) * x * x / 2.0) * math.erf((k - 0.5) * x / math.sqrt(2.0))
        for sign, k in orders
    ]
    # a few roundings of each term, which cancel where there is much noise
    third = sum(terms) + _ROUNDED * sum(abs(term) for term in terms)
    return deviation * (1.0 + _ROUNDED), third / deviation**3 * (1.0 + _ROUNDED)


def _checked(round: object, rounds: object, delta: object) -> tuple[RandomAllocation, int, float]:
    """The checked epoch, number of epochs (>= 0) and delta in (0, 1), as Python's own numbers."""
    return (
        validate.instance(RandomAllocation, round=round),
        validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds),
        validate.open_unit(delta=delta),
    )


def _excess(round: RandomAllocation, rounds: int, delta: float) -> float:
    """``cosh(eps0) sqrt((2/t) log(1/delta'))``; inf for steps that no eps0 describes."""
    ratio = step_ratio(round.mechanism, 1, Bound.PESSIMISTIC)
    eps0 = _eps0(ratio, _SHARE * delta / rounds / round.steps)
    if eps0 > _LARGEST_EPS0:
        return math.inf
    log_inverse = math.log(rounds / _SHARE) - math.log(delta)
    return math.cosh(eps0) * math.sqrt(2.0 / round.steps * log_inverse)


def _eps0(source: RatioSource, delta0: float) -> float:
    """About the least eps0 with which a step is (eps0, delta0)-private; inf if there is none."""

    def private(eps0: float) -> bool:
        deltas = (source.alone(eps0, Bound.PESSIMISTIC, swapped) for swapped in (False, True))
        return all(delta <= delta0 for delta in deltas)

    low, high = 0.0, 1.0
    while not private(high):
        low, high = high, 2.0 * high
        if high > 2.0 * _LARGEST_EPS0:
            return math.inf
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if private(middle) else (middle, high)
    return high


allocation_decomposition, allocation_poisson = AllocationDecomposition(), AllocationPoisson()
allocation_berry_esseen = AllocationBerryEsseen()
_BOUNDS = (allocation_decomposition, allocation_poisson, allocation_berry_esseen)
for _rank, _bound in zip((190, 200, 210), _BOUNDS, strict=True):
    register(EpochBound, _bound, about="epochs of random allocation", rank=_rank)

explain_calls(__name__)
