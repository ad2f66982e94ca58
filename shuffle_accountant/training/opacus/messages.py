# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus with shuffled, locally private gradients; one element of the dataset is one user.

A theorem covers a step if its users were drawn for it. The number of gradients does not show
that: a batch kept from an earlier step has as many. So the tensors of a batch remember the
draw they come from. PyTorch's operations hand that on (to another device, normalized, augmented),
the model notes it when a gradient flows back through its output, and the step compares.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.accountants import register_accountant
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader, Sampler, get_worker_info

from shuffle_accountant import validation as validate
from shuffle_accountant.calibration.calibrate import max_eps0
from shuffle_accountant.numerics.secure import SecureGenerator
from shuffle_accountant.randomizers.checks import as_rows, generator
from shuffle_accountant.randomizers.vectors import PrivUnit, VectorRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.opacus.shared import (
    CertifiedAccountant,
    CertifiedEngine,
    PrivateOptimizer,
    checked_budget,
    loader_options,
    mapped,
    require_one_process,
    require_plain,
    require_records,
    require_samples,
    tensors,
    trainable_dimension,
)
from shuffle_accountant.training.sampling import UserBatches, message_sum

# Two are as much too many as any number, and a running sum of losses would gather all.
_MOST_DRAWS = 2


class Pass:
    """One pass over a loader, without any content but its identity."""


