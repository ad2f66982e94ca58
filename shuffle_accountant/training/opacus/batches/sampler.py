# mypy: disable-error-code="misc"
# PyTorch is optional, so its classes are of unknown type here.
"""Batch samplers that deal the records of every epoch into batches, and know the deal.

All of a deal's state is here, and none of it in the loader: Opacus' `BatchMemoryManager` makes a
loader of its own from the batch sampler. Who knows the deal knows which step used a record, so it
is a secret, and it comes from a generator of its own: ``torch.manual_seed`` does not govern it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Sampler

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import epsilon
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.rounds.attained import attained_epsilon
from shuffle_accountant.rounds.batches import ShuffledBatches
from shuffle_accountant.training.opacus.batches.accountant import SAMPLINGS
from shuffle_accountant.training.opacus.checks import require_plain


class Deal:
    """The assignment of records to the steps of one epoch; it must stay secret.

    Args:
        order: records, step by step.
        sizes: number of records of each step.
        released: steps that were made already.
        noise_multiplier: of these steps, or of each step of the deal, or None.

    Attributes:
        yielded: steps whose batches were handed out.
        live: whether an iterator hands them out.
        ended: whether that iterator went to the end.
        allowed: steps that the budget allows, or None if that is not known yet.
    """

    def __init__(
        self,
        order: NDArray[np.int64],
        sizes: NDArray[np.int64],
        released: int = 0,
        noise_multiplier: float | tuple[float, ...] | None = None,
    ) -> None:
        self.order, self.sizes = order, sizes
        self.released = self.yielded = released
        self.noise_multiplier = noise_multiplier
        self.live = self.ended = False
        self.allowed: int | None = None
        self._ends = np.cumsum(sizes)

    def __len__(self) -> int:
        """Number of steps of the deal."""
        return len(self.sizes)

    def batch(self, step: int) -> list[int]:
        """The records of a step."""
        end = int(self._ends[step])
        records: list[int] = self.order[end - int(self.sizes[step]) : end].tolist()
        return records

    @property
    def size(self) -> int:
        """Number of records of the next step."""
        return int(self.sizes[self.released])


class DealtSampler(Sampler):
    """Batches of one epoch per iteration, dealt when it begins.

    Args:
        records: how many there are, or which of them this process deals.
        steps: batches of an epoch, >= 1.
        rng: source of randomness; by default the operating system's cryptographic one.

    Attributes:
        deal: what was dealt last, or None.
        on_deal: called before every deal.
    """

    sampling: str

    def __init__(
        self,
        *,
        records: int | NDArray[np.int64],
        steps: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        if not isinstance(records, np.ndarray):
            records = np.arange(validate.integer(minimum=1, records=records))
        self.records: NDArray[np.int64] = records
        self.steps = validate.integer(minimum=1, steps=steps)
        self.rng = generator(rng)
        self.deal: Deal | None = None
        self.on_deal: Callable[[], None] = lambda: None
        self._resumed: Deal | None = None

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self.steps

    def __iter__(self) -> Iterator[list[int]]:
        """Deal, and hand out the batches of the epoch; an empty one holds a placeholder."""
        deal = self._begin()
        try:
            while deal.yielded < len(deal):
                if self.deal is not deal:
                    raise ValueError("an iterator of a deal that was given up must not be used")
                step, deal.yielded = deal.yielded, deal.yielded + 1
                # the optimizer discards the row of a placeholder, so it may be any record
                yield deal.batch(step) or [0]
            deal.ended = True
        finally:
            deal.live = False

    def give_up(self, resumed: Deal | None = None) -> None:
        """Let no batch of the deal at hand be used any more; go on with another one, if given."""
        self.deal, self._resumed = None, resumed
        self.on_deal()

    def _begin(self) -> Deal:
        last = self.deal
        if last is not None and last.live and last.yielded < len(last):
            raise ValueError(
                "an epoch must be gone through by one iterator of the private loader at a time, "
                "got a second one (evaluate with a loader of your own)"
            )
        if last is not None and last.ended and 0 < last.released < len(last):
            raise ValueError(
                "an epoch must not begin before all steps of the last one are made, got "
                f"{last.released} of {len(last)} (engine.end_epoch() gives the others up)"
            )
        self.on_deal()
        deal, self._resumed = self._resumed or Deal(*self._dealt()), None
        deal.live, self.deal = True, deal
        return deal

    @abstractmethod
    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The dealt records, step by step, and the number of records of each step."""


