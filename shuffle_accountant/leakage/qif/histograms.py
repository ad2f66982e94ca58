"""All histograms of n messages, and the distribution of the histogram of independent ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array

MOST_CELLS = 1 << 24
"""Most numbers in a table (128 MiB)."""

MOST_STEPS = 1 << 30
"""Most additions in a computation of histogram laws, which take a second or two."""


def require_room(names: str, what: str, cells: int) -> None:
    """Refuse a table of too many numbers, which ``names`` of arguments ask for."""
    if cells > MOST_CELLS:
        about = "over" if cells.bit_length() > 1 << 14 else "about"
        size = str(cells) if cells < 10**12 else f"{about} 10^{math.floor(math.log10(cells))}"
        raise ValueError(f"{names} must make {what} have at most {MOST_CELLS} entries, got {size}")


def require_steps(users: int, letters: int, laws: int) -> None:
    """Refuse distributions of histograms that would take too long."""
    # the tables of the first users are smaller than that of all; at least 2^11 steps
    table = max((users + 1) ** (letters - 1) // letters, 1 << 11)
    if letters > 1 and laws * users * table > MOST_STEPS:
        raise ValueError(
            f"users must make distributions of histograms take at most {MOST_STEPS} additions, "
            f"got {laws} laws of {users} messages with {letters} letters"
        )


def all_histograms(users: int, letters: int) -> NDArray[np.int64]:
    """All ways to write n >= 0 users as an ordered sum of k >= 1 letters' counts.

    Returns:
        Shape (C(n + k - 1, k - 1), k), in descending order of the first count, then the second, ….
    """
    require_room(
        "users", "the table of histograms", math.comb(users + letters - 1, letters - 1) * letters
    )
    if users < letters:  # the messages that are sent, in the same order
        multisets = itertools.combinations_with_replacement(range(letters), users)
        held = np.fromiter(itertools.chain.from_iterable(multisets), dtype=np.int64)
        held = held.reshape(-1, users) if users else np.zeros((1, 0), dtype=np.int64)
        table = np.zeros((held.shape[0], letters), dtype=np.int64)
        np.add.at(table, (np.arange(held.shape[0])[:, None], held), 1)
        return table
    columns: list[NDArray[np.int64]] = []
    left = np.array([users], dtype=np.int64)
    for _ in range(letters - 1):
        # every row goes on in left + 1 ways: the next count is left, left - 1, …, 0
        ways = left + 1
        ends = np.cumsum(ways)
        rest = np.arange(ends[-1]) - np.repeat(ends - ways, ways)
        columns = [np.repeat(column, ways) for column in columns]
        columns.append(np.repeat(left, ways) - rest)
        left = rest
    return np.stack([*columns, left], axis=1)


def histogram_law(channel: Array, counts: Sequence[int]) -> Array:
    """`histogram_laws` of how many users hold each input, shape (inputs,)."""
    (laws,) = histogram_laws(channel, np.array([counts]))
    law: Array = laws[0]
    return law


def histogram_laws(channel: Array, counts: NDArray[np.int64]) -> Iterator[Array]:
    """Probabilities by the counts of all messages but the last, (distributions, n + 1, …, n + 1).

    Yielded are as many as a cache of the processor holds: 2^16 numbers, half a megabyte.

    Args:
        channel: row x holds the message probabilities of input x, shape (inputs, messages).
        counts: how many of the n users hold each input, shape (distributions, inputs).
    """
    letters, users = channel.shape[1], int(counts[0].sum())
    cells = (users + 1) ** (letters - 1)
    require_room("users", "the table of histogram probabilities", cells)
    together = max((1 << 16) // cells, 1)
    for start in range(0, len(counts), together):
        some = counts[start : start + together]
        laws = np.ones((len(some),) + (1,) * (letters - 1))
        if letters > 1:
            values = np.array([np.repeat(np.arange(len(channel)), row) for row in some])
            # all terms are positive: a relative error of a few units per user
            for user in range(users):
                laws = one_more(laws, channel[values[:, user]])
        yield laws


def one_more(laws: Array, rows: Array) -> Array:
    """Distributions of histograms with one more message, one longer along every axis of counts.

    Its probabilities are the rows, shape (distributions, messages).
    """
    more = np.zeros([len(laws), *(size + 1 for size in laws.shape[1:])])
    same = [slice(None), *[slice(None, -1)] * (laws.ndim - 1)]
    weights = rows.T.reshape((rows.shape[1], len(laws)) + (1,) * (laws.ndim - 1))
    np.multiply(weights[-1], laws, out=more[tuple(same)])
    for axis in range(1, laws.ndim):
        moved = [*same[:axis], slice(1, None), *same[axis + 1 :]]
        more[tuple(moved)] += weights[axis - 1] * laws
    return more
