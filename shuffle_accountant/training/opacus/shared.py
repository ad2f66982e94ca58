# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""What both engines for Opacus share: accountants, optimizers, checkpoints, and what is refused.

Many loops keep the states of model and optimizer alone. So the parameter groups of an optimizer
that has made private steps carry a receipt of its accountant, which goes wherever its state goes;
and no engine goes on with such a state whose steps its own accountant does not have.
"""

from __future__ import annotations

import copy
import secrets
from abc import abstractmethod
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, ClassVar

import torch
from opacus import PrivacyEngine
from opacus.accountants import IAccountant
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.training.budget import BudgetExceeded, budget_cache
from shuffle_accountant.training.store import Receipt

SCHEMA = 2
_FIELDS = ("schema", "mechanism", "history")
# by schema: the first knew no names of runs, and had no digest
_STORED = {1: _FIELDS, 2: (*_FIELDS, "run")}
# The key of the receipt in an optimizer's parameter groups.
RECEIPT = "privacy_receipt"
# By name: not every version and build of PyTorch and Opacus has all of them.
_DISTRIBUTED = (
    "DifferentiallyPrivateDistributedDataParallel",
    "DistributedDataParallel",
    "FSDPModule",
    "FullyShardedDataParallel",
)


class CertifiedAccountant(IAccountant):
    """An accountant of Opacus' shape whose answers are certified brackets.

    Attributes:
        history: what happened, in the order in which it did.
        run: name of the run that this is the accounting of, 64 random hexadecimal digits; a state
            that is loaded brings its own.
    """

    name: ClassVar[str]
    engine: ClassVar[str]
    # names of the fields of an entry that is written, and of those that it may have besides
    fields: ClassVar[tuple[str, ...]]
    optional: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []
        self.run = secrets.token_hex(32)

    @classmethod
    def mechanism(cls) -> str:
        """The name Opacus knows it by."""
        return cls.name

    @property
    def receipt(self) -> Receipt:
        """Number of steps recorded so far, with the name of the run in the place of a digest."""
        return Receipt(len(self), self.run)

    def has(self, receipt: Receipt) -> bool:
        """Whether the steps of a receipt are among those recorded here."""
        return receipt.digest == self.run and receipt.number <= len(self)

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """Everything recorded so far."""

    @staticmethod
    @abstractmethod
    def written(entry: Any) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""

    @staticmethod
    @abstractmethod
    def read(entry: dict[str, Any]) -> Any:
        """Inverse of `written`; raises `KeyError`, `TypeError` or `ValueError` if it is none."""

    def get_epsilon(self, delta: float, **options: Any) -> Bracket:
        """Certified bracket of the epsilon (nats) spent; 0 before the first step.

        Args:
            delta: in (0, 1).
            **options: of `shuffle_accountant.FourierAccountant`.
        """
        return FourierAccountant(**options).compose(self.protocol).epsilon(delta=delta)

    def get_delta(self, epsilon: float, **options: Any) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats)."""
        return FourierAccountant(**options).compose(self.protocol).delta(epsilon=epsilon)

    def would_exceed(self, round: Round, *, epsilon: float, delta: float) -> bool:
        """Whether one more round would bring the certified upper end above ``epsilon`` (nats)."""
        round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        delta = validate.open_unit(delta=delta)
        after = FourierAccountant().compose(self.protocol).compose(round)
        if len(after.rounds) == 1:
            return budget_cache(round, epsilon, delta, after.tolerance).exceeded_by(len(after))
        return after.epsilon(delta=delta) > epsilon

    def exceeded(self, epsilon: float, delta: float | None) -> BudgetExceeded:
        """The error of one more step, which would exceed a budget."""
        made = len(self)
        return BudgetExceeded(
            f"step {made + 1} would exceed epsilon = {epsilon:g} at delta = {delta:g}; {made} "
            "recorded"
        )

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """Refused: Opacus' own engine draws its batches in another way."""
        raise ValueError(
            f"the accountant {self.name!r} does not account for Poisson sampling with "
            f"sample_rate={sample_rate!r}: use {self.engine}"
        )

    def state_dict(self, destination: Any = None) -> Any:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it.

        It is put in ``destination``, a mapping, or in a new dictionary.
        """
        destination = {} if destination is None else destination
        history = [self.written(entry) for entry in self.history]
        held = {"schema": SCHEMA, "mechanism": self.mechanism(), "history": history}
        destination.update(sealed({**held, "run": self.run}))
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from `state_dict`; a JSON text round trip in between changes nothing.

        States of version 0.2.0 have no digest and are read with a warning.

        Raises:
            ValueError: missing or unknown fields, another digest, another mechanism's, or a schema
                newer than this version knows. The accountant is unchanged.
        """
        state = unsealed(state_dict, _STORED, sealed_since=2)
        if state["mechanism"] != self.mechanism():
            raise ValueError(
                f"mechanism must be {self.mechanism()!r}, got {state['mechanism']!r:.40}"
            )
        entries = validate.instance(list, history=state["history"])
        history = [self._entry(entry) for entry in entries]
        run = state.get("run", secrets.token_hex(32))
        self.history, self.run = history, Receipt.read(run=f"0:{run}").digest

    def _entry(self, entry: object) -> Any:
        if not isinstance(entry, dict) or set(entry) - self.optional != set(self.fields):
            raise ValueError(
                f"history must hold objects with {', '.join(self.fields)}, got {entry!r:.80}"
            )
        return self.read(entry)


