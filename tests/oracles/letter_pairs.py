"""Random letters of a target among decoys, and their profiles by sums over all multisets."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.lattice.grid import Array, PldAtoms
from shuffle_accountant.losses.alphabets.letters import MessagePair, multisets


def pair_of(rows: Array, kept: float = 1.0) -> MessagePair:
    """The blanket pair of two rows of a channel, or a smaller blanket."""
    shared = kept * rows.min(axis=0)
    blank = max(1.0 - math.fsum(shared), 0.0)
    return MessagePair(np.append(rows[0], 0.0), np.append(rows[1], 0.0), np.append(shared, blank))


def random_rows(rng: np.random.Generator, inputs: int = 2) -> Array:
    """Rows of channels of all kinds: any, extremal, nearly equal, with zeros."""
    size, kind = int(rng.integers(2, 6)), int(rng.integers(5))
    eps0 = 10.0 ** rng.uniform(-3.0, math.log10(20.0))
    if kind == 0:
        rows = rng.dirichlet(np.full(size, rng.choice([0.1, 1.0, 10.0])), size=inputs)
    elif kind == 1:
        rows = np.exp(rng.choice([0.0, eps0], size=(inputs, size)))
    elif kind == 2:
        rows = np.exp(min(eps0, 10.0) * rng.random((inputs, size)))
    elif kind == 3:
        rows = rng.dirichlet(np.ones(size), size=inputs)
        rows[:, 1:] *= rng.random((inputs, size - 1)) > 0.3
    else:
        rows = np.ones((inputs, size + inputs))
        rows[:, :inputs] += math.expm1(eps0) * np.eye(inputs)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def exposure(pair: MessagePair, excess: float) -> float:
    """What letters that decoys never send add."""
    p0, p1, _ = pair.scarce
    if excess == math.inf:
        return float(np.sum(p0[p1 == 0.0]))
    return float(np.sum(np.maximum(p0 - p1 - excess * p1, 0.0)))


@dataclass(frozen=True)
class Truth:
    """The sum over all multisets, with a bound of its own rounding."""

    pair: MessagePair
    users: int

    def decoyed(self, excess: float) -> tuple[float, float]:
        """The profile without exposed letters, and how far off it may be."""
        table = multisets(self.pair, self.users)
        value = (table.s0 - table.s1) - excess * table.s1
        counted = table.mass * (value > 0.0)
        size = float(np.sum(counted * (table.s0 + (1.0 + excess) * table.s1))) / self.users
        error = (table.slack + 1e-14 * self.users) * size
        return float(np.sum(counted * value)) / self.users, error

    def whole(self, excess: float) -> tuple[float, float]:
        value, error = self.decoyed(excess)
        return value + exposure(self.pair, excess), error + 1e-15


def users_for(rng: np.random.Generator, letters: int) -> int:
    users = int(rng.choice([1, 2, 3, 5, 10, 20, 50, 100]))
    while math.comb(users + letters - 1, letters - 1) > 30_000:
        users = max(users // 2, 1)
    return users


def closed(rows: Array, kept: float = 1.0) -> list[MessagePair]:
    """All ordered pairs of inputs of a channel."""
    shared = kept * rows.min(axis=0)
    blank = max(1.0 - math.fsum(shared), 0.0)
    return [
        MessagePair(np.append(rows[i], 0.0), np.append(rows[j], 0.0), np.append(shared, blank))
        for i, j in itertools.permutations(range(rows.shape[0]), 2)
    ]


def profile_of(atoms: PldAtoms, excess: float, sign: float) -> float:
    """``H_alpha`` of atoms, their losses moved by their error."""
    loss = atoms.loss + sign * atoms.loss_error
    gap = math.log1p(excess) - loss
    return atoms.infinite + float(np.sum(atoms.mass * np.maximum(-np.expm1(gap), 0.0)))