class AllocationSampler(DealtSampler):
    """Each record in one step of the epoch, uniformly and independently of the others.

    Batches vary in size, and some may be empty. Every epoch is dealt anew; jax_privacy's
    ``BallsInBinsSampling`` deals once and goes through the same bins in every epoch, which is
    `RandomAllocation` with ``passes`` and costs more.
    """

    sampling = "allocation"

    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        # the smallest integers make it a radix sort
        smallest = np.min_scalar_type(self.steps - 1)
        bins = self.rng.integers(self.steps, size=len(self.records), dtype=smallest)
        order = self.records[np.argsort(bins, kind="stable")]
        return order, np.bincount(bins, minlength=self.steps).astype(np.int64)


class ShuffledSampler(DealtSampler):
    """All records shuffled, then cut into batches of one size; what is left over is dropped.

    That is ``DataLoader(shuffle=True, drop_last=True)``, from a generator of its own.

    Args:
        records: how many there are.
        size: of every batch, in [1, records].
        rng: source of randomness; by default the operating system's cryptographic one.
    """

    sampling = "shuffle"

    def __init__(self, *, records: int, size: int, rng: np.random.Generator | None = None) -> None:
        records = validate.integer(minimum=1, records=records)
        self.size = validate.integer(minimum=1, maximum=records, size=size)
        super().__init__(records=records, steps=records // self.size, rng=rng)

    def _dealt(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = self.rng.permutation(self.records)[: self.steps * self.size]
        return order, np.full(self.steps, self.size)


def steps_of(data_loader: Any, sampling: str, records: int) -> int:
    """Number of batches of an epoch, if the loader's own way of making them may be replaced."""
    validate.choice(SAMPLINGS, sampling=sampling)
    batches = data_loader.batch_sampler
    if isinstance(batches, DealtSampler):
        if batches.sampling != sampling:
            raise ValueError(
                f"sampling must be that of the private loader, {batches.sampling!r}, got "
                f"{sampling!r}"
            )
        return len(batches)
    require_plain(data_loader)
    size = batches.batch_size
    if size > records:
        raise ValueError(f"data_loader.batch_size must be at most {records} records, got {size}")
    if sampling == "shuffle" and not batches.drop_last and records % size:
        raise ValueError(
            "data_loader must have drop_last=True or a batch_size that divides its "
            f"{records} records (places in a short last batch hide less), got batch_size={size}"
        )
    return len(data_loader)


def dealt_by(
    data_loader: Any,
    sampling: str,
    kept: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    distributed: bool,
) -> tuple[DealtSampler, float]:
    """The sampler that deals the loader's records, and the batch size to divide by.

    Args:
        data_loader: its batches are counted, and made anew.
        sampling: "allocation" or "shuffle".
        kept: the records that are dealt, all of them for "shuffle".
        rng: source of the deals.
        distributed: whether each process deals its share of the records.
    """
    records = len(kept)
    steps = steps_of(data_loader, sampling, len(data_loader.dataset))
    if sampling == "shuffle":
        if distributed:
            raise ValueError("sampling must be 'allocation' on several processes, got 'shuffle'")
        batches = data_loader.batch_sampler
        size = batches.size if isinstance(batches, ShuffledSampler) else batches.batch_size
        return ShuffledSampler(records=records, size=size, rng=rng), float(size)
    if not distributed:
        return AllocationSampler(records=kept, steps=steps, rng=rng), records / steps
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    sampler = AllocationSampler(
        records=kept[rank::ranks],
        steps=steps,
        rng=rng.spawn(ranks)[rank],  # of its own, also where all processes were seeded alike
    )
    return sampler, records / steps / ranks


def kept_records(user_ids: Any, most: int | None, records: int) -> tuple[NDArray[np.int64], int]:
    """The records that are dealt, increasing, and how many of them one user owns at most.

    Args:
        user_ids: who owns each record of the dataset, whole numbers or texts, shape (records,).
        most: records of each user that are kept, the first ones in the dataset; None for all.
        records: how many the dataset has.
    """
    owners = np.asarray(user_ids)
    if owners.shape != (records,) or owners.dtype.kind not in "iuUS":
        raise ValueError(
            f"user_ids must be whole numbers or texts, one for each of the {records} records, got "
            f"shape {owners.shape} of type {owners.dtype}"
        )
    order = np.argsort(owners, kind="stable")  # each user's records together, in their order
    begins = np.flatnonzero(np.r_[True, owners[order][1:] != owners[order][:-1]])
    counts = np.diff(np.r_[begins, records])
    place = np.arange(records) - np.repeat(begins, counts)
    if most is None:
        return np.arange(records), int(counts.max())
    most = validate.integer(minimum=1, records_per_user=most)
    return np.sort(order[place < most]), int(min(counts.max(), most))


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