class Trace:
    """The draws whose gradients the parameters hold; None is for tensors that came of no draw."""

    def __init__(self) -> None:
        self.draws: set[Draw | None] = set()
        self._entering: set[Draw | None] = set()

    def watch(self, module: Any) -> None:
        """Note what this module's gradients come from, in the place of any other trace."""
        for handle in getattr(module, "_watched", ()):
            handle.remove()
        module._watched = [
            module.register_forward_pre_hook(self._enter, with_kwargs=True),
            module.register_forward_hook(self._leave),
        ]

    def _enter(self, module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Take the draws off what the module is given, so that it computes with plain tensors."""
        self._entering = set(_draws((args, kwargs))) or {None}
        return plain(args), plain(kwargs)

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        """Note these draws as soon as a gradient comes back through the output."""
        draws, seen = self._entering, tensors(output)
        for tensor in seen:
            if tensor.grad_fn is not None:
                tensor.register_hook(lambda gradient: self.draws.update(draws))
        if not seen and torch.is_grad_enabled():  # an object that cannot be looked into
            self.draws.update(draws)


@dataclass(eq=False)
class Draw:
    """A batch of some users that a loader, with its trace, handed out in a pass."""

    trace: Trace
    of_pass: Pass
    users: int
    used: bool = False

    def __deepcopy__(self, memo: Any) -> Draw:
        """The draw itself: a copied batch holds no other users."""
        return self


class DrawnTensor(torch.Tensor):
    """A tensor that remembers one draw it was computed from, or two of more, and hands them on."""

    draws: frozenset[Draw] = frozenset()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        draws = _draws((args, kwargs))
        if func is torch.Tensor.backward:
            # a loss may mix batches behind the model, through its labels
            for draw in draws:
                draw.trace.draws.add(draw)
        result = super().__torch_function__(func, types, args, kwargs)
        if func is torch.Tensor.__setitem__:
            _remember(args[0], draws)
        return mapped(lambda tensor: _remember(tensor, draws), result)

    def __format__(self, format_spec: str) -> str:
        return format(plain(self), format_spec)

    def __deepcopy__(self, memo: Any) -> Any:
        copied = _as(DrawnTensor, copy.deepcopy(plain(self), memo))
        memo[id(self)] = _remember(copied, self.draws)
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save the numbers alone, as a plain tensor."""
        return plain(self).__reduce_ex__(protocol)


def tagged(batch: Any, draw: Draw) -> Any:
    """The batch (of `mapped`) with tensors that remember the draw."""
    draws = frozenset((draw,))
    return mapped(lambda tensor: _remember(_as(DrawnTensor, tensor), draws), batch)


def plain(values: Any) -> Any:
    """The same tensors, of PyTorch's own class if they remember a draw."""
    return mapped(lambda t: _as(torch.Tensor, t) if isinstance(t, DrawnTensor) else t, values)


def _as(kind: Any, tensor: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(kind)


def _remember(tensor: Any, draws: frozenset[Draw]) -> Any:
    if isinstance(tensor, DrawnTensor):
        tensor.draws = draws
    return tensor


def _draws(values: Any) -> frozenset[Draw]:
    drawn = (tensor for tensor in tensors(values) if isinstance(tensor, DrawnTensor))
    return frozenset(islice({draw for tensor in drawn for draw in tensor.draws}, _MOST_DRAWS))


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


class DrawnBatches(Sampler):
    """The batch sampler: hands out `UserBatches`, and keeps which draw the last one was.

    Opacus' `BatchMemoryManager` makes a loader of its own of the batch sampler and the function
    that collates; so they have to know the draw, and not the loader alone.
    """

    def __init__(self, batches: UserBatches) -> None:
        self.batches, self.trace = batches, Trace()
        self.draw: Draw | None = None
        self.on_pass: Callable[[], None] = lambda: None  # called before every pass

    def __len__(self) -> int:
        """Steps of a pass."""
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        """The batches of one pass."""
        self.on_pass()
        this_pass = Pass()
        for users, batch in zip(self.batches.sizes, self.batches, strict=True):
            self.draw = Draw(self.trace, this_pass, users)
            yield batch


class _Collate:
    """Collates records and lets the tensors remember the draw; in a worker it only collates."""

    def __init__(self, plain: Any, drawn: DrawnBatches) -> None:
        self.plain, self._drawn = plain, drawn

    def __call__(self, records: Any) -> Any:
        batch = self.plain(records)
        if self._drawn.draw is None or get_worker_info() is not None:
            return batch
        return tagged(batch, self._drawn.draw)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy.copy, (self.plain,)  # for a worker


class ShuffleDataLoader(DataLoader):
    """A loader of the same dataset whose batches are drawn by `UserBatches`.

    The tensors of a batch remember that they come from it, and PyTorch's operations hand that on;
    a step is refused whose tensors do not. So what leaves PyTorch, through NumPy for example,
    belongs into the dataset or the ``collate_fn``.

    Attributes:
        batches: how users are drawn.
        trace: what the gradients at hand come from.
    """

    def __init__(self, original: Any, batches: UserBatches) -> None:
        drawn, options = DrawnBatches(batches), loader_options(original)
        plain = options.pop("collate_fn")
        plain = plain.plain if isinstance(plain, _Collate) else plain
        super().__init__(batch_sampler=drawn, collate_fn=_Collate(plain, drawn), **options)
        self.batches, self.trace = batches, drawn.trace

    def __iter__(self) -> Iterator[Any]:
        """Hand out the batches of one pass, each with the draw it comes from."""
        if self.num_workers == 0:
            yield from super().__iter__()
            return
        this_pass = Pass()  # workers are ahead of the step, and hand their batches out in order
        for users, batch in zip(self.batches.sizes, super().__iter__(), strict=True):
            yield tagged(batch, Draw(self.trace, this_pass, users))


class Steps:
    """Checks each optimizer step against theorem and budget (epsilon, delta), and records it.

    The round is that of one step or of one pass; those of the passes begun are recorded.
    """

    def __init__(
        self,
        accountant: ShuffleAccountant,
        loader: ShuffleDataLoader,
        round: ShuffleRound,
        begun: WeakSet[Pass],
        budget: tuple[float, float] | None,
    ) -> None:
        self.accountant, self.loader, self._round = accountant, loader, round
        self._begun, self._budget = begun, budget
        self.begin()

    def begin(self) -> None:
        """Start a new batch: the next step is its first."""
        self._draw: Draw | None = None
        self._users = 0

    def allow(self, users: int, whole: bool) -> Draw:
        """The draw of a step's users; refuses a step that no theorem, or no budget, covers.

        ``whole`` says that they are the batch, or with those of the steps before its last part.
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
        if self._budget is not None and self._begins_round(draw):
            epsilon, delta = self._budget
            if self.accountant.would_exceed(self._round, epsilon=epsilon, delta=delta):
                raise self.accountant.exceeded(epsilon, delta)
        return draw

    def record(self, draw: Draw) -> None:
        """Record the step that uses this draw."""
        self.accountant.step(round=self._round, begins_round=self._begins_round(draw))
        self._begun.add(draw.of_pass)
        draw.used = True

    def forget(self) -> None:
        """Forget all draws: the parameters hold no gradients any more."""
        self.loader.trace.draws.clear()

    def _one_draw(self) -> Draw:
        """The one draw of this loader that all gradients come from."""
        drawn = self.loader.trace.draws
        own = [draw for draw in drawn if draw is not None and draw.trace is self.loader.trace]
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
        return self.loader.batches.sampling == "fixed" or draw.of_pass not in self._begun


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
        steps.loader.batch_sampler.on_pass = self._forget_pass

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
        ways: dict[str, Any] = {"loss_reduction": loss_reduction}
        ways["grad_sample_mode"] = grad_sample_mode
        made = self._checked(
            module=module,
            optimizer=optimizer,
            eps0=eps0,
            max_grad_norm=max_grad_norm,
            randomizer=randomizer,
            **ways,
        )
        batches = self._user_batches(data_loader, sampling)
        round = batches.round(made)
        budget = checked_budget(max_epsilon, target_delta)

        module, optimizer = self._private_parts(module, optimizer, batch_first=batch_first, **ways)
        loader = ShuffleDataLoader(data_loader, batches)
        loader.trace.watch(module)
        private = ShuffleOptimizer(
            optimizer,
            randomizer=made,
            max_grad_norm=float(max_grad_norm),
            loss_reduction=loss_reduction,
            steps=Steps(self.accountant, loader, round, self._begun, budget),
            rng=self._rng,
        )
        self.randomizer, self.round, self.dataset = made, round, data_loader.dataset
        return module, private, loader

    def would_exceed(self, *, epsilon: float, delta: float) -> bool:
        """Whether one more step (or epoch) would bring the upper end above ``epsilon``."""
        if self.round is None:
            raise ValueError("would_exceed needs a call of make_private first")
        return bool(self.accountant.would_exceed(self.round, epsilon=epsilon, delta=delta))

    def _calibrated(
        self, data_loader: Any, epochs: int, epsilon: float, delta: float, **given: Any
    ) -> dict[str, float]:
        batches = self._user_batches(data_loader, given.pop("sampling", "fixed"))
        self._checked(eps0=1.0, **given)
        epochs = validate.integer(minimum=1, epochs=epochs)
        one = batches.round(PrivUnit(dimension=2, eps0=1.0))
        eps0 = max_eps0(
            users=one.plain_users,
            population=one.population,
            rounds=batches.rounds(epochs),
            target_epsilon=epsilon,
            delta=delta,
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
        if isinstance(data_loader, ShuffleDataLoader):
            size = data_loader.batches.users
        else:
            require_plain(data_loader)
            size = data_loader.batch_sampler.batch_size
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
