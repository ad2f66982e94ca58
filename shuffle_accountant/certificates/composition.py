"""Privacy loss distributions on a grid of losses, their profiles and their composition.

Masses are integers over ``2**bits``, on losses ``k h``; the Q-mass of a loss is its P-mass times
``e^(-k h)``. Products are exact; they are rounded up, and tails that are cut are moved up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flint import arb, fmpz_poly

from shuffle_accountant.certificates.balls import Effort, dyadic

__all__ = ["GridLaw", "composed"]


@dataclass(frozen=True)
class GridLaw:
    """P-masses on the grid.

    Attributes:
        first: place of the first mass, in spacings.
        masses: integers over ``2**bits``, >= 0.
        infinite: the mass at loss +inf.
        bits: of all integers.
    """

    first: int
    masses: Sequence[int]
    infinite: int
    bits: int

    @property
    def total(self) -> int:
        """All mass."""
        return int(sum(self.masses)) + self.infinite

    def profile(self, spacing: arb) -> tuple[list[arb], arb]:
        """``H(e^(k h))`` at every place of the grid, and the Q-mass of all losses."""
        above, weighted = self.infinite, arb(0)
        found = []
        for i in range(len(self.masses) - 1, -1, -1):
            place = (self.first + i) * spacing
            # a loss at the kink itself adds nothing
            found.append(dyadic(above, self.bits) - place.exp() * weighted)
            above += self.masses[i]
            weighted += dyadic(self.masses[i], self.bits) * (-place).exp()
        return found[::-1], weighted

    def times(self, other: GridLaw, cut: int) -> GridLaw:
        """The composition of two, from above, without tails below ``2**-cut``."""
        product = fmpz_poly(list(self.masses)) * fmpz_poly(list(other.masses))
        up = (1 << self.bits) - 1
        masses = [(int(c) + up) >> self.bits for c in product.coeffs()]
        infinite = (self.infinite * other.total + other.infinite * self.total + up) >> self.bits
        allowed = 1 << max(self.bits - cut, 0)
        low, below = 0, 0
        while low < len(masses) - 1 and below + masses[low] <= allowed:
            below, low = below + masses[low], low + 1
        high, above = len(masses), 0
        while high > low + 1 and above + masses[high - 1] <= allowed:
            high -= 1
            above += masses[high]
        kept = masses[low:high]
        if kept:
            kept[0] += below
        return GridLaw(self.first + other.first + low, kept, infinite + above, self.bits)

    def delta(self, epsilon: arb, spacing: arb) -> arb:
        """``sum of masses times (1 - e^(ε - loss))_+``."""
        zero, gain = arb(0), arb(0)
        for i, mass in enumerate(self.masses):
            loss = (self.first + i) * spacing
            if mass and not loss < epsilon:
                gain += dyadic(mass, self.bits) * zero.max(1 - (epsilon - loss).exp())
        return gain + dyadic(self.infinite, self.bits)


def composed(parts: Iterable[tuple[GridLaw, int]], effort: Effort) -> GridLaw:
    """The composition of laws, each as often as it is counted, from above."""
    result = GridLaw(0, (1 << effort.bits,), 0, effort.bits)
    cut = effort.cut + 8
    for law, count in parts:
        base = law
        while count:
            if count & 1:
                result = result.times(base, cut)
            count >>= 1
            if count:
                base = base.times(base, cut)
    return result
