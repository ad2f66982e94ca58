"""Parameters computed from others, each given by the two doubles it lies between.

A rounded parameter describes another mechanism, which may be the more private one. So quotients and
roots that enter a loss are kept from both sides, and each bound is computed from the side that
makes it a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Between:
    """A real number >= 0 and the doubles next to it.

    Attributes:
        low: the largest double that is not above the number.
        high: the smallest double that is not below it; ``low`` itself if the number is a double.
    """

    low: float
    high: float


def quotient(numerator: float, denominator: float) -> Between:
    """``numerator / denominator`` of two doubles or whole numbers.

    Args:
        numerator: finite, >= 0.
        denominator: finite, > 0.

    Raises:
        OverflowError: a quotient beyond the range of doubles.
    """
    exact = Fraction(numerator) / Fraction(denominator)
    return _around(float(exact), lambda x: Fraction(x) <= exact, lambda x: Fraction(x) >= exact)


def over_root(value: float, count: int) -> Between:
    """``value / sqrt(count)``.

    Args:
        value: finite, >= 0.
        count: >= 1.
    """
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
