# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Opacus' DP-SGD, each step of which uses exactly one batch of a deal of the records."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from opacus.optimizers import get_optimizer_class
from torch.utils.data import DataLoader, RandomSampler

from shuffle_accountant import validation as validate
from shuffle_accountant.calibration.calibrate import min_noise_multiplier
from shuffle_accountant.randomizers.checks import generator
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.training.opacus.deals import (
    AllocationAccountant,
    Deal,
    DealtEpoch,
    DealtSampler,
    dealt_by,
    kept_records,
    noise_multipliers,
    refuse_shuffling,
    steps_of,
)
from shuffle_accountant.training.opacus.shared import (
    CertifiedEngine,
    PrivateOptimizer,
    checked_budget,
    drop_gradients,
    is_distributed,
    loader_options,
    require_own_parameters,
    require_records,
    require_samples,
)

# Delta of a shuffle's price where none is given, in units of one over the records.
_DELTA_SHARE = 0.1
_CLIPPINGS = ("flat", "per_layer")


class DealtSteps:
    """Checks each step of a deal against theorem and budget (epsilon, delta), and records it.

    Without a schedule, noise multipliers of a deal's steps, the optimizer's own is used.
    """

    def __init__(
        self,
        accountant: AllocationAccountant,
        sampler: DealtSampler,
        budget: tuple[float, float] | None,
        *,
        records_per_user: int | None,
        schedule: tuple[float, ...] | None,
    ) -> None:
        self.sampler, self.accountant, self._budget = sampler, accountant, budget
        self._records, self._schedule = records_per_user, schedule
        self._last = None if schedule is None else schedule[0]

    def allow(self, own: float) -> tuple[float, int]:
        """Noise multiplier, and records, a secret, of the next step, where the optimizer's is own.

        Refuses what no theorem, or no budget, covers.
        """
        schedule = self._schedule
        if schedule is not None and own != self._last:
            raise ValueError(
                "noise_multiplier must not be changed where make_private was given one for each "
                f"step, got {own!r}"
            )
        deal = self._at_hand()
        if schedule is not None or deal.noise_multiplier is None:
            deal.noise_multiplier = own if schedule is None else schedule
        elif deal.noise_multiplier != own:
            raise ValueError(
                f"noise_multiplier must not change in the middle of an epoch, got {own!r} after "
                f"{deal.noise_multiplier!r} (give make_private a list, one for each step)"
            )
        if deal.allowed is None:
            deal.allowed = self._allowed(deal)
        if deal.released >= deal.allowed:
            assert self._budget is not None
            raise self.accountant.exceeded(*self._budget)
        self._last = own if schedule is None else schedule[deal.released]
        return self._last, deal.size

    def record(self) -> None:
        """Record the step."""
        deal = self._at_hand()
        self.accountant.step(begins_deal=deal.released == 0, **self._of(deal))
        deal.released += 1

    def _of(self, deal: Deal) -> dict[str, Any]:
        """What a deal's entry in the accountant is made of, but for the steps released."""
        return {
            "noise_multiplier": deal.noise_multiplier,
            "steps": len(deal),
            "sampling": self.sampler.sampling,
            "records_per_user": self._records,
        }

    def _at_hand(self) -> Deal:
        deal = self.sampler.deal
        if deal is None or deal.released >= deal.yielded:
            raise ValueError(
                "a step must use a new batch of the private loader, got none since the last step"
            )
        return deal

    def _allowed(self, deal: Deal) -> int:
        """Number of steps of this deal that fit the budget; fewer are post-processing of more.

        It never depends on the data: a run may stop there and pay for the steps it made.
        """
        if self._budget is None:
            return len(deal)
        epsilon, delta = self._budget
        earlier = AllocationAccountant()
        earlier.history = self.accountant.history[: -1 if deal.released else None]

        def exceeds(released: int) -> bool:
            part = DealtEpoch(released=released, **self._of(deal))
            return earlier.would_exceed(part.round, epsilon=epsilon, delta=delta)

        if not exceeds(len(deal)):
            return len(deal)
        if DealtEpoch(released=len(deal), **self._of(deal)).whole:
            return 0
        return bisect_left(range(1, len(deal)), True, key=exceeds)


