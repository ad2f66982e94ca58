"""The paper's worked examples as functions, each exact where the paper's figure is a limit.

'Bayesian Advantage of Re-Identification Attack in the Shuffle Model': a linear density among
uniform decoys (IV.1), Zipf-distributed passwords among uniform honeywords (IV.2), the pairs at the
ends of the total variation sandwich (V.B), Laplace noise (VI.1) and binary randomized response
(VI.2).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.leakage.arguments import MOST_USERS
from shuffle_accountant.leakage.reidentification.bounds import sup_ratio
from shuffle_accountant.leakage.reidentification.success import Layers, checked_counts, layers
from shuffle_accountant.randomizers.noise import LaplaceRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

__all__ = [
    "honeywords_needed",
    "laplace_ratio",
    "linear_density",
    "lower_end_pair",
    "response_ratio",
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
    """Example IV.2, exactly: a password of rank r has chance ``~ r^-exponent``; uniform decoys."""
    users, guesses = checked_counts(users, guesses)
    return _zipf(*_checked_zipf(passwords, exponent)).success(users, guesses)


def zipf_limit(*, users: int, exponent: float = 0.7, guesses: int = 1) -> float:
    """Example IV.2 for infinitely many passwords.

    The paper's sum of Beta functions telescopes to
    ``Gamma(n) Gamma(k + 1 - a) / (Gamma(k) Gamma(n + 1 - a))``, a the exponent. The convergence to
    it is slow: a million passwords are still 3 % off for a = 0.7.
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
    # the chance falls with n, from one
    counts = range(1, MOST_USERS + 1)
    return 1 + bisect_left(counts, True, key=lambda users: chance(users) < level)


def upper_end_pair(share: float) -> Pair:
    """Laws P and Q for which the additive advantage is nearly the total variation, for every n.

    ``P = (a, 1 - a, 0)``, ``Q = (0, 1 - a, a)``: the distance is a, the advantage ``a - a^n/n``.
    The pair printed in Section V.B reaches ``(1 - 1/n) a``.
    """
    share = validate.open_unit(share=share)
    return (share, 1.0 - share, 0.0), (0.0, 1.0 - share, share)


def lower_end_pair(share: float) -> Pair:
    """Laws P and Q for which the advantage is nearly a n-th of the total variation (Section V.B).

    ``P = (0, 1)``, ``Q = (p, 1 - p)``: the distance is p, the advantage ``(p - p^n)/((1 - p) n)``.
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
