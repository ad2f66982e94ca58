"""Re-identification advantage over blind guesses, and bounds of it by total variation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import two_laws
from shuffle_accountant.leakage.reidentification.success import (
    NEGLIGIBLE,
    checked_counts,
    expected_hits,
    layers,
    running_sum,
    success_probability,
)
from shuffle_accountant.numerics.rounding import BELOW_ONE, Array, pairwise_sum

# of sums of positive terms, each good to a few roundings
_ERROR = pairwise_sum(own=8)


def additive_advantage(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``Adv+ = beta_n^k(p, q) - k/n``, with relative accuracy for one guess.

    The difference is not taken: ``n Adv+ = (n - k) f + int_0^inf (m_k(n, Q) - k Q)(w > t) dt``, and
    for one guess the integrand is ``Q(w <= t) (1 - Q(w <= t)^(n-1))``. So distributions that agree
    to ten digits still have an advantage with six.

    Returns:
        A number in [0, 1 - k/n]; for k > 1 guesses its error is up to some units in the last place
        of k/n.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    certain, above_one, mass = _ratios_less_one(target, decoys)
    order = np.argsort(above_one)
    above_one, mass = above_one[order], mass[order]
    steps = np.diff(above_one)  # below the least ratio all decoys are above, and nothing is gained
    below = np.minimum(running_sum(mass)[:-1], 1.0)
    above = np.minimum(running_sum(mass[::-1])[::-1][1:], 1.0)
    if guesses == 1:
        rest = np.log1p(-np.minimum(above, BELOW_ONE))
        gain = -below * np.expm1((users - 1) * rest)
    else:
        gain = np.maximum(expected_hits(users, above, guesses) - guesses * above, 0.0)
    return (1.0 - guesses / users) * certain + float(np.sum(steps * gain)) / users


def multiplicative_advantage(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``Advx = (n/k) beta_n^k(p, q)``: how many times better than blind guesses.

    Returns:
        A number in [1, n/k], to round-off.
    """
    return success_probability(p, q, users=users, guesses=guesses) * (users / guesses)


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Total variation distance ``(1/2) sum |p - q|``, in [0, 1]."""
    one, other = two_laws(p, q)
    return min(0.5 * math.fsum(np.abs(one - other).tolist()), 1.0)


def advantage_bounds(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Bracket of the additive advantage of one guess, by total variation and two more numbers.

    With D the total variation, f = P(Q = 0) and M the largest finite ratio, for n >= 2

        max(D, (n - 1) f) / n <= Adv+ <= f + (M - 1)/n (1 - (1 - (D - f)/(M - 1))^n) <= D.

    Below: the largest ratio has a mean of at least that of max(w_1, 1), by Jensen's inequality.
    Above: the step before the last one in the proof of Theorem 5, which keeps M. The theorem's own
    bounds are `published.theorem_5`. For n = 1 both ends are 0.

    Returns:
        Bracket of the advantage; its width is that of the theorem, not of arithmetic.
    """
    target, decoys = two_laws(p, q)
    users, _ = checked_counts(users, 1)
    certain, above_one, mass = _ratios_less_one(target, decoys)
    gained = math.fsum((above_one * mass)[above_one > 0.0].tolist())  # D - f
    distance = certain + gained
    largest = float(np.max(above_one, initial=0.0))  # M - 1
    if users == 1 or distance == 0.0:
        return Bracket(lower=0.0, upper=0.0, reduction="total variation")
    upper = certain
    if largest > 0.0:
        share = min(gained / largest, 1.0)
        upper += largest / users * float(expected_hits(users, np.array([share]), 1)[0])
    lower = max(distance / users, (1.0 - 1.0 / users) * certain) * (1.0 - _ERROR)
    lower, upper = in_order(lower, min(min(upper, distance) * (1.0 + _ERROR), 1.0))
    ledger = ErrorLedger(round_off=min(2.0 * _ERROR * upper, upper - lower))
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction="total variation")


def asymptote(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``f + min(k M / n, 1 - f)``: upper bound and limit of the success probability.

    M is the largest finite ratio and f = P(Q = 0). The difference to the success probability is
    o(1/n) (Theorem 3), and for distributions over finitely many messages exponentially small: at
    most ``(M/n) (1 - Q(w = M))^n`` for one guess.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    sliced = layers(target, decoys)
    certain = sliced.certain
    return min(certain + min(guesses / users * sliced.largest, 1.0 - certain), 1.0)


def _ratios_less_one(p: Array, q: Array) -> tuple[float, Array, Array]:
    """P(Q = 0), and of the other messages ``w - 1``, without cancellation, and the decoys' mass."""
    common = q > NEGLIGIBLE
    certain = math.fsum(p[~common].tolist())
    return certain, (p[common] - q[common]) / q[common], q[common]
