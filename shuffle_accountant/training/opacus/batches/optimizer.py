# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' optimizers, each step of which uses exactly one batch of a deal."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from shuffle_accountant.training.opacus.batches.steps import DealtSteps
from shuffle_accountant.training.opacus.checkpoint import CarriesReceipt
from shuffle_accountant.training.opacus.gradients import (
    drop_gradients,
    refuse_scaling,
    require_samples,
    whole_or_nothing,
)

__all__ = ["DealtOptimizer", "dealt"]


class DealtOptimizer(CarriesReceipt):
    """Mixed into an optimizer of Opacus', whose clipping, noise and scaling stay what they are.

    A step whose batch is empty is made like any other: of the placeholder nothing is used but its
    shape. A record whose gradient is not finite counts as zero. A step that is refused leaves no
    gradients behind, for they are not private.

    Args:
        *arguments: of the optimizer.
        steps: asked before the noise is drawn, notified before the sum is used.
        **options: of the optimizer.
    """

    # A scaler of the loss asks who has this for no inspection, which would skip a step as soon as
    # one record's gradient overflows; it says so by `grad_scale` and `found_inf` instead.
    _step_supports_amp_scaling = True

    def __init__(self, *arguments: Any, steps: DealtSteps, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._steps, self.accountant = steps, steps.accountant
        self._parameters = len(self._opacus.params)
        self._rows = 0
        steps.sampler.on_deal = self._forget_batch

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Clip, add noise and scale, as Opacus does, if the step may be made.

        Returns:
            Whether the batch was whole, so that a step follows.

        Raises:
            ValueError: no batch of a deal, or not all of it; nothing is recorded, no parameter
                changes.
            BudgetExceeded: likewise, when the engine's budget does not allow the step.
        """
        with whole_or_nothing(self, self._forget_rows):
            return self._made(closure)

    def clip_and_accumulate(self) -> None:
        """Add up the clipped gradients, as Opacus does, without those that are not finite.

        One of them makes the sum not finite, which is quickly seen; then it is made again.
        """
        add: Callable[[], None] = super().clip_and_accumulate
        held = [_copied(parameter.summed_grad) for parameter in self._opacus.params]
        add()
        if all(bool(torch.isfinite(p.summed_grad).all()) for p in self._opacus.params):
            return
        _clear_rows(self._opacus.grad_samples)
        for parameter, earlier in zip(self._opacus.params, held, strict=True):
            parameter.summed_grad = earlier
            del parameter.grad_sample._processed  # Opacus' mark of what it has added up
        add()

    @property
    def _opacus(self) -> Any:
        """Itself as Opacus' optimizer."""
        return self

    def _made(self, closure: Callable[[], float] | None) -> bool:
        refuse_scaling(self)
        self._require_receipt(self._opacus.param_groups)
        size = self._steps.allow(self._opacus.noise_multiplier)
        samples = require_samples(self, self._parameters)
        self._count(len(samples[0]), size)
        if size == 0:
            for placeholder in samples:
                placeholder.zero_()
        super_step: Callable[[Any], bool] = super().pre_step
        if not super_step(closure):
            return False
        self._steps.record()
        self._give_receipt(self._opacus.param_groups)
        self._rows = 0
        return True

    def _count(self, rows: int, size: int) -> None:
        """Count the rows of a batch, which may come in parts."""
        self._rows += rows
        wanted = max(size, 1)
        whole = not self._opacus._check_skip_next_step(pop_next=False)
        if self._rows > wanted or (whole and self._rows < wanted):
            # how many there are is the deal's secret
            raise ValueError(
                "a step must use one whole batch of the private loader, got another number of rows"
            )

    def _forget_rows(self) -> None:
        self._rows = 0

    def _forget_batch(self) -> None:
        """Forget the parts of a batch that was broken off; a new deal holds its records again."""
        drop_gradients(self)
        self._forget_rows()
        self._opacus._step_skip_queue.clear()


@cache
def dealt(kind: type) -> type:
    """The class of optimizers like ``kind`` that step by the deal."""
    return type(f"Dealt{kind.__name__}", (DealtOptimizer, kind), {})


def _copied(tensor: Any) -> Any:
    return None if tensor is None else tensor.clone()


def _clear_rows(samples: list[Any]) -> None:
    """Set the rows to zero that are not finite in any parameter."""
    device = samples[0].device
    finite = [torch.isfinite(s).reshape(len(s), -1).all(dim=1).to(device) for s in samples]
    wrong = ~torch.stack(finite).all(dim=0)
    for sample in samples:
        sample[wrong.to(sample.device)] = 0.0
