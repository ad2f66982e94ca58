"""Expected number of the k best-ranked positions that are filled: ``m_k = E min(k, Bin(n, q))``.

Every success probability here is an integral of this one function over the likelihood ratio. It is
increasing and concave in q, at most ``min(n q, k)``, and ``m_1(n, q) = 1 - (1 - q)^n``.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import BELOW_ONE, Array, roundings

__all__ = ["expected_hits", "hits_error"]

# Most guesses for which counts are summed one by one: SciPy's incomplete beta functions have errors
# of up to 4e-10 for this few guesses among 1e7 messages.
_MOST_LISTED = 64
# For more guesses the largest relative error seen against 60-digit arithmetic is 4e-15, at 7800
# random points with k up to 2000 and n up to 1e15.
_BETA_ERROR = 1e-12
_NEGLIGIBLE_EXPONENT = 42.0  # exp(-42) = 6e-19


def expected_hits(users: int, above: Array, guesses: int) -> Array:
    """``E min(k, Bin(n, q))`` with relative accuracy, however small it is.

    Args:
        users: n, in [1, 2^53].
        above: probabilities q in [0, 1], any shape.
        guesses: k, in [1, n].

    Returns:
        Values in [0, k], relative error at most `hits_error`.
    """
    if guesses >= users:
        return np.asarray(users * above)
    if guesses <= _MOST_LISTED:
        return _listed(users, above, guesses)
    from scipy.special import betainc, betaincc

    # By Chernoff's bound fewer than k of n q are too unlikely to count where this is false.
    mean = users * above
    undecided = (mean < guesses) | ((mean - guesses) ** 2 < 2.0 * _NEGLIGIBLE_EXPONENT * mean)
    hits = np.full(mean.shape, float(guesses))
    # n q P(Bin(n - 1, q) <= k - 2) + k P(Bin(n, q) >= k)
    rest, some = float(users - guesses + 1), above[undecided]
    few = mean[undecided] * betaincc(guesses - 1.0, rest, some)
    hits[undecided] = few + guesses * betainc(float(guesses), rest, some)
    return hits


def hits_error(guesses: int) -> float:
    """Bound on the relative error of `expected_hits` for an exactly known q.

    Listed counts: some units for ``k (1 - (1 - q)^n)`` and for the binomial masses that are taken
    off; what is left is never below 1/k of the former, for ``m_k >= m_1``.
    """
    return roundings(32 * guesses) if guesses <= _MOST_LISTED else _BETA_ERROR


def _listed(users: int, above: Array, guesses: int) -> Array:
    """``k P(N >= 1) - sum over 0 < j < k of (k - j) P(N = j)``, N ~ Bin(n, q)."""
    # the largest double below one stands for one: with n > k nothing changes by more than it
    chance = np.minimum(above, BELOW_ONE)
    log_none = users * np.log1p(-chance)
    total = -guesses * np.expm1(log_none)
    if guesses == 1:
        return np.asarray(total)
    odds = chance / (1.0 - chance)
    mass = np.exp(log_none)  # of j = 0; where it underflows, all below k <= 64 are negligible
    for j in range(1, guesses):
        mass = mass * odds * ((users - j + 1) / j)
        total = total - (guesses - j) * mass
    return np.asarray(np.maximum(total, 0.0))
