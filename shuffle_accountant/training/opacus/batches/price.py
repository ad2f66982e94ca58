"""The epsilon of a loader that shuffles, for the error that refuses it."""

from __future__ import annotations

from shuffle_accountant.accountant import epsilon
from shuffle_accountant.rounds.attained import attained_epsilon
from shuffle_accountant.rounds.batches import ShuffledBatches

__all__ = ["refuse_shuffling"]


def refuse_shuffling(*, noise_multiplier: float, steps: int, delta: float) -> None:
    """Refuse a loader that shuffles, and say what an epoch of its batches costs.

    Args:
        noise_multiplier: deviation of the noise over the largest norm, in [1e-100, 1e12].
        steps: full batches of an epoch, >= 1.
        delta: in (0, 1).
    """
    round = ShuffledBatches(noise_multiplier=noise_multiplier, steps=steps)
    most = epsilon(round, delta=delta, tolerance=0.01).upper
    least = attained_epsilon(round, delta=delta).lower
    raise ValueError(
        "data_loader must not shuffle, got shuffle=True, which costs an epsilon of "
        f"{least:.3g} to {most:.3g} an epoch at delta = {delta:.3g} (leave it out, or say "
        "sampling='allocation' to have the records dealt, sampling='shuffle' to pay that)"
    )
