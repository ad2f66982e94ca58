"""The check that a step of a deal is covered by a theorem and the budget, and its record."""

from __future__ import annotations

import math

from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.opacus.batches.accountant import AllocationAccountant, DealtEpoch
from shuffle_accountant.training.opacus.batches.sampler import Deal, DealtSampler

__all__ = ["DealtSteps"]


class DealtSteps:
    """Checks each step of a deal against theorem and budget, and records it.

    Args:
        accountant: records them.
        sampler: deals their records.
        max_epsilon: the budget, nats, or None.
        target_delta: delta in (0, 1) of that budget, or None.
    """

    def __init__(
        self,
        accountant: AllocationAccountant,
        sampler: DealtSampler,
        max_epsilon: float | None,
        target_delta: float | None,
    ) -> None:
        self.sampler = sampler
        self.accountant = accountant
        self._limit = math.inf if max_epsilon is None else max_epsilon
        self._delta = target_delta

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
        if deal.noise_multiplier is None:
            deal.noise_multiplier = noise_multiplier
        elif deal.noise_multiplier != noise_multiplier:
            raise ValueError(
                "noise_multiplier must not change in the middle of an epoch, got "
                f"{noise_multiplier!r} after {deal.noise_multiplier!r}"
            )
        if deal.allowed is None:
            deal.allowed = self._allowed(deal)
        if deal.released >= deal.allowed:
            made = len(self.accountant)
            raise BudgetExceeded(
                f"step {made + 1} would exceed epsilon = {self._limit:g} at delta = "
                f"{self._delta:g}; {made} recorded"
            )
        return deal.size

    def record(self) -> None:
        """Record the step."""
        deal = self._at_hand()
        assert deal.noise_multiplier is not None
        self.accountant.step(
            noise_multiplier=deal.noise_multiplier,
            steps=len(deal),
            sampling=self.sampler.sampling,
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
        if self.sampler.sampling == "shuffle" or not self._fits(deal, 1):
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
        )
        earlier = AllocationAccountant()
        earlier.history = self.accountant.history[: -1 if deal.released else None]
        return not earlier.would_exceed(part.round, epsilon=self._limit, delta=self._delta)
