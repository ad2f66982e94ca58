"""The theorems of the paper in their own form, and its worked examples, to compare with.

'Bayesian Advantage of Re-Identification Attack in the Shuffle Model'. What the package computes is
never above these where they are upper bounds, and equals them where they are exact; Theorem 1
taken for distributions with ties, and Theorem 5 for one user, are not true, and say so.

The paper's worked examples as functions, each exact where the paper's figure is a limit.

'Bayesian Advantage of Re-Identification Attack in the Shuffle Model': a linear density among
uniform decoys (IV.1), Zipf-distributed passwords among uniform honeywords (IV.2), the pairs at the
ends of the total variation sandwich (V.B), Laplace noise (VI.1) and binary randomized response
(VI.2).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.arguments import MOST_USERS, two_laws
from shuffle_accountant.leakage.reidentification.advantage import total_variation
from shuffle_accountant.leakage.reidentification.bounds import sup_ratio
from shuffle_accountant.leakage.reidentification.success import (
    NEGLIGIBLE,
    Layers,
    checked_counts,
    layers,
)
from shuffle_accountant.numerics.binomial import log_pmf
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.laplace import LaplaceRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = [
    "honeywords_needed",
    "laplace_ratio",
    "linear_density",
    "lower_end_pair",
    "response_ratio",
    "theorem_1",
    "theorem_2",
    "theorem_4",
    "theorem_5",
    "theorem_7",
    "theorem_8",
    "theorem_10",
    "upper_end_pair",
    "zipf_honeywords",
    "zipf_limit",
]

Pair = tuple[tuple[float, ...], tuple[float, ...]]


def linear_density(*, users: int, guesses: int = 1) -> float:
    """Example IV.1: the target's density is x + 1/2 on [0, 1], the decoys' is 1.

    ``k (3n + 2 - k) / (2 n (n + 1))``, for any number of guesses.
    """
    users, guesses = checked_counts(users, guesses)
    return guesses * (3 * users + 2 - guesses) / (2 * users * (users + 1))


def zipf_honeywords(
    *, users: int, passwords: int, exponent: float = 0.7, guesses: int = 1
) -> float:
    """Example IV.2, exactly: a password of rank r has chance ``~ r^-exponent``, decoys are uniform.

    Args:
        users: n, the password and its n - 1 honeywords, in [1, 2^53].
    """
    users, guesses = checked_counts(users, guesses)
    return _zipf(*_checked_zipf(passwords, exponent)).success(users, guesses)


def zipf_limit(*, users: int, exponent: float = 0.7, guesses: int = 1) -> float:
    """Example IV.2 for infinitely many passwords.

    The paper's sum of Beta functions telescopes to
    ``Gamma(n) Gamma(k + 1 - a) / (Gamma(k) Gamma(n + 1 - a))``, a the exponent. The convergence to
    it is slow: a million passwords are still 3 % off for a = 0.7.

    Args:
        users: n, the password and its n - 1 honeywords, in [1, 2^53].
    """
    from scipy.special import poch

    users, guesses = checked_counts(users, guesses)
    rest = 1.0 - validate.open_unit(exponent=exponent)
    return min(float(poch(float(guesses), rest) / poch(float(users), rest)), 1.0)


def honeywords_needed(level: float, *, passwords: int | None = None, exponent: float = 0.7) -> int:
    """The least n with which one guess succeeds with a chance below the level, in example IV.2.

    Args:
        passwords: number of passwords, in [1, 10^7]; None is the limit of many.
    """
    level = validate.open_unit(level=level)
    sliced = None if passwords is None else _zipf(*_checked_zipf(passwords, exponent))

    def chance(users: int) -> float:
        if sliced is None:
            return zipf_limit(users=users, exponent=exponent)
        return sliced.success(users, 1)

    if chance(MOST_USERS) >= level:
        raise ValueError(f"level must be reached by 2^53 words, got {level!r}")
    few, many = 1, 2  # the chance falls with n, from one
    while chance(many) >= level:
        few, many = many, min(2 * many, MOST_USERS)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if chance(middle) < level else (middle, many)
    return many


def upper_end_pair(share: float) -> Pair:
    """Laws P and Q for which the additive advantage is nearly the total variation, for every n.

    ``P = (a, 1 - a, 0)``, ``Q = (0, 1 - a, a)``: the distance is a, the advantage ``a - a^n/n``.
    The pair printed in Section V.B reaches ``(1 - 1/n) a``.
    """
    share = validate.open_unit(share=share)
    return (share, 1.0 - share, 0.0), (0.0, 1.0 - share, share)


def lower_end_pair(share: float) -> Pair:
    """Laws P and Q for which the advantage is nearly a n-th of the total variation (Section V.B).

    ``P = (0, 1)``, ``Q = (p, 1 - p)``: the distance is p, the advantage
    ``(p - p^n) / ((1 - p) n)``.
    """
    share = validate.open_unit(share=share)
    return (0.0, 1.0), (share, 1.0 - share)


def laplace_ratio(*, eps0: float, target: float) -> float:
    """Example VI.1: M of Laplace noise on [0, 1], ``e^(eps0 (|target - 1/2| + 1/2))``."""
    return sup_ratio(LaplaceRandomizer(eps0=eps0), target=target)


def response_ratio(*, first: float, eps0: float = math.log(3.0)) -> float:
    """Example VI.2: M of binary randomized response for a target that holds 0 with a chance.

    With eps0 = log 3 it is ``max(1 + 2p, 3 - 2p)``.

    Args:
        first: chance p of the target to hold 0, in [0, 1].
    """
    first = validate.closed_unit(first=first)
    response = RandomizedResponse(categories=2, eps0=eps0)
    return sup_ratio(response, target=(first, 1.0 - first))


def _checked_zipf(passwords: int, exponent: float) -> tuple[int, float]:
    passwords = validate.integer(minimum=1, maximum=10**7, passwords=passwords)
    return passwords, validate.finite_nonnegative(exponent=exponent)


@lru_cache(maxsize=1)
def _zipf(passwords: int, exponent: float) -> Layers:
    weights = np.arange(1.0, passwords + 1.0) ** -exponent
    return layers(weights / np.sum(weights), np.full(passwords, 1.0 / passwords))


explain_calls(__name__)


def theorem_1(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Equation 8 with G(t) = Q(w <= t): right without ties, and wrong for laws over letters.

    It counts a tie between target and decoy as a win, and so may exceed even one.
    """
    from scipy.special import gammaln, xlogy

    users, guesses = checked_counts(users, guesses)
    certain, ratio, mass = _ratio_law(p, q)
    reached = np.minimum(np.cumsum(mass), 1.0)
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
    certain, ratio, mass = _ratio_law(p, q)
    reached = np.minimum(np.cumsum(mass), 1.0)
    below = float(np.sum(np.diff(ratio) * reached[:-1] ** users))
    return certain + (float(ratio[-1]) - below) / users if ratio.size else certain


