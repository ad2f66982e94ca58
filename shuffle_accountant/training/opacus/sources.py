# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Checks that a loader's records may be drawn or dealt in another way, and the loader's options."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

__all__ = ["loader_options", "require_plain", "require_records", "shuffles"]


def loader_options(original: Any) -> dict[str, Any]:
    """Arguments for a `DataLoader` that differs from this one in its batches alone."""
    return {
        "dataset": original.dataset,
        "num_workers": original.num_workers,
        "collate_fn": original.collate_fn,
        "pin_memory": original.pin_memory,
        "timeout": original.timeout,
        "worker_init_fn": original.worker_init_fn,
        "multiprocessing_context": original.multiprocessing_context,
        "generator": original.generator,
        "prefetch_factor": original.prefetch_factor,
        "persistent_workers": original.persistent_workers,
    }


def shuffles(data_loader: Any) -> bool:
    """Whether it goes through its records in a random order."""
    batches = data_loader.batch_sampler
    return isinstance(getattr(batches, "sampler", None), RandomSampler)


def require_records(data_loader: Any, dataset: Any) -> int:
    """Number of records of a loader; they must be those of the dataset, if that is not None."""
    if isinstance(data_loader.dataset, IterableDataset):
        raise ValueError(
            "data_loader must have a dataset with a length, got an IterableDataset: its users "
            "cannot be sampled"
        )
    if dataset is not None and dataset is not data_loader.dataset:
        raise ValueError("an engine accounts for one dataset, got a data_loader of another one")
    return len(data_loader.dataset)


def require_plain(data_loader: Any) -> None:
    """Refuse a loader that does not go through its dataset once, in order or shuffled.

    Only such a loader's user has no sampling of their own in mind.
    """
    got = type(data_loader.batch_sampler).__name__
    if data_loader.batch_size is None and data_loader.batch_sampler is None:
        got = "batch_size=None"
    elif type(data_loader.batch_sampler) is BatchSampler:
        sampler = data_loader.batch_sampler.sampler  # the loader's own may be a default
        got = type(sampler).__name__
        if type(sampler) is SequentialSampler:
            return
        if type(sampler) is RandomSampler:
            if not sampler.replacement and sampler.num_samples == len(sampler.data_source):
                return
            got = "a RandomSampler with replacement or of another length"
    raise ValueError(
        "data_loader must have a batch_size and no sampler of its own (the theorems cover batches "
        f"that the engine makes), got {got}"
    )
