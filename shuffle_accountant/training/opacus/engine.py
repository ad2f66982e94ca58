# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""What both engines for Opacus share: training to a target, brackets, and checkpoints."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from opacus import PrivacyEngine

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.training.opacus.checks import require_gradients
from shuffle_accountant.training.opacus.optimizer import refuse_evaluation, require_accounted

__all__ = ["CertifiedEngine"]


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
            module: as for `make_private`.
            optimizer: as for `make_private`.
            data_loader: as for `make_private`.
            target_epsilon: nats, finite, > 0.
            target_delta: in (0, 1).
            epochs: passes over the loader, >= 1; one has ``len(loader)`` steps, not one less.
            max_grad_norm: as for `make_private`.
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
        found = self._calibrated(
            data_loader, epochs, target_epsilon, target_delta, **given, **options
        )
        made: tuple[Any, Any, Any] = self.make_private(
            **given,
            **found,
            **options,
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
            module: the model, of the same shape.
            optimizer: the optimizer, if its state was saved.
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
        self,
        data_loader: Any,
        epochs: int,
        target_epsilon: float,
        target_delta: float,
        **given: Any,
    ) -> dict[str, float]:
        """The argument of `make_private` that meets a target.

        What `make_private` refuses of the other arguments is refused before that is worked out.
        """

    @abstractmethod
    def _compared(self, saved: Any, checkpoint: dict[str, Any]) -> Callable[[], None]:
        """What is to be done once a checkpoint is loaded, which has this accounting.

        Raises:
            ValueError: a checkpoint of another configuration.
        """

    def _check(self, optimizer: Any, loss_reduction: str, grad_sample_mode: str) -> None:
        """Refuse what neither engine covers."""
        require_accounted(optimizer.param_groups, self.accountant)
        require_gradients(grad_sample_mode)
        validate.choice(("mean", "sum"), loss_reduction=loss_reduction)

    def _private_module(self, module: Any, **options: Any) -> Any:
        """The module with per-sample gradients, of one backward pass in training mode."""
        module = self._prepare_model(module, **options)
        module.forbid_grad_accumulation()
        refuse_evaluation(module)
        return module


def checked_budget(
    max_epsilon: float | None, target_delta: float | None
) -> tuple[float, float | None]:
    """Epsilon (nats, inf for no budget) and delta of a budget."""
    if max_epsilon is None and target_delta is None:
        return math.inf, None
    limit = math.inf
    if max_epsilon is not None:
        limit = validate.finite_nonnegative(max_epsilon=max_epsilon)
    return limit, validate.open_unit(target_delta=target_delta)
