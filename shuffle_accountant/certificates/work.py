"""Work and memory of a check: estimated before it is done, and counted while it is.

The unit is one arithmetic operation on intervals of up to 512 bits, with the Python around it:
about 0.1 µs on an ordinary machine, so that ten million units take a second. Operations at higher
precision count for more. Estimates are made from sizes, in plain floating point; where a size is
not known before, from a bound of it, so that estimates are too large rather than too small.
Whatever they say, a check is stopped when it has done more than it may.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Units of one exponential or logarithm, and of one complementary error function, times the price.
EXP, ERFC = 8.0, 60.0
# Units of one binomial coefficient of numbers up to 10^9, times the price.
BINOMIAL = 500.0
_CHEAP_BITS = 512


class TooMuchWorkError(Exception):
    """A check has done more work than it may."""


@dataclass(frozen=True)
class Work:
    """An amount of work, in units, and the bytes of memory that are needed at the same time."""

    units: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Work) -> Work:
        """The work of one after the other."""
        return Work(self.units + other.units, max(self.memory, other.memory))

    def times(self, count: float) -> Work:
        """The work of ``count`` repetitions."""
        return Work(self.units * count, self.memory)


def price(bits: int) -> float:
    """Units of one multiplication of balls, given their bits."""
    return math.pow(max(bits / _CHEAP_BITS, 1.0), 1.5)


def ball_bytes(bits: int) -> float:
    """Bytes of one ball, given its bits."""
    return 150.0 + bits / 8.0


def product_work(one: float, other: float, bits: int) -> Work:
    """The product of integer polynomials, given their coefficients and bits, rounded up."""
    length = one + other
    growth = max(math.log2(length + 1.0) / 12.0, 1.0)
    return Work(length * (5.0 + bits / 64.0) * growth, length * (150.0 + bits))


def deviations(variance: float, largest: float, bits: float) -> float:
    """Bernstein's bound of a distance that sums of independent variables exceed too rarely.

    That is with chance ``2**-bits``; no variable differs from its mean by more than ``largest``.
    """
    logarithm = math.log(2.0) * bits
    return math.sqrt(2.0 * variance * logarithm) + 2.0 / 3.0 * largest * logarithm


_left: ContextVar[float] = ContextVar("units that may still be spent", default=math.inf)


@contextmanager
def limited_to(units: float) -> Iterator[None]:
    """Inside the block `spend` raises when more units are spent."""
    token = _left.set(units)
    try:
        yield
    finally:
        _left.reset(token)


# Units that may still be spent.
left = _left.get


def spend(units: float) -> None:
    """Count work that is about to be done.

    Raises:
        TooMuchWorkError: it is more than is left.
    """
    if left() < units:
        raise TooMuchWorkError
    _left.set(left() - units)
