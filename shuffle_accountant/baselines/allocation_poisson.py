"""Random allocation by Poisson sampling at a higher rate.

Feldman and Shenfeld 2025, Theorem 4.1, for steps that are (eps0, delta0)-private: an epoch of t
steps loses no more than t Poisson-sampled steps at rate

    eta = 1 / (t (1 - g)),   g = min(cosh(eps0) sqrt((2/t) log(1/delta')), 1 - 1/t),

but for ``t delta0 + delta'``, in both orders. Zero-out adjacency; an upper bound. Here ``t delta0``
and ``delta'`` are a quarter of an epoch's share of delta each. Where g is 1 - 1/t every step counts
in full, which says nothing of sampling and is taken for a condition that is not met: so it is for a
noise multiplier of 1 and 1000 steps.
"""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.baselines import one_epoch
from shuffle_accountant.baselines.question import register, require
from shuffle_accountant.losses.steps.mean_ratio import RatioSource
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import step_ratio

__all__ = ["epsilon", "name", "rate", "sound", "source", "valid"]

name = "allocation_poisson"
source = "Feldman and Shenfeld 2025, Theorem 4.1"
sound = True

# Share of an epoch's delta for t delta0, and the same for delta'.
_SHARE = 0.25
# Largest eps0 (nats) of a step: above, cosh overflows.
_LARGEST_EPS0 = 700.0


def valid(round: RandomAllocation, *, rounds: int = 1, delta: float) -> str | None:
    """The condition that is not met, or None.

    Args:
        round: one epoch.
        rounds: how many, >= 0.
        delta: in (0, 1).
    """
    round, rounds, delta = one_epoch.checked(round, rounds, delta)
    missing = one_epoch.one_use(round)
    if missing is not None or rounds == 0:
        return missing
    g = _excess(round, rounds, delta)
    if g < 1.0 - 1.0 / round.steps:
        return None
    return f"cosh(eps0) sqrt((2/t) log(1/delta')) < 1 - 1/t, got {g:.3g}"


def rate(round: RandomAllocation, *, rounds: int = 1, delta: float) -> float:
    """The theorem's sampling rate eta, in (0, 1].

    Args:
        round: one epoch.
        rounds: how many, >= 1.
        delta: in (0, 1).
    """
    validate.integer(minimum=1, rounds=rounds)
    round, rounds, delta = one_epoch.checked(round, rounds, delta)
    require(name, one_epoch.one_use(round))
    t = round.steps
    g = min(_excess(round, rounds, delta), 1.0 - 1.0 / t)
    return min(1.0 / (t * (1.0 - g)), 1.0)


def epsilon(round: RandomAllocation, *, rounds: int = 1, delta: float) -> float:
    """Epsilon (nats) of all epochs.

    Args:
        round: one epoch.
        rounds: how many, each dealt anew, >= 0.
        delta: in (0, 1).
    """
    round, rounds, delta = one_epoch.checked(round, rounds, delta)
    require(name, valid(round, rounds=rounds, delta=delta))
    if rounds == 0:
        return 0.0
    sampled = one_epoch.poisson_epoch(round, rate(round, rounds=rounds, delta=delta))
    more = 2.0 * _SHARE * delta / rounds

    def profile(losses: Array) -> tuple[Array, Array]:
        return one_epoch.profile_of(sampled.remove, losses) + more, one_epoch.profile_of(
            sampled.add, losses
        ) + more

    return one_epoch.composed_epsilon(name, profile, sampled.reach, rounds, delta)


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


register(one_epoch.EpochBound, __name__, about="epochs of random allocation", rank=200)
