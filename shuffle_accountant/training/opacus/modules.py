# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Checks that modules and optimizers can be made private."""

from __future__ import annotations

from itertools import chain
from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

from shuffle_accountant import validation as validate

__all__ = [
    "GRADIENTS",
    "is_distributed",
    "require_gradients",
    "require_one_process",
    "require_own_parameters",
    "trainable_dimension",
]

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
