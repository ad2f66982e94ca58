# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Batches of users for Opacus: a loader that draws them, and which loaders it may replace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from shuffle_accountant.training.opacus_draws import Draw, Pass, Trace, tagged
from shuffle_accountant.training.sampling import UserBatches

__all__ = ["ShuffleDataLoader", "require_plain"]


class ShuffleDataLoader(DataLoader):
    """A loader of the same dataset whose batches are drawn by `UserBatches`.

    The tensors of a batch remember that they come from it, and PyTorch's operations hand that on;
    a step is refused whose tensors do not. So what leaves PyTorch, through NumPy for example,
    belongs into the dataset or the ``collate_fn``.

    Attributes:
        batches: how users are drawn.
        trace: what the gradients at hand come from.
    """

    def __init__(self, original: Any, batches: UserBatches) -> None:
        super().__init__(
            dataset=original.dataset,
            batch_sampler=batches,
            num_workers=original.num_workers,
            collate_fn=original.collate_fn,
            pin_memory=original.pin_memory,
            timeout=original.timeout,
            worker_init_fn=original.worker_init_fn,
            multiprocessing_context=original.multiprocessing_context,
            generator=original.generator,
            prefetch_factor=original.prefetch_factor,
            persistent_workers=original.persistent_workers,
        )
        self.batches = batches
        self.trace = Trace()

    def __iter__(self) -> Iterator[Any]:
        """Hand out the batches of one pass, each with the draw it comes from."""
        this_pass = Pass()
        for users, batch in zip(self.batches.sizes, super().__iter__(), strict=True):
            yield tagged(batch, Draw(self.trace, this_pass, users))


def require_plain(data_loader: Any) -> None:
    """Refuse a loader that does not go through its dataset once, in order or shuffled.

    Only such a loader's user has no sampling of their own in mind.
    """
    sampler, got = data_loader.sampler, type(data_loader.batch_sampler).__name__
    if data_loader.batch_size is None and data_loader.batch_sampler is None:
        got = "batch_size=None"
    elif type(data_loader.batch_sampler) is BatchSampler:
        got = type(sampler).__name__
        if type(sampler) is SequentialSampler:
            return
        if type(sampler) is RandomSampler:
            if not sampler.replacement and sampler.num_samples == len(sampler.data_source):
                return
            got = "a RandomSampler with replacement or of another length"
    raise ValueError(
        "data_loader must have a batch_size and no sampler of its own (the theorems cover batches "
        f"of one size, without replacement, which the engine draws), got {got}"
    )
