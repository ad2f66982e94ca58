"""Chances of leavers under Mallows distributions: exact, at any size.

*An interval of the order, Kendall's distance.* With ``q = e^-theta`` and ``[x] = (1 - q^x)/(1 -
q)``, a shuffle that keeps only the block (first, second) of every slot and value is a q-analogue of
drawing without replacement: of r values of the first kind below and N - r of the second above, the
first k slots hold t of the first kind with chance

    [r, t] [N - r, k - t] / [N, k] q^((k - t)(r - t)),

[., .] the Gaussian binomial coefficients. An interval at an end of the order has two blocks, one
draw. An interval inside has three, and is drawn one kind after the other:

    x     values that do not belong before the interval, in the slots before it;
    y     of the x values displaced from there, those in the interval's slots;
    d     of the x, those that belong to the interval;
    w     values from beyond the interval in its slots.

Leavers are y + w. The distributions of x, of y given x, of d given x and of w given (x, y, d) are
draws.

*Any set of slots, Hamming's distance.* Per moved point the distribution has a factor e^-theta;
write it as 1 = e^-theta + (1 - e^-theta) for every fixed point, and a permutation is one that has
some of its fixed points *marked*, at ``lambda = e^theta - 1`` each. With s of the m slots of one
side marked and j values crossing over from the other side, what is left is counted by a binomial
coefficient; so

    Pr[j] = A_l(j) A_(n-l)(j) / (C(n, l) A_n(0)),
    A_m(j) = sum over s = 0 … m - j of lambda^s / s! C(m - s, j).

All terms are positive: nothing cancels. ``sum_j A_m(j) y^j`` is a polynomial with log-concave
coefficients, shifted by one, and such shifts keep log-concavity (Brenti 1989; Johnson and
Goldschmidt 2006); so A_m and Pr are log-concave in j, and tails are below geometric series.

The theorem A.4 of Meehan et al. is the same sum by the number of moved points, with errors in print
(see `shuffle_accountant.order.preservation`) and a binomial factor too many in its statement.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import Array, roundings

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

# p(j + 1) / p(j) for j = first, ..., last - 1.
Ratios = Callable[[int, int], Array]


def end_tail(n: int, size: int, theta: float, leavers: int) -> tuple[float, float]:
    """Chance of at least ``leavers`` >= 1 leavers of the first (or last) slots of the order.

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

    mode = _first_descent(lambda j: float(ratios(j, j + 1)[0]), 0, top)
    whole = _window(ratios, mode, 0, top)
    anchor = max(mode, leavers)
    tail = _window(ratios, anchor, leavers, top)
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
        """Counts of a kind without negligible masses on either side: the first, all chances."""
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


def hamming_tail(n: int, size: int, theta: float, leavers: int) -> tuple[float, float]:
    """Chance of at least ``leavers`` leavers of a set of slots; see `end_tail`."""
    sides = [_Side(size, theta), _Side(n - size, theta)]
    top = min(size, n - size)

    def ratio(j: int) -> float:
        return sides[0].ratio(j) * sides[1].ratio(j)

    def ratios(first: int, last: int) -> Array:
        return sides[0].ratios(first, last) * sides[1].ratios(first, last)

    anchor = _first_descent(ratio, leavers, top)
    weights = _window(ratios, anchor, leavers, top)
    everyone, any_set = _Side(n, theta).log(0), _Side(n, 0.0).log(size)
    parts = [*(side.log(anchor) for side in sides), (-everyone[0], everyone[1])]
    parts.append((-any_set[0], any_set[1]))
    value = math.fsum([*(part for part, _ in parts), math.log(float(weights.sum()))])
    # a ratio is off by its seed and by every step of the recurrence, a weight by all its ratios
    longest = max(side.longest for side in sides)
    relative = 2.0 * weights.size * roundings(8) * (longest + weights.size)
    return value, math.fsum(error for _, error in parts) + relative


