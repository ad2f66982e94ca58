# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""What both engines for Opacus share: what they refuse, training to a target, and checkpoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.training.opacus.optimizer import refuse_evaluation, require_accounted

# By name: not every version and build of PyTorch and Opacus has all of them.
_DISTRIBUTED = (
    "DifferentiallyPrivateDistributedDataParallel",
    "DistributedDataParallel",
    "FSDPModule",
    "FullyShardedDataParallel",
)


class CertifiedEngine(PrivacyEngine):
    """An engine of Opacus' whose accountant gives certified brackets."""

    dataset: Any

    def make_private_with_epsilon(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: Any,
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """`make_private` with as little randomness as ``epochs`` epochs need to meet a target.

        The target is also the budget: a step beyond it raises `BudgetExceeded`.

        Args:
            module: as for `make_private`, and so are ``optimizer``, ``data_loader`` and
                ``max_grad_norm``.
            target_epsilon: nats, finite, > 0.
            target_delta: in (0, 1).
            epochs: passes over the loader, >= 1; one has ``len(loader)`` steps, not one less.
            **options: others of `make_private`.

        Raises:
            ValueError: a target out of reach, or steps on the accountant already.
        """
        if len(self.accountant) > 0:
            raise ValueError(
                "make_private_with_epsilon needs an engine without steps, got one with "
                f"{len(self.accountant)}: use make_private with max_epsilon"
            )
        given = {"module": module, "optimizer": optimizer, "max_grad_norm": max_grad_norm}
        given |= options
        found = self._calibrated(data_loader, epochs, target_epsilon, target_delta, **given)
        made: tuple[Any, Any, Any] = self.make_private(
            **given,
            **found,
            data_loader=data_loader,
            max_epsilon=target_epsilon,
            target_delta=target_delta,
        )
        return made

    def get_epsilon(self, delta: float) -> Bracket:
        """Certified bracket of the epsilon (nats) spent, at ``delta`` in (0, 1)."""
        spent: Bracket = self.accountant.get_epsilon(delta)
        return spent

    def load_checkpoint(
        self,
        *,
        path: Any,
        module: Any,
        optimizer: Any = None,
        module_load_dict_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Go on from what ``save_checkpoint`` wrote: the resumed engine gives the same epsilon.

        What follows is a new epoch, with new randomness; see the class.

        Args:
            path: the file.
            module: of the same shape.
            optimizer: if its state was saved.
            module_load_dict_kwargs: passed to ``module.load_state_dict``.
            torch_load_kwargs: passed to ``torch.load``; only tensors and plain data are read unless
                it says otherwise.

        Returns:
            The checkpoint.

        Raises:
            ValueError: no such checkpoint, or one of another configuration than `make_private` was
                called with. Nothing is changed.
        """
        checkpoint = torch.load(path, **{"weights_only": True, **(torch_load_kwargs or {})})
        if not isinstance(checkpoint, dict) or "privacy_accountant_state_dict" not in checkpoint:
            raise ValueError("checkpoint must hold a privacy_accountant_state_dict, got none")
        saved = type(self.accountant)()
        saved.load_state_dict(checkpoint["privacy_accountant_state_dict"])
        go_on = self._compared(saved, checkpoint)
        module.load_state_dict(checkpoint["module_state_dict"], **(module_load_dict_kwargs or {}))
        self.accountant.go_on_from(saved)
        if optimizer is not None and "optimizer_state_dict" in checkpoint:
            optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        go_on()
        return checkpoint

    @abstractmethod
    def _calibrated(
        self, data_loader: Any, epochs: int, epsilon: float, delta: float, **given: Any
    ) -> dict[str, float]:
        """The argument of `make_private` that meets a target.

        What `make_private` refuses of the other arguments is refused before that is worked out.
        """

    @abstractmethod
    def _compared(self, saved: Any, checkpoint: dict[str, Any]) -> Callable[[], None]:
        """What is to be done once a checkpoint with this accounting is loaded, if it fits."""

    def _check(self, optimizer: Any, loss_reduction: str, grad_sample_mode: str) -> None:
        """Refuse what neither engine covers.

        Ghost clipping only keeps sums: a gradient that is not finite cannot be left out of them,
        and would be seen in the model.
        """
        require_accounted(optimizer.param_groups, self.accountant)
        if isinstance(grad_sample_mode, str) and grad_sample_mode.startswith("ghost"):
            raise ValueError(
                "grad_sample_mode must be one of 'hooks', 'functorch', 'ew' (of ghost clipping's "
                "sums no gradient that is not finite can be left out; to save memory use Opacus' "
                f"BatchMemoryManager), got {grad_sample_mode!r}"
            )
        validate.choice(("hooks", "functorch", "ew"), grad_sample_mode=grad_sample_mode)
        validate.choice(("mean", "sum"), loss_reduction=loss_reduction)

    def _private_module(self, module: Any, **options: Any) -> Any:
        """The module with per-sample gradients, of one backward pass in training mode."""
        module = self._prepare_model(module, **options)
        module.forbid_grad_accumulation()
        refuse_evaluation(module)
        return module


def checked_budget(
    max_epsilon: float | None, target_delta: float | None
) -> tuple[float, float] | None:
    """Epsilon (nats) and delta of a budget, or None."""
    if max_epsilon is not None:
        max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
    elif target_delta is None:
        return None
    delta = validate.open_unit(target_delta=target_delta)
    return None if max_epsilon is None else (max_epsilon, delta)


def require_one_process(module: Any, inside: bool = False) -> None:
    """Refuse modules, or parts of one, whose gradients other processes expect to be reduced."""
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
    if {id(p) for p in _given(optimizer) if p.requires_grad} != own:
        raise ValueError(
            "optimizer must have all trainable parameters of the module, and no others"
        )
    return sum(p.numel() for p in require_own_parameters(module, optimizer))


def _given(optimizer: Any) -> list[Any]:
    validate.instance(torch.optim.Optimizer, optimizer=optimizer)
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


def loader_options(original: Any) -> dict[str, Any]:
    """Arguments for a `DataLoader` that differs from this one in its batches alone."""
    names = ("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn")
    more = ("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers")
    return {name: getattr(original, name) for name in names + more}


def shuffles(data_loader: Any) -> bool:
    """Whether it goes through its records in a random order."""
    return isinstance(getattr(data_loader.batch_sampler, "sampler", None), RandomSampler)


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
