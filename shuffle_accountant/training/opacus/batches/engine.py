# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' DP-SGD with records that are dealt anew in every epoch (extra ``opacus``).

The privacy unit is one element of the dataset: one record, which neighbouring datasets have or have
zeroed out. Clipping, noise and scaling are Opacus' own. What is different is which records a step
uses, and what that costs: a certified bracket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.optimizers import DPOptimizer, get_optimizer_class
from torch.utils.data import DataLoader

from shuffle_accountant import validation as validate
from shuffle_accountant.calibration.calibrate import min_noise_multiplier
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.training.opacus.batches.accountant import (
    AllocationAccountant,
    noise_multipliers,
)
from shuffle_accountant.training.opacus.batches.optimizer import DealtSteps, dealt
from shuffle_accountant.training.opacus.batches.sampler import (
    Deal,
    DealtSampler,
    dealt_by,
    kept_records,
    refuse_shuffling,
    steps_of,
)
from shuffle_accountant.training.opacus.checks import (
    is_distributed,
    loader_options,
    require_own_parameters,
    require_records,
    shuffles,
)
from shuffle_accountant.training.opacus.engine import CertifiedEngine, checked_budget

__all__ = ["AllocationPrivacyEngine"]

# Delta of a shuffle's price where none is given, in units of one over the records.
_DELTA_SHARE = 0.1
_CLIPPINGS = ("flat", "per_layer")


