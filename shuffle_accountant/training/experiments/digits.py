"""scikit-learn's digits as a private training set: one image for each user.

1,797 images of 8 x 8 pixels. Four fifths of them are the users', one image each; the others measure
the accuracy and are no part of what is private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.bracket import Bracket

__all__ = ["MISSING", "Digits", "Epoch", "load"]

MISSING = "the digits need scikit-learn: pip install '.[learn]' in a clone"
"""Error message for a missing scikit-learn."""

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
        raise ImportError(MISSING) from error

    pixels, labels = load_digits(return_X_y=True)
    features = np.hstack([pixels / 16.0 - _SHIFT, np.full((len(pixels), 1), _SHIFT)])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(features))
    train, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    return Digits(features[train], labels[train], features[test], labels[test])
