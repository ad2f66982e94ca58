"""The theorems of the paper in their own form, to compare with.

'Bayesian Advantage of Re-Identification Attack in the Shuffle Model'. What the package computes is
never above these where they are upper bounds, and equals them where they are exact; Theorem 1
taken for distributions with ties, and Theorem 5 for one user, are not true, and say so.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.arguments import two_laws
from shuffle_accountant.leakage.reidentification.bounds import sup_ratio
from shuffle_accountant.leakage.reidentification.success import (
    NEGLIGIBLE,
    checked_counts,
    layers,
    total_variation,
)
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import LocalRandomizer

__all__ = ["theorem_1", "theorem_2", "theorem_4", "theorem_5", "theorem_7", "theorem_8"]
__all__ += ["theorem_10"]


def theorem_1(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Equation 8 with G(t) = Q(w <= t): right without ties, and wrong for laws over letters.

    It counts a tie between target and decoy as a win, and so may exceed even one.
    """
    from scipy.special import gammaln, xlogy

    users, guesses = checked_counts(users, guesses)
    certain, ratio, mass, reached = _ratio_law(p, q)
    beaten = np.maximum(1.0 - reached, 0.0)
    total = certain
    for above in range(guesses):
        ways = gammaln(users) - gammaln(above + 1.0) - gammaln(users - above)
        log_chance = ways + xlogy(users - 1.0 - above, reached) + xlogy(float(above), beaten)
        total += float(np.sum(ratio * mass * np.exp(log_chance)))
    return total


def theorem_2(p: ArrayLike, q: ArrayLike, *, users: int) -> float:
    """Equation 10: ``(M - int_0^M G^n)/n + f``. Exact for every pair of laws, ties included.

    The difference cancels where the success probability is far below M/n.
    """
    users, _ = checked_counts(users, 1)
    certain, ratio, _, reached = _ratio_law(p, q)
    below = float(np.sum(np.diff(ratio) * reached[:-1] ** users))
    return certain + (float(ratio[-1]) - below) / users if ratio.size else certain


def theorem_4(p: ArrayLike, q: ArrayLike, *, users: int) -> float:
    """``f + (1/n) sum_t t (G(t)^n - G(t-)^n)``. Exact; the differences cancel for small masses."""
    users, _ = checked_counts(users, 1)
    certain, ratio, _, reached = _ratio_law(p, q)
    return certain + float(np.sum(ratio * np.diff(reached**users, prepend=0.0))) / users


def theorem_5(p: ArrayLike, q: ArrayLike, *, users: int) -> tuple[float, float]:
    """``(D/n, D)`` around the additive advantage, D the total variation. True for n >= 2.

    It is stated for n >= 1, where the advantage is 0 and the first is D.
    """
    users, _ = checked_counts(users, 1)
    distance = total_variation(p, q)
    return distance / users, distance


def theorem_7(p: ArrayLike, common: ArrayLike, *, gamma: float, users: int) -> float:
    """Psi as the mean of ``beta_(m+1)`` over m ~ Bin(n - 1, gamma): a sum of n terms.

    Every user's distribution is a mixture with the ``common`` one, whose share is gamma, in [0, 1];
    users are at most 10^6.
    """
    target, shared = two_laws(p, common, "common")
    gamma = validate.closed_unit(gamma=gamma)
    users = validate.integer(minimum=1, maximum=10**6, users=users)
    sliced = layers(target, shared)
    others = np.arange(float(users))
    with np.errstate(over="ignore"):  # of a gamma too small to count
        chance = np.exp(log_pmf(others, float(users - 1), gamma, 1.0 - gamma))
    success = [sliced.success(m + 1, 1) for m in range(users)]
    return float(np.sum(chance * success))


def theorem_8(*, eps0: float, users: int) -> float:
    """``min(e^eps0 / n, 1)``: upper bound for every eps0-LDP randomizer."""
    eps0 = validate.nonnegative(eps0=eps0)
    users, _ = checked_counts(users, 1)
    return math.exp(min(eps0 - math.log(users), 0.0))


def theorem_10(
    randomizer: LocalRandomizer, *, users: int, target: float | ArrayLike | None = None
) -> float:
    """``min(M / n, 1)``: upper bound that no smaller M gives for all n; see `sup_ratio`.

    Args:
        target: the target's input, or the distribution of it; None is the worst one.
    """
    users, _ = checked_counts(users, 1)
    return min(sup_ratio(randomizer, target=target) / users, 1.0)


def _ratio_law(p: ArrayLike, q: ArrayLike) -> tuple[float, Array, Array, Array]:
    """P(Q = 0), the distinct finite ratios in rising order, Q's mass of each, and up to each."""
    target, decoys = two_laws(p, q)
    common = decoys > NEGLIGIBLE
    certain = math.fsum(target[~common].tolist())
    ratio, place = np.unique(target[common] / decoys[common], return_inverse=True)
    masses = np.asarray(np.bincount(place.ravel(), decoys[common]), dtype=np.float64)
    return certain, ratio, masses, np.minimum(np.cumsum(masses), 1.0)


explain_calls(__name__)
