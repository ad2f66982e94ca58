# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Checkpoints of a private run: read first, compared, and only then loaded."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["read_checkpoint", "restore"]


def read_checkpoint(
    path: Any, accountant: Any, torch_load_kwargs: dict[str, Any] | None
) -> dict[str, Any]:
    """A checkpoint, whose accounting goes into an accountant of its own.

    Args:
        path: the file.
        accountant: an empty one, which takes the state.
        torch_load_kwargs: passed to ``torch.load``; only tensors and plain data are read unless it
            says otherwise.

    Raises:
        ValueError: no such checkpoint.
    """
    options = {"weights_only": True, **(torch_load_kwargs or {})}
    checkpoint: dict[str, Any] = torch.load(path, **options)
    if not isinstance(checkpoint, dict) or "privacy_accountant_state_dict" not in checkpoint:
        raise ValueError("checkpoint must hold a privacy_accountant_state_dict, got none")
    accountant.load_state_dict(checkpoint["privacy_accountant_state_dict"])
    return checkpoint


def restore(
    checkpoint: dict[str, Any],
    module: Any,
    optimizer: Any,
    module_load_dict_kwargs: dict[str, Any] | None,
) -> None:
    """Load module and optimizer, if there is one and its state was saved."""
    module.load_state_dict(checkpoint["module_state_dict"], **(module_load_dict_kwargs or {}))
    if optimizer is not None and "optimizer_state_dict" in checkpoint:
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
