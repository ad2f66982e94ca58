"""scikit-learn's digits, one image for each user, and logistic regression on shuffled messages.

1,797 images of 8 x 8 pixels. Four fifths of them are the users', one image each; the others measure
the accuracy and are no part of what is private. In every step each user clips the gradient of its
image, sends one PrivUnit message, and the model follows the mean of the shuffled messages; a
`ShuffleLedger` stops it at the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.bracket import Bracket
from shuffle_accountant.randomizers.vectors import PrivUnit
from shuffle_accountant.training.ledger import ShuffleLedger
from shuffle_accountant.training.sampling import private_mean

__all__ = ["Digits", "Epoch", "accuracy", "load", "per_user_gradients", "train"]

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
    """Accuracy of the model after an epoch, and epsilon so far; epoch 0 is the untrained model."""

    number: int
    steps: int
    accuracy: float
    epsilon: Bracket


def load() -> Digits:
    """The digits, split at random once and for all."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits need scikit-learn: pip install '.[learn]' in a clone"
        ) from error
    pixels, labels = load_digits(return_X_y=True)
    features = np.hstack([pixels / 16.0 - _SHIFT, np.full((len(pixels), 1), _SHIFT)])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(features))
    train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    return Digits(features[train], labels[train], features[test], labels[test])


def train(
    digits: Digits,
    *,
    eps0: float = 2.0,
    epsilon: float = 2.0,
    delta: float = 1e-5,
    epochs: int = 60,
    seed: int | None = None,
) -> Iterator[Epoch]:
    """Train until the budget or the epochs are used up, and yield after each epoch (one step).

    Args:
        digits: what to learn from, and what to measure by.
        eps0: of a message, nats, > 0.
        epsilon: the budget, nats: a step that would go over it is not taken.
        delta: of the budget, in (0, 1).
        epochs: at most; by default more than the budget allows.
        seed: of a run that can be repeated; its noise is then no secret.
    """
    rng = np.random.default_rng(seed)
    weights = np.zeros((digits.train.shape[1], 10))
    randomizer = PrivUnit(dimension=weights.size, eps0=eps0)
    ledger = ShuffleLedger(randomizer, users=digits.users, target_delta=delta, max_epsilon=epsilon)
    yield Epoch(0, 0, accuracy(weights, digits), ledger.epsilon())
    for number in range(1, epochs + 1):
        if ledger.would_exceed():
            return
        gradients = per_user_gradients(weights, digits.train, digits.train_labels)
        mean = private_mean(gradients, randomizer, rng=rng)
        ledger.step()
        weights -= 4.0 * mean.reshape(weights.shape)
        yield Epoch(number, len(ledger), accuracy(weights, digits), ledger.epsilon())


def per_user_gradients(
    weights: NDArray[np.float64], features: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Gradients of the cross-entropy of each image alone, shape (users, weights)."""
    scores = features @ weights
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    gradients: NDArray[np.float64] = features[:, :, None] * errors[:, None, :]
    return gradients.reshape(len(labels), -1)


def accuracy(weights: NDArray[np.float64], digits: Digits) -> float:
    """Share of the test images that are classified correctly, in [0, 1]."""
    return float(np.mean((digits.test @ weights).argmax(axis=1) == digits.test_labels))