class PrivateOptimizer:
    """Mixed into an optimizer of Opacus': makes a step as a whole, or refuses it.

    A step that is refused leaves no gradients behind, for they are not private. The parameter
    groups carry the accountant's receipt; they are those of the optimizer inside, so that the
    receipt is there whichever of the two is saved or loaded.
    """

    # A scaler of the loss asks who has this for no inspection, which would skip a step as soon as
    # one user's gradient overflows; it says so by `grad_scale` and `found_inf` instead.
    _step_supports_amp_scaling = True

    accountant: Any  # records the steps
    _given: str | None = None  # the receipt of its own last step
    _parameters: int  # how many were trainable when it was made

    def pre_step(self, closure: Callable[[], float] | None = None) -> bool:
        """Put private gradients in the place of those at hand; whether a step follows.

        Raises:
            ValueError: not one whole batch of the private loader that may be used, or a loss that
                is scaled; nothing is recorded, no parameter changes.
            BudgetExceeded: likewise, when the engine's budget does not allow the step.
        """
        queue = self._opacus._step_skip_queue
        queued = len(queue)
        try:
            refuse_scaling(self)
            groups = self._opacus.param_groups
            if any(group.get(RECEIPT) != self._given for group in groups):
                require_accounted(groups, self.accountant)  # loaded behind its back
            whole = not self._opacus._check_skip_next_step(pop_next=False)
            return self._released(whole, closure)
        except BaseException:
            drop_gradients(self)
            self._forget()
            if queued and len(queue) == queued:  # its place in the queue of parts
                queue.pop(0)
            raise

    def load_state_dict(self, state_dict: Any) -> None:
        """Load a state, if the accountant has the steps that were made with it."""
        require_accounted(state_dict["param_groups"], self.accountant)
        load: Any = super().load_state_dict
        load(state_dict)

    @property
    def _opacus(self) -> Any:
        """Itself as Opacus' optimizer."""
        return self

    def _give_receipt(self) -> None:
        """Let the parameter groups carry the receipt of the step just recorded."""
        self._given = str(self.accountant.receipt)
        for group in self._opacus.param_groups:
            group[RECEIPT] = self._given

    @abstractmethod
    def _released(self, whole: bool, closure: Any) -> bool:
        """Make the gradients private, and record the step if the batch is whole."""

    @abstractmethod
    def _forget(self) -> None:
        """Forget sums over the parts of a batch that is not used any more."""


