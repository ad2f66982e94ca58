# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' optimizer with the mean of shuffled private messages in the place of the gradient.

And the accountant that Opacus calls "shuffle", which its steps are charged to (extra ``opacus``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.accountants import register_accountant
from opacus.optimizers import DPOptimizer

from shuffle_accountant import validation as validate
from shuffle_accountant.randomizers.checks import as_rows
from shuffle_accountant.randomizers.vectors import VectorRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.opacus.accounting import CertifiedAccountant
from shuffle_accountant.training.opacus.draws import Draw, Pass
from shuffle_accountant.training.opacus.messages.loader import ShuffleDataLoader
from shuffle_accountant.training.opacus.optimizer import PrivateOptimizer, require_samples
from shuffle_accountant.training.randomize import message_sum

__all__ = ["ShuffleAccountant", "ShuffleOptimizer", "Steps"]


class ShuffleAccountant(CertifiedAccountant):
    """Accounts for steps of shuffled rounds in the shape of Opacus' accountants.

    Attributes:
        history: for every run of equal rounds ``(round, rounds, steps)``. Several steps can belong
            to one round, see `shuffle_accountant.training.sampling`.
    """

    name: ClassVar[str] = "shuffle"
    engine: ClassVar[str] = "ShufflePrivacyEngine"
    fields: ClassVar[tuple[str, ...]] = ("round", "rounds", "steps")

    history: list[tuple[ShuffleRound, int, int]]

    def __len__(self) -> int:
        """Steps taken so far."""
        return sum(steps for _, _, steps in self.history)

    @property
    def protocol(self) -> Protocol:
        """Everything recorded so far."""
        return Protocol([(round, rounds) for round, rounds, _ in self.history])

    def step(
        self,
        *,
        round: ShuffleRound | None = None,
        begins_round: bool = True,
        noise_multiplier: float | None = None,
        sample_rate: float | None = None,
    ) -> None:
        """Record one step.

        Args:
            round: what happens in it.
            begins_round: whether it is the first step of its round.
            noise_multiplier: of Gaussian noise, which this does not account for.
            sample_rate: of Poisson sampling, which this does not account for.
        """
        if noise_multiplier is not None or sample_rate is not None:
            raise ValueError(
                "the accountant 'shuffle' is for steps of a ShuffleRound, got Gaussian noise with "
                f"noise_multiplier={noise_multiplier!r}: use ShufflePrivacyEngine"
            )
        round = validate.instance(ShuffleRound, round=round)
        begins = int(validate.flag(begins_round=begins_round))
        if self.history and self.history[-1][0] == round:
            _, rounds, steps = self.history[-1]
            self.history[-1] = (round, rounds + begins, steps + 1)
        elif begins:
            self.history.append((round, 1, 1))
        else:
            raise ValueError(f"begins_round must be True for the first step of {round!r}")

    @staticmethod
    def written(entry: tuple[ShuffleRound, int, int]) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""
        round, rounds, steps = entry
        return {"round": round.to_dict(), "rounds": rounds, "steps": steps}

    @staticmethod
    def read(entry: dict[str, Any]) -> tuple[ShuffleRound, int, int]:
        """Inverse of `written`."""
        rounds = validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=entry["rounds"])
        steps = validate.integer(minimum=rounds, maximum=MAX_ROUNDS, steps=entry["steps"])
        return ShuffleRound.from_dict(entry["round"]), rounds, steps


# forced, so that the module can be reloaded
register_accountant(ShuffleAccountant.mechanism(), ShuffleAccountant, force=True)


class Steps:
    """Checks each optimizer step against theorem and budget, and records it.

    Args:
        accountant: records them.
        loader: draws their users.
        round: the round to account for, of one step or of one pass.
        begun: passes whose round is recorded.
        limit: the budget, nats, or inf.
        delta: in (0, 1), of that budget; or None.
    """

    def __init__(
        self,
        accountant: ShuffleAccountant,
        loader: ShuffleDataLoader,
        round: ShuffleRound,
        begun: WeakSet[Pass],
        limit: float,
        delta: float | None,
    ) -> None:
        self.accountant, self._loader, self._round = accountant, loader, round
        self._limit, self._delta = limit, delta
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
            raise self.accountant.exceeded(self._limit, self._delta)
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


class ShuffleOptimizer(PrivateOptimizer, DPOptimizer):
    """An optimizer whose gradient is the mean of a batch's shuffled private messages.

    A batch may come in parts, each with a step of its own, as Opacus' `BatchMemoryManager` has it:
    their messages are drawn at once and added up.

    Args:
        optimizer: what makes the step.
        randomizer: of the dimension of all trainable parameters together.
        max_grad_norm: Euclidean norm that each user's gradient is clipped to.
        loss_reduction: "mean" or "sum", how the loss adds up its batch.
        steps: asked before the messages are drawn, notified before they are used.
        rng: source of randomness.
    """

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
        """Put the private mean (or sum) in the place of the gradients; see `PrivateOptimizer`."""
        whole = super().pre_step(closure)
        self._steps.forget()
        return whole

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Clear the gradients and what they were computed from; see `DPOptimizer.zero_grad`."""
        super().zero_grad(set_to_none)
        self._steps.forget()

    def _released(self, whole: bool, closure: Any) -> bool:
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
        self._give_receipt()
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

    def _forget(self) -> None:
        self._forget_sum()
        self._steps.forget()

    def _forget_pass(self) -> None:
        self._forget_sum()
        self._step_skip_queue.clear()
