"""Logistic regression on the digits in NumPy, with a `ShuffleLedger` that stops at the budget.

In every step each of the 1,437 users clips the gradient of its image, sends one PrivUnit message,
and the model follows the mean of the shuffled messages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.training.digits import DELTA, Digits, Epoch, load, parser, report
from shuffle_accountant.training import PrivUnit, ShuffleLedger, private_mean

CLASSES = 10
EPS0 = 2.0
LEARNING_RATE = 4.0
EPSILON = 2.0
EPOCHS = 60  # more than the budget allows: it is the budget that ends the training


def train(
    digits: Digits,
    *,
    eps0: float = EPS0,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    epochs: int = EPOCHS,
    seed: int | None = None,
) -> Iterator[Epoch]:
    """Train until the budget or the epochs are used up, and tell after each epoch (one step)."""
    rng = np.random.default_rng(seed)
    weights = np.zeros((digits.train.shape[1], CLASSES))
    randomizer = PrivUnit(dimension=weights.size, eps0=eps0)
    ledger = ShuffleLedger(randomizer, users=digits.users, target_delta=delta, max_epsilon=epsilon)
    yield Epoch(0, 0, accuracy(weights, digits), ledger.epsilon())
    for number in range(1, epochs + 1):
        if ledger.would_exceed():
            return
        gradients = per_user_gradients(weights, digits.train, digits.train_labels)
        mean = private_mean(gradients, randomizer, rng=rng)
        ledger.step()
        weights -= LEARNING_RATE * mean.reshape(weights.shape)
        yield Epoch(number, len(ledger), accuracy(weights, digits), ledger.epsilon())


def per_user_gradients(
    weights: NDArray[np.float64], features: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Gradients of the cross-entropy of each image alone, shape (users, weights)."""
    scores = features @ weights
    errors = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1.0
    return (features[:, :, None] * errors[:, None, :]).reshape(len(labels), -1)


def accuracy(weights: NDArray[np.float64], digits: Digits) -> float:
    """Share of the test images that are told right."""
    return float(np.mean((digits.test @ weights).argmax(axis=1) == digits.test_labels))


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print accuracy and epsilon per epoch."""
    options = parser("digits_numpy", __doc__.splitlines()[0], EPSILON, EPOCHS)
    options.add_argument(
        "--eps0", type=float, default=EPS0, help="of a message (default: %(default)s)"
    )
    given = options.parse_args(arguments)
    try:
        told = train(load(), **vars(given))
        done = report(told, given.epochs, given.delta)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if len(done) <= given.epochs:
        print(f"stopped: another step would exceed epsilon = {given.epsilon:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
