"""Numbers with error bounds (Arb's balls), and their way to integers over a power of two."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flint import arb, ctx, fmpq


class UndecidedError(ArithmeticError):
    """A ball is too wide to say which of two cases holds."""


@dataclass(frozen=True)
class Effort:
    """Precision with which a profile is enclosed.

    Attributes:
        bits: masses are integers over ``2**bits``.
        cells: of the first block of a graded grid.
        precision: of the balls, in bits.
        further: additional bits of the masses of sums, as many as their largest values have.
    """

    bits: int
    cells: int
    precision: int
    further: int = 0

    @property
    def cut(self) -> int:
        """Bits of the tail mass: tails below ``2**-cut`` are cut off, moved up, and counted."""
        return self.bits - 48

    @property
    def fine_bits(self) -> int:
        """Bits of the masses of sums, which are integers over two to this power."""
        return self.bits + 16 + self.further

    def often(self, count: int) -> Effort:
        """The effort for one of ``count`` summands, each of which may be cut."""
        return replace(self, bits=self.bits + count.bit_length())


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Set the precision of balls, in bits, inside the block."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def exact(value: float | int) -> arb:
    """The ball, of radius 0, of a finite double or an integer."""
    top, bottom = value.as_integer_ratio()
    return arb(fmpq(top, bottom))


def dyadic(integer: int, bits: int) -> arb:
    """``integer / 2**bits``."""
    return arb((integer, -bits))


def scaled(integer: int, exponent: int) -> fmpq:
    """``integer * 2**exponent``."""
    return fmpq(integer << exponent) if exponent >= 0 else fmpq(integer, 1 << -exponent)


def ceiling(value: arb, bits: int) -> int:
    """The smallest integer that is certainly at least ``value * 2**bits``.

    Raises:
        UndecidedError: the ball is unbounded.
    """
    if not value.is_finite():
        raise UndecidedError("a number without bound")
    mantissa, exponent = value.upper().man_exp()
    top, shift = int(mantissa), int(exponent) + bits
    return top << shift if shift >= 0 else -((-top) >> -shift)


def lower(value: arb) -> fmpq:
    """The lower end of a ball, exactly."""
    mantissa, exponent = value.lower().man_exp()
    return scaled(int(mantissa), int(exponent))


def upper(value: arb) -> fmpq:
    """The upper end of a ball, exactly."""
    return -lower(-value)


def at_least(low: int | arb, value: arb) -> arb:
    """A ball of the larger of a lower bound and a value."""
    return arb(low).max(value)


def between_zero_and(value: arb) -> arb:
    """The ball from 0 to the upper end of a number that is known to be >= 0."""
    upper = at_least(0, value.upper())
    return upper / 2 + arb(0, upper.upper()) / 2
