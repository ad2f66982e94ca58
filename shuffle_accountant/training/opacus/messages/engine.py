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
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.numerics.secure import SecureGenerator
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.randomizers.vectors import PrivUnit, VectorRandomizer
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.opacus.checkpoint import (
    read_checkpoint,
    require_accounted,
    restore,
)
from shuffle_accountant.training.opacus.draws import Pass
from shuffle_accountant.training.opacus.gradients import refuse_evaluation
from shuffle_accountant.training.opacus.messages.accountant import ShuffleAccountant
from shuffle_accountant.training.opacus.messages.loader import ShuffleDataLoader
from shuffle_accountant.training.opacus.messages.optimizer import ShuffleOptimizer
from shuffle_accountant.training.opacus.messages.steps import Steps
from shuffle_accountant.training.opacus.modules import (
    require_gradients,
    require_one_process,
    trainable_dimension,
)
from shuffle_accountant.training.opacus.sources import require_plain, require_records
from shuffle_accountant.training.sampling import UserBatches

__all__ = ["ShufflePrivacyEngine"]


class ShufflePrivacyEngine(PrivacyEngine):
    """Opacus' privacy engine for the shuffle model.

    Args:
        rng: source of randomness for batches and messages; by default the operating system's
            cryptographic one. It is never saved, for it would give the messages' randomness away;
            a checkpoint that is loaded mixes fresh entropy into it.

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
        made, grad_sample_mode, loss_reduction = _checked(
            module=module,
            optimizer=optimizer,
            eps0=eps0,
            max_grad_norm=max_grad_norm,
            randomizer=randomizer,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        require_accounted(optimizer.param_groups, self.accountant)
        max_grad_norm = validate.positive(max_grad_norm=max_grad_norm)
        batches = self._user_batches(data_loader, sampling)
        round = batches.round(made)
        if max_epsilon is not None:
            max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
            target_delta = validate.open_unit(target_delta=target_delta)

        module = self._prepare_model(
            module,
            batch_first=batch_first,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        module.forbid_grad_accumulation()
        refuse_evaluation(module)
        loader = ShuffleDataLoader(data_loader, batches)
        loader.trace.watch(module)
        steps = Steps(self.accountant, loader, round, self._begun, max_epsilon, target_delta)
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        private = ShuffleOptimizer(
            optimizer,
            randomizer=made,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            steps=steps,
            rng=self._rng,
        )
        self.randomizer, self.round, self.dataset = made, round, data_loader.dataset
        return module, private, loader

    def make_private_with_epsilon(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: float,
        sampling: str = "fixed",
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """`make_private` with the largest eps0 with which ``epochs`` passes meet a target.

        The target is also the budget: a step beyond it raises `BudgetExceeded`.

        Args:
            module: as for `make_private`.
            optimizer: as for `make_private`.
            data_loader: as for `make_private`.
            target_epsilon: nats, finite, > 0.
            target_delta: in (0, 1).
            epochs: passes over the loader, >= 1; one has ``len(loader)`` steps.
            max_grad_norm: as for `make_private`.
            sampling: as for `make_private`.
            **options: others of `make_private`.

        Raises:
            ValueError: a target out of reach, or steps on the accountant already.
        """
        if len(self.accountant) > 0:
            raise ValueError(
                "make_private_with_epsilon needs an engine without steps, got one with "
                f"{len(self.accountant)}: use make_private with max_epsilon"
            )
        # what make_private refuses is refused before eps0 is worked out
        _checked(
            module=module, optimizer=optimizer, eps0=1.0, max_grad_norm=max_grad_norm, **options
        )
        require_accounted(optimizer.param_groups, self.accountant)
        batches = self._user_batches(data_loader, sampling)
        epochs = validate.integer(minimum=1, epochs=epochs)
        one = batches.round(PrivUnit(dimension=2, eps0=1.0))
        eps0 = max_eps0(
            users=one.plain_users,
            population=one.population,
            rounds=batches.rounds(epochs),
            target_epsilon=target_epsilon,
            delta=target_delta,
        )
        return self.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            eps0=float(eps0),
            max_grad_norm=max_grad_norm,
            sampling=sampling,
            max_epsilon=target_epsilon,
            target_delta=target_delta,
            **options,
        )

    def get_epsilon(self, delta: float) -> Bracket:
        """Certified bracket of the epsilon (nats) spent, at ``delta`` in (0, 1)."""
        spent: Bracket = self.accountant.get_epsilon(delta)
        return spent

    def would_exceed(self, *, epsilon: float, delta: float) -> bool:
        """Whether one more step (or epoch) would bring the upper end above ``epsilon``."""
        if self.round is None:
            raise ValueError("would_exceed needs a call of make_private first")
        exceeds: bool = self.accountant.would_exceed(self.round, epsilon=epsilon, delta=delta)
        return exceeds

    def load_checkpoint(
        self,
        *,
        path: Any,
        module: Any,
        optimizer: Any = None,
        module_load_dict_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Go on from what ``save_checkpoint`` wrote: the resumed engine gives the same epsilon.

        An epoch that was not over is counted, and what follows is a new one. The randomness is new,
        too: fresh entropy of the operating system goes into the engine's generator, also if it was
        seeded. Otherwise it would begin again with the randomness of messages that are out, and
        whoever has both would see the difference of two gradients without any noise.

        Args:
            path: the file.
            module: the model, of the same shape.
            optimizer: the optimizer, if its state was saved.
            module_load_dict_kwargs: passed to ``module.load_state_dict``.
            torch_load_kwargs: passed to ``torch.load``; only tensors and plain data are read unless
                it says otherwise.

        Returns:
            The checkpoint.

        Raises:
            ValueError: no such checkpoint, or one of another configuration than `make_private` was
                called with. Nothing is changed.
        """
        saved = ShuffleAccountant()
        checkpoint = read_checkpoint(path, saved, torch_load_kwargs)
        if self.round is not None and len(saved) > 0 and saved.history[-1][0] != self.round:
            raise ValueError(
                f"checkpoint is of another configuration, {saved.history[-1][0]!r}, got by an "
                f"engine of {self.round!r}"
            )
        _mix_in_entropy(self._rng)
        self._begun.clear()
        restore(checkpoint, saved, self.accountant, module, optimizer, module_load_dict_kwargs)
        return checkpoint

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
) -> tuple[VectorRandomizer, str, str]:
    """``(randomizer, grad_sample_mode, loss_reduction)``, of arguments of `make_private`."""
    if others:
        raise TypeError(f"make_private has no argument {next(iter(others))!r}")
    require_one_process(module)
    grad_sample_mode = require_gradients(grad_sample_mode)
    max_grad_norm = validate.positive(max_grad_norm=max_grad_norm)
    loss_reduction = validate.choice(("mean", "sum"), loss_reduction=loss_reduction)
    dimension = trainable_dimension(module, optimizer)
    made = randomizer(dimension=dimension, eps0=eps0, radius=max_grad_norm)
    made = validate.instance(VectorRandomizer, randomizer=made)  # type: ignore[type-abstract]
    return made, grad_sample_mode, loss_reduction


def _mix_in_entropy(rng: np.random.Generator) -> None:
    """Go on from a state that depends on the present one and on the operating system's entropy."""
    if isinstance(rng, SecureGenerator):
        return  # which has no state
    bits = rng.bit_generator
    words = [*rng.integers(2**32, size=8).tolist(), *np.random.SeedSequence().generate_state(8)]
    seeded: Any = type(bits)(np.random.SeedSequence([int(word) for word in words]))
    bits.state = seeded.state  # in place: loaders and optimizers share the generator
