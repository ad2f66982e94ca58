"""A PyTorch model of the digits through Opacus, with an eps0 calibrated to the budget.

Every step draws a third of the 1,437 users anew. The same engine goes on after the epochs that the
budget was made for, and refuses.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.training.digits import DELTA, Digits, Epoch, load, parser, report
from shuffle_accountant.training import BudgetExceeded
from shuffle_accountant.training.opacus import ShufflePrivacyEngine

CLASSES = 10
USERS = 479  # a third
LEARNING_RATE = 4.0
EPSILON = 3.0
EPOCHS = 20


def train(
    digits: Digits,
    *,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    epochs: int = EPOCHS,
    sampling: str = "fixed",
    seed: int | None = None,
) -> Iterator[Epoch]:
    """Train for the epochs and one more, which the budget does not allow; tell after each epoch."""
    model: Any = nn.Linear(digits.train.shape[1], CLASSES, bias=False)
    nn.init.zeros_(model.weight)
    images = torch.as_tensor(digits.train, dtype=torch.float32)
    labels = torch.as_tensor(digits.train_labels)
    engine = ShufflePrivacyEngine(rng=np.random.default_rng(seed))
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=LEARNING_RATE),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=USERS, shuffle=True),
        target_epsilon=epsilon,
        target_delta=delta,
        epochs=epochs,
        max_grad_norm=1.0,
        sampling=sampling,
    )

    def told(number: int) -> Epoch:
        return Epoch(
            number, len(engine.accountant), accuracy(model, digits), engine.get_epsilon(delta)
        )

    yield told(0)
    for number in range(1, epochs + 2):
        try:
            for some_images, some_labels in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(some_images), some_labels).backward()
                optimizer.step()
        except BudgetExceeded:
            return
        yield told(number)


def accuracy(model: Any, digits: Digits) -> float:
    """Share of the test images that are told right."""
    with torch.no_grad():
        guesses = model(torch.as_tensor(digits.test, dtype=torch.float32)).argmax(dim=1)
    return float(np.mean(guesses.numpy() == digits.test_labels))


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print accuracy and epsilon per epoch."""
    options = parser("digits_opacus", __doc__.splitlines()[0], EPSILON, EPOCHS)
    options.add_argument(
        "--sampling", default="fixed", help="fixed or epoch (default: %(default)s)"
    )
    given = options.parse_args(arguments)
    # images need no gradients, which PyTorch's hooks remark on
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    try:
        done = report(train(load(), **vars(given)), given.epochs, given.delta)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if len(done) <= given.epochs + 1:
        print(f"stopped: another step would exceed epsilon = {given.epsilon:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
