"""Leavers of an interval of the order under the Mallows distribution of Kendall's distance: exact.

With ``q = e^-theta`` and ``[x] = (1 - q^x)/(1 - q)``, a shuffle that keeps only the block (first,
second) of every slot and value is a q-analogue of drawing without replacement: of r values of the
first kind below and N - r of the second above, the first k slots hold t of the first kind with
chance

    [r, t] [N - r, k - t] / [N, k] q^((k - t)(r - t)),

[., .] the Gaussian binomial coefficients. An interval at an end of the order has two blocks, one
draw. An interval inside has three, and is drawn one kind after the other:

    x     values that do not belong before the interval, in the slots before it;
    y     of the x values displaced from there, those in the interval's slots;
    d     of the x, those that belong to the interval;
    w     values from beyond the interval in its slots.

Leavers are y + w. The distributions of x, of y given x, of d given x and of w given (x, y, d) are
draws.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array, roundings
from shuffle_accountant.order.leavers import first_descent, window

MOST_CELLS = 10**8
"""Most terms of the exact sum of an interval inside the order."""

# Whole numbers, to be broadcast.
Counts = NDArray[np.int64] | int

# Mass left out on each side of each distribution of `inner_tail`.
_NEGLECTED = 1e-19
# Mass of a triple (x, y, d) below which it is left out.
_RARE = 1e-27
# Terms evaluated at a time.
_CHUNK = 1 << 20


def end_tail(n: int, size: int, theta: float, leavers: int) -> tuple[float, float]:
    """Chance of at least ``leavers`` leavers of the first (or last) slots of the order.

    Args:
        leavers: fewest leavers, >= 1 and at most min(size, n - size).

    Returns:
        ``(log, error)``: natural logarithm of the chance, and a bound on its absolute error.
    """
    top = min(size, n - size)

    def log_ratios(first: int, last: int) -> Array:
        j = np.arange(first, last, dtype=float)
        numbers = _log_number(size - j, theta) + _log_number(n - size - j, theta)
        return np.asarray(numbers - 2.0 * _log_number(j + 1.0, theta) - (2.0 * j + 1.0) * theta)

    def ratios(first: int, last: int) -> Array:
        return np.asarray(np.exp(log_ratios(first, last)))

    mode = first_descent(lambda j: float(ratios(j, j + 1)[0]), 0, top)
    _, whole = window(ratios, mode, 0, top)
    anchor = max(mode, leavers)
    _, tail = window(ratios, anchor, leavers, top)
    steps = [
        math.fsum(log_ratios(first, min(first + _CHUNK, anchor)))
        for first in range(mode, anchor, _CHUNK)
    ]
    value = math.fsum([*steps, math.log(float(tail.sum())), -math.log(float(whole.sum()))])
    count = anchor - mode + whole.size + tail.size
    largest = 1.0 + (2.0 * (anchor + tail.size) + 1.0) * theta + 4.0 * math.log(n + 1.0)
    return value, roundings(8) * count * largest


def inner_tail(
    n: int, start: int, size: int, theta: float, leavers: int
) -> tuple[float, float, float]:
    """Chance of at least ``leavers`` >= 1 leavers of the slots start … start + size - 1.

    Returns:
        ``(chance, error, neglected)``: the sum, a bound on its relative error, and on the mass that
        was left out.
    """
    table = _Factorials(n, theta)
    first_x, chance_x = table.draw(start, start, n, above=True)
    # values from beyond the interval in its slots or before: w is that less x - d
    first_z, chance_z = table.draw(start + size, start + size, n, above=True)
    last_z = first_z + chance_z.size - 1
    laws = []
    cells = 0
    for x, weight in enumerate(chance_x.tolist(), first_x):
        y_law = table.draw(x, size, n - start, above=False)
        d_law = table.draw(size, x, n - start, above=False)
        cells += y_law[1].size * d_law[1].size * (last_z + 1)
        laws.append((x, weight, y_law, d_law))
        if cells > MOST_CELLS:
            raise ValueError(
                f"theta must be larger for an interval of {size} inside an order of {n}: at "
                f"{theta!r} the exact sum has over {MOST_CELLS} terms; use preservation_mc"
            )
    total = []
    for x, weight, (first_y, chance_y), (first_d, chance_d) in laws:
        both = weight * np.outer(chance_y, chance_d)
        row, column = np.nonzero(both > _RARE)
        both, y, d = both[row, column], row + first_y, column + first_d
        if not both.size:
            continue
        least = max(leavers - int(y.max()), first_z - (x - int(d.min())), 0)
        w = np.arange(least, last_z + 1)
        rows = max(_CHUNK // max(w.size, 1), 1)
        for k in range(0, both.size, rows):
            part = slice(k, k + rows)
            chance = table.chance(
                (size - d[part])[:, None], (size - y[part])[:, None], n - start - x, w[None, :]
            )
            counts = (y[part, None] + w >= leavers) & (w + (x - d[part, None]) <= last_z)
            total.append(float(both[part] @ np.where(counts, chance, 0.0).sum(axis=1)))
    # eight sides of distributions, and the rare triples
    neglected = 9.0 * _NEGLECTED + MOST_CELLS * _RARE
    return math.fsum(total), 8.0 * table.error + roundings(64) * n, neglected


class _Factorials:
    """Logarithms of the q-factorials [0]!, …, [n]!, and the distributions of draws made of them."""

    def __init__(self, n: int, theta: float) -> None:
        numbers = _log_number(np.arange(1.0, n + 1.0), theta)
        wide = np.concatenate([[0.0], np.cumsum(numbers, dtype=np.longdouble)])
        self.log = wide.astype(float)
        self.theta = theta
        largest = float(self.log[-1]) + theta
        steps = float(np.finfo(np.longdouble).eps) * n + roundings(8)
        # nine of them, and a multiple of theta up to n^2/4 that cancels against none
        self.error = 9.0 * steps * largest + roundings(4) * 0.25 * theta * n * n

    def chance(self, r: Counts, k: Counts, of: int, others: Counts) -> Array:
        """Chance that k slots hold ``others`` of the ``of - r`` values above; 0 if impossible."""
        t = k - others
        possible = (t >= 0) & (t <= r) & (others >= 0) & (others <= of - r)
        t, others = np.where(possible, t, 0), np.where(possible, others, 0)
        rest = np.where(possible, r - t, 0)
        above = np.where(possible, of - r - others, 0)
        log = self.log
        value = (
            log[r] + log[of - r] - log[t] - log[rest] - log[others] - log[above]
            + log[k] + log[of - k] - log[of]
            - self.theta * (others * rest.astype(float))
        )  # fmt: skip
        return np.where(possible, np.exp(np.minimum(value, 0.0)), 0.0)

    def draw(self, r: int, k: int, of: int, *, above: bool) -> tuple[int, Array]:
        """The counts with more than a negligible mass on each side: the first, and all chances.

        Counted are the values above, or those of the first kind.
        """
        least = max(k - r, 0) if above else max(k - (of - r), 0)
        count = np.arange(least, min(of - r if above else r, k) + 1)
        chances = self.chance(r, k, of, count if above else k - count)
        keep = (np.cumsum(chances) > _NEGLECTED) & (np.cumsum(chances[::-1])[::-1] > _NEGLECTED)
        first, last = np.flatnonzero(keep)[[0, -1]]
        return least + int(first), chances[first : last + 1]


def _log_number(x: Array, theta: float) -> Array:
    """Logarithm of [x] for x >= 1; of x at theta = 0, or too close to it for doubles."""
    number = x if theta < 1e-200 else np.expm1(-theta * x) / math.expm1(-theta)
    return np.asarray(np.log(number))
