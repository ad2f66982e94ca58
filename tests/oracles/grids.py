"""Sums of losses on a grid, atom by atom: fractions for masses, 50 digits for exponentials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from .precision import MP, Real, exact

Law = dict[int, Fraction]


def product(laws: Iterable[tuple[Law, int]]) -> Law:
    """The law of the sum of independent integers, each taken so often."""
    total: Law = {0: Fraction(1)}
    for law, count in laws:
        for _ in range(count):
            added: Law = {}
            for i, p in total.items():
                for j, q in law.items():
                    added[i + j] = added.get(i + j, Fraction(0)) + p * q
            total = added
    return total


def law_of(offset: int, masses: Sequence[float]) -> Law:
    """A vector of masses as it stands, exactly."""
    return {offset + i: Fraction(p) for i, p in enumerate(masses) if p > 0.0}


def at_least_one(chances: Iterable[tuple[float, int]]) -> Fraction:
    """The probability that one of the events happens, each tried so often."""
    none = Fraction(1)
    for chance, count in chances:
        none *= (1 - Fraction(chance)) ** count
    return 1 - none


class Sum:
    """The sum of losses that are multiples of a spacing, infinite with some probability."""

    def __init__(self, law: Law, spacing: float, infinite: Fraction) -> None:
        self.mass = [(exact(spacing) * i, _real(p)) for i, p in sorted(law.items())]
        self.infinite = _real(infinite)

    def delta(self, epsilon: float | Real) -> Real:
        """``E(1 - e^(epsilon - loss))_+``."""
        level = exact(epsilon)
        terms = (p * -MP.expm1(level - x) for x, p in self.mass if x > level)
        return MP.fsum(terms) + self.infinite

    def tail(self, epsilon: float | Real) -> Real:
        """``P(loss >= epsilon)``."""
        level = exact(epsilon)
        return MP.fsum(p for x, p in self.mass if x >= level) + self.infinite


def _real(value: Fraction) -> Real:
    return MP.mpf(value.numerator) / value.denominator
