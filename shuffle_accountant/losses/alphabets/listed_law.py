"""The profile of listed multisets of messages: one list answers for every alpha."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.losses.alphabets.letter_moments import TINY
from shuffle_accountant.losses.alphabets.likely_multisets import LikelyMultisets
from shuffle_accountant.numerics.rounding import SMALLEST, UNIT_ROUNDOFF, Array

__all__ = ["ListedLaw"]

# Products above this are normal numbers.
_SMALL = 1e-300


@dataclass(frozen=True, eq=False)
class ListedLaw:
    """Multisets of messages, the likeliest under P relative to Q first.

    Attributes:
        ratio: P/Q of each, descending.
        d: P-probabilities less Q-probabilities of all down to each, shape (m,).
        q: Q-probabilities of all down to each.
        slack: bound on the relative error of each.
        lost: what numbers below the smallest normal one may take from P- and Q-probabilities of
            all down to each, shape (2, m).
        missing: bound of the probability of what is not listed.
    """

    ratio: Array
    d: Array
    q: Array
    slack: float
    lost: Array
    missing: float

    @classmethod
    def of(cls, listed: LikelyMultisets, users: int) -> ListedLaw:
        """The law of that many messages."""
        table = listed.table
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = table.s0 / table.s1
        ratio = np.where(table.s1 > 0.0, ratio, math.inf)
        order = np.argsort(-ratio, kind="stable")
        d = np.cumsum((table.mass * (table.s0 - table.s1))[order]) / users
        q = np.cumsum((table.mass * table.s1)[order]) / users
        slack = table.slack + UNIT_ROUNDOFF * (4.0 * users + 2.0 * d.size + 64.0)
        sums = np.stack([table.s0, table.s1])[:, order]
        small = sums * table.mass[order] < _SMALL
        lost = np.cumsum(2.0 * SMALLEST * (sums + 4.0 * small), axis=1)
        return cls(ratio[order], d, q, slack, lost, listed.missing)

    def _best(self, excess: Array) -> tuple[Array, Array, Array]:
        """The event that is best at each alpha: d, q and the error of ``d - (alpha - 1) q``."""
        count = np.searchsorted(-self.ratio, -(1.0 + excess))
        d, q = np.append(0.0, self.d)[count], np.append(0.0, self.q)[count]
        lost = np.append(np.zeros((2, 1)), self.lost, axis=1)[:, count]
        error = 2.0 * self.slack * (np.abs(d) + (2.0 + excess) * q)
        return d, q, error + lost[0] + (1.0 + excess) * lost[1]

    def upper(self, excess: Array) -> Array:
        """Upper bounds of the profile, without exposed letters.

        At an alpha that is smaller by more than ratios are off: no multiset that is left out, by
        its computed ratio, is positive at the one asked for.
        """
        excess = excess - (8.0 * self.slack + 256 * UNIT_ROUNDOFF) * (1.0 + excess)
        d, q, error = self._best(excess)
        return np.asarray(np.maximum(d - excess * q, 0.0) + error + self.missing + TINY)

    def lower(self, excess: Array) -> Array:
        """Lower bounds of it."""
        excess = excess + 64 * UNIT_ROUNDOFF * (1.0 + excess)
        d, q, error = self._best(excess)
        return np.asarray(np.maximum(d - excess * q - error, 0.0))

    def curve(self, excess: Array) -> tuple[Array, Array]:
        """Events that are best about these alpha."""
        d, q, _ = self._best(excess)
        count = np.searchsorted(-self.ratio, -(1.0 + excess))
        lost = np.append(np.zeros((2, 1)), self.lost, axis=1)[:, count]
        low = d - 2.0 * self.slack * (np.abs(d) + 2.0 * q) - lost[0] - lost[1]
        return q * (1.0 + 2.0 * self.slack) + lost[1], low
