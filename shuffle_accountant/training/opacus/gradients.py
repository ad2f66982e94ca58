# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""The per-sample gradients at hand: what a step needs of them, and how they are thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from shuffle_accountant.training.opacus.draws import mapped

__all__ = [
    "drop_gradients",
    "refuse_evaluation",
    "refuse_scaling",
    "require_samples",
    "whole_or_nothing",
]


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
        def watched(tensor: Any) -> Any:
            if tensor.grad_fn is not None:
                tensor.register_hook(refuse)
            return tensor

        if not module.training:
            mapped(watched, output)

    if not hasattr(module, "_refuses_evaluation"):
        module._refuses_evaluation = module.register_forward_hook(leave)


def refuse_scaling(optimizer: Any) -> None:
    """Refuse gradients of a scaled loss: after clipping, only their directions would be left.

    A scaler tells so by two attributes, if the optimizer's ``_step_supports_amp_scaling`` is set;
    otherwise it would skip the step as soon as one gradient overflows.
    """
    marks = [mark for mark in ("grad_scale", "found_inf") if mark in vars(optimizer)]
    scaled = any(getattr(optimizer, mark) is not None for mark in marks)
    for mark in marks:
        delattr(optimizer, mark)
    if scaled:
        raise ValueError(
            "a step must be made without a GradScaler (private gradients are clipped, so their "
            "scale is lost, and its checks tell of single users), got its grad_scale"
        )


def require_samples(optimizer: Any, parameters: int) -> list[torch.Tensor]:
    """The per-sample gradients of all parameters, from one backward pass.

    Args:
        optimizer: one of Opacus'.
        parameters: how many parameters were trainable when it was made.
    """
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


@contextmanager
def whole_or_nothing(optimizer: Any, forget: Callable[[], None]) -> Iterator[None]:
    """Make a step, or refuse it: then nothing of it is left, nor its place in the queue of parts.

    Args:
        optimizer: one of Opacus'.
        forget: forgets sums over the parts of a batch.
    """
    queue = optimizer._step_skip_queue
    queued = len(queue)
    try:
        yield
    except BaseException:
        drop_gradients(optimizer)
        forget()
        if queued and len(queue) == queued:
            queue.pop(0)
        raise
