"""Twenty thousand simulated clients, sampled: local epsilon, shuffled epsilon and accuracy.

    python -m benchmarks.training.federated_clients [--rounds 30] [--seed 1]

Each client holds one of scikit-learn's digits. In every round 2,000 of the 20,000 clients are drawn
anew, without replacement; each sends its clipped gradient by PrivUnit, through a shuffler.
"""

from __future__ import annotations

import argparse

import numpy as np

import shuffle_accountant as sa
from shuffle_accountant.training import PrivUnit, ShuffleLedger, private_mean
from shuffle_accountant.training.experiments import Digits, accuracy, load, per_user_gradients
from shuffle_accountant.training.sampling import UserBatches

CLIENTS, SAMPLED, CLASSES = 20_000, 2_000, 10
RATE, DELTA = 4.0, 1e-6
LEVELS = (1.0, 2.0, 4.0, 6.0)


def train(digits: Digits, eps0: float, rounds: int, seed: int | None) -> tuple[float, sa.Bracket]:
    """Accuracy, and the shuffled epsilon of all rounds."""
    rng = np.random.default_rng(seed)
    held = rng.integers(digits.users, size=CLIENTS)  # the image of each client
    weights = np.zeros((digits.train.shape[1], CLASSES))
    randomizer = PrivUnit(dimension=weights.size, eps0=eps0)
    batches = UserBatches(population=CLIENTS, users=SAMPLED, sampling="fixed", rng=rng)
    ledger = ShuffleLedger(randomizer, users=SAMPLED, population=CLIENTS)
    while True:
        for clients in batches:
            if len(ledger) == rounds:
                return accuracy(weights, digits), ledger.epsilon(delta=DELTA)
            rows = held[clients]
            gradients = per_user_gradients(weights, digits.train[rows], digits.train_labels[rows])
            ledger.step()
            mean = private_mean(gradients, randomizer, rng=rng)
            weights -= RATE * mean.reshape(weights.shape)


def main(arguments: list[str] | None = None) -> None:
    """Train at every level of local privacy, and print a line for each."""
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--seed", type=int, default=None, help="of a run that can be repeated")
    given = options.parse_args(arguments)
    digits = load()
    print("local epsilon  local epsilon  shuffled epsilon  accuracy")
    print("of a message   of the run     of the run")
    for eps0 in LEVELS:
        score, epsilon = train(digits, eps0, given.rounds, given.seed)
        print(f"{eps0:13g}  {eps0 * given.rounds:13g}  {epsilon.upper:16.3f}  {score:8.3f}")


if __name__ == "__main__":
    main()
