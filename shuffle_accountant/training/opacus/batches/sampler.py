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
from numpy.typing import NDArray
from torch.utils.data import Sampler

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.checks import generator

__all__ = ["AllocationSampler", "Deal", "DealtSampler", "ShuffledSampler"]

# Stands in an empty batch; the optimizer discards its row, so it may be any record.
_PLACEHOLDER = 0


class Deal:
    """The assignment of records to the steps of one epoch; it must stay secret.

    Args:
        order: records, step by step.
        sizes: number of records of each step.
        released: steps that were made already.
        noise_multiplier: of these steps, or None.

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
        noise_multiplier: float | None = None,
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
        self.on_deal: Callable[[], None] = _nothing
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
                yield deal.batch(step) or [_PLACEHOLDER]
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


def _nothing(*_: Any) -> None:
    """Do nothing: the callback of a sampler without an optimizer."""
