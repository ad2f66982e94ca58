"""Simultaneous error bounds for estimated frequencies and means, whatever the data are.

A category's count is a sum of independent terms: of users who hold it, each in the count with
probability p; of others, each with probability q; and perhaps of noise that is independent of the
data. With n users, a share f of whom holds the category, and ``K_p(t) = log E e^(t (B_p - p))`` for
a coin B_p of probability p, the count is above its mean by s or more with a probability of at most
(Chernoff, for any t > 0; for t < 0 it is that of being below)

    e^(-|t| s) e^(f n K_p(t) + (1 - f) n K_q(t)).

For a fixed t this is convex in f. Let ``f_1 … f_k`` be the histogram, and sum the bounds of all
categories, with one t: a sum of convex functions, equal for all categories, on the simplex is
largest at a corner, where everybody holds one category. So for every histogram, with

    A(t) = log(e^(n K_p(t)) + (k - 1) e^(n K_q(t))),      s(t) = (A(t) + log(1/a)) / |t|,

no count of any category is above its mean by s(t) or more, but for a probability of a. Every t
gives a bound; the smallest is taken. Both sides have half of the failure probability. Categories'
counts need not be independent, and are not.

That is 10 to 30 % more than a normal approximation at the worst corner has, which proves nothing.

A coordinate of a mean of vectors is a sum of independent terms too: of differences between messages
and vectors, which have mean 0, are at most b, and have a variance of at most ``v``, the mean square
of the message's coordinate. By Bennett's lemma ``log E e^(t Y) <= v g(t)``, with
``g(t) = (e^(t b) - 1 - t b)/b^2``. For fixed t the sum of ``e^(n v_j g(t))`` over the d coordinates
is convex in the mean squares v_j, of which none is above V and which add up to W, the square of the
messages' norm: it is largest where each is 0 or V, so that it is at most

    e^(A(t)) = d + (W/V) (e^(n V g(t)) - 1),

and s(t) is as above, for the sum of all n users' differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

__all__ = ["coin_cumulant", "largest_deviation", "largest_mean_deviation"]

# Half-width of the search in log t, around the best t for a normal distribution.
_REACH = 8.0
# Largest t for which e^t is surely a double.
_LARGEST = 500.0


def coin_cumulant(probability: float, t: float) -> float:
    """``log E e^(t (B - p))`` of a coin B that is 1 with probability p, else 0."""
    return math.log1p(probability * math.expm1(t)) - t * probability


def largest_deviation(
    held: float, other: float, *, users: int, categories: int, failure: float
) -> float:
    """Bound on the deviation of all categories' counts from their means, for any histogram.

    Args:
        held: probability that a user who holds a category is in its count, in [0, 1].
        other: probability that one who does not is in it, in [0, 1].
        users: number of users, >= 1.
        categories: number of categories k, >= 1.
        failure: probability that some category's count is off by more, in (0, 1).

    Returns:
        The deviation of a count, >= 0; all counts are that close at once.
    """
    variance = users * max(held * (1.0 - held), other * (1.0 - other))
    if variance == 0.0:
        return 0.0
    needed = math.log(2.0 / failure)

    def deviation(log_t: float, sign: float) -> float:
        t = math.exp(log_t)
        own, foreign = (users * coin_cumulant(p, sign * t) for p in (held, other))
        total = own
        if categories > 1:
            total = float(np.logaddexp(own, foreign + math.log(categories - 1)))
        return (total + needed) / t

    ends = _around(variance, needed + math.log(categories), _LARGEST)
    return max(_least(partial(deviation, sign=sign), ends) for sign in (1.0, -1.0))


def largest_mean_deviation(
    largest: float, moment: float, total: float, *, users: int, dimension: int, failure: float
) -> float:
    """Bound on the deviation of all coordinates of the users' sum from their means.

    Args:
        largest: upper bound on a coordinate of a message minus its vector, in absolute value, > 0.
        moment: upper bound on the mean square of a message's coordinate, for any vector, > 0.
        total: sum of all coordinates' mean squares, at least ``moment``.
        users: number of users, >= 1.
        dimension: number of coordinates, >= 1.
        failure: probability that some coordinate is off by more, in (0, 1).

    Returns:
        The deviation of a sum, > 0; all coordinates are that close at once.
    """
    needed = math.log(2.0 / failure)

    def deviation(log_t: float) -> float:
        t = math.exp(log_t)
        y = t * largest
        cumulant = users * moment * max(math.expm1(y) - y, 0.5 * y * y) / largest**2
        coordinates = math.log(total / moment) + cumulant + math.log1p(-math.exp(-cumulant))
        return (float(np.logaddexp(math.log(dimension), coordinates)) + needed) / t

    ends = _around(users * moment, needed + math.log(dimension), _LARGEST / largest)
    return _least(deviation, ends)


def _around(variance: float, exponent: float, most: float) -> tuple[float, float]:
    """Range of log t around the best t for a normal distribution of this variance; t <= most."""
    middle = 0.5 * math.log(2.0 * exponent / variance)
    return min(middle, math.log(most)) - _REACH, min(middle + _REACH, math.log(most))


def _least(function: Callable[[float], float], ends: tuple[float, float]) -> float:
    """Smallest value found of a function that falls and then rises."""
    from scipy.optimize import minimize_scalar  # not quick to import

    found = minimize_scalar(function, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return float(found.fun)