class DealtOptimizer(PrivateOptimizer):
    """Mixed into an optimizer of Opacus', whose clipping, noise and scaling stay what they are.

    A step whose batch is empty is made like any other: of the placeholder nothing is used but its
    shape. A record whose gradient is not finite counts as zero.

    Args:
        *arguments: of the optimizer.
        steps: asked before the noise is drawn, notified before the sum is used.
        **options: of the optimizer.
    """

    def __init__(self, *arguments: Any, steps: DealtSteps, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._steps, self.accountant = steps, steps.accountant
        self._parameters = len(self._opacus.params)
        self._rows = 0
        steps.sampler.on_deal = self._forget_batch

    def clip_and_accumulate(self) -> None:
        """Add up the clipped gradients, as Opacus does, without those that are not finite.

        One of them makes the sum not finite, which is quickly seen; then it is made again.
        """
        add: Callable[[], None] = super().clip_and_accumulate
        sums = [parameter.summed_grad for parameter in self._opacus.params]
        held = [None if one is None else one.clone() for one in sums]
        add()
        if all(bool(torch.isfinite(p.summed_grad).all()) for p in self._opacus.params):
            return
        _clear_rows(self._opacus.grad_samples)
        for parameter, earlier in zip(self._opacus.params, held, strict=True):
            parameter.summed_grad = earlier
            del parameter.grad_sample._processed  # Opacus' mark of what it has added up
        add()

    def _released(self, whole: bool, closure: Any) -> bool:
        noise_multiplier, size = self._steps.allow(self._opacus.noise_multiplier)
        self._opacus.noise_multiplier = noise_multiplier
        samples = require_samples(self, self._parameters)
        self._rows += len(samples[0])  # a batch may come in parts
        wanted = max(size, 1)
        if self._rows > wanted or (whole and self._rows < wanted):
            # how many there are is the deal's secret
            raise ValueError(
                "a step must use one whole batch of the private loader, got another number of rows"
            )
        if size == 0:
            for placeholder in samples:
                placeholder.zero_()
        super_step: Callable[[Any], bool] = super(PrivateOptimizer, self).pre_step
        if not super_step(closure):
            return False
        self._steps.record()
        self._give_receipt()
        self._forget()
        return True

    def _forget(self) -> None:
        self._rows = 0

    def _forget_batch(self) -> None:
        """Forget the parts of a batch that was broken off; a new deal holds its records again."""
        drop_gradients(self)
        self._forget()
        self._opacus._step_skip_queue.clear()


@cache
def dealt(kind: type) -> type:
    """The class of optimizers like ``kind`` that step by the deal."""
    return type(f"Dealt{kind.__name__}", (DealtOptimizer, kind), {})


def _clear_rows(samples: list[Any]) -> None:
    """Set the rows to zero that are not finite in any parameter."""
    device = samples[0].device
    finite = [torch.isfinite(s).reshape(len(s), -1).all(dim=1).to(device) for s in samples]
    wrong = ~torch.stack(finite).all(dim=0)
    for sample in samples:
        sample[wrong.to(sample.device)] = 0.0


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
        ways: dict[str, Any] = {"loss_reduction": loss_reduction}
        ways["grad_sample_mode"] = grad_sample_mode
        self._checked(
            module=module,
            optimizer=optimizer,
            max_grad_norm=max_grad_norm,
            clipping=clipping,
            noise_generator=noise_generator,
            **ways,
            **options,
        )
        budget = checked_budget(max_epsilon, target_delta)
        records = require_records(data_loader, self.dataset)
        kept, most = self._owned(data_loader, sampling, user_ids, records_per_user)
        named = sampling or "allocation"
        noise = noise_multipliers(noise_multiplier, steps_of(data_loader, named, records), named)
        first, schedule = (noise[0], noise) if isinstance(noise, tuple) else (noise, None)
        # refuses what no theorem covers before anything is changed
        step = GaussianMechanism(noise_multiplier=noise)
        RandomAllocation(step, steps=len(schedule or (first,)), records_per_user=most or 1)
        self.accountant.require_unit(most)
        own = getattr(data_loader.batch_sampler, "sampler", None)
        if sampling is None and isinstance(own, RandomSampler):
            refuse_shuffling(
                noise_multiplier=first,
                steps=max(1, records // data_loader.batch_sampler.batch_size),
                delta=_DELTA_SHARE / records if target_delta is None else float(target_delta),
            )
        sampler, expected = dealt_by(data_loader, named, kept, self._rng, distributed=distributed)

        module, optimizer = self._private_parts(module, optimizer, batch_first=batch_first, **ways)
        kind = get_optimizer_class(clipping, distributed, grad_sample_mode)
        private = dealt(kind)(
            optimizer,
            noise_multiplier=first,
            max_grad_norm=max_grad_norm,
            expected_batch_size=expected,
            loss_reduction=loss_reduction,
            generator=self.secure_rng if self.secure_mode else noise_generator,
            secure_mode=self.secure_mode,
            steps=DealtSteps(
                self.accountant, sampler, budget, records_per_user=most, schedule=schedule
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
                noise = deal.noise_multiplier
                held["secret_deal"] = {
                    "sampling": self._sampler.sampling,
                    "order": torch.from_numpy(np.array(deal.order, np.int64)),
                    "sizes": torch.from_numpy(np.array(deal.sizes, np.int64)),
                    "released": deal.released,
                    "noise_multiplier": list(noise) if isinstance(noise, tuple) else noise,
                }
        super().save_checkpoint(
            path=path, module=module, optimizer=optimizer, checkpoint_dict=held, **more
        )

    def _calibrated(
        self, data_loader: Any, epochs: int, epsilon: float, delta: float, **given: Any
    ) -> dict[str, float]:
        sampling, owners = given.pop("sampling", None), given.pop("user_ids", None)
        most = given.pop("records_per_user", None)
        self._checked(**given)
        records = require_records(data_loader, self.dataset)
        _, most = self._owned(data_loader, sampling, owners, most)
        named = sampling or "allocation"
        noise_multiplier = min_noise_multiplier(
            sampling=named,
            steps=steps_of(data_loader, named, records),
            epochs=validate.integer(minimum=1, epochs=epochs),
            records_per_user=most or 1,
            target_epsilon=epsilon,
            delta=delta,
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
        given = stored["noise_multiplier"]
        noise = noise_multipliers(given, len(sizes), self._sampler.sampling)
        return Deal(order, sizes, released, noise)

    def _owned(
        self, data_loader: Any, sampling: str | None, user_ids: Any, most: int | None
    ) -> tuple[NDArray[np.int64], int | None]:
        """The records that are dealt, and how many of them one user owns at most, if known."""
        records = len(data_loader.dataset)
        if user_ids is None:
            if most is not None:
                raise ValueError(
                    f"records_per_user needs user_ids, got {validate.shown(most)} without"
                )
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
