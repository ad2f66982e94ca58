"""Privacy loss distributions on a grid of losses, their profiles and their composition.

Masses are integers over ``2**bits``, on losses ``k h``; the Q-mass of a loss is its P-mass times
``e^(-k h)``. Products are exact; they are rounded up, and tails that are cut are moved up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flint import arb, ctx, fmpz_poly

from shuffle_accountant.certificates.additive import few, repeated
from shuffle_accountant.certificates.balls import Effort, at_least, dyadic, exact
from shuffle_accountant.certificates.work import EXP, Work, deviations, price, product_work, spend

# Tails are cut this number of bits below ``2**-cut`` when distributions are composed.
_SPARE = 8


@dataclass(frozen=True)
class LossTable:
    """Ascending losses (nats), their P-masses, and that at +inf; what is missing is there too."""

    losses: Sequence[float]
    masses: Sequence[float]
    infinite: float

    def work(self, count: int, effort: Effort) -> Work:
        """Work and memory of `divergences`, given the number of α."""
        return Work(price(effort.precision) * (count + 2.0 * len(self.losses)) * (2.0 * EXP + 8.0))

    def divergences(self, alphas: list[arb], effort: Effort) -> list[arb]:
        """Balls of ``H(α)``, at most 1, at ascending α."""
        spend(self.work(len(alphas), effort).units)
        masses = [exact(mass) for mass in self.masses]
        missing = at_least(0, 1 - sum(masses, exact(self.infinite)))
        total = exact(self.infinite) + missing
        weighted, i = arb(0), len(masses) - 1
        found = []
        for alpha in reversed(alphas):
            level = alpha.log()
            while i >= 0 and exact(self.losses[i]) > level:
                total += masses[i]
                weighted += masses[i] * (-exact(self.losses[i])).exp()
                i -= 1
            value, j = total - alpha * weighted, i
            while j >= 0 and exact(self.losses[j]) > level.lower():  # above alpha, or not
                gain = masses[j] * (1 - alpha * (-exact(self.losses[j])).exp())
                value += at_least(0, gain)
                j -= 1
            found.append(arb(1).min(value))
        return found[::-1]


@dataclass(frozen=True)
class GridLaw:
    """P-masses of losses on a grid, and of an infinite one: integers over ``2**bits``, >= 0.

    The first mass is at the place ``first``, in spacings.
    """

    first: int
    masses: Sequence[int]
    infinite: int
    bits: int

    @property
    def total(self) -> int:
        """Sum of all masses, that of infinite losses included, in units of ``2**-bits``."""
        return int(sum(self.masses)) + self.infinite

    @property
    def variance(self) -> float:
        """Variance of the place of a finite loss."""
        total = max(sum(self.masses), 1)
        mean = sum(i * mass for i, mass in enumerate(self.masses)) / total
        return math.fsum((i - mean) ** 2 * (mass / total) for i, mass in enumerate(self.masses))

    def profile(self, spacing: arb) -> tuple[list[arb], arb]:
        """``H(e^(k h))`` at every place of the grid, and the Q-mass of all losses."""
        above, weighted = self.infinite, arb(0)
        found = []
        spend(len(self.masses) * (2.0 * EXP + 6.0) * price(ctx.prec))
        for i in range(len(self.masses) - 1, -1, -1):
            place = (self.first + i) * spacing
            # a loss at the kink itself adds nothing
            found.append(dyadic(above, self.bits) - place.exp() * weighted)
            above += self.masses[i]
            weighted += dyadic(self.masses[i], self.bits) * (-place).exp()
        return found[::-1], weighted

    def times(self, other: GridLaw, cut: int) -> GridLaw:
        """The composition of two, from above, without tails below ``2**-cut``."""
        spend(product_work(len(self.masses), len(other.masses), self.bits).units)
        product = fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))
        up = (1 << self.bits) - 1
        masses = [(int(c) + up) >> self.bits for c in product.coeffs()]
        infinite = (self.infinite * other.total + other.infinite * self.total + up) >> self.bits
        allowed = 1 << max(self.bits - cut, 0)
        low, below = few(masses, allowed)
        high, above = few(reversed(masses[low:]), allowed)
        kept = masses[low : len(masses) - high]
        if kept:
            kept[0] += below
        return GridLaw(self.first + other.first + low, kept, infinite + above, self.bits)

    def delta(self, epsilon: arb, spacing: arb) -> arb:
        """Delta at ε: ``sum of masses times (1 - e^(ε - loss))_+``."""
        zero, gain = arb(0), arb(0)
        spend(len(self.masses) * (EXP + 6.0) * price(ctx.prec))
        for i, mass in enumerate(self.masses):
            loss = (self.first + i) * spacing
            if mass and not loss < epsilon:
                gain += dyadic(mass, self.bits) * zero.max(1 - (epsilon - loss).exp())
        return gain + dyadic(self.infinite, self.bits)


def composed(parts: Iterable[tuple[GridLaw, int]], effort: Effort) -> GridLaw:
    """The composition of distributions, each as often as it is counted, from above."""
    result = GridLaw(0, (1 << effort.bits,), 0, effort.bits)
    for law, count in parts:
        result = repeated(law, count, lambda a, b: a.times(b, effort.cut + _SPARE), result)
    return result


@dataclass(frozen=True)
class _Sum:
    """Places of a sum of losses: their number, were none cut, variance, and those of one loss."""

    places: float = 1.0
    variance: float = 0.0
    largest: float = 0.0

    def length(self, cut: int) -> float:
        """Upper bound on the number of places that are left after cutting."""
        return min(self.places, 2.0 * deviations(self.variance, self.largest, cut) + 2.0)


def composed_work(parts: Iterable[tuple[GridLaw, int]], effort: Effort) -> Work:
    """Work and memory of `composed` and of `GridLaw.delta` of its result, estimated beforehand."""
    cut = effort.cut + _SPARE
    result, work = _Sum(), Work()

    def plus(one: _Sum, other: _Sum) -> _Sum:
        nonlocal work
        work += product_work(one.length(cut), other.length(cut), effort.bits)
        return _Sum(
            one.places + other.places - 1.0,
            one.variance + other.variance,
            max(one.largest, other.largest),
        )

    for law, count in parts:
        one = _Sum(len(law.masses), law.variance, len(law.masses))
        result = repeated(one, count, plus, result)
    return work + Work(2.0 * EXP * price(effort.precision) * result.length(cut))