@dataclass(slots=True)
class _Side:
    """The sequence A_m(0), …, A_m(m) of the m slots of one side."""

    m: int
    theta: float
    longest: int = 1  # terms of the longest sum over s so far

    @property
    def rate(self) -> float:
        """The lambda of the module's formula."""
        return math.expm1(self.theta)

    def ratio(self, j: int) -> float:
        """A_m(j + 1) / A_m(j), from the two sums."""
        if j >= self.m:
            return 0.0
        here, above = self._mode(j), self._mode(j + 1)
        link = (self.m - above - j) / (j + 1.0)
        link /= float(np.prod(self._steps(j, above, here)))
        link *= float(np.prod(self._steps(j, here, above)))
        return link * self._sum(j + 1, above) / self._sum(j, here)

    def ratios(self, first: int, last: int) -> Array:
        """A_m(j + 1) / A_m(j) for j = first … last - 1, by the recurrence of Laguerre polynomials.

        ``(m - j + 1) A(j - 1) = (lambda - m + 2 j) A(j) + (j + 1) A(j + 1)``. Where the middle
        factor is positive it is run downwards, elsewhere upwards; so all terms are positive, and
        no step enlarges the relative error of the step before.
        """
        m, rate = self.m, self.rate
        found = np.empty(last - first)
        turn = min(max(math.ceil((m - rate) / 2.0), first), last) if rate < m else first
        if turn < last:
            r = self.ratio(last - 1)
            found[last - 1 - first] = r
            for j in range(last - 1, turn, -1):
                r = (m - j + 1) / (rate - m + 2 * j + (j + 1) * r)
                found[j - 1 - first] = r
        if turn > first:
            r = self.ratio(first)
            found[0] = r
            for j in range(first + 1, turn):
                r = ((m - j + 1) / r + (m - 2 * j - rate)) / (j + 1)
                found[j - first] = r
        return found

    def log(self, j: int) -> tuple[float, float]:
        """``(log A_m(j), error)``, the error an absolute bound."""
        from scipy.special import gammaln

        s = self._mode(j)
        terms = gammaln([self.m - s + 1.0, s + 1.0, j + 1.0, self.m - s - j + 1.0])
        power = s * (self.theta + math.log(-math.expm1(-self.theta))) if s else 0.0
        value = power + float(terms[0] - terms[1:].sum()) + math.log(self._sum(j, s))
        error = roundings(16) * (abs(power) + float(np.abs(terms).sum()) + self.longest)
        return value, error

    def _mode(self, j: int) -> int:
        """The s of the largest term of A_m(j): where ``lambda (m - j - s) = (s + 1)(m - s)``."""
        if self.rate == 0.0 or j >= self.m:
            return 0
        linear = self.m - 1.0 + self.rate
        constant = self.rate / linear * (self.m - j) - self.m / linear
        root = 2.0 * constant / (1.0 + math.sqrt(max(1.0 - 4.0 * constant / linear, 0.0)))
        return min(max(math.ceil(root), 0), self.m - j)

    def _sum(self, j: int, mode: int) -> float:
        """A_m(j) over its term at the mode."""
        weights = _window(
            lambda first, last: self._steps(j, first, last), mode, 0, self.m - j if self.rate else 0
        )
        self.longest = max(self.longest, weights.size)
        return float(weights.sum())

    def _steps(self, j: int, first: int, last: int) -> Array:
        """Ratios of consecutive terms of A_m(j), s = first … last - 1."""
        s = np.arange(first, last, dtype=float)
        return np.asarray(self.rate / (s + 1.0) * ((self.m - s - j) / (self.m - s)))


def _first_descent(ratio: Callable[[int], float], low: int, high: int) -> int:
    """Index of the largest value of a log-concave sequence on low … high, given its ratios."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if ratio(middle) <= 1.0 else (middle + 1, high)
    return low


def _window(ratios: Ratios, anchor: int, low: int, high: int) -> Array:
    """Terms p(j) / p(anchor) of a log-concave sequence that count; the anchor's is a large one.

    Ratios descend, so what lies beyond a term is below a geometric series: it is left out once that
    is below 2^-75 of what was summed.
    """
    above = _terms(lambda k, end: ratios(anchor + k, anchor + end), high - anchor)
    below = _terms(lambda k, end: 1.0 / ratios(anchor - end, anchor - k)[::-1], anchor - low)
    return np.concatenate([below[::-1], [1.0], above])


def _terms(ratios: Ratios, count: int) -> Array:
    """The terms after a 1, given ratios of each to the one before, until they are negligible."""
    blocks: list[Array] = []
    total, last, size = 1.0, 1.0, 128
    k = 0
    while k < count:
        end = min(k + size, count)
        block = ratios(k, end)
        blocks.append(np.multiply(last, np.cumprod(block), dtype=np.float64))
        total += float(blocks[-1].sum())
        last, k, size = float(blocks[-1][-1]), end, 2 * size
        if block[-1] < 1.0 and last * block[-1] / (1.0 - block[-1]) <= 2.0**-75 * total:
            break
    return np.concatenate([np.empty(0), *blocks])
