"""Sums of independent lattice variables, in rational arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

Mass = Sequence[float | Fraction]
"""Probabilities of neighbouring lattice points; floats are taken at their binary values."""


def product(a: Mass, b: Mass) -> list[Fraction]:
    """The law of the sum of two variables, term by term."""
    longer = [Fraction(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            longer[i + j] += Fraction(x) * Fraction(y)
    return longer


def power(mass: Mass, count: int) -> list[Fraction]:
    """The law of the sum of ``count`` variables."""
    result = [Fraction(1)]
    for _ in range(count):
        result = product(result, mass)
    return result