class AllocationPrivacyEngine(CertifiedEngine):
    """Opacus' privacy engine for batches that are dealt, or shuffled.

    In the middle of an epoch `get_epsilon` counts the steps made so far, as many as were fixed
    beforehand: who stops there because of what the outputs look like pays for the whole epoch.

    An epoch that was not over when a checkpoint was saved counts as the steps it released, and the
    next is dealt anew; unless the deal was saved, in which case the next pass over the loader goes
    on with it. No randomness is repeated: generators go on from where they are. So with a seed of
    its own for the noise, give a resumed run another one.

    Attributes:
        left_out: records that are never dealt, since their users own more than are kept.

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
        self.left_out = 0
        self._sampler: DealtSampler | None = None
        self._shared = False  # whether several processes deal the records
        self._unit = _unit(None)

    def make_private(
        self,
        *,
        module: Any,
        optimizer: Any,
        data_loader: Any,
        noise_multiplier: float | Sequence[float],
        max_grad_norm: Any,
        sampling: str | None = None,
        user_ids: Any = None,
        records_per_user: int | None = None,
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
            noise_multiplier: deviation of the noise over the largest norm, finite, > 0; a scheduler
                may change it between epochs. Or one for each step of an epoch, in their order, for
                sampling="allocation": the same list in every epoch, fixed beforehand.
            max_grad_norm: Euclidean norm that each record's gradient is clipped to, > 0; for
                ``clipping="per_layer"`` one for each parameter.
            sampling: "allocation": every record is dealt to one step of each epoch, uniformly and
                independently of the others; "shuffle": the records are shuffled and cut into
                batches of one size, which needs ``drop_last=True`` or a batch size that divides the
                records, and costs more. By default allocation, but a loader that shuffles is
                refused with what that would cost.
            user_ids: who owns each record of the dataset, whole numbers or texts; if given, the
                privacy unit is the user, with all of its records, for sampling="allocation". Then
                a part of an epoch costs as much as all of it.
            records_per_user: with ``user_ids``: records of each user that are dealt, the first ones
                in the dataset; `left_out` counts the others. By default all of them, 12 at most.
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
        self._checked(
            module=module,
            optimizer=optimizer,
            max_grad_norm=max_grad_norm,
            loss_reduction=loss_reduction,
            clipping=clipping,
            noise_generator=noise_generator,
            grad_sample_mode=grad_sample_mode,
            **options,
        )
        limit, target_delta = checked_budget(max_epsilon, target_delta)
        records = require_records(data_loader, self.dataset)
        kept, most = self._owned(data_loader, sampling, user_ids, records_per_user)
        noise = noise_multipliers(
            noise_multiplier,
            steps_of(data_loader, sampling or "allocation", records),
            sampling or "allocation",
        )
        schedule = noise if isinstance(noise, tuple) else None
        first = noise[0] if isinstance(noise, tuple) else noise
        # refuses what no theorem covers before anything is changed
        steps = 1 if schedule is None else len(schedule)
        step = GaussianMechanism(noise_multiplier=noise)
        RandomAllocation(step, steps=steps, records_per_user=most or 1)
        self.accountant.require_unit(most)
        if sampling is None and shuffles(data_loader):
            refuse_shuffling(
                noise_multiplier=first,
                steps=max(1, records // data_loader.batch_sampler.batch_size),
                delta=_DELTA_SHARE / records if target_delta is None else target_delta,
            )
        sampler, expected = dealt_by(
            data_loader, sampling or "allocation", kept, self._rng, distributed=distributed
        )

        module = self._private_module(
            module,
            batch_first=batch_first,
            loss_reduction=loss_reduction,
            grad_sample_mode=grad_sample_mode,
        )
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        kind = get_optimizer_class(
            clipping=clipping, distributed=distributed, grad_sample_mode=grad_sample_mode
        )
        private = dealt(kind)(
            optimizer,
            noise_multiplier=first,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected,
            loss_reduction=loss_reduction,
            generator=self.secure_rng if self.secure_mode else noise_generator,
            secure_mode=self.secure_mode,
            steps=DealtSteps(
                self.accountant,
                sampler,
                limit,
                target_delta,
                records_per_user=most,
                schedule=schedule,
            ),
        )
        self._sampler, self.dataset = sampler, data_loader.dataset
        self.left_out, self._shared = records - len(kept), distributed
        self._unit = _unit(most)
        return module, private, DataLoader(batch_sampler=sampler, **loader_options(data_loader))

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
            if self._shared:
                raise ValueError("with_deal must be False on several processes, got True")
            if deal is not None and 0 < deal.released < len(deal):
                held["secret_deal"] = {
                    "sampling": self._sampler.sampling,
                    "order": torch.from_numpy(np.array(deal.order, np.int64)),
                    "sizes": torch.from_numpy(np.array(deal.sizes, np.int64)),
                    "released": deal.released,
                    "noise_multiplier": (
                        list(deal.noise_multiplier)
                        if isinstance(deal.noise_multiplier, tuple)
                        else deal.noise_multiplier
                    ),
                }
        super().save_checkpoint(
            path=path, module=module, optimizer=optimizer, checkpoint_dict=held, **more
        )

    def _calibrated(
        self,
        data_loader: Any,
        epochs: int,
        target_epsilon: float,
        target_delta: float,
        **given: Any,
    ) -> dict[str, float]:
        sampling, owners = given.pop("sampling", None), given.pop("user_ids", None)
        most = given.pop("records_per_user", None)
        self._checked(**given)
        records = require_records(data_loader, self.dataset)
        _, most = self._owned(data_loader, sampling, owners, most)
        named = "allocation" if sampling is None else sampling
        noise_multiplier = min_noise_multiplier(
            sampling=named,
            steps=steps_of(data_loader, named, records),
            epochs=validate.integer(minimum=1, epochs=epochs),
            records_per_user=most or 1,
            target_epsilon=target_epsilon,
            delta=target_delta,
        )
        return {"noise_multiplier": float(noise_multiplier)}

    def _compared(self, saved: Any, checkpoint: dict[str, Any]) -> Callable[[], None]:
        resumed, own = self._resumed(checkpoint.get("secret_deal")), self._sampler
        if own is None:
            return lambda: None
        if saved.history:
            last = saved.history[-1]
            its = (last.sampling, last.steps, _unit(last.records_per_user))
            mine = (own.sampling, len(own), self._unit)
            if its != mine:
                raise ValueError(
                    f"checkpoint is of another configuration, {its}, got by one of {mine}"
                )
        return partial(own.give_up, resumed)

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
        noise_multiplier = noise_multipliers(
            stored["noise_multiplier"], len(sizes), self._sampler.sampling
        )
        return Deal(order, sizes, released, noise_multiplier)

    def _owned(
        self, data_loader: Any, sampling: str | None, user_ids: Any, most: int | None
    ) -> tuple[NDArray[np.int64], int | None]:
        """The records that are dealt, and how many of them one user owns at most, if known."""
        records = len(data_loader.dataset)
        if user_ids is None:
            if most is not None:
                raise ValueError(f"records_per_user needs user_ids, got {most!r} without")
            return np.arange(records), None
        if sampling == "shuffle":
            raise ValueError("user_ids must be left out with sampling='shuffle', got some")
        return kept_records(user_ids, most, records)

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
    ) -> None:
        """Refuse arguments of `make_private` that are wrong, or not covered."""
        _refuse_options(options)
        distributed = is_distributed(module)
        require_own_parameters(module, optimizer)
        self._check(optimizer, loss_reduction, grad_sample_mode)
        clipping = validate.choice(_CLIPPINGS, clipping=clipping)
        if distributed and clipping != "flat":
            raise ValueError(f"clipping must be 'flat' on several processes, got {clipping!r}")
        norms = max_grad_norm if clipping == "per_layer" else [max_grad_norm]
        for norm in validate.items(max_grad_norm=norms):
            validate.positive(max_grad_norm=norm)
        if noise_generator is not None and self.secure_mode:
            raise ValueError("noise_generator must be left out in secure_mode, got one")


def _unit(records_per_user: int | None) -> str:
    """The unit of privacy, in words."""
    return "one record" if records_per_user is None else "one user"


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
