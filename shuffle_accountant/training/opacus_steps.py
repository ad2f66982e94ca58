"""Which optimizer steps are allowed, and what each is recorded as."""

from __future__ import annotations

import math

from shuffle_accountant.rounds import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.opacus_accountant import ShuffleAccountant
from shuffle_accountant.training.opacus_loader import Draw, ShuffleDataLoader

__all__ = ["Steps"]


class Steps:
    """Which steps are allowed, and what they are recorded as."""

    def __init__(
        self,
        accountant: ShuffleAccountant,
        loader: ShuffleDataLoader,
        round: ShuffleRound,
        max_epsilon: float | None,
        target_delta: float | None,
    ) -> None:
        self._accountant, self._loader, self._round = accountant, loader, round
        self._limit = math.inf if max_epsilon is None else max_epsilon
        self._delta = target_delta
        self._passes: list[object] = []

    def allow(self, users: int) -> None:
        """Refuse a step that no theorem, or no budget, covers.

        Args:
            users: number of per-user gradients of the step.

        Raises:
            ValueError: not one new and whole batch of the loader.
            BudgetExceeded: the budget does not allow the round that the batch begins.
        """
        draw = self._loader.draw
        if draw is None or draw.used:
            raise ValueError("a step must use a new batch of the private loader, got none since")
        if users != draw.users:
            raise ValueError(f"a step must use the whole batch of {draw.users} users, got {users}")
        if not self._begins_round(draw) or self._delta is None or self._limit == math.inf:
            return
        if self._accountant.would_exceed(self._round, epsilon=self._limit, delta=self._delta):
            raise BudgetExceeded(
                f"step {len(self._accountant) + 1} would exceed epsilon = {self._limit:g} at delta "
                f"= {self._delta:g}; {len(self._accountant)} recorded"
            )

    def record(self) -> None:
        """Record the step with the batch handed out last."""
        draw = self._loader.draw
        assert draw is not None
        begins = self._begins_round(draw)
        if begins:
            self._passes.append(draw.of_pass)
        draw.used = True
        self._accountant.step(round=self._round, begins_round=begins)

    def _begins_round(self, draw: Draw) -> bool:
        """Whether this batch may hold users that an earlier batch of its round held."""
        if self._loader.batches.sampling == "fixed":
            return True
        return not any(draw.of_pass is seen for seen in self._passes)
