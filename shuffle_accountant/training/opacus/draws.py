# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Traces of the drawn batches that gradients were computed from.

A theorem covers a step if its users were drawn for it. The number of gradients does not show
that: a batch kept from an earlier step has as many. So the tensors of a batch remember the
draw they come from. PyTorch's operations hand that on (to another device, normalized, augmented),
the model notes it when a gradient flows back through its output, and the step compares.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

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
