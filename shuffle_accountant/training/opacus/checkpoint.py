# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Checkpoints of a private run: read first, compared, and only then loaded.

Many loops keep the states of model and optimizer alone. So the parameter groups of an optimizer
that has made private steps carry a receipt of its accountant, which goes wherever its state goes;
and no engine goes on with such a state whose steps its own accountant does not have.
"""

from __future__ import annotations

from typing import Any

import torch

from shuffle_accountant.training.receipts import Receipt

__all__ = ["RECEIPT", "CarriesReceipt", "read_checkpoint", "require_accounted", "restore"]

RECEIPT = "privacy_receipt"
"""The key of the receipt in an optimizer's parameter groups."""


def require_accounted(groups: Any, accountant: Any) -> None:
    """Refuse parameter groups with steps of a private run that an accountant does not have."""
    for group in groups:
        if RECEIPT not in group:
            continue
        receipt = Receipt.read(**{RECEIPT: group[RECEIPT]})
        if not accountant.has(receipt):
            raise ValueError(
                f"optimizer's state is that of a private run after {receipt.number} steps, which "
                f"the engine's accountant (at {len(accountant)} steps) does not have: load the "
                "accounting first, by load_checkpoint or accountant.load_state_dict"
            )


class CarriesReceipt:
    """Mixed into a private optimizer: its parameter groups carry its accountant's receipt.

    They are those of the optimizer inside, so that the receipt is there whichever of the two is
    saved or loaded.
    """

    accountant: Any
    """Records the steps."""

    _given: str | None = None
    """The receipt of its own last step."""

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state, if the accountant has the steps that were made with it."""
        require_accounted(state_dict["param_groups"], self.accountant)
        load: Any = super().load_state_dict
        load(state_dict)

    def _require_receipt(self, groups: Any) -> None:
        """Refuse parameter groups that were loaded behind its back."""
        if any(group.get(RECEIPT) != self._given for group in groups):
            require_accounted(groups, self.accountant)

    def _give_receipt(self, groups: Any) -> None:
        """Let the parameter groups carry the receipt of the step just recorded."""
        self._given = str(self.accountant.receipt)
        for group in groups:
            group[RECEIPT] = self._given


def read_checkpoint(
    path: Any, accountant: Any, torch_load_kwargs: dict[str, Any] | None
) -> dict[str, Any]:
    """A checkpoint, whose accounting goes into an accountant of its own.

    Args:
        path: the file.
        accountant: an empty one, which takes the state.
        torch_load_kwargs: passed to ``torch.load``; only tensors and plain data are read unless it
            says otherwise.
    """
    options = {"weights_only": True, **(torch_load_kwargs or {})}
    checkpoint: dict[str, Any] = torch.load(path, **options)
    if not isinstance(checkpoint, dict) or "privacy_accountant_state_dict" not in checkpoint:
        raise ValueError("checkpoint must hold a privacy_accountant_state_dict, got none")
    accountant.load_state_dict(checkpoint["privacy_accountant_state_dict"])
    return checkpoint


def restore(
    checkpoint: dict[str, Any],
    saved: Any,
    accountant: Any,
    module: Any,
    optimizer: Any,
    module_load_dict_kwargs: dict[str, Any] | None,
) -> None:
    """Load module, accounting and optimizer, if there is one and its state was saved.

    Args:
        checkpoint: what was read.
        saved: the accountant that took its accounting.
        accountant: goes on from there.
        module: the model.
        optimizer: the optimizer, or None.
        module_load_dict_kwargs: passed to ``module.load_state_dict``.
    """
    module.load_state_dict(checkpoint["module_state_dict"], **(module_load_dict_kwargs or {}))
    accountant.go_on_from(saved)
    if optimizer is not None and "optimizer_state_dict" in checkpoint:
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
