"""The check that an optimizer step is covered by a theorem and the budget, and its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import WeakSet

from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.opacus.draws import Draw, Pass
from shuffle_accountant.training.opacus.messages.accountant import ShuffleAccountant
from shuffle_accountant.training.opacus.messages.loader import ShuffleDataLoader

__all__ = ["Steps"]


class Steps:
    """Checks each optimizer step against theorem and budget, and records it.

    Args:
        accountant: records them.
        loader: draws their users.
        round: the round to account for, of one step or of one pass.
        begun: passes whose round is recorded.
        max_epsilon: the budget, nats, or None.
        target_delta: delta in (0, 1) of that budget, or None.
    """

    def __init__(
        self,
        accountant: ShuffleAccountant,
        loader: ShuffleDataLoader,
        round: ShuffleRound,
        begun: WeakSet[Pass],
        max_epsilon: float | None,
        target_delta: float | None,
    ) -> None:
        self.accountant, self._loader, self._round = accountant, loader, round
        self._limit = math.inf if max_epsilon is None else max_epsilon
        self._delta = target_delta
        self._begun = begun
        self._draw: Draw | None = None
        self._users = 0

    def on_pass(self, forget: Callable[[], None]) -> None:
        """Register a callback for the start of every pass of the loader."""
        self._loader.batch_sampler.on_pass = forget

    def begin(self) -> None:
        """Start a new batch: the next step is its first."""
        self._draw, self._users = None, 0

    def allow(self, users: int, whole: bool) -> Draw:
        """Refuse a step that no theorem, or no budget, covers.

        Args:
            users: number of per-user gradients of the step.
            whole: whether they are the batch, or with those of the steps before the last part.

        Returns:
            The draw of those users.

        Raises:
            BudgetExceeded: the budget does not allow the round that the batch begins.
        """
        draw = self._one_draw()
        if draw.used:
            raise ValueError(
                "a step must use a new batch of the private loader, got one that a step has used"
            )
        if self._draw is not None and self._draw is not draw:
            raise ValueError("a step must use one batch of the private loader, got parts of two")
        self._draw, self._users = draw, self._users + users
        if self._users > draw.users or (whole and self._users < draw.users):
            raise ValueError(
                f"a step must use the whole batch of {draw.users} users, got {self._users}"
            )
        if not self._begins_round(draw) or self._delta is None or self._limit == math.inf:
            return draw
        if self.accountant.would_exceed(self._round, epsilon=self._limit, delta=self._delta):
            raise BudgetExceeded(
                f"step {len(self.accountant) + 1} would exceed epsilon = {self._limit:g} at delta "
                f"= {self._delta:g}; {len(self.accountant)} recorded"
            )
        return draw

    def record(self, draw: Draw) -> None:
        """Record the step that uses this draw."""
        begins = self._begins_round(draw)
        self.accountant.step(round=self._round, begins_round=begins)
        self._begun.add(draw.of_pass)
        draw.used = True

    def forget(self) -> None:
        """Forget all draws: the parameters hold no gradients any more."""
        self._loader.trace.draws.clear()

    def _one_draw(self) -> Draw:
        """The one draw of this loader that all gradients come from."""
        drawn = self._loader.trace.draws
        own = [draw for draw in drawn if draw is not None and draw.trace is self._loader.trace]
        if not own or len(own) < len(drawn):
            raise ValueError(
                "a step must use a batch of the private loader, got tensors that PyTorch's "
                "operations did not make of one (parts of a batch need num_workers=0)"
            )
        if len(own) > 1:
            raise ValueError("a step must use one batch of the private loader, got several's")
        return own[0]

    def _begins_round(self, draw: Draw) -> bool:
        """Whether this batch may hold users that an earlier batch of its round held."""
        if self._loader.batches.sampling == "fixed":
            return True
        return draw.of_pass not in self._begun
