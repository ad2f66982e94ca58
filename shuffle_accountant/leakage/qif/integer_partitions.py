"""Vulnerability of the shuffled by integer partitions, in exact rational arithmetic.

Appendix B of Jurado et al. (CSF 2023), after P. Brown's 'surmising remixed keys'. Histograms that
differ by the names of the values alone have the same probability and the same largest count, so it
is enough to list the partitions lambda of n into *at most* k parts:

    V_S = k^-n sum_lambda  n!/prod lambda_i!  *  k!/(prod multiplicities! (k - l)!)  *  lambda_1/n

with l parts (equation 22). The number of partitions still grows like n^(k - 1). Up to some hundred
users the same integer, ``k^n n V_S``, is found for any k from the numbers A_m of datasets in which
no count is above m, as the sum over m < n of ``k^n - A_m``: their generating function is the k-th
power of the sum of ``x^j/j!`` over j <= m, whose coefficients follow from the ones before. For
large n use `shuffle_accountant.leakage.qif.vulnerability`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice

from shuffle_accountant import validation as validate

MOST_PARTITIONS = 10**5
"""Most partitions that are summed, which takes a second or so."""

MOST_PARTS = 10**7
"""Largest product of partitions and users, which bounds the digits of all weights."""

MOST_COUNTED = 100
"""Most users for whom the numbers A_m are computed instead of partitions, in time O(users^3)."""


def partitions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a sum of positive parts in descending order.

    Yields:
        Tuples of at most ``parts`` parts, in descending lexicographic order.
    """
    total = validate.integer(minimum=0, total=total)
    parts = validate.integer(minimum=0, parts=parts)
    yield from _partitions(total, parts, total)


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
        return
    if parts == 0:
        return
    # the first part is at least the mean
    for first in range(min(total, largest), -(-total // parts) - 1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def remixed_keys_number(*, users: int, categories: int) -> int:
    """The sum of the largest counts of all k^n datasets, ``k^n n V_S``: equation 23."""
    users, categories = _integers(users, categories)
    if users <= MOST_COUNTED:
        datasets = categories**users
        return sum(datasets - _no_count_above(m, users, categories) for m in range(users))
    return _by_partitions(users, categories)


def _no_count_above(most: int, users: int, categories: int) -> int:
    """Datasets of all users in which no value is held by more than ``most`` of them.

    With F the exponential generating function of one value and G = F^k, ``F G' = k F' G`` gives
    one coefficient after the other, all integers.
    """
    found = [1]
    for n in range(users):
        gained = sum(math.comb(n, j) * found[n - j] for j in range(min(most, n + 1)))
        known = sum(math.comb(n, j) * found[n - j + 1] for j in range(1, min(most, n) + 1))
        found.append(categories * gained - known)
    return found[users]


def brown_number(*, users: int, categories: int) -> int:
    """B(n, k), equation 24: the same number in the form of Brown.

    ``sum lambda_1 n!/(prod lambda_i! prod multiplicities!) l! C(k, l)``.
    """
    users, categories = _integers(users, categories)
    return _by_partitions(users, categories)


def _by_partitions(users: int, categories: int) -> int:
    """The sum over at most `MOST_PARTITIONS` partitions, and `MOST_PARTS` over the users."""
    most = min(MOST_PARTITIONS, MOST_PARTS // users)
    # the generator is asked for one more than may be
    shapes = list(islice(_partitions(users, categories, users), most + 1))
    if len(shapes) > most:
        parts = f"{categories} parts" if categories < users else "any number of parts"
        raise ValueError(
            f"users must have at most {most} partitions into {parts}, got users={users}"
        )
    whole, total = math.factorial(users), 0
    chosen = [math.perm(categories, length) for length in range(users + 1)]
    for shape in shapes:
        names = chosen[len(shape)] // math.prod(map(math.factorial, Counter(shape).values()))
        total += shape[0] * (whole // math.prod(map(math.factorial, shape))) * names
    return total


def partition_vulnerability_shuffle(*, users: int, categories: int) -> Fraction:
    """Vulnerability of the target under shuffling, uniform prior, as a fraction (equation 22)."""
    users, categories = _integers(users, categories)
    total = remixed_keys_number(users=users, categories=categories)
    return Fraction(total, users * categories**users)


def _integers(users: int, categories: int) -> tuple[int, int]:
    users = validate.integer(minimum=1, maximum=2**53, users=users)
    return users, validate.integer(minimum=2, categories=categories)
