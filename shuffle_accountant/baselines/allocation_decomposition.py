"""Random allocation by decomposition: Poisson sampling at rate 1/t, given that a record is used.

Feldman and Shenfeld 2025, the bound by decomposition, with ``l = 1 - (1 - 1/t)^t``, the chance that
Poisson sampling uses a record at all in t steps, and ``d`` the profiles of t Poisson-sampled steps:

    remove(e) <= d_remove(log(1 + l (e^e - 1))) / l,
    add(e) <= d_add(-log(1 - l (1 - e^-e))) (l + e^e (1 - l)) / l.

Zero-out adjacency; an upper bound; several epochs by composing the profiles.
"""

from __future__ import annotations

import math

import numpy as np

from shuffle_accountant.baselines import one_epoch
from shuffle_accountant.baselines.question import register, require
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.rounds.allocation import RandomAllocation

__all__ = ["epsilon", "name", "sound", "source", "valid"]

name = "allocation_decomposition"
source = "Feldman and Shenfeld 2025, by decomposition"
sound = True


def valid(round: RandomAllocation, *, rounds: int = 1, delta: float = 0.5) -> str | None:
    """The condition that is not met, or None.

    Args:
        round: one epoch.
        rounds: how many, >= 0.
        delta: in (0, 1); any will do.
    """
    round, _, _ = one_epoch.checked(round, rounds, delta)
    return one_epoch.one_use(round)


def epsilon(round: RandomAllocation, *, rounds: int = 1, delta: float) -> float:
    """Epsilon (nats) of all epochs.

    Args:
        round: one epoch.
        rounds: how many, each dealt anew, >= 0.
        delta: in (0, 1).
    """
    round, rounds, delta = one_epoch.checked(round, rounds, delta)
    require(name, one_epoch.one_use(round))
    if rounds == 0:
        return 0.0
    t = round.steps
    sampled = one_epoch.poisson_epoch(round, 1.0 / t)
    used = -math.expm1(t * math.log1p(-1.0 / t)) if t > 1 else 1.0

    def profile(losses: Array) -> tuple[Array, Array]:
        inner = np.log1p(used * np.expm1(losses))
        with np.errstate(divide="ignore"):
            outer = -np.log1p(used * np.expm1(-losses))
        factor = (used + np.exp(losses) * (1.0 - used)) / used
        removed, added = (
            one_epoch.profile_of(sampled.remove, inner),
            one_epoch.profile_of(sampled.add, outer),
        )
        return removed / used, added * factor

    # removed: what Poisson sampling loses, once it is known that the record is used
    reach = math.log1p(math.expm1(min(sampled.reach, 600.0)) / used)
    return one_epoch.composed_epsilon(name, profile, reach, rounds, delta)


register(one_epoch.EpochBound, __name__, about="epochs of random allocation", rank=190)
