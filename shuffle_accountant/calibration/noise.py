"""Calibration of DP-SGD: the least noise with which a run meets a target.

Answers are conservative and carry their evidence, as those of
`shuffle_accountant.calibration.calibrate`. More noise is post-processing of less, so that the true
epsilon falls with it, for every sampling.
"""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.calibration.search import CalibratedFloat, decimals_upwards
from shuffle_accountant.calibration.target import Target
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.samplings import sampling_named, training_run

__all__ = ["LEAST_NOISE", "MOST_NOISE", "min_noise_multiplier"]

LEAST_NOISE = 0.01
"""Smallest noise multiplier that the search tries."""

MOST_NOISE = 1e5
"""Largest noise multiplier that the search tries."""

# Slope of log epsilon over log noise that the search assumes: epsilon of one step falls like the
# noise rises, and soon faster.
_SLOPE = -1.5


def min_noise_multiplier(
    *,
    sampling: str,
    steps: int,
    epochs: int = 1,
    records_per_user: int = 1,
    target_epsilon: float,
    delta: float,
    tolerance: float = 1e-3,
) -> CalibratedFloat:
    """The least noise multiplier with which a run of DP-SGD is (target_epsilon, delta)-private.

    It is a number of six significant digits, and a step is one in the last of them.

    Args:
        sampling: how batches are made: "allocation" (`RandomAllocation`), "shuffle"
            (`ShuffledBatches`) or "poisson" (`PoissonSampled` at rate 1/steps).
        steps: number of steps of an epoch, >= 1; for "shuffle" the full batches.
        epochs: number of epochs, each dealt, shuffled or drawn anew, >= 1.
        records_per_user: most records that one user owns, each dealt or drawn by itself; the target
            is that of the user. 1 for "shuffle".
        target_epsilon: nats, finite, > 0, under zero-out adjacency.
        delta: in (0, 1).
        tolerance: relative width in epsilon of the brackets that decide, > 0.

    Returns:
        The noise multiplier, in [`LEAST_NOISE`, `MOST_NOISE`], with its evidence.

    Raises:
        ValueError: `MOST_NOISE` does not meet the target.
    """
    sampling = sampling_named(sampling)
    steps = validate.integer(minimum=1, maximum=10**9, steps=steps)
    epochs = validate.integer(minimum=1, maximum=MAX_ROUNDS // steps, epochs=epochs)
    target = Target(target_epsilon, delta, tolerance)

    def protocol(noise_multiplier: float) -> Protocol:
        return training_run(
            sampling,
            noise_multiplier=noise_multiplier,
            steps=steps,
            epochs=epochs,
            records_per_user=records_per_user,
        )

    named = f"steps={steps}, epochs={epochs} with noise_multiplier={MOST_NOISE:g}"
    return CalibratedFloat(
        *target.search(
            decimals_upwards(LEAST_NOISE, MOST_NOISE),
            protocol,
            _guess(sampling, steps, epochs, target),
            _SLOPE,
            named,
        )
    )


def _guess(sampling: str, steps: int, epochs: int, target: Target) -> float:
    """Guess: noise at which a normal loss of the same variance has its quantile at the target."""
    # hidden among the steps, or, when shuffled, among few of them
    hidden = steps if sampling != "shuffle" else math.sqrt(steps)
    goal = target.epsilon * (target.epsilon / (2.0 * target.log_delta + target.epsilon))
    return min(max(1.0 / math.sqrt(math.log1p(goal * hidden / epochs)), 10 * LEAST_NOISE), 1e3)
