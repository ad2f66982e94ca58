"""Upper bounds for users with different message distributions, by what the others' share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.arguments import law
from shuffle_accountant.leakage.mutual_information.ratios import HUGE_RATIO, Ratios
from shuffle_accountant.leakage.mutual_information.target import message_bracket, position_bracket
from shuffle_accountant.numerics.rounding import ELEMENTARY, Array, lowered, raised, roundings


@dataclass(frozen=True)
class HeterogeneousPosition:
    """Upper bounds of ``I(K; Z)`` for independent users with distributions of their own, nats.

    Attributes:
        entropy: ``log n``.
        blanket: the position leakage among n - 1 decoys that send what all others' distributions
            share.
        swap: ``(1/n) sum_l (D(P_1‖P_l) + D(P_l‖P_1))`` over all others: divergences are convex and
            an exchange of two places changes two messages.
        paper: ``2 eps``, e^eps the largest ratio of any two users' probabilities of one message:
            'Mutual Information Bounds in the Shuffle Model', Theorem 12.
    """

    entropy: float
    blanket: Bracket
    swap: float
    paper: float

    @property
    def least(self) -> float:
        """The smallest of them."""
        return min(self.entropy, self.blanket.upper, self.swap, self.paper)


def heterogeneous_message(
    laws: Sequence[ArrayLike] | Array, *, among: Sequence[int] | None = None
) -> Bracket:
    """Upper bound of ``I(Y1; Z)`` for independent users, user 0 the target; itself as a bracket.

    The others' messages are draws from ``mu(y) = min_l P_l(y)`` or else blank: Theorems 9 and 10 of
    'Mutual Information Bounds in the Shuffle Model'. Users who are unlike the rest shrink mu; the
    messages of any of them may be left out, since whoever knows their distributions can add them
    again.

    Args:
        among: which other users hide the target, none twice; by default all.

    """
    table = _table(laws)
    chosen = _others(among, len(table))
    return message_bracket(*_shared(table, chosen), len(chosen) + 1, "blanket")


def heterogeneous_position(laws: Sequence[ArrayLike] | Array) -> HeterogeneousPosition:
    """Upper bounds of ``I(K; Z)`` for independent users, user 0 the target.

    Here nobody may be left out: without some messages K has fewer values.
    """
    table = _table(laws)
    others = _others(None, len(table))
    swaps = [_symmetric(table[0], table[i]) for i in others]
    error = roundings(2 * ELEMENTARY)
    return HeterogeneousPosition(
        entropy=raised(math.log(len(table)), error),
        blanket=position_bracket(*_shared(table, others), len(table), "blanket"),
        swap=raised(math.fsum(swaps) / len(table), error),
        paper=raised(2.0 * _largest_ratio(table), error),
    )


def _table(laws: Sequence[ArrayLike] | Array) -> Array:
    checked = [law(laws=one) for one in validate.items(laws=laws)]
    if not checked:
        raise ValueError("laws must have one law per user, got none")
    for one in checked:
        if one.size != checked[0].size:
            raise ValueError(
                f"laws must be over the same letters, got {checked[0].size} and {one.size} letters"
            )
    return np.stack(checked)


def _others(among: Sequence[int] | None, users: int) -> list[int]:
    if among is None:
        return list(range(1, users))
    chosen = [
        validate.integer(minimum=1, maximum=users - 1, among=user)
        for user in validate.items(among=among)
    ]
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"among must name each user once, got {validate.shown(chosen)}")
    return chosen


def _shared(table: Array, others: list[int]) -> tuple[Array, Array]:
    """The target's law and the decoys', the blank last; what they share is rounded down."""
    target = np.append(table[0], 0.0)
    if not others:
        return target, np.append(np.zeros(table.shape[1]), 1.0)
    shared = table[others].min(axis=0)
    if not np.array_equal(table[others].max(axis=0), shared):  # a smaller blanket hides less
        shared = lowered(shared, roundings(8))
    return target, np.append(shared, max(1.0 - math.fsum(shared.tolist()), 0.0))


def _symmetric(one: Array, other: Array) -> float:
    """``D(P‖Q) + D(Q‖P)``, rounded up."""
    total = 0.0
    for p, q in ((one, other), (other, one)):
        if np.any((p > 0.0) & (q < p / HUGE_RATIO)):
            return math.inf
        divergence = Ratios.of(p, q).divergence
        total += divergence.value + divergence.error
    return total


def _largest_ratio(table: Array) -> float:
    """Largest log-ratio of two users' probabilities of one message."""
    high, low = table.max(axis=0), table.min(axis=0)
    if np.any((high > 0.0) & (low == 0.0)):
        return math.inf
    sent = high > 0.0
    return float(np.max(np.log(high[sent]) - np.log(low[sent])))
