# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' DP-SGD with records that are dealt anew in every epoch (extra ``opacus``).

The privacy unit is one element of the dataset: one record, which neighbouring datasets have or have
zeroed out. Clipping, noise and scaling are Opacus' own. What is different is which records a step
uses, and what that costs: a certified bracket.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer, get_optimizer_class
from torch.utils.data import DataLoader

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.calibration.noise import min_noise_multiplier
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.training.opacus.batches.accountant import SAMPLINGS, AllocationAccountant
from shuffle_accountant.training.opacus.batches.optimizer import dealt
from shuffle_accountant.training.opacus.batches.price import refuse_shuffling
from shuffle_accountant.training.opacus.batches.sampler import (
    AllocationSampler,
    Deal,
    DealtSampler,
    ShuffledSampler,
)
from shuffle_accountant.training.opacus.batches.steps import DealtSteps
from shuffle_accountant.training.opacus.checkpoint import (
    read_checkpoint,
    require_accounted,
    restore,
)
from shuffle_accountant.training.opacus.gradients import refuse_evaluation
from shuffle_accountant.training.opacus.modules import (
    is_distributed,
    require_gradients,
    require_own_parameters,
)
from shuffle_accountant.training.opacus.sources import (
    loader_options,
    require_plain,
    require_records,
    shuffles,
)

__all__ = ["AllocationPrivacyEngine"]

# Delta of a shuffle's price where none is given, in units of one over the records.
_DELTA_SHARE = 0.1
_CLIPPINGS = ("flat", "per_layer")


