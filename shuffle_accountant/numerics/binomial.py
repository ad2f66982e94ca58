"""Binomial probabilities and tails with a stated relative error, at any size.

``scipy.special.bdtr`` loses digits as ``n`` grows and promises none; the certified brackets of this
package need a bound on every rounding error. Two classical formulas give one:

* the saddle-point form of the probability function (C. Loader, 2000), whose exponent is a sum of
  terms of one sign, so that its rounding error is a few units in the last place of the exponent;
* the tail as ``pmf(k)`` times a *tail ratio*, an integral of a log-concave function of one variable
  over a finite interval, on which Gauss-Legendre quadrature converges geometrically.

Everything is vectorised over ``k`` and ``n``; ``n`` up to 2**53.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import BELOW_ONE, Array, roundings, sequential_sum

CHANCE = 8.0
"""Roundings that a success probability p, and 1 - p, may each be off by.

They are functions of a privacy parameter more often than not. Both move the logarithm of a
probability by ``k - n p`` times what they are off by, relative to themselves.
"""

_NODES = 48
# The logarithm of a probability whose products are about to lose digits.
_TINY = -600.0
_SERIES_FROM = 16
_NEGLIGIBLE_EXPONENT = 42.0  # exp(-42) = 6e-19 is below the rounding of the integral


@cache
def _small_stirling_errors() -> Array:
    """``log(k!) - (k + 1/2) log k + k - log(2 pi)/2`` for k = 0 (by convention 0) … 15."""
    # In decimal arithmetic, because in double precision the difference cancels.
    with localcontext() as context:
        context.prec = 40
        half_log_2pi = Decimal("0.918938533204672741780329736405617639861397")
        errors = [0.0]
        for k in range(1, _SERIES_FROM):
            exact, power = Decimal(math.factorial(k)).ln(), Decimal(k) + Decimal("0.5")
            errors.append(float(exact - power * Decimal(k).ln() + k - half_log_2pi))
    return np.array(errors)


def stirling_error(k: ArrayLike) -> Array:
    """``log(k!)`` minus Stirling's approximation ``(k + 1/2) log k - k + log(2 pi)/2``.

    The relative error is below 4 units in the last place.

    Args:
        k: integers >= 0, as floats, any shape. ``k = 0`` gives 0 by convention.
    """
    k = np.asarray(k, dtype=float)
    small = k < _SERIES_FROM
    safe = np.where(small, float(_SERIES_FROM), k)
    inv2 = 1.0 / (safe * safe)
    further = 1 / 1260 - inv2 * (1 / 1680 - inv2 * (1 / 1188 - inv2 * 691 / 360360))
    series = (1 / 12 - inv2 * (1 / 360 - inv2 * further)) / safe
    table = _small_stirling_errors()
    return np.where(small, table[np.where(small, k, 0).astype(np.intp)], series)


def log1p_minus(x: ArrayLike) -> Array:
    """``log(1 + x) - x`` of values x > -1, never positive, without cancellation near 0."""
    x = np.asarray(x, dtype=float)
    near = np.abs(x) < 0.5
    r = np.where(near, x, 0.0)
    r = r / (2.0 + r)
    r2 = r * r
    largest = float(np.max(r2, initial=0.0))
    terms = 1
    while largest**terms > 1e-18 and terms < 20:
        terms += 1
    series = np.full_like(r2, 1.0 / (2 * terms + 3))
    for j in range(terms - 1, -1, -1):
        series = series * r2 + 1.0 / (2 * j + 3)
    result = r * (2.0 * r2 * series - np.where(near, x, 0.0))
    if not near.all():
        far = np.where(near, 1.0, x)
        result = np.where(near, result, np.log1p(far) - far)
    return result


def deviance(x: ArrayLike, mean: ArrayLike) -> Array:
    """``x log(x/mean) + mean - x`` >= 0: the exponent of the saddle-point form, and Chernoff's.

    Args:
        x: values >= 0; 0 gives ``mean``.
        mean: values > 0; broadcasts with ``x``.
    """
    x, mean = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(mean, dtype=float))
    near = np.abs(mean - x) < 0.5 * x
    safe = np.where(x > 0, x, 1.0)
    close = -x * log1p_minus(np.where(near, (mean - x) / safe, 0.0))
    if near.all():  # the bulk of a law, where the logarithm below would be for nothing
        return np.asarray(close)
    with np.errstate(over="ignore"):
        ratio = safe / mean
    log_ratio = np.log(ratio)
    if np.isinf(log_ratio).any():  # the mean is below the smallest normal double
        log_ratio = np.where(np.isinf(ratio), np.log(safe) - np.log(mean), log_ratio)
    far = x * log_ratio + (mean - x)
    return np.asarray(np.where(near, close, far))


def log_pmf(k: ArrayLike, n: ArrayLike, p: float, q: float) -> Array:
    """Log-probability (nats) that a Bin(n, p) variable equals k, -inf where impossible.

    Args:
        k: integers in [0, n], as floats; broadcasts with ``n``.
        n: numbers of trials, integers in [0, 2**53].
        p: success probability in [0, 1].
        q: ``1 - p``, given separately so that neither end loses digits.
    """
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    if p == 0.0 or q == 0.0:
        certain = k == (0.0 if p == 0.0 else n)
        return np.where(certain, 0.0, -np.inf)
    rest = n - k
    inside = (k > 0) & (rest > 0)
    ki, ri, ni = np.where(inside, k, 1.0), np.where(inside, rest, 1.0), np.where(inside, n, 2.0)
    body = (
        (stirling_error(ni) - stirling_error(ki) - stirling_error(ri))
        - deviance(ki, ni * p)
        - deviance(ri, ni * q)
        - 0.5 * np.log(2 * math.pi * ki * (ri / ni))
    )
    log_p = math.log(p) if p < 0.5 else math.log1p(-q)
    log_q = math.log(q) if q < 0.5 else math.log1p(-p)
    none, every = k == 0, rest == 0
    edge = np.where(none, n * log_q, np.where(every, n * log_p, -np.inf))
    found = np.where(inside, body, edge)
    return disturbed(found, lambda: log_pmf_error(k, n, p, found))


def log_pmf_error(k: ArrayLike, n: ArrayLike, p: float, log_probability: ArrayLike) -> Array:
    """Bound on the absolute error of `log_pmf` (so, the relative error of the probability).

    The exponent's terms share a sign, so rounding costs a few units of its size; for p other than
    1/2 what p and q are off by, and ``n p`` and ``n q``, moves both deviances by as much of ``|k -
    n p|``.
    """
    k, n = np.asarray(k, dtype=float), np.asarray(n, dtype=float)
    size = np.minimum(np.abs(np.asarray(log_probability)), 1e6)
    error = 8.0 + 6.0 * size
    if p != 0.5:
        error = error + 2.0 * (CHANCE + 1.0) * np.abs(k - n * p)
    return np.asarray(roundings(1.0) * error)


RUN = 32
"""Probabilities in a row computed as products of the first: a logarithm each would take longer."""


def pmf_runs(
    first: Array, n: ArrayLike, p: float, q: float, length: int = RUN
) -> tuple[Array, Array]:
    """Probabilities that a Bin(n, p) variable is one of some counts in a row, for several rows.

    In a row each is the one before times ``(n - k + 1) p / (k q)``, unless the first one is about
    to lose digits.

    Args:
        first: first count of each row, as floats, in [0, 2**53]; broadcasts with ``n``.
        n: numbers of trials.
        p: success probability in (0, 1).
        q: ``1 - p``.
        length: counts of a row.

    Returns:
        The probabilities, of one dimension more, 0 where impossible; and bounds on the absolute
        errors of their logarithms, one for each row.
    """
    first, n = np.broadcast_arrays(np.asarray(first, dtype=float), np.asarray(n, dtype=float))
    start = np.minimum(first, n)
    log_first = log_pmf(start, n, p, q)
    law = np.empty((*first.shape, length))
    law[..., 0] = np.where(first <= n, np.exp(log_first), 0.0)
    counts = first[..., None] + np.arange(float(length))
    left = np.maximum(n[..., None] - counts[..., :-1], 0.0)
    # a quotient and two products; for p other than 1/2 another quotient, and the chances are off by
    # as much as in `log_pmf_error`
    steps = 3 if p == q else 4 + 2 * CHANCE
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are listed below
        law[..., 1:] = rounded(left / counts[..., 1:] * (p / q), steps)
        np.cumprod(law, axis=-1, out=law)
    error = log_pmf_error(start, n, p, log_first) + roundings(steps * length)
    few = log_first < _TINY
    if few.any():
        each, whole = counts[few], np.broadcast_to(n[few][:, None], counts[few].shape)
        logs = log_pmf(np.minimum(each, whole), whole, p, q)
        law[few] = np.where(each <= whole, np.exp(logs), 0.0)
        error[few] = np.max(log_pmf_error(np.minimum(each, whole), whole, p, logs), axis=-1)
    return law, error


@cache
def gauss_legendre(order: int) -> tuple[Array, Array]:
    """Nodes and weights of the rule of the given order on [0, 1].

    NumPy's and SciPy's rules have a relative error of 1e-12 in the end weights, which is where the
    integrands of this package live; two Newton steps in decimal arithmetic remove it.

    Args:
        order: number of nodes, >= 2.

    Returns:
        Nodes and weights of shape (order,), relative error one unit in the last place.
    """
    guesses = np.polynomial.legendre.leggauss(order)[0]
    nodes, weights = np.empty(order), np.empty(order)
    with localcontext() as context:
        context.prec = 32
        for i, guess in enumerate(guesses[: (order + 1) // 2]):
            x = Decimal(float(guess))
            for _ in range(3):  # the third pass only evaluates the derivative at the root
                previous, value = Decimal(1), x
                for k in range(2, order + 1):
                    previous, value = value, ((2 * k - 1) * x * value - (k - 1) * previous) / k
                slope = order * (x * value - previous) / (x * x - 1)
                root, x = x, x - value / slope
            weight = 1 / ((1 - root * root) * slope * slope)
            nodes[i], nodes[order - 1 - i] = float((1 + root) / 2), float((1 - root) / 2)
            weights[i] = weights[order - 1 - i] = float(weight)
    return nodes, weights


def tail_ratio_error() -> float:
    """Relative error of `upper_tail_ratio` for an exactly known p.

    It comes from the rounding of the integrand's exponent (at most 40 in size, weighted by the
    integrand: a few units) and of the 48-term sum. The largest error seen against 60-digit
    arithmetic is 2e-15.
    """
    return sequential_sum(_NODES, own=17)


def upper_tail_ratio(k: ArrayLike, n: ArrayLike, p: float, q: float) -> Array:
    """``P(X >= k) / P(X = k)`` for X ~ Bin(n, p), on the far side of the mean.

    With ``r = p/q`` the ratio is ``k * int_0^1 (1-y)^(k-1) (1 + r y)^(n-k) dy`` (the incomplete
    beta integral from its end point). Its exponent is written as three terms that are all <= 0
    when k >= n p + q, and cut where it falls below -42.

    Args:
        k: integers with ``n p + q <= k <= n`` and k >= 1, as floats; broadcasts with ``n``.
        n: numbers of trials.
        p: success probability in (0, 1).
        q: ``1 - p``.

    Returns:
        Ratios >= 1 (up to rounding) with relative error `tail_ratio_error` plus, for p != 1/2,
        ``4 (CHANCE + 1) u sqrt(n min(p, q))`` from what p and q are off by.
    """
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    shape = k.shape
    k, n = k.ravel(), n.ravel()
    r = p / q
    rest = n - k
    # k - n p, from the smaller of the two means
    above = k - n * p if p <= q else n * q - rest
    slope = np.maximum((above - q) / q, 0.0)

    def exponent(y: Array, part: slice | None = None) -> Array:
        a, b, s = (k, rest, slope) if part is None else (k[part], rest[part], slope[part])
        if y.ndim == 2:
            a, b, s = a[:, None], b[:, None], s[:, None]
        if p == q:  # the two logs combine, which is cheaper and exact
            return np.asarray(b * np.log1p(-y * y) + s * np.log1p(-y))
        return np.asarray((a - 1.0) * log1p_minus(-y) + b * log1p_minus(r * y) - s * y)

    # Newton from the right for the point where the concave exponent reaches the cut: each step
    # stays on the right of it, so nothing that counts is cut off.
    goal = _NEGLIGIBLE_EXPONENT
    end = 2 * goal / (slope + np.sqrt(slope * slope + 2 * goal * np.maximum(k - 1.0, 0.0)) + 1e-300)
    whole = end >= 0.999
    end = np.where(whole, 0.999, end)
    whole &= exponent(end) > -goal
    for _ in range(6):
        value = exponent(end)
        derivative = -slope - (k - 1.0) * end / (1.0 - end) - rest * r * r * end / (1.0 + r * end)
        if p == q:
            derivative = -2.0 * rest * end / (1.0 - end * end) - slope / (1.0 - end)
        falls = derivative < 0
        step = np.where(falls, (value + goal) / np.where(falls, derivative, -1.0), 0.0)
        end = np.where(whole, end, end - step)
    end = np.where(whole, 1.0, end)
    nodes, weights = gauss_legendre(_NODES)
    result = np.empty_like(k)
    chunk = 1 << 14
    for start in range(0, k.size, chunk):
        part = slice(start, start + chunk)
        value = np.exp(exponent(end[part, None] * nodes, part))
        result[part] = k[part] * end[part] * np.einsum("ij,j->i", value, weights)
    return disturbed(result, lambda: tail_ratio_error() * result).reshape(shape)


def log_upper_tail(k: ArrayLike, n: ArrayLike, p: float, q: float) -> Array:
    """Log of ``P(X >= k)`` for X ~ Bin(n, p), any k, relative accuracy in the small tail.

    On the near side of the mean the complement is taken of the other, smaller, tail.
    """
    k, n = np.broadcast_arrays(np.asarray(k, dtype=float), np.asarray(n, dtype=float))
    if p == 0.0 or q == 0.0:
        return np.where(k <= (0.0 if p == 0.0 else n), 0.0, -np.inf)
    result = np.zeros(k.shape)
    above = (k >= n * p + q) & (k >= 1)
    result[k > n] = -np.inf
    far = above & (k <= n)
    if far.any():
        kf, nf = k[far], n[far]
        result[far] = log_pmf(kf, nf, p, q) + np.log(upper_tail_ratio(kf, nf, p, q))
    near = ~above & (k >= 1)
    if near.any():
        # P(X >= k) = 1 - P(n - X >= n - k + 1)
        kn, nn = (n - k + 1.0)[near], n[near]
        other = log_pmf(kn, nn, q, p) + np.log(upper_tail_ratio(kn, nn, q, p))
        result[near] = np.log1p(-np.minimum(np.exp(other), BELOW_ONE))
    return np.minimum(result, 0.0)