def theorem_4(p: ArrayLike, q: ArrayLike, *, users: int) -> float:
    """``f + (1/n) sum_t t (G(t)^n - G(t-)^n)``. Exact; the differences cancel for small masses."""
    users, _ = checked_counts(users, 1)
    certain, ratio, mass = _ratio_law(p, q)
    powers = np.minimum(np.cumsum(mass), 1.0) ** users
    return certain + float(np.sum(ratio * np.diff(powers, prepend=0.0))) / users


def theorem_5(p: ArrayLike, q: ArrayLike, *, users: int) -> tuple[float, float]:
    """``(D/n, D)`` around the additive advantage, D the total variation. True for n >= 2.

    It is stated for n >= 1, where the advantage is 0 and the first is D.
    """
    users, _ = checked_counts(users, 1)
    distance = total_variation(p, q)
    return distance / users, distance


def theorem_7(p: ArrayLike, common: ArrayLike, *, gamma: float, users: int) -> float:
    """Psi as the mean of ``beta_(m+1)`` over m ~ Bin(n - 1, gamma): a sum of n terms.

    Args:
        common: the distribution that every user's is a mixture with, of the same messages.
        gamma: its share, in [0, 1].
        users: messages n, in [1, 10^6].
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


def _ratio_law(p: ArrayLike, q: ArrayLike) -> tuple[float, Array, Array]:
    """P(Q = 0), the distinct finite ratios in rising order, and Q's mass of each."""
    target, decoys = two_laws(p, q)
    common = decoys > NEGLIGIBLE
    certain = math.fsum(target[~common].tolist())
    ratio, place = np.unique(target[common] / decoys[common], return_inverse=True)
    masses = np.asarray(np.bincount(place.ravel(), decoys[common]), dtype=np.float64)
    return certain, ratio, masses


explain_calls(__name__)