class AllocationPrivacyEngine(PrivacyEngine):
    """Opacus' privacy engine for batches that are dealt, or shuffled.

    Args:
        rng: source of randomness for the deals; by default the operating system's cryptographic
            one. It is no part of a checkpoint. The noise is Opacus' own, see ``secure_mode`` and
            ``noise_generator`` there.
        secure_mode: as for Opacus' engine.
    """

    def __init__(
        self, *, rng: np.random.Generator | None = None, secure_mode: bool = False
    ) -> None:
        super().__init__(accountant=AllocationAccountant.mechanism(), secure_mode=secure_mode)
        self._rng = generator(rng)
        self._sampler: DealtSampler | None = None

    def make_private(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        noise_multiplier: float,
        max_grad_norm: Any,
        sampling: str | None = None,
        max_epsilon: float | None = None,
        target_delta: float | None = None,
        batch_first: bool = True,
        loss_reduction: str = "mean",
        clipping: str = "flat",
        noise_generator: Any = None,
        grad_sample_mode: str = "hooks",
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """Wrap model, optimizer and loader; train with what is returned as if nothing had changed.

        A mean loss is divided by the *expected* batch size, records over steps, which does not
        depend on the data.

        Args:
            module: without layers that mix a batch's samples (Opacus validates it); on several
                processes in Opacus' ``DifferentiallyPrivateDistributedDataParallel``. Then each
                process deals its own share of the records, and the loader is that of all of them.
            optimizer: of parameters of the module.
            data_loader: an epoch has as many steps as it has batches. Its records are dealt anew in
                every epoch, so it must not shuffle, and a sampler of its own is refused.
            noise_multiplier: deviation of the noise over the largest norm, finite, > 0. A scheduler
                may change it between epochs.
            max_grad_norm: Euclidean norm that each record's gradient is clipped to, > 0; for
                ``clipping="per_layer"`` one for each parameter.
            sampling: "allocation": every record is dealt to one step of each epoch, uniformly and
                independently of the others; "shuffle": the records are shuffled and cut into
                batches of one size, which needs ``drop_last=True`` or a batch size that divides the
                records, and costs more. By default allocation, but a loader that shuffles is
                refused with what that would cost.
            max_epsilon: if given, steps that go over it at ``target_delta`` raise `BudgetExceeded`.
            target_delta: delta in (0, 1) of that budget.
            batch_first: whether the batch is the first dimension of the module's input.
            loss_reduction: "mean" or "sum", how the loss adds up its batch.
            clipping: "flat" or "per_layer"; adaptive clipping divides by the real batch size.
            noise_generator: source of Opacus' noise.
            grad_sample_mode: how Opacus computes per-sample gradients: "hooks", "functorch" or
                "ew".
            **options: others of Opacus' engine are refused, in words where they would change what
                the theorems cover.

        Returns:
            Module, optimizer and loader.

        Raises:
            ValueError: a loader or an option that the theorems do not cover, or an optimizer with
                the state of a private run that the accountant does not have.
        """
        distributed = is_distributed(module)
        grad_sample_mode, clipping, loss_reduction = self._checked(
            module=module,
            optimizer=optimizer,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            clipping=clipping,
            noise_generator=noise_generator,
            grad_sample_mode=grad_sample_mode,
            **options,
        )
        noise_multiplier = validate.positive(noise_multiplier=noise_multiplier)
        if max_epsilon is not None:
            max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
        if target_delta is not None or max_epsilon is not None:
            target_delta = validate.open_unit(target_delta=target_delta)
        sampler, expected = self._dealing(
            data_loader, sampling, noise_multiplier, target_delta, distributed
        )

        module = self._prepare_model(
            module,
            batch_first=batch_first,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        module.forbid_grad_accumulation()
        refuse_evaluation(module)
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        kind = get_optimizer_class(
            clipping=clipping, distributed=distributed, grad_sample_mode=grad_sample_mode
        )
        private = dealt(kind)(
            optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected,
            loss_reduction=loss_reduction,
            generator=self.secure_rng if self.secure_mode else noise_generator,
            secure_mode=self.secure_mode,
            steps=DealtSteps(self.accountant, sampler, max_epsilon, target_delta),
        )
        self._sampler, self.dataset = sampler, data_loader.dataset
        return module, private, DataLoader(batch_sampler=sampler, **loader_options(data_loader))

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
        sampling: str | None = None,
        **options: Any,
    ) -> tuple[Any, Any, Any]:
        """`make_private` with the least noise with which ``epochs`` epochs meet a target.

        The target is also the budget: a step beyond it raises `BudgetExceeded`.

        Args:
            module: as for `make_private`.
            optimizer: as for `make_private`.
            data_loader: as for `make_private`.
            target_epsilon: nats, finite, > 0.
            target_delta: in (0, 1).
            epochs: passes over the loader, >= 1; one has ``len(loader)`` steps, not one less.
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
        # what make_private refuses is refused before the noise is worked out
        self._checked(module=module, optimizer=optimizer, max_grad_norm=max_grad_norm, **options)
        records = require_records(data_loader, self.dataset)
        named = "allocation" if sampling is None else validate.choice(SAMPLINGS, sampling=sampling)
        noise_multiplier = min_noise_multiplier(
            sampling=named,
            steps=_steps(data_loader, named, records),
            epochs=validate.integer(minimum=1, epochs=epochs),
            target_epsilon=target_epsilon,
            delta=target_delta,
        )
        return self.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=float(noise_multiplier),
            max_grad_norm=max_grad_norm,
            sampling=sampling,
            max_epsilon=target_epsilon,
            target_delta=target_delta,
            **options,
        )

    def get_epsilon(self, delta: float) -> Bracket:
        """Certified bracket of the epsilon (nats) spent, at ``delta`` in (0, 1).

        In the middle of an epoch only the steps made so far count, as many as were fixed
        beforehand: who stops there because of what the outputs look like pays for the whole epoch.
        """
        spent: Bracket = self.accountant.get_epsilon(delta)
        return spent

    def end_epoch(self) -> None:
        """Give up what is left of the epoch at hand; its batches must not be used any more."""
        if self._sampler is not None:
            self._sampler.give_up()

    def save_checkpoint(
        self, *, path: Any, module: Any, optimizer: Any = None, with_deal: bool = False, **more: Any
    ) -> None:
        """Save module, optimizer and accounting, and never the state of a generator.

        Args:
            path: the file.
            module: the model.
            optimizer: the optimizer, if its state is to be saved.
            with_deal: whether to save the epoch at hand as well, so that it can be gone on with.
                The file then tells which step used which record: keep it as secret as the data, and
                delete it after that epoch. Without it what is left of the epoch is given up.
            **more: of Opacus' ``save_checkpoint``.
        """
        held = dict(more.pop("checkpoint_dict", None) or {})
        deal = None if self._sampler is None else self._sampler.deal
        if with_deal and self._sampler is not None:
            if len(self._sampler.records) < len(self.dataset):
                raise ValueError("with_deal must be False on several processes, got True")
            if deal is not None and 0 < deal.released < len(deal):
                held["secret_deal"] = {
                    "sampling": self._sampler.sampling,
                    "order": torch.from_numpy(np.array(deal.order, np.int64)),
                    "sizes": torch.from_numpy(np.array(deal.sizes, np.int64)),
                    "released": deal.released,
                    "noise_multiplier": deal.noise_multiplier,
                }
        super().save_checkpoint(
            path=path, module=module, optimizer=optimizer, checkpoint_dict=held, **more
        )

    def load_checkpoint(
        self,
        *,
        path: Any,
        module: Any,
        optimizer: Any = None,
        module_load_dict_kwargs: dict[str, Any] | None = None,
        torch_load_kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Go on from what `save_checkpoint` wrote: the resumed engine gives the same epsilon.

        An epoch that was not over counts as the steps it released, and the next is dealt anew;
        unless the deal was saved, in which case the next pass over the loader goes on with it. No
        randomness is repeated: generators go on from where they are. So with a seed of its own for
        the noise, give a resumed run another one.

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
        saved = AllocationAccountant()
        checkpoint = read_checkpoint(path, saved, torch_load_kwargs)
        resumed = self._resumed(checkpoint.get("secret_deal"))
        own = self._sampler
        mine = None if own is None else (own.sampling, len(own))
        its = mine if not saved.history else (saved.history[-1].sampling, saved.history[-1].steps)
        if mine is not None and its != mine:
            raise ValueError(f"checkpoint is of another configuration, {its}, got by one of {mine}")
        restore(checkpoint, saved, self.accountant, module, optimizer, module_load_dict_kwargs)
        if own is not None:
            own.give_up(resumed)
        return checkpoint

    def _resumed(self, stored: Any) -> Deal | None:
        """The deal of a checkpoint."""
        if stored is None:
            return None
        if self._sampler is None:
            raise ValueError("load_checkpoint of a deal needs a call of make_private first")
        order, sizes = stored["order"].numpy(), stored["sizes"].numpy()
        if int(sizes.sum()) != len(order) or not np.isin(order, self._sampler.records).all():
            raise ValueError("checkpoint's deal must be one of the loader's records, got another")
        released = validate.integer(minimum=1, maximum=len(sizes) - 1, released=stored["released"])
        noise_multiplier = validate.positive(noise_multiplier=stored["noise_multiplier"])
        return Deal(order, sizes, released, noise_multiplier)

    def _checked(
        self,
        *,
        module: Any,
        optimizer: Any,
        max_grad_norm: Any,
        batch_first: bool = True,
        loss_reduction: str = "mean",
        clipping: str = "flat",
        noise_generator: Any = None,
        grad_sample_mode: str = "hooks",
        **options: Any,
    ) -> tuple[str, str, str]:
        """``(grad_sample_mode, clipping, loss_reduction)``, of arguments of `make_private`."""
        _refuse_options(options)
        distributed = is_distributed(module)
        require_own_parameters(module, optimizer)
        require_accounted(optimizer.param_groups, self.accountant)
        grad_sample_mode = require_gradients(grad_sample_mode)
        clipping = validate.choice(_CLIPPINGS, clipping=clipping)
        if distributed and clipping != "flat":
            raise ValueError(f"clipping must be 'flat' on several processes, got {clipping!r}")
        norms = max_grad_norm if clipping == "per_layer" else [max_grad_norm]
        for norm in validate.items(max_grad_norm=norms):
            validate.positive(max_grad_norm=norm)
        loss_reduction = validate.choice(("mean", "sum"), loss_reduction=loss_reduction)
        if noise_generator is not None and self.secure_mode:
            raise ValueError("noise_generator must be left out in secure_mode, got one")
        return grad_sample_mode, clipping, loss_reduction

    def _dealing(
        self,
        data_loader: Any,
        sampling: str | None,
        noise_multiplier: float,
        target_delta: float | None,
        distributed: bool,
    ) -> tuple[DealtSampler, float]:
        """The sampler that deals the loader's records, and the batch size to divide by."""
        records = require_records(data_loader, self.dataset)
        named = "allocation" if sampling is None else validate.choice(SAMPLINGS, sampling=sampling)
        steps = _steps(data_loader, named, records)
        if sampling is None and shuffles(data_loader):
            refuse_shuffling(
                noise_multiplier=noise_multiplier,
                steps=max(1, records // data_loader.batch_sampler.batch_size),
                delta=_DELTA_SHARE / records if target_delta is None else target_delta,
            )
        if named == "shuffle":
            if distributed:
                raise ValueError(
                    "sampling must be 'allocation' on several processes, got 'shuffle'"
                )
            size = _size(data_loader)
            return ShuffledSampler(records=records, size=size, rng=self._rng), float(size)
        if not distributed:
            sampler = AllocationSampler(records=records, steps=steps, rng=self._rng)
            return sampler, records / steps
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        sampler = AllocationSampler(
            records=np.arange(rank, records, ranks),
            steps=steps,
            # of its own, also where all processes were seeded alike
            rng=self._rng.spawn(ranks)[rank],
        )
        return sampler, records / steps / ranks


def _refuse_options(options: dict[str, Any]) -> None:
    """Refuse options of Opacus' engine."""
    reasons = {
        "poisson_sampling": "the engine deals the records: leave poisson_sampling out",
        "rand_on_empty": "a record that is there in empty batches only doubles the sensitivity",
    }
    for name, value in options.items():
        if name not in reasons:
            raise TypeError(f"make_private has no argument {name!r}")
        if name == "rand_on_empty" and value is False:
            continue
        raise ValueError(f"{name} must not be given ({reasons[name]}), got {value!r:.40}")


def _size(data_loader: Any) -> int:
    """Number of records of a full batch."""
    batches = data_loader.batch_sampler
    size: int = batches.size if isinstance(batches, ShuffledSampler) else batches.batch_size
    return size


def _steps(data_loader: Any, sampling: str, records: int) -> int:
    """Number of batches of an epoch, if the loader's own way of making them may be replaced."""
    batches = data_loader.batch_sampler
    if isinstance(batches, DealtSampler):
        if batches.sampling != sampling:
            raise ValueError(
                f"sampling must be that of the private loader, {batches.sampling!r}, got "
                f"{sampling!r}"
            )
        return len(batches)
    require_plain(data_loader)
    size = batches.batch_size
    if size > records:
        raise ValueError(f"data_loader.batch_size must be at most {records} records, got {size}")
    if sampling == "shuffle" and not batches.drop_last and records % size:
        raise ValueError(
            "data_loader must have drop_last=True or a batch_size that divides its "
            f"{records} records (places in a short last batch hide less), got batch_size={size}"
        )
    return len(data_loader)
