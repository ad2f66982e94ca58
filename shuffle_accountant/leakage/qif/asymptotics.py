"""Vulnerability for large n in formulas: the printed ones, and what they are short of.

For equal bins of mean lambda = n/k, with M the maximum of k independent standard normal variables,

    V_S = 1/k + E[M]/sqrt(k n) + (E[M^2] - 1)/(6 n) + O(k^(1/2) n^(-3/2)).

Jurado et al. (CSF 2023), equations 14-16, have Theta(sqrt(ln k/(k n))) and try the factor 1 for
the Theta. The true factor is E[M]/sqrt(ln k): 0.68 for k = 2, 0.87 for 4, above 1 from k = 9 on,
and sqrt(2) in the limit. So the printed form is no bound on either side. The excess vulnerability
falls like n^(-1/2), not exponentially.
"""

from __future__ import annotations

import math

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import MOST_USERS, checked_sizes
from shuffle_accountant.leakage.qif.load import maximum_moments


def asymptotic_vulnerability_shuffle(*, users: int, categories: int) -> float:
    """Three terms of the vulnerability under shuffling, uniform prior.

    An approximation, neither upper nor lower bound; for two values its third term is 0.
    """
    users, categories = checked_sizes(users, categories)
    first, second = maximum_moments(categories)
    excess = first / (math.sqrt(categories) * math.sqrt(users))
    return 1.0 / categories + excess + (second - 1.0) / (6.0 * users)


def leading_factor(*, categories: int) -> float:
    """Limit of the factor of ``sqrt(ln k/(k n))`` for many users: ``E[M]/sqrt(ln k)``."""
    _, categories = checked_sizes(1, categories)
    return maximum_moments(categories)[0] / math.sqrt(math.log(categories))


def printed_vulnerability_shuffle(*, users: int, categories: int, factor: float = 1.0) -> float:
    """Equation 15, ``1/k + f sqrt(ln k/(k n))``, with its Theta replaced by a factor f.

    An approximation. With f = 1 it is 14 % above the true excess for k = 4, many users, and below
    it from k = 9 on.

    Args:
        users: number n of users, at least k ln k, as printed.
        factor: f >= 0.
    """
    users, categories = checked_sizes(users, categories)
    factor = validate.finite_nonnegative(factor=factor)
    if users < categories * math.log(categories):
        raise ValueError(
            f"users must be >= k ln k = {categories * math.log(categories):g} for equation 15, "
            f"got {users}"
        )
    return 1.0 / categories + factor * math.sqrt(math.log(categories) / categories / users)


def printed_vulnerability_krr_shuffle(
    *, users: int, categories: int, p: float, factor: float = 1.0
) -> float:
    """Equation 16 (Theorem 22): equation 15 with its excess times ``(k p - 1)/(k - 1)``.

    Args:
        users: number n of users, at least k ln k, as printed.
        factor: f >= 0 in place of the Theta.
    """
    users, categories = checked_sizes(users, categories)
    shuffled = printed_vulnerability_shuffle(users=users, categories=categories, factor=factor)
    number = validate.closed_unit(p=p)
    blind = 1.0 / categories
    if number < blind:
        raise ValueError(f"p must be a number in [1/{categories}, 1], got {number!r}")
    return blind + (shuffled - blind) * (number - (1.0 - number) / (categories - 1))


def asymptotic_all_but_one_vulnerability(*, users: int, p: float) -> float:
    """``1/2 + (2p - 1)/(2 sqrt(2 pi (n - 1) p (1 - p)))``: all-but-one, two values, many users.

    An approximation, whatever the known values are.

    Args:
        users: number n of users, in [2, 2^53].
    """
    users = validate.integer(minimum=2, maximum=MOST_USERS, users=users)
    number = validate.open_unit(p=p)
    if number < 0.5:
        raise ValueError(f"p must be a number in [1/2, 1), got {number!r}")
    variance = (users - 1) * number * (1.0 - number)
    return 0.5 + (number - 0.5) / math.sqrt(2.0 * math.pi * variance)
