"""DP-SGD runs by the way their batches are made, as protocols.

* "allocation": every record is dealt to one step of each epoch (`RandomAllocation`).
* "shuffle": records are shuffled and dealt into batches of one size (`ShuffledBatches`).
* "poisson": every record is in every batch with probability 1/steps (`PoissonSampled`).

Each epoch is dealt, shuffled or drawn anew. Adjacency: zero-out.
"""

from __future__ import annotations

from collections.abc import Callable

from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.poisson import PoissonSampled
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol

__all__ = ["SAMPLINGS", "sampling_named", "training_run"]


def _allocation(noise_multiplier: float, steps: int, records: int) -> Protocol:
    step = GaussianMechanism(noise_multiplier=noise_multiplier)
    return Protocol([(RandomAllocation(step, steps=steps, records_per_user=records), 1)])


def _shuffle(noise_multiplier: float, steps: int, records: int) -> Protocol:
    if records > 1:
        raise ValueError(f"records_per_user must be 1 with sampling='shuffle', got {records}")
    return Protocol([(ShuffledBatches(noise_multiplier=noise_multiplier, steps=steps), 1)])


def _poisson(noise_multiplier: float, steps: int, records: int) -> Protocol:
    step = GaussianMechanism(noise_multiplier=noise_multiplier)
    sampled = PoissonSampled(step, rate=1.0 / steps, records_per_user=records)
    return Protocol([(sampled, steps)])


SAMPLINGS: dict[str, Callable[[float, int, int], Protocol]] = {
    "allocation": _allocation,
    "shuffle": _shuffle,
    "poisson": _poisson,
}
"""One epoch by the name of the sampling, of noise multiplier, steps and records of one user."""


def sampling_named(sampling: str) -> str:
    """The name of the sampling, checked."""
    if not isinstance(sampling, str):
        raise TypeError(f"sampling must be a text, got {type(sampling).__name__}")
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r:.60}")
    return sampling


def training_run(
    sampling: str,
    *,
    noise_multiplier: float,
    steps: int,
    epochs: int = 1,
    records_per_user: int = 1,
) -> Protocol:
    """Protocol of all epochs of a run of DP-SGD.

    Args:
        sampling: "allocation", "shuffle" or "poisson".
        noise_multiplier: deviation of the noise over the largest norm, in [1e-100, 1e12].
        steps: number of steps of an epoch, >= 1.
        epochs: number of epochs, >= 0.
        records_per_user: most records that one user owns, as in the sampling's round; 1 for
            "shuffle".
    """
    make = SAMPLINGS[sampling_named(sampling)]
    steps = validate.integer(minimum=1, maximum=10**9, steps=steps)
    most = MAX_ROUNDS // steps
    one = make(noise_multiplier, steps, records_per_user)
    return one * validate.integer(minimum=0, maximum=most, epochs=epochs)
