"""Random eps0-LDP channels, their datasets and test points, from a seeded NumPy generator.

A channel is a list of rows, one per input, of letter probabilities. It is eps0-LDP when no column
holds two entries whose ratio exceeds e^eps0. Three families are drawn, because bounds fail on
different ones: extremal channels (vertices of the polytope of staircase mechanisms, where every
column takes only two values, a factor e^eps0 apart), k-ary randomized response with relabelled
outputs, and generic channels shrunk towards their mean row until they are just private enough.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Channel = list[list[float]]


def local_epsilon(channel: Channel) -> float:
    """The exact eps0 of a channel: the largest log-ratio inside a column."""
    table = np.asarray(channel)
    if np.any((table.min(axis=0) == 0.0) & (table.max(axis=0) > 0.0)):
        return float("inf")
    used = table[:, table.max(axis=0) > 0.0]
    return float(np.max(np.log(used.max(axis=0) / used.min(axis=0))))


def extremal(rng: np.random.Generator, eps0: float, inputs: int) -> Channel:
    """A random vertex of the staircase mechanisms: columns w_y * (1 or e^eps0), at most `inputs`.

    The weights w >= 0 must make every row sum to 1; a random cost picks the vertex.
    """
    patterns = np.array(list(product([1.0, np.exp(eps0)], repeat=inputs))).T
    cost = rng.exponential(size=patterns.shape[1]) * patterns.mean(axis=0)
    weights = linprog(cost, A_eq=patterns, b_eq=np.ones(inputs), bounds=(0, None)).x
    kept = weights > 1e-9  # linprog's own zero; rows are made to sum to 1 again below
    return _rows_to_one(patterns[:, kept] * weights[kept])


def randomized_response(eps0: float, categories: int) -> Channel:
    """k-ary randomized response: the true value e^eps0 times as likely as each other one."""
    table = np.ones((categories, categories)) + (np.exp(eps0) - 1.0) * np.eye(categories)
    return _rows_to_one(table)


def generic(rng: np.random.Generator, eps0: float, inputs: int, letters: int) -> Channel:
    """Random rows, mixed with their mean by the largest weight that keeps eps0-LDP."""
    table = rng.dirichlet(np.full(letters, 0.5), size=inputs) + 1e-6
    table /= table.sum(axis=1, keepdims=True)
    mean = table.mean(axis=0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if local_epsilon((mean + middle * (table - mean)).tolist()) <= eps0:
            low = middle
        else:
            high = middle
    channel: Channel = (mean + low * (table - mean)).tolist()
    return channel


def random_channel(rng: np.random.Generator, eps0: float) -> Channel:
    """One channel of a random family with 2 to 4 inputs and 2 to 4 letters."""
    inputs = int(rng.integers(2, 5))
    family = int(rng.integers(3))
    if family == 0:
        return extremal(rng, eps0, inputs)
    if family == 1:
        channel = randomized_response(eps0, inputs)
        relabel = rng.permutation(inputs)
        return [[row[letter] for letter in relabel] for row in channel]
    return generic(rng, eps0, inputs, int(rng.integers(2, 5)))


def random_dataset(rng: np.random.Generator, inputs: int, users: int) -> tuple[list[int], int]:
    """A dataset and a different value for its first user (the target).

    Half of the datasets give all other users one value: that is where specialised bounds break.
    """
    target, other = (int(x) for x in rng.choice(inputs, size=2, replace=False))
    if rng.random() < 0.5:
        rest = [int(rng.integers(inputs))] * (users - 1)
    else:
        rest = [int(x) for x in rng.integers(inputs, size=users - 1)]
    return [target, *rest], other


def _rows_to_one(table: NDArray[np.float64]) -> Channel:
    """Divide each row by its sum (rows that should sum to 1 already, but for round-off)."""
    channel: Channel = (table / table.sum(axis=1, keepdims=True)).tolist()
    return channel
