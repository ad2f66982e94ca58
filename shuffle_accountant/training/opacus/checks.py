# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Checks that modules, optimizers and loaders can be made private."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from shuffle_accountant import validation as validate

GRADIENTS = ("hooks", "functorch", "ew")
"""Opacus' ways to compute per-sample gradients that leave them to the optimizer."""

# By name: not every version and build of PyTorch and Opacus has all of them.
_DISTRIBUTED = frozenset(
    (
        "DifferentiallyPrivateDistributedDataParallel",
        "DistributedDataParallel",
        "FSDPModule",
        "FullyShardedDataParallel",
    )
)


def require_gradients(grad_sample_mode: str) -> str:
    """The mode, if it leaves every sample's gradient to the optimizer.

    Ghost clipping only keeps sums: a gradient that is not finite cannot be left out of them, and
    would be seen in the model.
    """
    if isinstance(grad_sample_mode, str) and grad_sample_mode.startswith("ghost"):
        raise ValueError(
            "grad_sample_mode must be one of 'hooks', 'functorch', 'ew' (of ghost clipping's sums "
            "no gradient that is not finite can be left out; to save memory use Opacus' "
            f"BatchMemoryManager), got {grad_sample_mode!r}"
        )
    return validate.choice(GRADIENTS, grad_sample_mode=grad_sample_mode)


def require_one_process(module: Any, inside: bool = False) -> None:
    """Refuse modules whose gradients other processes expect to be reduced with theirs.

    Args:
        module: the module.
        inside: whether only its parts are looked at.
    """
    for part in module.modules():
        if inside and part is module:
            continue
        for kind in type(part).__mro__:
            if kind.__name__ in _DISTRIBUTED:
                raise ValueError(
                    "module must be on one process (messages are not averaged over several), got "
                    f"a {kind.__name__}"
                )


def is_distributed(module: Any) -> bool:
    """Whether it is in Opacus' wrapper for several processes, and in no other."""
    wrapped = isinstance(module, DifferentiallyPrivateDistributedDataParallel)
    require_one_process(module, inside=wrapped)
    return wrapped


def require_own_parameters(module: Any, optimizer: Any) -> list[Any]:
    """The trainable parameters of an optimizer, which must be the module's."""
    given = _given(optimizer)
    if isinstance(getattr(optimizer, "original_optimizer", optimizer), torch.optim.LBFGS):
        raise ValueError("optimizer must ask for one gradient a step, got an LBFGS")
    own = {id(p) for p in module.parameters()}
    if not own.issuperset(map(id, given)):
        raise ValueError("optimizer must have parameters of the module, and no others")
    trained = [p for p in given if p.requires_grad]
    if not trained:
        raise ValueError("module must have trainable parameters, got none")
    return trained


def trainable_dimension(module: Any, optimizer: Any) -> int:
    """Number of trainable parameters, which must be the optimizer's and the module's."""
    own = {id(p) for p in module.parameters() if p.requires_grad}
    trained = [p for p in _given(optimizer) if p.requires_grad]
    if {id(p) for p in trained} != own:
        raise ValueError(
            "optimizer must have all trainable parameters of the module, and no others"
        )
    return sum(p.numel() for p in require_own_parameters(module, optimizer))


def _given(optimizer: Any) -> list[Any]:
    validate.instance(torch.optim.Optimizer, optimizer=optimizer)
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


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
