"""Digits learned by many small clients with Flower: locally private updates, or central noise.

    python -m benchmarks.training.flower_digits [--clients 60] [--central]

Each client has a share of scikit-learn's digits and takes one step of logistic regression; a tenth
of the clients drop out of every round. The server's log tells the certified epsilon of each round.
Needs the extra ``flower`` and scikit-learn.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from shuffle_accountant.training import PrivUnit, ShuffleLedger

CLASSES, PIXELS = 10, 64
DIMENSION = CLASSES * (PIXELS + 1)
DELTA = 1e-5
RATE = 2.0


def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Images with a constant pixel, in a fixed random order, and their labels."""
    found = load_digits()
    images = np.hstack([found.data / 16.0, np.ones((len(found.data), 1))])
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], found.target[order]


def gradient(
    weights: NDArray[Any], images: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of the mean logistic loss."""
    scores = images @ weights.T
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(len(labels)), labels] -= 1.0
    return np.asarray(chances.T @ images / len(labels))


def accuracy(weights: NDArray[Any]) -> float:
    """On the quarter of the digits that no client has."""
    images, labels = digits()
    held = len(images) // 4
    return float(np.mean((images[:held] @ weights.T).argmax(axis=1) == labels[:held]))


def client_app(clients: int, mods: list[Any]) -> Any:
    """Clients that take one step on their own share."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Any, context: Any) -> Any:
        images, labels = digits()
        rows = slice(len(images) // 4 + int(context.node_config["partition-id"]), None, clients)
        weights = message.content["arrays"]["weights"].numpy()
        new = weights - RATE * gradient(weights, images[rows], labels[rows])
        arrays = ArrayRecord({"weights": Array(new.astype(np.float32))})
        metrics = MetricRecord({"num-examples": len(labels[rows])})
        return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def drop_out(message: Any, context: Any, call_next: Any) -> Any:
    """A mod: in a tenth of all rounds the device is off, whatever its data."""
    from flwr.app import Error, Message

    if np.random.default_rng().random() < 0.1:
        return Message(Error(code=1, reason="the device is off"), reply_to=message)
    return call_next(message, context)


def shuffled(clients: int, url: str) -> tuple[Any, list[Any]]:
    """Strategy and mods for clients who trust the server application to shuffle, and no more."""
    from flwr.serverapp.strategy import FedAvg

    from shuffle_accountant.training.flower import LocalRandomizerMod, ShuffledStrategy

    randomizer = PrivUnit(dimension=DIMENSION, eps0=6.0)
    ledger = ShuffleLedger.open(
        url, "digits", randomizer=randomizer, users=clients, budget=(20.0, DELTA)
    )
    inner = FedAvg(min_train_nodes=clients, min_available_nodes=clients)
    strategy = ShuffledStrategy(inner, ledger=ledger, min_users=clients // 2)
    return strategy, [
        drop_out,
        LocalRandomizerMod(randomizer, max_norm=RATE, max_rounds=100),
    ]


def central(clients: int) -> tuple[Any, list[Any]]:
    """Strategy and mods for clients who trust the server with their updates."""
    from flwr.serverapp.strategy import FedAvg

    from shuffle_accountant.training.flower import AllocationStrategy

    strategy = AllocationStrategy(
        FedAvg(),
        noise_multiplier=1.0,
        max_norm=RATE,
        steps=3,
        users=clients,
        delta=DELTA,
        max_epsilon=8.0,
    )
    return strategy, [drop_out]


def run(clients: int, rounds: int, *, with_central_noise: bool) -> tuple[float, float, int]:
    """Simulate; accuracy, certified epsilon, rounds that were released."""
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    found: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/privacy.db"
        strategy, mods = central(clients) if with_central_noise else shuffled(clients, url)
        server = ServerApp()

        @server.main()
        def main(grid: Any, context: Any) -> None:
            weights = Array(np.zeros((CLASSES, PIXELS + 1), dtype=np.float32))
            arrays = ArrayRecord({"weights": weights})
            found.append(strategy.start(grid=grid, initial_arrays=arrays, num_rounds=rounds))

        run_simulation(
            server_app=server, client_app=client_app(clients, mods), num_supernodes=clients
        )
        (result,) = found
        metrics = result.train_metrics_clientapp
        epsilon = float(metrics[max(metrics)]["epsilon"])
        return accuracy(result.arrays["weights"].numpy()), epsilon, len(metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--clients", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--central", action="store_true", help="noise at the server")
    options = parser.parse_args()
    score, epsilon, released = run(
        options.clients, options.rounds, with_central_noise=options.central
    )
    kind = "central noise" if options.central else "shuffled updates"
    print(
        f"{kind}: {options.clients} clients, {released} rounds released, accuracy {score:.3f}, "
        f"epsilon <= {epsilon:.3f} at delta = {DELTA:g}"
    )


if __name__ == "__main__":
    main()
