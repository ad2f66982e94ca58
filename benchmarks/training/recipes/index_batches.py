"""JAX, TensorFlow, or none: index batches, per-user gradients of any framework, and a ledger.

python -m benchmarks.training.recipes.index_batches [numpy|jax|tensorflow]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import shuffle_accountant as sa
from shuffle_accountant.training import PrivUnit, ShuffleLedger, private_mean
from shuffle_accountant.training.experiments import per_user_gradients
from shuffle_accountant.training.sampling import UserBatches

USERS, FEATURES, CLASSES, BATCH = 1_000, 8, 3, 250
PASSES, DELTA = 2, 1e-5
Gradients = Callable[[Any, Any, Any], Any]


def jax_gradients() -> Gradients:
    """Per-user gradients by ``jax.vmap``, compiled once: all batches are of one size."""
    import jax

    def loss(weights: Any, features: Any, label: Any) -> Any:
        return -jax.nn.log_softmax(features @ weights)[label]

    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0, 0)))
    return lambda *given: np.asarray(each(*given), dtype=np.float64)


def tensorflow_gradients() -> Gradients:
    """Per-user gradients by ``tf.vectorized_map``."""
    import tensorflow as tf

    def one(weights: Any, features: Any, label: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            scores = tf.linalg.matvec(weights, features, transpose_a=True)
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=scores)
        return tape.gradient(loss, weights)

    def each(weights: Any, features: Any, labels: Any) -> Any:
        held = tf.constant(weights)
        records = (tf.constant(features), tf.constant(labels))
        return tf.vectorized_map(lambda record: one(held, *record), records).numpy()

    return each


FRAMEWORKS: dict[str, Callable[[], Gradients]] = {
    "numpy": lambda: per_user_gradients,
    "jax": jax_gradients,
    "tensorflow": tensorflow_gradients,
}


def records() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features and labels, one user's in a row."""
    features = np.random.default_rng(0).standard_normal((USERS, FEATURES))
    return features, features[:, :CLASSES].argmax(axis=1)


def train(gradients: Gradients, batches: Any) -> ShuffleLedger:
    """Shuffled messages: every user of a batch sends one randomized gradient."""
    features, labels = records()
    weights = np.zeros((FEATURES, CLASSES))
    randomizer = PrivUnit(dimension=weights.size, eps0=2.0)
    ledger = ShuffleLedger(randomizer, users=BATCH, population=USERS)
    for _ in range(PASSES):
        for users in batches:  # every step draws its users anew, without replacement
            rows = np.asarray(gradients(weights, features[users], labels[users]))
            ledger.step()  # before anything is released
            mean = private_mean(rows.reshape(len(users), -1), randomizer)
            weights = weights - mean.reshape(weights.shape)
    return ledger


def dp_sgd(
    gradients: Gradients, *, noise_multiplier: float, steps: int, epochs: int
) -> tuple[sa.Bracket, list[NDArray[np.int64]]]:
    """A trusted server adds the noise: epsilon, and which step of each epoch used a record."""
    features, labels = records()
    weights = np.zeros((FEATURES, CLASSES))
    rng, dealt = np.random.default_rng(), []
    for _ in range(epochs):
        dealt.append(rng.integers(steps, size=USERS))  # each record in one step, dealt anew
        for step in range(steps):
            batch = np.flatnonzero(dealt[-1] == step)
            rows = np.asarray(gradients(weights, features[batch], labels[batch]))
            clipped = sa.training.clip(rows.reshape(len(batch), weights.size), 1.0)
            noisy = clipped.sum(axis=0) + rng.normal(0.0, noise_multiplier, weights.size)
            weights = weights - noisy.reshape(weights.shape) * steps / USERS  # expected size
    mechanism = sa.GaussianMechanism(noise_multiplier=noise_multiplier)
    epoch = sa.RandomAllocation(mechanism, steps=steps)
    return sa.epsilon(epoch, delta=DELTA, rounds=epochs), dealt


def main(name: str) -> None:
    """Train in both ways; print what each costs."""
    gradients = FRAMEWORKS[name]()
    ledger = train(gradients, UserBatches(population=USERS, users=BATCH, sampling="fixed"))
    lower, upper = ledger.epsilon(delta=DELTA).ends()
    print(f"{name}, shuffled messages: {len(ledger)} steps, epsilon {lower} to {upper}")
    lower, upper = dp_sgd(gradients, noise_multiplier=1.0, steps=10, epochs=PASSES)[0].ends()
    print(f"{name}, DP-SGD: {10 * PASSES} steps, epsilon {lower} to {upper}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "numpy")
