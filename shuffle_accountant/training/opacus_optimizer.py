# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' optimizer with the mean of shuffled private messages in the place of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from opacus.optimizers import DPOptimizer

from shuffle_accountant.randomizers.vectors import VectorRandomizer
from shuffle_accountant.training.opacus_steps import Steps
from shuffle_accountant.training.randomize import private_mean

__all__ = ["ShuffleOptimizer"]


class ShuffleOptimizer(DPOptimizer):
    """An optimizer whose gradient is the mean of a batch's shuffled private messages.

    A step that is refused leaves no gradients behind, for they are not private.

    Args:
        optimizer: what makes the step.
        randomizer: of the dimension of all trainable parameters together.
        max_grad_norm: Euclidean norm that each user's gradient is clipped to.
        loss_reduction: "mean" or "sum", how the loss adds up its batch.
        steps: asked before the messages are drawn, told before they are used.
        rng: source of randomness.
    """

    # A scaler of the loss asks who has this for no inspection, which would skip a step as soon as
    # one user's gradient overflows; it says so by `grad_scale` and `found_inf` instead.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        optimizer: Any,
        *,
        randomizer: VectorRandomizer,
        max_grad_norm: float,
        loss_reduction: str,
        steps: Steps,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(
            optimizer,
            noise_multiplier=0.0,
            max_grad_norm=max_grad_norm,
            expected_batch_size=1,
            loss_reduction=loss_reduction,
        )
        self.randomizer = randomizer
        self._steps, self._rng = steps, rng

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Put the private mean (or sum) in the place of the gradients.

        Raises:
            ValueError: no batch of users that may be used, or a scaled loss; nothing is recorded,
                no parameter changes.
            BudgetExceeded: likewise, when the engine's budget does not allow the step.
        """
        try:
            self._release()
        except BaseException:
            self.zero_grad(set_to_none=True)
            raise
        self._steps.forget()
        return True

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Clear the gradients and what they were computed from; see `DPOptimizer.zero_grad`."""
        super().zero_grad(set_to_none)
        self._steps.forget()

    def _release(self) -> None:
        """Replace the per-user gradients by what the server gets to see of them."""
        self._refuse_scaling()
        if self._check_skip_next_step():
            raise ValueError("a batch must not be split: one step uses all its gradients at once")
        samples = self.grad_samples
        users = len(samples[0])
        draw = self._steps.allow(users)
        with torch.no_grad():
            flat = torch.cat([g.reshape(users, -1).to(samples[0].device) for g in samples], dim=1)
            mean = private_mean(flat, self.randomizer, max_norm=self.max_grad_norm, rng=self._rng)
            self._steps.record(draw)
            if self.loss_reduction == "sum":
                mean = mean * users
            parts = torch.split(mean, [p.numel() for p in self.params])
            for parameter, part in zip(self.params, parts, strict=True):
                parameter.grad = part.reshape(parameter.shape).to(parameter)
                parameter.grad_sample = None

    def _refuse_scaling(self) -> None:
        """Refuse gradients of a scaled loss: after clipping, only their directions would be left.

        Raises:
            ValueError: a scaler of the loss makes this step.
        """
        marks = [mark for mark in ("grad_scale", "found_inf") if mark in vars(self)]
        scaled = any(getattr(self, mark) is not None for mark in marks)
        for mark in marks:
            delattr(self, mark)
        if scaled:
            raise ValueError(
                "a step must be made without a GradScaler (private gradients are clipped, so their "
                "scale is lost, and its checks tell of single users), got its grad_scale"
            )
