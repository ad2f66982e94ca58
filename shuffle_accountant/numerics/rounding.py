"""The rounding vocabulary: what floating-point arithmetic may move a number by, lemma by lemma.

Every allowance for round-off in this package is one of these bounds, so that it says where it comes
from. In all of them u is the unit round-off, and one *rounding* multiplies a number by ``1 + d`` or
by ``1/(1 + d)`` with ``|d| <= u``: that is what a sum, a product, a quotient or a square root costs
as long as its result is not below the smallest normal double (Higham, "Accuracy and Stability of
Numerical Algorithms", section 2.2). An error given as a number of roundings is called ``own``.

A *relative error* of at most e means here that neither of the two numbers, the computed and the
true one, is more than ``1 + e`` times the other. The bounds are computed in floating point
themselves: those relative errors come out rounded up, and `raised` and `lowered` allow for their
own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.budget import budget, rounded

Array = NDArray[np.float64]

Number = TypeVar("Number", float, Array)

UNIT_ROUNDOFF = 2.0**-53

# The largest double below 1: probabilities are capped there if their complement's logarithm counts.
BELOW_ONE = 1.0 - UNIT_ROUNDOFF

# Least positive double, and least normal one: what lies below is rounded to a multiple of that.
SMALLEST = 2.0**-1074
NORMAL = 2.0**-1022

# Roundings that stand for one call of an elementary function (exp, log, expm1, log1p, tanh, ...):
# NumPy checks its own to four units in the last place, which are eight units of round-off.
ELEMENTARY = 8

# NumPy adds blocks of 128 numbers in eight lanes: 15 additions in a lane, 3 across them, up to 7
# for a remainder and one for the number it starts with.
_IN_A_BLOCK = 26
# Halvings until a block is reached, for as many doubles as a process can address:
# 2^44 / 2^38 + 16 <= 128.
_HALVINGS = 38
# Factor for the rounding of the bounds computed here.
_OWN = 1.0 + 16.0 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Between:
    """The largest double not above a real number >= 0, and the smallest one not below it.

    A rounded parameter describes another mechanism, which may be the more private one. So quotients
    and roots that enter a loss are kept from both sides, and each bound is computed from the side
    that makes it a bound.
    """

    low: float
    high: float


def quotient(numerator: float, denominator: float) -> Between:
    """``numerator / denominator`` of two finite doubles or whole numbers, >= 0 and > 0.

    Raises:
        OverflowError: a quotient beyond the range of doubles.
    """
    exact = Fraction(numerator) / Fraction(denominator)
    return _around(float(exact), lambda x: Fraction(x) <= exact, lambda x: Fraction(x) >= exact)


def over_root(value: float, count: int) -> Between:
    """``value / sqrt(count)`` of a finite number >= 0 and a count >= 1."""
    square = Fraction(value) ** 2 / count
    return _around(
        value / math.sqrt(count),
        lambda x: Fraction(x) ** 2 <= square,
        lambda x: Fraction(x) ** 2 >= square,
    )


def _around(
    guess: float, not_above: Callable[[float], bool], not_below: Callable[[float], bool]
) -> Between:
    """The doubles next to a number, from one that is only a few doubles away from it."""
    low = high = guess
    while not not_above(low):
        low = math.nextafter(low, 0.0)
    while not_above(up := math.nextafter(low, math.inf)):
        low = up
    while not not_below(high):
        high = math.nextafter(high, math.inf)
    while high > 0.0 and not_below(down := math.nextafter(high, 0.0)):
        high = down
    return Between(low, high)


class Bound(Enum):
    """The side of the truth that an approximation lies on: above (upper) or below (lower)."""

    PESSIMISTIC = "upper"
    OPTIMISTIC = "lower"


@dataclass(frozen=True)
class Limits:
    """Limits of doubles and of memory.

    Attributes:
        largest_log: largest logarithm of a likelihood ratio, in nats: its exponential is
            3e282, which times 1e25 users is still finite.
        underflow: what is smaller counts as rounded by all of itself: products and differences of
            such numbers may lie below the smallest normal double, where rounding is absolute.
        farthest_score: distance from the mean, in standard deviations, beyond which a normal
            probability is below 6e-300.
        at_once: numbers of one array that a loop over blocks keeps in memory at a time.
    """

    largest_log: float = 650.0
    underflow: float = 1e-300
    farthest_score: float = 37.0
    at_once: int = 1 << 18


LIMITS = Limits()


def roundings(count: Number) -> Number:
    """Bound on the relative error of a number that was rounded ``count`` times.

    Each rounding moves the logarithm by at most ``-log(1 - u) <= u + u^2``, so ``count`` of them
    multiply by at most ``e^(count (u + u^2))``, and the other way by no more. Unlike Higham's
    ``count u / (1 - count u)`` it holds for any count.

    Args:
        count: roundings, >= 0, a number or an array. What moves an exponent by x units of
            round-off counts as x roundings of its exponential.

    Returns:
        ``expm1(count (u + u^2))``, rounded up, of the shape of ``count``; infinite where that is
        above 1e304.
    """
    unit = budget().roundoff
    exponent = count * (unit * (1.0 + 4.0 * unit))
    if isinstance(exponent, float):
        return math.expm1(exponent) * _OWN if exponent <= 700.0 else math.inf
    if float(np.max(exponent, initial=0.0)) <= 1.0:  # expm1(x) <= x + x^2, and much faster
        return np.asarray(exponent * (_OWN + exponent))
    with np.errstate(over="ignore"):
        return np.asarray(np.expm1(exponent) * _OWN)


def exponential(moved: Number, own: float = 0.0) -> Number:
    """Bound on the relative error of a computed ``e^x`` whose x is off by at most ``moved``.

    ``e^(x + d) / e^x - 1 = expm1(d)``, which is largest in size at ``d = moved``; the function's
    own roundings multiply that, and ``own`` more, before or after.
    """
    return roundings(moved / budget().roundoff + (ELEMENTARY + own))


def logarithm(value: Number, argument: float = 0.0) -> Number:
    """Bound on the absolute error of a logarithm of this value.

    ``log(1 + argument) <= argument`` for the relative error of what it is taken of, and the
    function's own error is relative to its value.
    """
    return roundings(float(ELEMENTARY)) * abs(value) + argument


def log1p(value: Number, own: float = 0.0) -> Number:
    """Bound on the absolute error of a computed ``log(1 + x)``, x >= 0 with ``own`` roundings.

    ``log(1 + x (1 + e)) - log(1 + x) <= e x / (1 + x) <= e log(1 + x)``: the error is relative.
    """
    return roundings(ELEMENTARY + own) * abs(value)


def sequential_sum(terms: Number, own: float = 0.0) -> Number:
    """Bound on the relative error of a sum of positive terms, in whatever order it is taken.

    A term goes through fewer additions than there are terms, each of which rounds it once more; all
    terms are positive, so the sum's relative error is at most the worst term's. Of terms of either
    sign it bounds the absolute error, relative to the sum of their sizes.

    Args:
        terms: number of terms, added by `numpy.bincount`, `numpy.convolve`, a matrix product or
            one after the other.
        own: roundings of each term.
    """
    return roundings(terms + own)


def pairwise_sum(own: float = 0.0) -> float:
    """Bound on the relative error of `numpy.sum` along one axis of positive terms, of any size.

    NumPy halves the array (up to a multiple of eight) until at most 128 numbers are left and adds
    these in eight lanes: no term goes through more than 64 additions. The rest is as in
    `sequential_sum`, with ``own`` roundings of each term.
    """
    return roundings(_IN_A_BLOCK + _HALVINGS + own)


def product(first: Number, *others: float) -> Number:
    """Bound on the relative error of a product or quotient, from those of its factors.

    ``(1 + a)(1 + b) - 1 = a + b + a b``, and each multiplication rounds once.
    """
    total = first
    for other in (*others, roundings(float(len(others)))):
        total = total + other + total * other
    return total * _OWN


def difference(first: Number, second: Number, own: float) -> Number:
    """Bound on the absolute error of ``first - second``, each with ``own`` roundings.

    Each is off by ``roundings(own)`` of its size, and the subtraction rounds once more: relative to
    the result, cancellation makes the error as large as it likes.
    """
    return roundings(own + 1.0) * (abs(first) + abs(second))


def underflow(operations: float) -> float:
    """Bound on the absolute error of some products or quotients that are subnormal numbers.

    There the spacing of doubles is `SMALLEST`, and rounding moves by half of that at most; a sum is
    exact there.
    """
    return operations * SMALLEST


def raised(value: Number, error: Number | float) -> Number:
    """An upper bound of a number >= 0, from its value and a bound on its relative error.

    ``value (1 + error)`` is rounded three times here, which is less than the factor of ``1 + 4u``
    allows for.
    """
    return value * ((1.0 + error) * (1.0 + 4.0 * UNIT_ROUNDOFF))


def lowered(value: Number, error: Number | float) -> Number:
    """A lower bound of a number >= 0, from its value and a bound on its relative error.

    ``value / (1 + error) >= value (1 - error)``, which is rounded three times here; never negative.
    A factor near one is lost on subnormal numbers, which products round by half of `SMALLEST`:
    all of it is taken off, for this product and the operation that gave the value.
    """
    left = max(1.0 - error, 0.0) if isinstance(error, float) else np.maximum(1.0 - error, 0.0)
    found: Number = value * (left * (1.0 - 4.0 * UNIT_ROUNDOFF)) - SMALLEST
    return max(found, 0.0) if isinstance(found, float) else np.maximum(found, 0.0)


def outwards(value: Number, error: Number | float, *, upper: bool) -> Number:
    """`raised` for an upper bound, `lowered` for a lower one."""
    return raised(value, error) if upper else lowered(value, error)


def share(value: float, part: float, error: float, *, upper: bool) -> float:
    """Bound of ``part * value``, both >= 0, from a bound of the value and the relative error.

    The product and its move outwards are rounded once each, by half of `SMALLEST` at most where
    they are subnormal; `lowered` takes that off. A product of positive numbers may be rounded to 0.
    """
    found = outwards(part * value, error, upper=upper)
    return found + underflow(1) if upper and value > 0.0 and part > 0.0 else found


def log_ratio_above(p0: Array, p1: Array) -> Array:
    """Upper bound of ``log(p0/p1)`` where it is positive, else 0; ``inf`` where only p1 is 0."""
    found = np.where((p0 > 0.0) & (p1 == 0.0), math.inf, 0.0)
    more = (p0 > p1) & (p1 > 0.0)
    high, low = p0[more], p1[more]
    with np.errstate(over="ignore"):
        gain = (high - low) / low
    # the quotient is off by two roundings, which the logarithm does not magnify; a difference of
    # logarithms, for quotients that overflow, is above 700 and its terms below 750, so that each
    # is off by little more than its function's share of the result
    value = rounded(
        np.where(np.isinf(gain), np.log(high) - np.log(low), np.log1p(gain)), 2 * ELEMENTARY
    )
    found[more] = raised(value, roundings(2 * ELEMENTARY + 4))
    return np.asarray(found)
