# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus with shuffled, locally private gradients instead of Gaussian noise (extra ``opacus``).

The privacy unit is one element of the dataset: one user. Every step takes the per-sample gradients
that Opacus computes, clips each, randomizes each with an eps0-LDP vector randomizer, shuffles and
averages them; what the model learns of a batch is that mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import numpy as np
from opacus.optimizers import DPOptimizer

from shuffle_accountant import validation as validate
from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.numerics.secure import SecureGenerator
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.randomizers.vectors import PrivUnit, VectorRandomizer
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.opacus.checks import (
    require_one_process,
    require_plain,
    require_records,
    trainable_dimension,
)
from shuffle_accountant.training.opacus.draws import Pass
from shuffle_accountant.training.opacus.engine import CertifiedEngine, checked_budget
from shuffle_accountant.training.opacus.messages.loader import ShuffleDataLoader
from shuffle_accountant.training.opacus.messages.optimizer import (
    ShuffleAccountant,
    ShuffleOptimizer,
    Steps,
)
from shuffle_accountant.training.sampling import UserBatches

__all__ = ["ShufflePrivacyEngine"]


class ShufflePrivacyEngine(CertifiedEngine):
    """Opacus' privacy engine for the shuffle model.

    Args:
        rng: source of randomness for batches and messages; by default the operating system's
            cryptographic one. It is never saved, for it would give the messages' randomness away;
            a checkpoint that is loaded mixes fresh entropy into it, also if it was seeded.
            Otherwise it would begin again with the randomness of messages that are out, and
            whoever has both would see the difference of two gradients without any noise. An epoch
            that was not over is counted, and what follows is a new one.

    Attributes:
        randomizer: of the last `make_private`.
        round: what a step of it costs (or an epoch, see `shuffle_accountant.training.sampling`).
    """

    def __init__(self, *, rng: np.random.Generator | None = None) -> None:
        with warnings.catch_warnings():
            # it recommends a source of Gaussian noise that is not used here
            warnings.filterwarnings("ignore", message="Secure RNG turned off")
            super().__init__(accountant=ShuffleAccountant.mechanism())
        self.randomizer: VectorRandomizer | None = None
        self.round: ShuffleRound | None = None
        self._rng = generator(rng)
        self._begun: WeakSet[Pass] = WeakSet()

    def make_private(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        eps0: float,
        max_grad_norm: float,
        randomizer: Callable[..., VectorRandomizer] = PrivUnit,
        sampling: str = "fixed",
        max_epsilon: float | None = None,
        target_delta: float | None = None,
        batch_first: bool = True,
        loss_reduction: str = "mean",
        grad_sample_mode: str = "hooks",
    ) -> tuple[Any, Any, Any]:
        """Wrap model, optimizer and loader; train with what is returned as if nothing had changed.

        Args:
            module: without layers that mix a batch's samples (Opacus validates it), on one process.
            optimizer: of all the module's trainable parameters.
            data_loader: its dataset is the population, its ``batch_size`` the users of a step. The
                sampler is replaced, so a custom one is refused.
            eps0: local privacy parameter of every message, nats.
            max_grad_norm: Euclidean norm that each user's gradient is clipped to, > 0.
            randomizer: called with ``dimension=``, ``eps0=`` and ``radius=max_grad_norm``.
            sampling: "fixed": every step draws its users anew, without replacement; "epoch": every
                epoch deals all users into disjoint batches.
            max_epsilon: if given, steps that go over it at ``target_delta`` raise `BudgetExceeded`.
            target_delta: delta in (0, 1) of that budget.
            batch_first: whether the batch is the first dimension of the module's input.
            loss_reduction: "mean" or "sum", how the loss adds up its batch.
            grad_sample_mode: how Opacus computes per-sample gradients: "hooks", "functorch" or
                "ew"; ghost clipping computes none.

        Returns:
            Module, optimizer and loader.

        Raises:
            ValueError: a batch larger than the population, a sampler that the theorems do not
                cover, a module distributed over processes, or an optimizer with the state of a
                private run that the accountant does not have.
        """
        made = self._checked(
            module=module,
            optimizer=optimizer,
            eps0=eps0,
            max_grad_norm=max_grad_norm,
            randomizer=randomizer,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        batches = self._user_batches(data_loader, sampling)
        round = batches.round(made)
        limit, delta = checked_budget(max_epsilon, target_delta)

        module = self._private_module(
            module,
            batch_first=batch_first,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        loader = ShuffleDataLoader(data_loader, batches)
        loader.trace.watch(module)
        steps = Steps(self.accountant, loader, round, self._begun, limit, delta)
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        private = ShuffleOptimizer(
            optimizer,
            randomizer=made,
            max_grad_norm=float(max_grad_norm),
            loss_reduction=loss_reduction,
            steps=steps,
            rng=self._rng,
        )
        self.randomizer, self.round, self.dataset = made, round, data_loader.dataset
        return module, private, loader

    def would_exceed(self, *, epsilon: float, delta: float) -> bool:
        """Whether one more step (or epoch) would bring the upper end above ``epsilon``."""
        if self.round is None:
            raise ValueError("would_exceed needs a call of make_private first")
        exceeds: bool = self.accountant.would_exceed(self.round, epsilon=epsilon, delta=delta)
        return exceeds

    def _calibrated(
        self,
        data_loader: Any,
        epochs: int,
        target_epsilon: float,
        target_delta: float,
        **given: Any,
    ) -> dict[str, float]:
        batches = self._user_batches(data_loader, given.pop("sampling", "fixed"))
        self._checked(eps0=1.0, **given)
        epochs = validate.integer(minimum=1, epochs=epochs)
        one = batches.round(PrivUnit(dimension=2, eps0=1.0))
        eps0 = max_eps0(
            users=one.plain_users,
            population=one.population,
            rounds=batches.rounds(epochs),
            target_epsilon=target_epsilon,
            delta=target_delta,
        )
        return {"eps0": float(eps0)}

    def _compared(self, saved: Any, checkpoint: dict[str, Any]) -> Callable[[], None]:
        if self.round is not None and len(saved) > 0 and saved.history[-1][0] != self.round:
            raise ValueError(
                f"checkpoint is of another configuration, {saved.history[-1][0]!r}, got by an "
                f"engine of {self.round!r}"
            )
        _mix_in_entropy(self._rng)
        return self._begun.clear

    def _user_batches(self, data_loader: Any, sampling: str) -> UserBatches:
        """The batches of users to draw in place of the loader's own sampling."""
        users = require_records(data_loader, self.dataset)
        if not isinstance(data_loader, ShuffleDataLoader):
            require_plain(data_loader)
        ours = isinstance(data_loader, ShuffleDataLoader)
        size = data_loader.batches.users if ours else data_loader.batch_sampler.batch_size
        if size > users:
            raise ValueError(
                f"data_loader.batch_size must be at most the population of {users}, got {size}"
            )
        return UserBatches(population=users, users=size, sampling=sampling, rng=self._rng)

    def _checked(
        self,
        *,
        module: Any,
        optimizer: Any,
        eps0: float,
        max_grad_norm: float,
        randomizer: Callable[..., VectorRandomizer] = PrivUnit,
        batch_first: bool = True,
        loss_reduction: str = "mean",
        grad_sample_mode: str = "hooks",
        **others: Any,
    ) -> VectorRandomizer:
        """The randomizer, of arguments of `make_private`."""
        if others:
            raise TypeError(f"make_private has no argument {next(iter(others))!r}")
        require_one_process(module)
        max_grad_norm = validate.positive(max_grad_norm=max_grad_norm)
        dimension = trainable_dimension(module, optimizer)
        self._check(optimizer, loss_reduction, grad_sample_mode)
        made = randomizer(dimension=dimension, eps0=eps0, radius=max_grad_norm)
        return validate.instance(VectorRandomizer, randomizer=made)  # type: ignore[type-abstract]


def _mix_in_entropy(rng: np.random.Generator) -> None:
    """Go on from a state that depends on the present one and on the operating system's entropy."""
    if isinstance(rng, SecureGenerator):
        return  # which has no state
    bits = rng.bit_generator
    words = [*rng.integers(2**32, size=8).tolist(), *np.random.SeedSequence().generate_state(8)]
    seeded: Any = type(bits)(np.random.SeedSequence([int(word) for word in words]))
    bits.state = seeded.state  # in place: loaders and optimizers share the generator
