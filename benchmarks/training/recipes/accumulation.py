"""Gradient accumulation: one large batch a step, a few records in memory at a time."""

from __future__ import annotations

from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn, optim
from torch.utils.data import DataLoader

from benchmarks.training.recipes import records as r
from shuffle_accountant.training.opacus import AllocationPrivacyEngine


def train(records: r.Records) -> AllocationPrivacyEngine:
    """Train with at most 4 records in memory; the engine knows what it has cost."""
    model = nn.Linear(r.FEATURES, r.CLASSES)
    engine = AllocationPrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(records, batch_size=r.BATCH_SIZE),
        noise_multiplier=r.NOISE_MULTIPLIER,
        max_grad_norm=1.0,
    )
    for _ in range(r.EPOCHS):
        with BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=4, optimizer=optimizer
        ) as parts:
            for features, labels in parts:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(features), labels).backward()
                optimizer.step()  # a private step after the last part of a batch only
    return engine


if __name__ == "__main__":
    engine = train(r.Records())
    r.report("accumulation", engine.get_epsilon(r.DELTA), len(engine.accountant))
