"""The channels of local randomization and shuffling on datasets of n users with k values.

Jurado et al. (CSF 2023), Definitions 7, 8, 10 and 23. A dataset is a tuple of the users' values, in
lexicographic order; a histogram is the tuple of the values' counts, the first count descending.
Full channels return datasets, reduced ones histograms:

    N  = local_channel(R, n)              each user's value goes through R,
    S  = shuffle_channel(n, k)            a random order,
    Sr = reduced_shuffle_channel(n, k)    the histogram,
    Nr = reduced_local_channel(R, n)      histogram of the messages, from that of the values.

Shuffling commutes with randomizing, not only for k-ary randomized response: ``N @ S == S @ N`` and
``N @ Sr == Sr @ Nr`` as matrices for any local channel R, because S is the mean of all permutations
of the users, and each of them commutes with treating all users alike. (If R has as many messages as
inputs; otherwise the two S have the two numbers.)
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.qif.channel import Channel, channel_matrix
from shuffle_accountant.leakage.qif.histograms import (
    all_histograms,
    histogram_laws,
    require_room,
    require_steps,
)
from shuffle_accountant.numerics.rounding import Array


def datasets(users: int, categories: int) -> list[tuple[int, ...]]:
    """All datasets: tuples of n values in 0 … k - 1, in lexicographic order."""
    users, categories = _sizes(users, categories)
    # beyond 64 users two values are too many, without computing a huge power
    require_room(
        "users and categories", "the list of datasets", categories ** min(users, 64) * users
    )
    return list(itertools.product(range(categories), repeat=users))


def keep_probability(*, eps0: float, categories: int) -> float:
    """``p = e^eps0/(k - 1 + e^eps0)``: how often eps0-private randomized response is true.

    Args:
        eps0: local privacy in nats, in [0, inf].
    """
    eps0 = validate.nonnegative(eps0=eps0)
    categories = validate.integer(minimum=2, categories=categories)
    if categories <= 2**53:
        return 1.0 / (1.0 + (categories - 1) * math.exp(-eps0))
    log_odds = eps0 - math.log(categories - 1)  # an integer that may be no double
    return 1.0 / (1.0 + math.exp(-log_odds)) if log_odds > -700.0 else math.exp(log_odds)


def krr(*, categories: int, p: float) -> Channel:
    """k-ary randomized response for one user: p on the diagonal, (1 - p)/(k - 1) elsewhere."""
    categories = validate.integer(minimum=2, categories=categories)
    p = validate.closed_unit(p=p)
    require_room("categories", "the channel of one user", categories * categories)
    matrix = np.full((categories, categories), (1.0 - p) / (categories - 1))
    np.fill_diagonal(matrix, p)
    return Channel(matrix)


def local_channel(channel: Channel | ArrayLike, *, users: int) -> Channel:
    """N: every user's value goes through the channel independently (Definition 10).

    At most 2^24 entries: ``(values * messages)^n``.
    """
    one = channel_matrix(channel)
    users = validate.integer(minimum=1, users=users)
    require_room("users", "the channel on datasets", one.size ** min(users, 64))
    values, messages = (datasets(users, size) for size in one.shape)
    product = one
    for _ in range(users - 1):
        product = np.asarray(np.kron(product, one), dtype=np.float64)
    return Channel(product, inputs=values, outputs=messages)


def krr_channel(*, users: int, categories: int, p: float) -> Channel:
    """N for k-ary randomized response (Definition 10); k^(2n) must be at most 2^24."""
    return local_channel(krr(categories=categories, p=p), users=users)


def shuffle_channel(*, users: int, categories: int) -> Channel:
    """S: each dataset of the same histogram with the same probability (Definition 7).

    At most 2^24 entries: ``k^(2n)``.
    """
    users, categories = _sizes(users, categories)
    rows = datasets(users, categories)
    require_room("users and categories", "the channel on datasets", len(rows) ** 2)
    membership = _membership(users, categories, rows)
    # P(y | x) = P(y | h(x)): one over the number of datasets with that histogram
    matrix = membership @ (membership / membership.sum(axis=0)).T
    return Channel(matrix, inputs=rows, outputs=rows)


def reduced_shuffle_channel(*, users: int, categories: int) -> Channel:
    """Sr: the histogram of the dataset (Definition 8); k^n C(n + k - 1, k - 1) <= 2^24."""
    users, categories = _sizes(users, categories)
    rows = datasets(users, categories)
    matrix = _membership(users, categories, rows)
    return Channel(matrix, inputs=rows, outputs=_histograms(users, categories))


def reduced_local_channel(channel: Channel | ArrayLike, *, users: int) -> Channel:
    """Nr: from the histogram of the values to that of the messages (Definition 23).

    The definition is a mean over the datasets of one histogram; its terms are equal. The matrix
    must have at most 2^24 entries.
    """
    one = channel_matrix(channel)
    users = validate.integer(minimum=1, users=users)
    sizes = [_number_of_histograms(users, size) for size in one.shape]
    require_room("users", "the channel on histograms", sizes[0] * sizes[1])
    require_steps(users, one.shape[1], sizes[0])
    rows, columns = (_histograms(users, size) for size in one.shape)
    place = tuple(np.array(columns)[:, :-1].T)
    laws = histogram_laws(one, np.array(rows))
    matrix = np.concatenate([table[(slice(None), *place)] for table in laws])
    matrix = matrix.reshape(len(rows), len(columns))  # also of one message
    return Channel(matrix, inputs=rows, outputs=columns)


def reduced_krr_channel(*, users: int, categories: int, p: float) -> Channel:
    """Nr for k-ary randomized response (Definition 23); C(n + k - 1, k - 1)^2 <= 2^24."""
    return reduced_local_channel(krr(categories=categories, p=p), users=users)


def _sizes(users: int, categories: int) -> tuple[int, int]:
    users = validate.integer(minimum=1, users=users)
    return users, validate.integer(minimum=1, categories=categories)


def _number_of_histograms(users: int, letters: int) -> int:
    """Number of histograms; where it has too many digits, a smaller one that is still too large."""
    most_bits = 1 << 17  # of a number of histograms that is computed exactly
    smaller, larger = sorted((users, letters - 1))
    if smaller * larger.bit_length() <= most_bits:
        return math.comb(users + letters - 1, letters - 1)
    return int((larger // smaller) ** max(most_bits // larger.bit_length(), 1))


def _histograms(users: int, letters: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in all_histograms(users, letters).tolist()]


def _membership(users: int, categories: int, rows: list[tuple[int, ...]]) -> Array:
    """1 where the dataset has the histogram, shape (datasets, histograms)."""
    cells = math.comb(users + categories - 1, categories - 1)
    require_room("users and categories", "the table of datasets by histograms", len(rows) * cells)
    place = {histogram: i for i, histogram in enumerate(_histograms(users, categories))}
    matrix = np.zeros((len(rows), cells))
    for i, row in enumerate(rows):
        matrix[i, place[tuple(row.count(value) for value in range(categories))]] = 1.0
    return matrix


def single_target_gain(*, users: int, categories: int, target: int = 0) -> Array:
    """g_T: 1 for the target's value, whatever the others hold (Definition 13).

    Shape (k, k^n): guesses by datasets, at most 2^24 entries; ``target`` is in [0, n - 1].
    """
    users, categories = _sizes(users, categories)
    # beyond 64 users two values are too many, without computing a huge power
    require_room("users and categories", "the gain", categories ** (min(users, 64) + 1))
    target = validate.integer(minimum=0, maximum=users - 1, target=target)
    before, after = categories**target, categories ** (users - 1 - target)
    # datasets in lexicographic order: blocks of one value of the target, again and again
    return np.tile(np.repeat(np.eye(categories), after, axis=1), (1, before))


def identity_gain(secrets: int) -> Array:
    """1 for the right secret: the gain of Bayes vulnerability and min-entropy leakage."""
    secrets = validate.integer(minimum=1, secrets=secrets)
    require_room("secrets", "the gain", secrets * secrets)
    return np.eye(secrets)
