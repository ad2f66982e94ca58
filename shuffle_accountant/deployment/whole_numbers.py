"""Whole numbers for probabilities: thresholds that reveal less, and exact uniform draws.

All randomizers here have one form. A *blank* message is drawn from a distribution that no value
enters; with probability t the message is then *fitted* to the value, which makes it one of the
messages that say yes to the value, uniformly. Blank messages say yes to a value with probability m,
so that a message is ``1 + t/((1 - t) m)`` times as likely from a value that it says yes to as from
one that it does not: e^eps0. Solved for t, with ``E = e^eps0 - 1``,

    t = E m / (E m + 1),        T = floor(2^53 t).

RAPPOR does so for every bit with half of eps0, in a shorter form: each bit is flipped with
probability s = 1/(e^(eps0/2) + 1), rounded up.

*Claim.* Let R be the randomizer with t and R' the one with ``t' = T/2^53 <= t``. Any number of
shuffled rounds of R' has a hockey-stick divergence of at most that of rounds of R, at every epsilon
and for every pair of datasets. *Proof.* R' is R followed by a kernel that no value enters: with
probability ``1 - t'/t`` a message is replaced by a blank one. For then the message is fitted with
probability ``t (t'/t) = t'``, and is blank else. A kernel that is applied to each message
separately commutes with the permutation of the shuffler, so that outputs of shuffled rounds of R'
are a post-processing of outputs of shuffled rounds of R, round by round, which no divergence grows
by, however the rounds are composed. For RAPPOR the same holds bit by bit: a bit that is flipped
with probability s and then, independently, with ``r = (s' - s)/(1 - 2 s)`` is flipped with
``s (1 - r) + (1 - s) r = s'``, for ``s <= s' <= 1/2``. ∎

So what is certified for the parameters as they are written holds for the integers on the devices.

Uniform integers from random bytes, without a floating-point number in between.

A *draw* is eight bytes, most significant first, of which the lowest 11 bits are dropped: a uniform
integer below ``2^53``, which every language and every JSON reader holds exactly. An integer below n
is the remainder of a draw modulo n; draws at or above the largest multiple of n are drawn again, so
that all remainders are equally likely, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# Bits of a draw, the number of its values, and the bytes that it takes.
BITS, RANGE, BYTES = 53, 1 << 53, 8

Integers = NDArray[np.int64]

# Digits of exponentials and logarithms, which `decimal` rounds correctly, and what is given away to
# stay on the safe side: 2^-53 is four times ten to the minus 16.
_DIGITS, _SLACK = 120, Decimal(10) ** -90
# The eps0 (nats) from which on all but one of the 2^53 draws fit the message, for any m >= 2^-53.
_LARGEST = 200.0


class Draws:
    """Uniform integers from random bytes, any number of them at a time.

    Args:
        source: returns a number of random bytes, such as `os.urandom`.
    """

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self._source = source

    def draw(self, size: int) -> Integers:
        """Uniform integers in 0 … 2^53 - 1, shape (size,)."""
        words = np.frombuffer(self._source(BYTES * size), dtype=">u8")
        return (words >> np.uint64(8 * BYTES - BITS)).astype(np.int64)

    def below(self, count: int, size: int) -> Integers:
        """Uniform integers in 0 … count - 1, shape (size,), for 1 <= count <= 2^53."""
        drawn = self.draw(size)
        while (again := np.flatnonzero(drawn >= RANGE - RANGE % count)).size:
            drawn[again] = self.draw(again.size)
        return drawn % count


def fitting_draws(eps0: float, mass: Fraction) -> int:
    """The largest number T of 2^53 draws that may fit a message: likelihood ratios <= e^eps0.

    Args:
        eps0: nats, finite, >= 0.
        mass: probability m, in (0, 1), that a blank message says yes to a value.
    """
    gain = (_exponential_below(eps0) - 1) * mass
    return 0 if gain <= 0 else math.floor(RANGE * gain / (gain + 1))


def flipping_draws(eps0: float) -> int:
    """The smallest number F of 2^53 draws that flip a bit of two that differ: ratios <= e^eps0."""
    return min(math.ceil(RANGE / (_exponential_below(0.5 * eps0) + 1)), RANGE // 2)


def loss_of_fitting(draws: int, mass: Fraction) -> float:
    """The eps0 (nats, rounded up) of a device that fits messages with ``draws`` of 2^53 draws."""
    return _logarithm_above(1 + Fraction(draws, RANGE - draws) / mass)


def loss_of_flipping(draws: int) -> float:
    """The eps0 (nats, rounded up) of a device that flips each bit with ``draws`` of 2^53 draws."""
    return _logarithm_above(Fraction(RANGE - draws, draws) ** 2)


def _exponential_below(exponent: float) -> Fraction:
    """A number in [1, e^exponent] that is closer to it than any double."""
    found = Context(prec=_DIGITS).exp(Decimal(min(exponent, _LARGEST)))
    return max(Fraction(found) * (1 - Fraction(_SLACK)), Fraction(1))


def _logarithm_above(ratio: Fraction) -> float:
    """A double that is at least the logarithm of a ratio >= 1."""
    context = Context(prec=_DIGITS)
    quotient = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    exact = Fraction(context.ln(quotient)) + Fraction(_SLACK) if ratio > 1 else Fraction(0)
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
