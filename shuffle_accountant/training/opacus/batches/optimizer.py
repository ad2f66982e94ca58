# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' optimizers, each step of which uses exactly one batch of a deal, and is accounted for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from shuffle_accountant.training.opacus.batches.accountant import AllocationAccountant, DealtEpoch
from shuffle_accountant.training.opacus.batches.sampler import Deal, DealtSampler
from shuffle_accountant.training.opacus.optimizer import (
    PrivateOptimizer,
    drop_gradients,
    require_samples,
)

__all__ = ["DealtOptimizer", "DealtSteps", "dealt"]


class DealtSteps:
    """Checks each step of a deal against theorem and budget, and records it.

    Args:
        accountant: records them.
        sampler: deals their records.
        limit: the budget, nats, or inf.
        delta: in (0, 1), of that budget; or None.
        records_per_user: most records that one user owns, or None if the unit is one record.
        schedule: noise multipliers, one for each step of a deal, or None if the optimizer's own is
            used.
    """

    def __init__(
        self,
        accountant: AllocationAccountant,
        sampler: DealtSampler,
        limit: float,
        delta: float | None,
        *,
        records_per_user: int | None = None,
        schedule: tuple[float, ...] | None = None,
    ) -> None:
        self.sampler, self.accountant = sampler, accountant
        self._limit, self._delta = limit, delta
        self._records, self._schedule = records_per_user, schedule
        self._last = None if schedule is None else schedule[0]

    def noise_multiplier(self, own: float) -> float:
        """That of the next step, where the optimizer has ``own``.

        Raises:
            ValueError: there is a schedule, and the optimizer's own is not the last one of it.
        """
        if self._schedule is None:
            return own
        if own != self._last:
            raise ValueError(
                "noise_multiplier must not be changed where make_private was given one for each "
                f"step, got {own!r}"
            )
        return self._schedule[self._at_hand().released]

    def allow(self, noise_multiplier: float) -> int:
        """Refuse a step that no theorem, or no budget, covers.

        Args:
            noise_multiplier: of the step.

        Returns:
            Records of its batch, 0 included; a secret.

        Raises:
            BudgetExceeded: the budget does not allow it.
        """
        deal = self._at_hand()
        if self._schedule is not None:
            deal.noise_multiplier = self._schedule
        elif deal.noise_multiplier is None:
            deal.noise_multiplier = noise_multiplier
        elif deal.noise_multiplier != noise_multiplier:
            raise ValueError(
                "noise_multiplier must not change in the middle of an epoch, got "
                f"{noise_multiplier!r} after {deal.noise_multiplier!r} (give make_private a list, "
                "one for each step)"
            )
        if deal.allowed is None:
            deal.allowed = self._allowed(deal)
        if deal.released >= deal.allowed:
            raise self.accountant.exceeded(self._limit, self._delta)
        self._last = noise_multiplier
        return deal.size

    def record(self) -> None:
        """Record the step."""
        deal = self._at_hand()
        assert deal.noise_multiplier is not None
        self.accountant.step(
            noise_multiplier=deal.noise_multiplier,
            steps=len(deal),
            sampling=self.sampler.sampling,
            records_per_user=self._records,
            begins_deal=deal.released == 0,
        )
        deal.released += 1

    def _at_hand(self) -> Deal:
        deal = self.sampler.deal
        if deal is None or deal.released >= deal.yielded:
            raise ValueError(
                "a step must use a new batch of the private loader, got none since the last step"
            )
        return deal

    def _allowed(self, deal: Deal) -> int:
        """Number of steps of this deal that fit the budget; fewer are post-processing of more.

        That depends on the noise and on numbers of steps alone, never on the data: a run may stop
        there and pay for the steps it made.
        """
        if self._delta is None or self._limit == math.inf:
            return len(deal)
        if self._fits(deal, len(deal)):
            return len(deal)
        if (
            self.sampler.sampling == "shuffle"
            or (self._records or 1) > 1
            or not self._fits(deal, 1)
        ):
            return 0
        fits, exceeds = 1, len(deal)
        while exceeds - fits > 1:
            middle = (fits + exceeds) // 2
            fits, exceeds = (middle, exceeds) if self._fits(deal, middle) else (fits, middle)
        return fits

    def _fits(self, deal: Deal, released: int) -> bool:
        assert self._delta is not None
        assert deal.noise_multiplier is not None
        part = DealtEpoch(
            sampling=self.sampler.sampling,
            noise_multiplier=deal.noise_multiplier,
            steps=len(deal),
            released=released,
            records_per_user=self._records,
        )
        earlier = AllocationAccountant()
        earlier.history = self.accountant.history[: -1 if deal.released else None]
        return not earlier.would_exceed(part.round, epsilon=self._limit, delta=self._delta)


class DealtOptimizer(PrivateOptimizer):
    """Mixed into an optimizer of Opacus', whose clipping, noise and scaling stay what they are.

    A step whose batch is empty is made like any other: of the placeholder nothing is used but its
    shape. A record whose gradient is not finite counts as zero.

    Args:
        *arguments: of the optimizer.
        steps: asked before the noise is drawn, notified before the sum is used.
        **options: of the optimizer.
    """

    def __init__(self, *arguments: Any, steps: DealtSteps, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._steps, self.accountant = steps, steps.accountant
        self._parameters = len(self._opacus.params)
        self._rows = 0
        steps.sampler.on_deal = self._forget_batch

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

    def _released(self, whole: bool, closure: Any) -> bool:
        noise_multiplier = self._steps.noise_multiplier(self._opacus.noise_multiplier)
        size = self._steps.allow(noise_multiplier)
        self._opacus.noise_multiplier = noise_multiplier
        samples = require_samples(self, self._parameters)
        self._rows += len(samples[0])  # a batch may come in parts
        wanted = max(size, 1)
        if self._rows > wanted or (whole and self._rows < wanted):
            # how many there are is the deal's secret
            raise ValueError(
                "a step must use one whole batch of the private loader, got another number of rows"
            )
        if size == 0:
            for placeholder in samples:
                placeholder.zero_()
        super_step: Callable[[Any], bool] = super(PrivateOptimizer, self).pre_step
        if not super_step(closure):
            return False
        self._steps.record()
        self._give_receipt()
        self._forget()
        return True

    def _forget(self) -> None:
        self._rows = 0

    def _forget_batch(self) -> None:
        """Forget the parts of a batch that was broken off; a new deal holds its records again."""
        drop_gradients(self)
        self._forget()
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
