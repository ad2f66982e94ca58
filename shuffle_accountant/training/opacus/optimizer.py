# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""What private optimizers share: per-sample gradients at hand, and the receipt of the last step.

Many loops keep the states of model and optimizer alone. So the parameter groups of an optimizer
that has made private steps carry a receipt of its accountant, which goes wherever its state goes;
and no engine goes on with such a state whose steps its own accountant does not have.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from shuffle_accountant.training.opacus.draws import tensors
from shuffle_accountant.training.store import Receipt

# The key of the receipt in an optimizer's parameter groups.
RECEIPT = "privacy_receipt"


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
