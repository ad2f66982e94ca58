"""DP-SGD on the digits at one noise multiplier, with three ways to make batches.

Poisson sampling is Opacus' own; allocation deals the images anew in every epoch, "shuffle" shuffles
them and cuts them into batches. The models are about equally good, and epsilon is not: each row has
the certified interval of its own sampling. The lower end of shuffled batches is what they lose for
certain, so it shows what Poisson's number is worth for a loader that shuffles.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import opacus
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import shuffle_accountant as sa
from benchmarks.training.digits import DELTA, Digits, load
from shuffle_accountant import validation as validate
from shuffle_accountant.rounds.samplings import training_run
from shuffle_accountant.training.opacus import AllocationPrivacyEngine

SAMPLINGS = ("poisson", "allocation", "shuffle")
CLASSES, IMAGES = 10, 64
LEARNING_RATE, EPOCHS, SEEDS, NOISE = 4.0, 8, 3, 1.0


@dataclass(frozen=True)
class Row:
    """How good the models of a sampling are, and between what the epsilon they cost is.

    Attributes:
        sampling: "poisson", "allocation" or "shuffle".
        steps: of an epoch.
        accuracies: of one model per seed.
        lower: end of the interval, nats.
        upper: end of the interval, nats.
    """

    sampling: str
    steps: int
    accuracies: tuple[float, ...]
    lower: float
    upper: float


def compare(
    digits: Digits, *, noise_multiplier: float, epochs: int, seeds: int, delta: float
) -> list[Row]:
    """A row for every sampling, with the same loader, noise and seeds."""
    rows = []
    for sampling in SAMPLINGS:
        trained = [train(digits, sampling, noise_multiplier, epochs, seed) for seed in range(seeds)]
        steps = trained[0][1]
        run = training_run(sampling, noise_multiplier=noise_multiplier, steps=steps, epochs=epochs)
        spent = sa.epsilon(run, delta=delta)
        lower = spent.lower
        if sampling == "shuffle":
            one = sa.ShuffledBatches(noise_multiplier=noise_multiplier, steps=steps)
            lower = sa.attained_epsilon(one, delta=delta, rounds=epochs).lower
        accuracies = tuple(accuracy for accuracy, _ in trained)
        rows.append(Row(sampling, steps, accuracies, lower, spent.upper))
    return rows


def train(
    digits: Digits, sampling: str, noise_multiplier: float, epochs: int, seed: int
) -> tuple[float, int]:
    """Train one model; its accuracy, and the steps of an epoch."""
    torch.manual_seed(seed)
    model: Any = nn.Linear(digits.train.shape[1], CLASSES, bias=False)
    nn.init.zeros_(model.weight)
    images = torch.as_tensor(digits.train, dtype=torch.float32)
    dataset = TensorDataset(images, torch.as_tensor(digits.train_labels))
    private: dict[str, Any] = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        "data_loader": DataLoader(dataset, batch_size=IMAGES, drop_last=True),
        "noise_multiplier": noise_multiplier,
        "max_grad_norm": 1.0,
    }
    if sampling == "poisson":
        engine: Any = opacus.PrivacyEngine()
    else:
        engine = AllocationPrivacyEngine(rng=np.random.default_rng(seed))
        private["sampling"] = sampling
    model, optimizer, loader = engine.make_private(**private)
    for _ in range(epochs):
        for some_images, some_labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(some_images), some_labels).backward()
            optimizer.step()
    with torch.no_grad():
        guesses = model(torch.as_tensor(digits.test, dtype=torch.float32)).argmax(dim=1)
    return float(np.mean(guesses.numpy() == digits.test_labels)), len(loader)


def show(rows: Sequence[Row], delta: float) -> None:
    """Print the table, and what it says about reports of Poisson's number."""
    print(f"sampling    steps  accuracy  epsilon at delta = {delta:g}")
    for row in rows:
        mean = statistics.fmean(row.accuracies)
        print(f"{row.sampling:10}  {row.steps:5d}  {mean:8.3f}  {row.lower:.3f} to {row.upper:.3f}")
    poisson, shuffled = rows[0], rows[-1]
    print(
        f"a loader that shuffles loses at least {shuffled.lower:.3f}, "
        f"where Poisson's number would have claimed {poisson.upper:.3f}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train with each sampling, and print accuracy and epsilon."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.training.digits_samplings",
        description=__doc__.splitlines()[0],
    )
    for name, kind, default in (
        ("noise-multiplier", float, NOISE),
        ("epochs", int, EPOCHS),
        ("seeds", int, SEEDS),
        ("delta", float, DELTA),
    ):
        options.add_argument(f"--{name}", type=kind, default=default, help="default: %(default)s")
    given = options.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    warnings.filterwarnings("ignore", message="Secure RNG turned off")
    # Poisson sampling has no last batch to drop, and says so for every model
    logging.getLogger("opacus.data_loader").setLevel(logging.ERROR)
    try:
        validate.positive(noise_multiplier=given.noise_multiplier)
        validate.integer(minimum=1, epochs=given.epochs)
        validate.integer(minimum=1, seeds=given.seeds)
        validate.open_unit(delta=given.delta)
        show(compare(load(), **vars(given)), given.delta)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
