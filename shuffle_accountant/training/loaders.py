"""What a live PyTorch loader really samples, what that costs, and what others would print for it.

The loader is looked at, never run: its samplers by the names of their classes, and their settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import epsilon as epsilon_of
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.batches import FixedSizeSampled, PoissonSampled, ShuffledBatches
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.rounds.protocol import Protocol

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a loader samples in an epoch.

    Attributes:
        sampling: "poisson", "shuffled", "allocation", "fixed size", or "unamplified": every record
            is in one batch of an epoch at most, which one is not hidden well enough to count on.
        reason: what was seen of the loader, a sentence.
        protocol: of one epoch.
        assumed: what accountants that assume Poisson sampling take the epoch for.
    """

    sampling: str
    reason: str
    protocol: Protocol
    assumed: Protocol

    def bracket(self, *, delta: float, epochs: int = 1) -> Bracket:
        """Bracket of epsilon at ``delta`` in (0, 1) of the run as it is, of >= 1 epochs."""
        return _cost(self.protocol, delta, epochs)

    def reported(self, *, delta: float, epochs: int = 1) -> float:
        """Epsilon that Opacus' or TensorFlow Privacy's accountant would print for it, nats.

        They take every batch for a Poisson sample at the rate of batch size over dataset size. This
        is the exact value for that; theirs are above it by their own errors.
        """
        return _cost(self.assumed, delta, epochs).upper

    def __str__(self) -> str:
        return f"sampling: {self.sampling}. {self.reason}\none epoch: {self.protocol!r}"


def explain(
    loader: Any, optimizer: Any = None, *, noise_multiplier: float | None = None
) -> Explanation:
    """What a PyTorch ``DataLoader`` samples, with the certified cost of its epochs.

    Args:
        loader: a ``DataLoader``, or Opacus' ``DPDataLoader``.
        optimizer: of Opacus, whose noise multiplier is read.
        noise_multiplier: deviation of the noise over the clipping norm, in [1e-100, 1e12], if there
            is no such optimizer.

    Raises:
        ValueError: a sampler of which it is not known what it costs, with the reason; or no noise
            multiplier.
    """
    own = getattr(optimizer, "noise_multiplier", None)
    noise = own if noise_multiplier is None else noise_multiplier
    if noise is None:
        raise ValueError(
            "noise_multiplier must be given, or an optimizer that has one, got "
            f"{validate.shown(optimizer)}"
        )
    step = GaussianMechanism(noise_multiplier=validate.noise_multiplier(noise_multiplier=noise))
    batches = getattr(loader, "batch_sampler", None)
    if not hasattr(loader, "dataset"):
        raise TypeError(
            f"loader must be a DataLoader, got {validate.shown(loader)} of type "
            f"{type(loader).__name__}"
        )
    try:
        records = len(loader.dataset)
    except TypeError:
        raise ValueError(
            "loader must have a dataset of known size, got an iterable one, whose order is its own"
        ) from None
    if records < 1:
        raise ValueError(f"loader must have a dataset of a record at least, got {records}")
    found = _of_batches(batches, step, records)
    return found if found is not None else _of_records(loader, batches, step, records)


def _cost(epoch: Protocol, delta: float, epochs: int) -> Bracket:
    epochs = validate.integer(minimum=1, maximum=10**6, epochs=epochs)
    return epsilon_of(epoch * epochs, delta=delta)


def _names(thing: Any) -> set[str]:
    """Names of an object's class and of those it inherits from."""
    return {one.__name__ for one in type(thing).__mro__}


def _of_batches(batches: Any, step: GaussianMechanism, records: int) -> Explanation | None:
    """For samplers that make whole batches; None for batches of a record sampler."""
    names = _names(batches)
    if names & {"UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler"}:
        rate, steps = float(batches.sample_rate), len(batches)
        run = Protocol([(PoissonSampled(step, rate=rate), steps)])
        reason = f"Opacus draws each of {steps} batches record by record at rate {rate:g}."
        return Explanation("poisson", reason, run, run)
    if "AllocationSampler" in names:
        steps = len(batches)
        dealt = RandomAllocation(step, steps=steps)
        reason = f"Every record is dealt to one of {steps} batches, independently of the others."
        return _epoch("allocation", reason, dealt, step, records / steps / records, steps)
    if "ShuffledSampler" in names:
        return _shuffled(step, records, int(batches.size))
    if batches is not None and "BatchSampler" not in names:
        raise ValueError(
            f"loader must have a known batch sampler, got {type(batches).__name__}: what it draws "
            "is not known"
        )
    return None


def _of_records(loader: Any, batches: Any, step: GaussianMechanism, records: int) -> Explanation:
    """For PyTorch's batches of a sampler of records."""
    sampler = getattr(batches, "sampler", None) or getattr(loader, "sampler", None)
    names = _names(sampler)
    size = int(getattr(batches, "batch_size", None) or 1)
    drop = bool(getattr(batches, "drop_last", False))
    if "WeightedRandomSampler" in names:
        raise ValueError(
            "loader must not draw with weights, got WeightedRandomSampler: records of large weight "
            "take part more often than any amplification allows for"
        )
    if "DistributedSampler" in names:
        raise ValueError(
            "loader must not be distributed, got DistributedSampler: its order follows from a seed "
            "and an epoch's number, and it repeats records to fill up"
        )
    if "SequentialSampler" in names:
        return _unamplified(step, records, size, "The order is fixed: nobody has to guess a batch.")
    if "RandomSampler" not in names:
        raise ValueError(
            f"loader must have a known sampler, got {type(sampler).__name__}: what it draws is not "
            "known"
        )
    if getattr(sampler, "replacement", False):
        raise ValueError(
            "loader must not draw with replacement, got RandomSampler(replacement=True): a record "
            "may be in many batches, or in one batch more than once"
        )
    drawn = int(getattr(sampler, "num_samples", records) or records)
    if drawn < records and drawn == size:
        one = FixedSizeSampled(step, size=size, population=records)
        reason = f"Each epoch is one batch of exactly {size} of {records} records, drawn anew."
        return _epoch("fixed size", reason, one, step, size / records, 1)
    if drawn != records or (records % size and not drop):
        reason = "Records are shuffled, but batches are not all of one size."
        return _unamplified(step, records, size, reason)
    return _shuffled(step, records, size)


def _epoch(
    sampling: str, reason: str, one: Round, step: GaussianMechanism, rate: float, steps: int
) -> Explanation:
    """An epoch of one round, which others take for Poisson samples at a rate."""
    assumed = Protocol([(PoissonSampled(step, rate=min(rate, 1.0)), steps)])
    return Explanation(sampling, reason, Protocol([(one, 1)]), assumed)


def _shuffled(step: GaussianMechanism, records: int, size: int) -> Explanation:
    steps = records // size
    if steps < 1:
        raise ValueError(f"loader must have a full batch at least, got {records} of {size} records")
    run = ShuffledBatches(noise_multiplier=step.sigma, steps=steps)
    reason = f"Records are shuffled and dealt into {steps} batches of {size}."
    return _epoch("shuffled", reason, run, step, size / records, steps)


def _unamplified(step: GaussianMechanism, records: int, size: int, reason: str) -> Explanation:
    """Every record is in one batch at most: that batch's step, as it is."""
    run = PoissonSampled(step, rate=1.0)
    return _epoch("unamplified", reason, run, step, size / records, -(-records // size))
