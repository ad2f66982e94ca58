# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' optimizer with the mean of shuffled private messages in the place of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.optimizers import DPOptimizer

from shuffle_accountant.randomizers.vectors import VectorRandomizer
from shuffle_accountant.randomizers.vectors.tensors import as_rows
from shuffle_accountant.training.opacus.checkpoint import CarriesReceipt
from shuffle_accountant.training.opacus.gradients import (
    refuse_scaling,
    require_samples,
    whole_or_nothing,
)
from shuffle_accountant.training.opacus.messages.steps import Steps
from shuffle_accountant.training.randomize import message_sum

__all__ = ["ShuffleOptimizer"]


class ShuffleOptimizer(CarriesReceipt, DPOptimizer):
    """An optimizer whose gradient is the mean of a batch's shuffled private messages.

    A batch may come in parts, each with a step of its own, as Opacus' `BatchMemoryManager` has it:
    their messages are drawn at once and added up. A step that is refused leaves no gradients
    behind, for they are not private.

    Args:
        optimizer: what makes the step.
        randomizer: of the dimension of all trainable parameters together.
        max_grad_norm: Euclidean norm that each user's gradient is clipped to.
        loss_reduction: "mean" or "sum", how the loss adds up its batch.
        steps: asked before the messages are drawn, notified before they are used.
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
        self.accountant = steps.accountant
        self._parameters = len(self.params)
        self._sum: NDArray[np.float64] | None = None
        steps.on_pass(self._forget_pass)

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Put the private mean (or sum) in the place of the gradients.

        Returns:
            Whether the batch was whole, so that a step follows; else its messages are kept.

        Raises:
            ValueError: no batch of users that may be used, or a scaled loss; nothing is recorded,
                no parameter changes.
            BudgetExceeded: likewise, when the engine's budget does not allow the step.
        """
        with whole_or_nothing(self, self._abandon):
            whole = self._release()
        self._steps.forget()
        return whole

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Clear the gradients and what they were computed from; see `DPOptimizer.zero_grad`."""
        super().zero_grad(set_to_none)
        self._steps.forget()

    def _release(self) -> bool:
        """Replace the per-user gradients by their private mean (or sum), which the server sees."""
        refuse_scaling(self)
        self._require_receipt(self.param_groups)
        whole = not self._check_skip_next_step(pop_next=False)
        samples = require_samples(self, self._parameters)
        draw = self._steps.allow(len(samples[0]), whole)
        with torch.no_grad():
            parts = [as_rows("gradients", sample.reshape(len(sample), -1)) for sample in samples]
        messages = message_sum(parts, self.randomizer, self.max_grad_norm, self._rng)
        self._sum = messages if self._sum is None else self._sum + messages
        for parameter in self.params:
            parameter.grad = parameter.grad_sample = None
        if self._check_skip_next_step():
            self._is_last_step_skipped = True
            return False
        self._steps.record(draw)
        self._give_receipt(self.param_groups)
        mean = self._sum / (draw.users if self.loss_reduction == "mean" else 1)
        ends = np.cumsum([parameter.numel() for parameter in self.params])
        for parameter, part in zip(self.params, np.split(mean, ends[:-1]), strict=True):
            parameter.grad = torch.from_numpy(part).reshape(parameter.shape).to(parameter)
        self._forget_sum()
        return True

    def _forget_sum(self) -> None:
        """Forget the messages of a batch that is over, or was broken off."""
        self._sum = None
        self._is_last_step_skipped = False
        self._steps.begin()

    def _abandon(self) -> None:
        self._forget_sum()
        self._steps.forget()

    def _forget_pass(self) -> None:
        self._forget_sum()
        self._step_skip_queue.clear()
