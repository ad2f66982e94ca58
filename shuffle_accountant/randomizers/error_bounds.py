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

A coordinate of a mean of vectors is a sum of independent terms too: of differences between messages
and vectors, which have mean 0, are at most b, and have a variance of at most ``v``, the mean square
of the message's coordinate. By Bennett's lemma ``log E e^(t Y) <= v g(t)``, with
``g(t) = (e^(t b) - 1 - t b)/b^2``. For fixed t the sum of ``e^(n v_j g(t))`` over the d coordinates
is convex in the mean squares v_j, of which none is above V and which add up to W, the square of the
messages' norm: it is largest where each is 0 or V, so that it is at most

    e^(A(t)) = d + (W/V) (e^(n V g(t)) - 1),

and s(t) is as above, for the sum of all n users' differences.

*Intervals of one share, given its count.* A number of holders a is left out where a count as small
as the observed one, c, has a probability below the failure that is allowed to that side. Let the
coins be weighed by e^(-t), t > 0, and s be the standard deviation of the count under these weights.
Then, with ``x = e^(-t)``,

    Pr(count <= c) = E x^(count - c) sum_{j <= c} x^(c - j) Pr_x(count = j)
                  <= E x^(count - c) min(1, η/(s (1 - x))),

as no value of a sum of independent coins is likelier than η/s with η < 0.4689 (Baillon, Cominetti
and Vaisman 2016, "A sharp uniform bound for the distribution of sums of Bernoulli trials"). The
probability falls as a grows, because p > q: where one a is left out, all larger ones are. Users who
hold nothing of a category, and the messages that do not count for it, give the other side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from shuffle_accountant.numerics.rounding import Array, roundings

# Half-width of the search in log t, around the best t for a normal distribution.
_REACH = 8.0
# Largest t for which e^t is surely a double.
_LARGEST = 500.0


def largest_deviation(
    held: float, other: float, *, users: int, categories: int, failure: float
) -> float:
    """Bound on the deviation of all categories' counts from their means, for any histogram.

    All counts are that close at once, but for a probability of ``failure``. A user who holds a
    category is in its count with probability ``held``, and one who does not with ``other``.
    """
    variance = users * max(held * (1.0 - held), other * (1.0 - other))
    if variance == 0.0:
        return 0.0
    needed = math.log(2.0 / failure)

    def deviation(log_t: float, sign: float) -> float:
        t = sign * math.exp(log_t)
        own, foreign = (users * (math.log1p(p * math.expm1(t)) - t * p) for p in (held, other))
        total = own
        if categories > 1:
            total = float(np.logaddexp(own, foreign + math.log(categories - 1)))
        return (total + needed) / abs(t)

    exponent = needed + math.log(categories)
    return max(
        _least(partial(deviation, sign=sign), variance, exponent, _LARGEST) for sign in (1.0, -1.0)
    )


def largest_mean_deviation(
    largest: float, moment: float, total: float, *, users: int, dimension: int, failure: float
) -> float:
    """Bound on the deviation of all coordinates of the users' sum from their means.

    All coordinates of the sum are that close at once, but for a probability of ``failure``.

    Args:
        largest: upper bound on a coordinate of a message minus its vector, in absolute value, > 0.
        moment: upper bound on the mean square of a message's coordinate, for any vector, > 0.
        total: sum of all coordinates' mean squares, at least ``moment``.
    """
    needed = math.log(2.0 / failure)
    total = min(total, dimension * moment)

    def deviation(log_t: float) -> float:
        t = math.exp(log_t)
        y = t * largest
        cumulant = users * moment * max(math.expm1(y) - y, 0.5 * y * y) / largest**2
        coordinates = math.log(total / moment) + cumulant + math.log1p(-math.exp(-cumulant))
        return (float(np.logaddexp(math.log(dimension), coordinates)) + needed) / t

    return _least(deviation, users * moment, needed + math.log(dimension), _LARGEST / largest)


def shares_between(
    counts: Array, held: float, other: float, *, users: int, failure: float
) -> tuple[Array, Array]:
    """Lower and upper ends, in [0, 1], of the shares of users who hold each category.

    From the categories' counts, in [0, users], shape (k,). The probabilities ``held`` > ``other``
    are as for `largest_deviation`; ``failure`` is that of one interval.
    """
    side = math.log(0.5 * failure)
    most = _most_holders(counts, held, other, users, side)
    fewest = users - _most_holders(users - counts, 1.0 - other, 1.0 - held, users, side)
    lower, upper = np.nextafter(fewest / users, -1.0), np.nextafter(most / users, 2.0)
    # where hardly any confidence is asked for, neither side may leave a number of holders
    lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def _most_holders(
    counts: Array, held: float, other: float, users: int, log_failure: float
) -> Array:
    """Largest number of holders for which a count is not too small, by halving; -1 if none is."""
    # A smaller probability makes small counts likelier: rounded down, also where it is 1 - p.
    held, other = (max(p * (1.0 - roundings(4)) - roundings(4), 0.0) for p in (held, other))
    counts = np.floor(counts)
    most, too_many = np.full(counts.shape, -1.0), np.full(counts.shape, users + 1.0)
    while np.any(too_many - most > 1.0):
        middle = np.floor(0.5 * (most + too_many))
        enough = _log_lower_tail(counts, middle, held, other, users) >= log_failure
        most, too_many = np.where(enough, middle, most), np.where(enough, too_many, middle)
    return most


def _log_lower_tail(counts: Array, holders: Array, held: float, other: float, users: int) -> Array:
    """Upper bound on ``log Pr(count <= c)``, by the weights that make c the mean count."""
    others = users - holders
    # The mean under weights x = c is a quadratic equation in x with one root that is positive.
    square = (users - counts) * held * other
    linear = holders * held * (1.0 - other) + others * other * (1.0 - held)
    linear -= counts * (held * (1.0 - other) + other * (1.0 - held))
    constant = counts * (1.0 - held) * (1.0 - other)
    root = np.sqrt(linear * linear + 4.0 * square * constant)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = np.where(linear > 0.0, 2.0 * constant / (linear + root), (root - linear) / (2 * square))
        x = np.where(x < 1.0, x, 1.0)  # also where it is not a number: any x <= 1 gives a bound
        own, foreign = (
            n * np.log1p(np.maximum(p * (x - 1.0), -1.0))
            for n, p in ((holders, held), (others, other))
        )
        own, foreign = np.where(holders > 0.0, own, 0.0), np.where(others > 0.0, foreign, 0.0)
        shift = np.where(counts > 0.0, counts * np.log(x), 0.0)
        variance = sum(
            n * x * p * (1.0 - p) / (1.0 - p + p * x) ** 2
            for n, p in ((holders, held), (others, other))
        )
        likeliest = np.log(0.4689 / (np.sqrt(variance) * (1.0 - x)))
    likeliest = np.where(likeliest < 0.0, likeliest, 0.0)
    # the sizes that it is added up from, of which each is rounded
    size = np.abs(own) + np.abs(foreign) + np.abs(shift) + users + 1.0
    return np.asarray(own + foreign - shift + likeliest + roundings(16) * size)


def _least(bound: Callable[[float], float], variance: float, exponent: float, most: float) -> float:
    """Smallest bound found over log t, around the best t for a normal distribution; t <= most."""
    from scipy.optimize import minimize_scalar  # not quick to import

    middle = 0.5 * math.log(2.0 * exponent / variance)
    ends = min(middle, math.log(most)) - _REACH, min(middle + _REACH, math.log(most))
    found = minimize_scalar(bound, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return float(found.fun)
