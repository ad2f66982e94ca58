# mypy: disable-error-code="misc"
# Opacus and PyTorch are optional, so their classes are of unknown type here.
"""Batches of users for Opacus: a loader that draws them and tells the draw each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from shuffle_accountant.training.opacus_draws import Draw, Pass, Trace, tagged
from shuffle_accountant.training.opacus_sources import loader_options
from shuffle_accountant.training.sampling import UserBatches

__all__ = ["ShuffleDataLoader"]


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
        super().__init__(batch_sampler=batches, **loader_options(original))
        self.batches = batches
        self.trace = Trace()

    def __iter__(self) -> Iterator[Any]:
        """Hand out the batches of one pass, each with the draw it comes from."""
        this_pass = Pass()
        for users, batch in zip(self.batches.sizes, super().__iter__(), strict=True):
            yield tagged(batch, Draw(self.trace, this_pass, users))
