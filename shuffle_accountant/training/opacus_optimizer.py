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
from shuffle_accountant.training.randomize import private_mean

__all__ = ["ShuffleOptimizer"]


class ShuffleOptimizer(DPOptimizer):
    """An optimizer whose gradient is the mean of a batch's shuffled private messages.

    Args:
        optimizer: what makes the step.
        randomizer: of the dimension of all trainable parameters together.
        max_grad_norm: Euclidean norm that each user's gradient is clipped to.
        loss_reduction: "mean" or "sum", how the loss adds up its batch.
        allow: called before a step with the number of per-user gradients; raises to refuse it.
        record: called with nothing once the messages are drawn and before they are used.
        rng: source of randomness.
    """

    def __init__(
        self,
        optimizer: Any,
        *,
        randomizer: VectorRandomizer,
        max_grad_norm: float,
        loss_reduction: str,
        allow: Callable[[int], None],
        record: Callable[[], None],
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
        self._allow, self._record, self._rng = allow, record, rng

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Put the private mean (or sum) in the place of the gradients.

        Raises:
            ValueError: a gradient that is not finite, or no batch of users that may be used;
                nothing is recorded, no parameter changes.
            BudgetExceeded: likewise, when the engine's budget does not allow the step.
        """
        if self._check_skip_next_step():
            raise ValueError("a batch must not be split: one step uses all its gradients at once")
        samples = self.grad_samples
        users = len(samples[0])
        self._allow(users)
        with torch.no_grad():
            flat = torch.cat([g.reshape(users, -1).to(samples[0].device) for g in samples], dim=1)
            mean = private_mean(flat, self.randomizer, max_norm=self.max_grad_norm, rng=self._rng)
            self._record()
            if self.loss_reduction == "sum":
                mean = mean * users
            parts = torch.split(mean, [p.numel() for p in self.params])
            for parameter, part in zip(self.params, parts, strict=True):
                parameter.grad = part.reshape(parameter.shape).to(parameter)
                parameter.grad_sample = None
        return True
