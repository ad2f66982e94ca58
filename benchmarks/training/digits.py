"""What both demonstrations share: the digits, the options, and the table they print.

scikit-learn's bundled digits are 1,797 images of 8 x 8 pixels. Four fifths of them are the users,
one image each; the others measure the accuracy and are no part of what is private.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import shuffle_accountant as sa

__all__ = ["Digits", "Epoch", "load", "parser", "report"]

DELTA = 1e-5
_SPLIT_SEED = 0
_SHIFT = 0.3  # about the mean brightness; fixed, so that it tells nothing about the users


@dataclass(frozen=True)
class Digits:
    """Images as unit vectors of 65 features (64 pixels and a constant), and what they show."""

    train: NDArray[np.float64]
    train_labels: NDArray[np.int64]
    test: NDArray[np.float64]
    test_labels: NDArray[np.int64]

    @property
    def users(self) -> int:
        """Users in training, one image each."""
        return len(self.train)


@dataclass(frozen=True)
class Epoch:
    """How good the model is after an epoch, and what it cost; epoch 0 is the untrained model."""

    number: int
    steps: int
    accuracy: float
    epsilon: sa.Bracket


def load() -> Digits:
    """The digits, split at random once and for all."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    features = np.hstack([pixels / 16.0 - _SHIFT, np.full((len(pixels), 1), _SHIFT)])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(features))
    train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    return Digits(features[train], labels[train], features[test], labels[test])


def parser(program: str, text: str, epsilon: float, epochs: int) -> argparse.ArgumentParser:
    """The options of both."""
    options = argparse.ArgumentParser(
        prog=f"python -m benchmarks.training.{program}", description=text
    )
    options.add_argument(
        "--epsilon", type=float, default=epsilon, help="budget (default: %(default)s)"
    )
    options.add_argument(
        "--delta", type=float, default=DELTA, help="its delta (default: %(default)s)"
    )
    options.add_argument(
        "--epochs", type=int, default=epochs, help="at most (default: %(default)s)"
    )
    options.add_argument("--seed", type=int, default=None, help="of a run that can be repeated")
    return options


def report(epochs: Iterable[Epoch], total: int, delta: float) -> list[Epoch]:
    """Print a line per epoch, with a progress bar on a terminal; the epochs as a list."""
    from tqdm import tqdm

    done = []
    tqdm.write(f"epoch  steps  accuracy  epsilon at delta = {delta:g}")
    for epoch in tqdm(epochs, total=total + 1, unit="epoch", disable=None, leave=False):
        lower, upper = epoch.epsilon.ends()
        tqdm.write(
            f"{epoch.number:5d}  {epoch.steps:5d}  {epoch.accuracy:8.3f}  {lower} to {upper}"
        )
        done.append(epoch)
    return done
