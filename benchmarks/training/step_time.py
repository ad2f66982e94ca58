"""Claim: a step with PrivUnit takes at most three times as long as one of Opacus' own DP-SGD.

A network of 76,766 parameters and batches of 256: time of a step, from the forward pass to the
optimizer's, by Opacus, by allocation (which is Opacus' own step), and with each randomizer of
vectors. PyTorch gets one thread, so that its threads do not wait for one another on a busy machine;
the randomizers use all cores, as they always do.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import opacus
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.claims import interleave
from shuffle_accountant.training import DuchiL2, DuchiLInf, PrivUnit, SampledCoordinates
from shuffle_accountant.training.opacus import AllocationPrivacyEngine, ShufflePrivacyEngine

BATCH, FEATURES, CLASSES, RECORDS = 256, 100, 20, 256 * 400
MOST_TIMES = 3.0
KINDS = (PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates)


def run(repetitions: int) -> bool:
    """Time the steps side by side, print a table, and tell whether the claim holds."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(RECORDS, FEATURES, generator=generator)
    labels = torch.randint(0, CLASSES, (RECORDS,), generator=generator)
    dataset = TensorDataset(images, labels)
    gaussian = {"noise_multiplier": 1.0, "max_grad_norm": 1.0}
    steps = {
        "Opacus": stepping(dataset, opacus.PrivacyEngine(), gaussian),
        "allocation": stepping(dataset, AllocationPrivacyEngine(), gaussian),
    }
    for kind in KINDS:
        local = {"eps0": 4.0, "max_grad_norm": 1.0, "randomizer": kind}
        steps[kind.__name__] = stepping(dataset, ShufflePrivacyEngine(), local)
    timings = interleave(steps, repetitions, note=lambda _: None, before=lambda: None)
    for name, timing in timings.items():
        print(f"{name:20}{timing.median * 1e3:6.0f} ms, {timing.times(timings['Opacus'])}")
    times = timings["PrivUnit"].times(timings["Opacus"]).median
    holds = times <= MOST_TIMES
    print(f"PrivUnit takes {times:.2f} times as long as Opacus, at most {MOST_TIMES:g}: {holds}")
    return holds


def stepping(dataset: Any, engine: Any, options: dict[str, Any]) -> Callable[[], None]:
    """A call that makes one step of a new model."""
    model: Any = nn.Sequential(
        nn.Linear(FEATURES, 600), nn.Tanh(), nn.Linear(600, 26), nn.Tanh(), nn.Linear(26, CLASSES)
    )
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(dataset, batch_size=BATCH),
        **options,
    )
    batches: Iterator[Any] = iter(loader)

    def step() -> None:
        images, labels = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 if the claim holds, else 1."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.training.step_time", description=__doc__.splitlines()[0]
    )
    options.add_argument("--repetitions", type=int, default=15, help="default: %(default)s")
    given = options.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    return 0 if run(given.repetitions) else 1


if __name__ == "__main__":
    sys.exit(main())
