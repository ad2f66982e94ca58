# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Batches of users for Opacus: a loader that draws them and records each batch's draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data import DataLoader, Sampler, get_worker_info

from shuffle_accountant.training.opacus.checks import loader_options
from shuffle_accountant.training.opacus.draws import Draw, Pass, Trace, tagged
from shuffle_accountant.training.sampling import UserBatches

__all__ = ["DrawnBatches", "ShuffleDataLoader"]


class DrawnBatches(Sampler):
    """The batch sampler: hands out `UserBatches`, and keeps which draw the last one was.

    Opacus' `BatchMemoryManager` makes a loader of its own of the batch sampler and the function
    that collates; so they have to know the draw, and not the loader alone.

    Args:
        batches: how users are drawn.

    Attributes:
        trace: what the gradients at hand come from.
        draw: the last one.
        on_pass: called before every pass.
    """

    def __init__(self, batches: UserBatches) -> None:
        self.batches, self.trace = batches, Trace()
        self.draw: Draw | None = None
        self.on_pass: Callable[[], None] = lambda: None

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
        return _itself, (self.plain,)  # for a worker


def _itself(value: Any) -> Any:
    return value


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
