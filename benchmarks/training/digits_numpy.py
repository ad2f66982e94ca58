"""Logistic regression on the digits in NumPy, with a `ShuffleLedger` that stops at the budget.

In every step each of the 1,437 users clips the gradient of its image, sends one PrivUnit message,
and the model follows the mean of the shuffled messages.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.training.digits import load, parser, report
from shuffle_accountant.training.experiments import train

EPS0 = 2.0
EPSILON = 2.0
EPOCHS = 60  # more than the budget allows: it is the budget that ends the training


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
