"""Bounds of one epoch of random allocation, by its privacy profile, and how epochs compose.

A bound gives the profile of an epoch in both orders of the neighbours. The lower convex hull of
points of it is a profile again, that of a pair of laws (Doroshenko et al. 2022), and several epochs
are the composition of that pair, certified by the package's own accountant. So nothing is lost but
what the bound itself loses. Adjacency: zero-out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines.question import (
    Answer,
    OutsideValidityError,
    PublishedBound,
    Question,
)
from shuffle_accountant.engine.composed_law import composed_law
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.tabulated import PldTable
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import certified_at
from shuffle_accountant.rounds.batches import PoissonSampled
from shuffle_accountant.rounds.pld import PldRound
from shuffle_accountant.rounds.protocol import MAX_ROUNDS

__all__ = [
    "EpochBound",
    "EpochProfile",
    "PoissonEpoch",
    "checked",
    "composed_epsilon",
    "one_use",
    "poisson_epoch",
    "profile_of",
]

# Points of a profile; spacing of loss grids relative to the deviation; relative tolerance.
_POINTS = 600
_SPACING = 2e-3
_TOLERANCE = 1e-3
# Largest loss, in nats, at which profiles are evaluated.
_LARGEST_LOSS = 600.0

# From losses >= 0 (nats) to upper bounds of the profile there: record removed, record added.
EpochProfile = Callable[[Array], tuple[Array, Array]]


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


def checked(round: object, rounds: object, delta: object) -> tuple[RandomAllocation, int, float]:
    """The checked epoch, number of epochs (>= 0) and delta in (0, 1), as Python's own numbers."""
    return (
        validate.instance(RandomAllocation, round=round),
        validate.integer(minimum=0, maximum=MAX_ROUNDS, rounds=rounds),
        validate.open_unit(delta=delta),
    )


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
        """Largest loss of either order that is followed, nats."""
        top = max(float(law.losses[-1]) for law in (self.remove, self.add))
        return min(max(top, self.remove.spacing), _LARGEST_LOSS)


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

    Args:
        name: of the bound.
        profile: of one epoch.
        reach: losses up to here are looked at, nats.

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
        loss, mass = atoms.loss, atoms.mass
        order = np.argsort(loss)
        tables.append(PldTable(loss[order], mass[order], infinity_mass=min(atoms.infinite, 1.0)))
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
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    scaled = np.append(np.cumsum((mass * np.exp(-np.minimum(x - shift, 700.0)))[::-1])[::-1], 0.0)
    at = np.searchsorted(x, losses, side="right")
    with np.errstate(over="ignore"):
        growth = np.exp(np.minimum(losses - shift, 700.0))
    noise = 1e-11 * above[at]  # far more than sums and the exponential are off
    return np.asarray(above[at] - growth * scaled[at] + noise + law.infinite)
