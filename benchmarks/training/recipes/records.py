"""What the recipes train on, and what they print."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils.data import Dataset

from shuffle_accountant.bracket import Bracket

RECORDS, FEATURES, CLASSES = 120, 8, 3
BATCH_SIZE = 12  # expected: 10 steps an epoch
EPOCHS = 2
NOISE_MULTIPLIER = 1.0
DELTA = 1e-5


class Records(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Records whose class can be learned; `taken` has the batches that were asked for."""

    def __init__(self) -> None:
        source = torch.Generator().manual_seed(0)
        self.features = torch.randn(RECORDS, FEATURES, generator=source)
        self.labels = self.features[:, :CLASSES].argmax(dim=1)
        self.taken: list[list[int]] = []

    def __len__(self) -> int:
        """Number of records."""
        return RECORDS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and label of a record."""
        return self.features[index], self.labels[index]

    def __getitems__(self, batch: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The records of a batch, which PyTorch's loaders ask for at once."""
        self.taken.append(list(batch))
        return [self[index] for index in batch]


def report(recipe: str, epsilon: Bracket, steps: int) -> None:
    """Print what a run has cost."""
    lower, upper = epsilon.ends()
    print(f"{recipe}: {steps} steps, epsilon {lower} to {upper} at delta = {DELTA:g}")
