"""What the demonstrations share: the digits, the options, and the table they print."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from shuffle_accountant.training.experiments import Digits, Epoch, load

__all__ = ["Digits", "Epoch", "load", "parser", "report"]

DELTA = 1e-5


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
