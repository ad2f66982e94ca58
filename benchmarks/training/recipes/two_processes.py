"""Distributed data parallel on two processes: each deals its own half of the records."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch import distributed, multiprocessing, nn, optim
from torch.utils.data import DataLoader

from benchmarks.training.recipes import records as r
from shuffle_accountant.training.opacus import AllocationPrivacyEngine

PROCESSES = 2


def train(rank: int, folder: str) -> None:
    """What each process does; the batches it took are written into the folder."""
    store = f"file://{folder}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=PROCESSES)
    torch.manual_seed(rank)  # only one process adds the noise
    records = r.Records()
    model = DifferentiallyPrivateDistributedDataParallel(nn.Linear(r.FEATURES, r.CLASSES))
    engine = AllocationPrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(records, batch_size=r.BATCH_SIZE),  # of all, no DistributedSampler
        noise_multiplier=r.NOISE_MULTIPLIER,
        max_grad_norm=1.0,
    )
    for _ in range(r.EPOCHS):
        for features, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
    if rank == 0:
        r.report("two processes", engine.get_epsilon(r.DELTA), len(engine.accountant))
    torch.save(
        {"taken": records.taken, "accountant": engine.accountant.state_dict()},
        Path(folder, f"{rank}.pt"),
    )
    distributed.destroy_process_group()


def run(folder: str) -> None:
    """Start the processes and wait for them."""
    multiprocessing.spawn(train, args=(folder,), nprocs=PROCESSES)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(folder)
