"""DP-SGD runs by the way their batches are made, as protocols.

* "allocation": every record is dealt to one step of each epoch (`RandomAllocation`).
* "shuffle": records are shuffled and dealt into batches of one size (`ShuffledBatches`).
* "poisson": every record is in every batch with probability 1/steps (`PoissonSampled`).

Each epoch is dealt, shuffled or drawn anew. With correlated noise (`MatrixMechanism`) records are
dealt once, and take part in the same step of every epoch:

* "banded": the encoder has the first coefficients of the square root of prefix sums.
* "tree": the encoder is a binary tree over the steps of an epoch, a power of 2.

Adjacency: zero-out.
"""

from __future__ import annotations

from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import PoissonSampled, ShuffledBatches
from shuffle_accountant.rounds.matrix import MatrixMechanism, sqrt_coefficients
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol

SAMPLINGS = ("allocation", "shuffle", "poisson")
"""Ways of making the batches of an epoch, by name."""
CORRELATED = ("banded", "tree")
"""Runs with correlated noise, by name."""


def sampling_named(sampling: str, *, correlated: bool = False) -> str:
    """The name of the sampling, or of a run with correlated noise where these are allowed."""
    if not isinstance(sampling, str):
        raise TypeError(f"sampling must be a text, got {type(sampling).__name__}")
    known = (*SAMPLINGS, *CORRELATED) if correlated else SAMPLINGS
    if sampling not in known:
        raise ValueError(f"sampling must be one of {', '.join(known)}, got {sampling!r:.60}")
    return sampling


def correlated_run(
    name: str, *, noise_multiplier: float, steps: int, epochs: int = 1, bands: int = 4
) -> Protocol:
    """Protocol of a run of DP-SGD with correlated noise.

    Args:
        name: "banded" or "tree".
        noise_multiplier: deviation of the white noise over the largest norm; for "banded" of one
            participation, whose coefficients have 2-norm 1, for "tree" of each node.
        steps: number of steps of an epoch, and of bins.
        epochs: number of epochs, >= 1.
        bands: number of coefficients of "banded", 1 to 200.
    """
    if name == "tree" and steps & (steps - 1):
        raise ValueError(f"steps must be a power of 2 with sampling='tree', got {steps}")
    options: dict[str, Any] = (
        {"tree": True} if name == "tree" else {"coefficients": sqrt_coefficients(bands=bands)}
    )
    one = MatrixMechanism(**options, noise_multiplier=noise_multiplier, bins=steps, epochs=epochs)
    return Protocol([(one, 1)])


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
        records_per_user: most records that one user owns; 1 for "shuffle".
    """
    sampling_named(sampling)
    steps = validate.integer(minimum=1, maximum=10**9, steps=steps)
    one: Round
    if sampling == "shuffle":
        if records_per_user > 1:
            raise ValueError(
                f"records_per_user must be 1 with sampling='shuffle', got {records_per_user}"
            )
        one = ShuffledBatches(noise_multiplier=noise_multiplier, steps=steps)
    else:
        step = GaussianMechanism(noise_multiplier=noise_multiplier)
        if sampling == "allocation":
            one = RandomAllocation(step, steps=steps, records_per_user=records_per_user)
        else:
            one = PoissonSampled(step, rate=1.0 / steps, records_per_user=records_per_user)
    epoch = Protocol([(one, steps if sampling == "poisson" else 1)])
    return epoch * validate.integer(minimum=0, maximum=MAX_ROUNDS // steps, epochs=epochs)
