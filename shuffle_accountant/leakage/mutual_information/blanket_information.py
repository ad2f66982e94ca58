"""Mutual information of an input and n shuffled messages: its own and those of decoys.

An input x has prior pi(x) and is sent as a message of distribution R_x. The other n - 1 messages
are i.i.d. from Q. With Rbar the mean of R_x over the prior, the shuffled messages Z have

    I(X; Z) = sum_x pi(x) Phi_n(R_x, Q) - Phi_n(Rbar, Q)

if Rbar << Q, because relative to Q^n they have the density of `shuffled`, given x and on average. A
message in the set A of those that decoys never send reveals itself as the target's: with Y' the
message if it is in A and "other" if not, ``I(X; Z) = I(X; Y') + P(other) I(X; Z | other)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.leakage.mutual_information.estimate import Estimate
from shuffle_accountant.leakage.mutual_information.ratios import Exposure, Ratios
from shuffle_accountant.leakage.mutual_information.shuffled import shuffled_divergences
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    Array,
    Bound,
    outwards,
    product,
    roundings,
)
from shuffle_accountant.randomizers.checks import MOST_CATEGORIES


def information(
    weights: Sequence[float], rows: Sequence[Ratios], mean: Ratios, users: int
) -> Estimate:
    """Mutual information ``sum_x pi(x) Phi_n(R_x, Q) - Phi_n(Rbar, Q)``, nats.

    Args:
        weights: prior of the inputs, which sum to one.
        rows: R_x to Q of each, over classes of messages of its own.
        mean: Rbar to Q.
    """
    *given, average = shuffled_divergences([*rows, mean], users)
    total = Estimate(0.0)
    for weight, one in zip(weights, given, strict=True):
        total += one.times(weight)
    return total - average


@dataclass(frozen=True, eq=False)
class Signal:
    """Prior of the inputs, their messages' probabilities, and the blanket that all inputs share.

    Inputs that differ only by a renaming of messages need one row. Columns are classes of messages
    within which all ratios are constant. The decoys send the blanket, or else a blank.

    Attributes:
        weights: prior of the inputs that each row stands for, shape (b,), sums to one.
        rows: probability of each class, shape (b, m).
        mean: the same, averaged over the prior of all inputs, shape (m,).
        blanket: the blanket's masses, shape (m,), at most each row's.
        inexact: relative error of all these numbers.
        unresolved: ``Phi_n`` of the mean is up to ``unresolved/n`` above that of these classes.
    """

    weights: Array
    rows: Array
    mean: Array
    blanket: Array
    inexact: float = roundings(64)
    unresolved: float = 0.0

    def decoys(self, side: Bound) -> Array:
        """The decoys' law, the blank last: not above (PESSIMISTIC) or not below the true blanket.

        A blanket that is smaller hides less: blanks can be turned into messages afterwards.
        """
        upper = side is not Bound.PESSIMISTIC
        blanket = outwards(self.blanket, 2.0 * self.inexact, upper=upper)
        return np.append(blanket, max(1.0 - math.fsum(blanket.tolist()), 0.0))

    def information(self, users: int, side: Bound) -> Estimate:
        """``I(X; Z)`` in nats, for a blanket that is rounded in the direction of ``side``."""
        q = self.decoys(side)
        mean = np.append(self.mean, 0.0)
        rows = np.pad(self.rows, ((0, 0), (0, 1)))
        exposure = Exposure.of(mean, q)
        exposed = exposure.exposed
        error = exposure.error(users, MOST_CATEGORIES)
        told = self._told(rows, mean, exposed)
        hidden = math.fsum(mean[~exposed].tolist()) / math.fsum(mean.tolist())
        total = told + Estimate(0.0, truncation=error)
        shares = rows[:, ~exposed].sum(axis=1)
        kept = (shares > 0.0) & (self.weights > 0.0)
        if hidden == 0.0 or not kept.any():
            return total
        weights = self.weights[kept] * shares[kept]
        weights = weights / math.fsum(weights.tolist())
        ratios = [
            Ratios.of(*_merged(row, q[~exposed]), inexact=2.0 * self.inexact)
            for row in (*rows[kept][:, ~exposed], mean[~exposed])
        ]
        rest = information(weights.tolist(), ratios[:-1], ratios[-1], users).times(hidden)
        if side is Bound.OPTIMISTIC:
            rest -= Estimate(self.unresolved / users)
        return total + rest

    def _told(self, rows: Array, mean: Array, exposed: NDArray[np.bool_]) -> Estimate:
        """``I(X; Y')`` in nats, of the module's formula."""
        if not exposed.any():
            return Estimate(0.0)
        joint = np.column_stack([rows[:, exposed], rows[:, ~exposed].sum(axis=1)])
        marginal = np.append(mean[exposed], mean[~exposed].sum())
        sent = joint > 0.0
        terms = np.zeros_like(joint)
        terms[sent] = joint[sent] * np.log((joint / np.where(marginal > 0, marginal, 1.0))[sent])
        terms *= self.weights[:, None]
        size = math.fsum(np.abs(terms).ravel().tolist())
        # entries off by r move a term x log(x/m) by 2 r x, and by r of itself; what is not exposed
        # is off by what is exposed
        seen = float(self.weights @ joint[:, :-1].sum(axis=1))
        error = product(2.0 * self.inexact, roundings(2 * ELEMENTARY)) * (4.0 * seen + size)
        return Estimate(math.fsum(terms.ravel().tolist()), round_off=error)


def _merged(p: Array, q: Array) -> tuple[Array, Array]:
    """Messages whose ratios are within 16 units in the last place, as one message."""
    sent = q > 0.0
    p, q = p[sent], q[sent]
    # the bits of positive doubles are in the order of the doubles
    _, index = np.unique((p / q).view(np.int64) >> 4, return_inverse=True)
    count = int(index.max()) + 1
    index = index.ravel()
    merged = (np.bincount(index, masses, count) for masses in (p, q))
    first, second = (np.asarray(masses, dtype=np.float64) for masses in merged)
    return first, second


def between(lower: Estimate, upper: Estimate, reduction: str, most: float) -> Bracket:
    """The bracket of a number between two, and in [0, ``most``]."""
    low, high = lower.bracket(reduction, most=most), upper.bracket(reduction, most=most)
    gap = max(upper.value - lower.value, 0.0)
    ledger = ErrorLedger(
        discretisation=lower.discretisation + upper.discretisation + gap,
        truncation=lower.truncation + upper.truncation,
        round_off=lower.round_off + upper.round_off,
    )
    return Bracket(lower=low.lower, upper=high.upper, ledger=ledger, reduction=reduction)
