"""One target among decoys over a finite alphabet, seen through its likelihood ratios.

By the density lemma (see `shuffle_accountant.decoys`) everything depends on the ratios
``r0 = p0/q`` and ``r1 = p1/q`` of each letter alone:

    H_alpha = E[ ((1/n) sum_i (r0(Y_i) - alpha r1(Y_i)))_+ ],   Y_i i.i.d. from q.

A letter that no decoy sends (q = 0) gives the target away: it adds ``(p0 - alpha p1)_+``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from shuffle_accountant.binomial import UNIT_ROUNDOFF
from shuffle_accountant.lattice.grid import Array

__all__ = ["LetterPair", "Multisets", "largest_multisets", "multisets"]

# Heavy tails make the deviation of the ratios say little about that of the loss.
_LARGEST_DEVIATION = 40.0


@dataclass(frozen=True, eq=False)
class LetterPair:
    """Target laws p0 (dataset X) and p1 (dataset X'), and the decoys' law q, letter by letter.

    Compared and hashed by value. The masses may add up to less than one in p0 and p1 where the
    rest was moved to letters without decoys.

    Attributes:
        p0: shape (m,), >= 0.
        p1: shape (m,), >= 0.
        q: shape (m,), >= 0.
    """

    p0: Array
    p1: Array
    q: Array

    @cached_property
    def _key(self) -> bytes:
        return np.concatenate([self.p0, self.p1, self.q]).tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LetterPair) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def reversed(self) -> LetterPair:
        """The pair with the datasets exchanged."""
        return LetterPair(self.p1, self.p0, self.q)

    @cached_property
    def decoyed(self) -> tuple[Array, Array, Array]:
        """``(r0, r1, q)`` of the letters that decoys send; equal ratios share a letter."""
        sent = self.q > 0.0
        q = self.q[sent]
        ratios = np.stack([self.p0[sent] / q, self.p1[sent] / q])
        unique, index = np.unique(ratios, axis=1, return_inverse=True)
        return (
            unique[0],
            unique[1],
            np.asarray(np.bincount(index.ravel(), q, unique.shape[1]), dtype=np.float64),
        )

    @cached_property
    def exposed(self) -> tuple[Array, Array]:
        """``(p0, p1)`` of the letters that give the target away."""
        alone = self.q <= 0.0
        return self.p0[alone], self.p1[alone]

    @cached_property
    def largest(self) -> float:
        """No loss of the pair is larger: the largest log-ratio of one letter, nats."""
        possible = self.p0 > 0.0
        if np.any(self.p1[possible] == 0.0):
            return math.inf
        ratio = np.log(self.p0[possible]) - np.log(self.p1[possible])
        # two logarithms and a difference, each off by a unit in its last place
        size = np.abs(np.log(self.p0[possible])) + np.abs(np.log(self.p1[possible]))
        return max(float(np.max(ratio + 4 * UNIT_ROUNDOFF * (size + 1.0))), 0.0)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of ``r0 - r1`` under q."""
        r0, r1, q = self.decoyed
        return math.sqrt(float(np.sum(q * (r0 - r1) ** 2)))

    def deviation(self, users: int) -> float:
        """Rough standard deviation of the loss among that many messages, nats."""
        p0, p1 = self.exposed
        both = (p0 > 0.0) & (p1 > 0.0)
        told = float(np.sum(p0[both] * np.log(p0[both] / p1[both]) ** 2))
        found = min(math.sqrt(self.spread**2 / users + told), self.largest, _LARGEST_DEVIATION)
        return found if found > 0.0 else 1.0  # a loss that is 0 or infinite

    def exposure(self, excess: float) -> float:
        """What the letters without decoys add at ``alpha = 1 + excess``."""
        p0, p1 = self.exposed
        if excess == math.inf:
            return float(np.sum(p0[p1 == 0.0]))
        return float(np.sum(np.maximum(p0 - p1 - excess * p1, 0.0)))


@dataclass(frozen=True, eq=False)
class Multisets:
    """All multisets of a number of letters drawn from q.

    Attributes:
        s0: sums of r0, shape (m,).
        s1: sums of r1, shape (m,).
        mass: probabilities, shape (m,).
        slack: bound on the relative error of every mass and sum.
    """

    s0: Array
    s1: Array
    mass: Array
    slack: float


def largest_multisets(letters: int, users: int, most: int) -> int:
    """The largest number of messages, <= users, with at most ``most`` multisets of them."""
    low, high = 1, min(users, most)
    while low < high:
        middle = (low + high + 1) // 2
        few = math.comb(middle + letters - 1, letters - 1) <= most
        low, high = (middle, high) if few else (low, middle - 1)
    return low


@lru_cache(maxsize=64)
def multisets(pair: LetterPair, size: int) -> Multisets:
    """The multisets of ``size`` letters; ``comb(size + letters - 1, size)`` of them."""
    from scipy.special import gammaln

    r0, r1, q = pair.decoyed
    if size == 1:
        return Multisets(r0, r1, q, 4 * UNIT_ROUNDOFF)
    counts = np.arange(size + 1, dtype=np.float64)
    factorials = gammaln(counts + 1.0)
    left = np.array([size])
    s0, s1, log_mass = np.zeros(1), np.zeros(1), np.full(1, factorials[size])
    for a, b, chance in zip(r0[:-1], r1[:-1], q[:-1], strict=True):
        choices = left + 1
        owner = np.repeat(np.arange(left.size), choices)
        taken = np.arange(owner.size) - (np.cumsum(choices) - choices)[owner]
        s0, s1 = s0[owner] + a * taken, s1[owner] + b * taken
        log_mass = log_mass[owner] + taken * math.log(chance) - factorials[taken]
        left = left[owner] - taken
    s0, s1 = s0 + r0[-1] * left, s1 + r1[-1] * left
    log_mass = log_mass + left * math.log(q[-1]) - factorials[left]
    # each term of the logarithm is off by a few units of its own size
    terms = 3.0 * factorials[size] + size * float(np.max(np.abs(np.log(q)))) + 2.0 * q.size
    return Multisets(s0, s1, np.exp(log_mass), 8 * UNIT_ROUNDOFF * (terms + 4.0))