class CertifiedEngine(PrivacyEngine):
    """An engine of Opacus' whose accountant gives certified brackets."""

    dataset: Any

    def make_private_with_epsilon(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: Any,
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """`make_private` with as little randomness as ``epochs`` epochs need to meet a target.

        The target is also the budget: a step beyond it raises `BudgetExceeded`.

        Args:
            module: as for `make_private`, and so are ``optimizer``, ``data_loader`` and
                ``max_grad_norm``.
            target_epsilon: nats, finite, > 0.
            target_delta: in (0, 1).
            epochs: passes over the loader, >= 1; one has ``len(loader)`` steps, not one less.
            **options: others of `make_private`.

        Raises:
            ValueError: a target out of reach, or steps on the accountant already.
        """
        if len(self.accountant) > 0:
            raise ValueError(
                "make_private_with_epsilon needs an engine without steps, got one with "
                f"{len(self.accountant)}: use make_private with max_epsilon"
            )
        given = {"module": module, "optimizer": optimizer, "max_grad_norm": max_grad_norm}
        given |= options
        found = self._calibrated(data_loader, epochs, target_epsilon, target_delta, **given)
        made: tuple[Any, Any, Any] = self.make_private(
            **given,
            **found,
            data_loader=data_loader,
            max_epsilon=target_epsilon,
            target_delta=target_delta,
        )
        return made

    def get_epsilon(self, delta: float) -> Bracket:
        """Certified bracket of the epsilon (nats) spent, at ``delta`` in (0, 1)."""
        spent: Bracket = self.accountant.get_epsilon(delta)
        return spent

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

        What follows is a new epoch, with new randomness; see the class.

        Args:
            path: the file.
            module: of the same shape.
            optimizer: if its state was saved.
            module_load_dict_kwargs: passed to ``module.load_state_dict``.
            torch_load_kwargs: passed to ``torch.load``; only tensors and plain data are read unless
                it says otherwise.

        Returns:
            The checkpoint.

        Raises:
            ValueError: no such checkpoint, or one of another configuration than `make_private` was
                called with. Nothing is changed.
        """
        checkpoint = torch.load(path, **{"weights_only": True, **(torch_load_kwargs or {})})
        if not isinstance(checkpoint, dict) or "privacy_accountant_state_dict" not in checkpoint:
            raise ValueError("checkpoint must hold a privacy_accountant_state_dict, got none")
        saved = type(self.accountant)()
        saved.load_state_dict(checkpoint["privacy_accountant_state_dict"])
        go_on = self._compared(saved, checkpoint)
        module.load_state_dict(checkpoint["module_state_dict"], **(module_load_dict_kwargs or {}))
        self.accountant.history, self.accountant.run = saved.history, saved.run
        if optimizer is not None and "optimizer_state_dict" in checkpoint:
            optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        go_on()
        return checkpoint

    @abstractmethod
    def _calibrated(
        self, data_loader: Any, epochs: int, epsilon: float, delta: float, **given: Any
    ) -> dict[str, float]:
        """The argument of `make_private` that meets a target.

        What `make_private` refuses of the other arguments is refused before that is worked out.
        """

    @abstractmethod
    def _compared(self, saved: Any, checkpoint: dict[str, Any]) -> Callable[[], None]:
        """What is to be done once a checkpoint with this accounting is loaded, if it fits."""

    def _check(self, optimizer: Any, loss_reduction: str, grad_sample_mode: str) -> None:
        """Refuse what neither engine covers.

        Ghost clipping only keeps sums: a gradient that is not finite cannot be left out of them,
        and would be seen in the model.
        """
        require_accounted(optimizer.param_groups, self.accountant)
        if isinstance(grad_sample_mode, str) and grad_sample_mode.startswith("ghost"):
            raise ValueError(
                "grad_sample_mode must be one of 'hooks', 'functorch', 'ew' (of ghost clipping's "
                "sums no gradient that is not finite can be left out; to save memory use Opacus' "
                f"BatchMemoryManager), got {grad_sample_mode!r}"
            )
        validate.choice(("hooks", "functorch", "ew"), grad_sample_mode=grad_sample_mode)
        validate.choice(("mean", "sum"), loss_reduction=loss_reduction)

    def _private_parts(self, module: Any, optimizer: Any, **options: Any) -> tuple[Any, Any]:
        """The module with per-sample gradients, of one backward pass in training mode.

        And the optimizer without Opacus' own around it.
        """
        module = self._prepare_model(module, **options)
        module.forbid_grad_accumulation()
        refuse_evaluation(module)
        return module, getattr(optimizer, "original_optimizer", optimizer)


def checked_budget(
    max_epsilon: float | None, target_delta: float | None
) -> tuple[float, float] | None:
    """Epsilon (nats) and delta of a budget, or None."""
    if max_epsilon is not None:
        max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
    elif target_delta is None:
        return None
    delta = validate.open_unit(target_delta=target_delta)
    return None if max_epsilon is None else (max_epsilon, delta)


def require_one_process(module: Any, inside: bool = False) -> None:
    """Refuse modules, or parts of one, whose gradients other processes expect to be reduced."""
    for part in module.modules():
        if inside and part is module:
            continue
        for kind in type(part).__mro__:
            if kind.__name__ in _DISTRIBUTED:
                raise ValueError(
                    "module must be on one process (messages are not averaged over several), got "
                    f"a {kind.__name__}"
                )


def is_distributed(module: Any) -> bool:
    """Whether it is in Opacus' wrapper for several processes, and in no other."""
    wrapped = isinstance(module, DifferentiallyPrivateDistributedDataParallel)
    require_one_process(module, inside=wrapped)
    return wrapped


def require_own_parameters(module: Any, optimizer: Any) -> list[Any]:
    """The trainable parameters of an optimizer, which must be the module's."""
    given = _given(optimizer)
    if isinstance(getattr(optimizer, "original_optimizer", optimizer), torch.optim.LBFGS):
        raise ValueError("optimizer must ask for one gradient a step, got an LBFGS")
    own = {id(p) for p in module.parameters()}
    if not own.issuperset(map(id, given)):
        raise ValueError("optimizer must have parameters of the module, and no others")
    trained = [p for p in given if p.requires_grad]
    if not trained:
        raise ValueError("module must have trainable parameters, got none")
    return trained


def trainable_dimension(module: Any, optimizer: Any) -> int:
    """Number of trainable parameters, which must be the optimizer's and the module's."""
    own = {id(p) for p in module.parameters() if p.requires_grad}
    if {id(p) for p in _given(optimizer) if p.requires_grad} != own:
        raise ValueError(
            "optimizer must have all trainable parameters of the module, and no others"
        )
    return sum(p.numel() for p in require_own_parameters(module, optimizer))


def _given(optimizer: Any) -> list[Any]:
    validate.instance(torch.optim.Optimizer, optimizer=optimizer)
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


def loader_options(original: Any) -> dict[str, Any]:
    """Arguments for a `DataLoader` that differs from this one in its batches alone."""
    names = ("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn")
    more = ("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers")
    return {name: getattr(original, name) for name in names + more}


def require_records(data_loader: Any, dataset: Any) -> int:
    """Number of records of a loader; they must be those of the dataset, if that is not None."""
    if isinstance(data_loader.dataset, IterableDataset):
        raise ValueError(
            "data_loader must have a dataset with a length, got an IterableDataset: its users "
            "cannot be sampled"
        )
    if dataset is not None and dataset is not data_loader.dataset:
        raise ValueError("an engine accounts for one dataset, got a data_loader of another one")
    return len(data_loader.dataset)


def require_plain(data_loader: Any) -> None:
    """Refuse a loader that does not go through its dataset once, in order or shuffled.

    Only such a loader's user has no sampling of their own in mind.
    """
    got = type(data_loader.batch_sampler).__name__
    if data_loader.batch_size is None and data_loader.batch_sampler is None:
        got = "batch_size=None"
    elif type(data_loader.batch_sampler) is BatchSampler:
        sampler = data_loader.batch_sampler.sampler  # the loader's own may be a default
        got = type(sampler).__name__
        if type(sampler) is SequentialSampler:
            return
        if type(sampler) is RandomSampler:
            if not sampler.replacement and sampler.num_samples == len(sampler.data_source):
                return
            got = "a RandomSampler with replacement or of another length"
    raise ValueError(
        "data_loader must have a batch_size and no sampler of its own (the theorems cover batches "
        f"that the engine makes), got {got}"
    )


def require_accounted(groups: Any, accountant: Any) -> None:
    """Refuse parameter groups with steps of a private run that an accountant does not have."""
    for group in groups:
        if RECEIPT not in group:
            continue
        receipt = Receipt.read(**{RECEIPT: group[RECEIPT]})
        if not accountant.has(receipt):
            raise ValueError(
                f"optimizer's state is that of a private run after {receipt.number} steps, which "
                f"the engine's accountant (at {len(accountant)} steps) does not have: load the "
                "accounting first, by load_checkpoint or accountant.load_state_dict"
            )


def refuse_evaluation(module: Any) -> None:
    """Refuse gradients of what the module computes in evaluation mode: they are not per sample.

    What is computed there is as good as ever, until somebody asks for its gradient.
    """

    def refuse(_: Any) -> None:
        raise ValueError(
            "gradients must be of what the module computes in training mode (module.train()), got "
            "evaluation mode"
        )

    def leave(module: Any, _: Any, output: Any) -> None:
        for tensor in () if module.training else tensors(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(refuse)

    if not hasattr(module, "_refuses_evaluation"):
        module._refuses_evaluation = module.register_forward_hook(leave)


def refuse_scaling(optimizer: Any) -> None:
    """Refuse gradients of a scaled loss: after clipping, only their directions would be left.

    A scaler tells so by two attributes, if the optimizer's ``_step_supports_amp_scaling`` is set;
    otherwise it would skip the step as soon as one gradient overflows.
    """
    held = vars(optimizer)
    marks = [held.pop(mark) for mark in ("grad_scale", "found_inf") if mark in held]
    if any(mark is not None for mark in marks):
        raise ValueError(
            "a step must be made without a GradScaler (private gradients are clipped, so their "
            "scale is lost, and its checks tell of single users), got its grad_scale"
        )


def require_samples(optimizer: Any, parameters: int) -> list[torch.Tensor]:
    """The per-sample gradients of all parameters, as many as at first, from one backward pass."""
    held = optimizer.params
    if len(held) != parameters:
        raise ValueError(
            f"the module must keep the {parameters} trainable parameters that make_private found, "
            f"got {len(held)}"
        )
    samples = [getattr(parameter, "grad_sample", None) for parameter in held]
    if any(isinstance(sample, list) for sample in samples):
        raise ValueError("a step must be made after each backward pass, got several passes'")
    if any(sample is None for sample in samples):
        raise ValueError(
            "a step needs a backward pass through all trainable parameters in training mode "
            "(module.train()), got a parameter without per-sample gradients"
        )
    return samples


def drop_gradients(optimizer: Any) -> None:
    """Leave nothing behind that is not private, not even sums of clipped gradients."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = parameter.grad_sample = parameter.summed_grad = None
    optimizer._is_last_step_skipped = False


def tensors(values: Any) -> list[Any]:
    """All tensors of a structure, as `mapped` goes through it."""
    found: list[Any] = []

    def note(tensor: Any) -> Any:
        found.append(tensor)
        return tensor

    mapped(note, values)
    return found


def mapped(change: Callable[[Any], Any], values: Any) -> Any:
    """The same structure with every tensor changed; a structure without changes is left alone.

    It is a tensor, or mappings and sequences of them; anything else stays as it is.
    """
    if isinstance(values, torch.Tensor):
        return change(values)
    if isinstance(values, Mapping):
        new = {key: mapped(change, value) for key, value in values.items()}
        if all(new[key] is values[key] for key in new):
            return values
        if type(values) is dict:
            return new
        other: Any = copy.copy(values)  # keeps the class, such as that of a tokenizer's output
        other.update(new)
        return other
    if isinstance(values, (list, tuple)):
        items = [mapped(change, value) for value in values]
        if all(new is old for new, old in zip(items, values, strict=True)):
            return values
        if hasattr(values, "_fields"):
            return type(values)(*items)
        return type(values)(items)
    return values
