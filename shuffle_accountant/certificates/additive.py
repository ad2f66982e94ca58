"""Laws on an additive grid, and sums of independent variables, in convex order from above.

A law here is one of masses, integers over ``2**bits``, on integer multiples of a spacing, with an
*excess*: for every nondecreasing convex f >= 0 of Lipschitz constant one, and every independent
variable R of the same kind, ``E f(S + R) <= E f(S' + R) + excess``, where S is the variable that is
meant and S' the one of the masses. Splitting a mass over its two neighbours with its mean kept,
moving a mass up, rounding a mass up, and cutting the top off for its excess all keep that, and sums
of independent variables inherit it. All steps are exact arithmetic with integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flint import arb, fmpq, fmpz_poly

from shuffle_accountant.certificates.balls import Effort, ceiling

__all__ = ["AdditiveLaw", "power", "spread"]


@dataclass(frozen=True)
class AdditiveLaw:
    """Masses on ``(first + i) * 2**level`` units of the finest grid.

    Attributes:
        level: the spacing has been doubled so often.
        first: place of the first mass, in spacings.
        masses: integers over ``2**bits``, >= 0.
        excess: in units of the finest grid, over ``2**bits``.
        bits: of all integers.
    """

    level: int
    first: int
    masses: Sequence[int]
    excess: int
    bits: int

    @property
    def total(self) -> int:
        """Sum of the masses; at least ``2**bits``, because they are rounded up."""
        return int(sum(self.masses))

    def reflected(self) -> AdditiveLaw:
        """The law of ``-S'`` for the same masses, without an excess."""
        last = self.first + len(self.masses) - 1
        return replace(self, first=-last, masses=list(self.masses)[::-1], excess=0)

    def coarser(self) -> AdditiveLaw:
        """On twice the spacing: every other mass is split in two halves."""
        masses = list(self.masses)
        first = self.first
        if first % 2:
            first, masses = first - 1, [0, *masses]
        if len(masses) % 2 == 0:
            masses.append(0)
        even, halves = masses[::2], [-(-m // 2) for m in masses[1::2]]
        pairs = zip([0, *halves], [*halves, 0], strict=True)
        joined = [m + left + right for m, (left, right) in zip(even, pairs, strict=True)]
        return replace(self, level=self.level + 1, first=first // 2, masses=joined)

    def trimmed(self, cut: int, cells: int) -> AdditiveLaw:
        """Without tails below ``2**-cut``, on so coarse a grid that few cells are left."""
        allowed = 1 << max(self.bits - cut, 0)
        masses = list(self.masses)
        below, low = 0, 0
        while low < len(masses) - 1 and below + masses[low] <= allowed:
            below, low = below + masses[low], low + 1
        above, high = 0, len(masses)
        while high > low + 1 and above + masses[high - 1] <= allowed:
            high -= 1
            above += masses[high]
        top = sum(m * i for i, m in enumerate(masses[high:], start=1))
        kept = masses[low:high]
        kept[0] += below
        kept[-1] += above
        law = replace(
            self,
            first=self.first + low,
            masses=kept,
            excess=self.excess + (top << self.level),
        )
        while len(law.masses) > cells:
            law = law.coarser()
        return law

    def plus(self, other: AdditiveLaw) -> AdditiveLaw:
        """The sum of two independent variables."""
        left, right = self, other
        while left.level < right.level:
            left = left.coarser()
        while right.level < left.level:
            right = right.coarser()
        product = fmpz_poly(list(left.masses)) * fmpz_poly(list(right.masses))
        up = (1 << self.bits) - 1
        crossed = left.excess * right.total + right.excess * left.total
        return AdditiveLaw(
            level=left.level,
            first=left.first + right.first,
            masses=[(int(c) + up) >> self.bits for c in product.coeffs()],
            excess=(crossed + up) >> self.bits,
            bits=self.bits,
        )

    def beyond(self, points: Sequence[fmpq], unit: fmpq) -> list[arb]:
        """Upper bounds of ``E(S - a)_+`` at exact points a.

        Args:
            points: the points.
            unit: the spacing of the finest grid.
        """
        masses, moments = [0], [0]
        for i in range(len(self.masses) - 1, -1, -1):
            masses.append(masses[-1] + self.masses[i])
            moments.append(moments[-1] + self.masses[i] * (self.first + i))
        masses.reverse()
        moments.reverse()
        spacing, scale = unit * (1 << self.level), fmpq(1, 1 << self.bits)
        found = []
        for a in points:
            start = int((a / spacing).floor()) + 1 - self.first
            start = min(max(start, 0), len(self.masses))
            value = spacing * moments[start] - a * masses[start] + unit * self.excess
            found.append(arb(value * scale))
        return found


def spread(letters: Sequence[tuple[arb, arb]], unit: fmpq, bits: int) -> AdditiveLaw:
    """A law of few values, each split over its two neighbours on the grid with its mean kept.

    Args:
        letters: values and their probabilities; both are rounded up.
        unit: the spacing.
        bits: of the masses.
    """
    held: dict[int, int] = {}
    for value, probability in letters:
        mantissa, exponent = value.upper().man_exp()
        man, exp = int(mantissa), int(exponent)
        place = (fmpq(man << exp) if exp >= 0 else fmpq(man, 1 << -exp)) / unit
        below = int(place.floor())
        inside = place - below
        mass = fmpq(max(ceiling(probability, bits), 0))
        for j, share in ((below, 1 - inside), (below + 1, inside)):
            if share > 0:
                held[j] = held.get(j, 0) + int((mass * share).ceil())
    first = min(held)
    masses = [held.get(j, 0) for j in range(first, max(held) + 1)]
    return AdditiveLaw(level=0, first=first, masses=masses, excess=0, bits=bits)


def power(law: AdditiveLaw, count: int, effort: Effort) -> AdditiveLaw:
    """The sum of ``count`` >= 1 independent variables of one law."""
    result: AdditiveLaw | None = None
    base = law.trimmed(effort.cut, effort.cells)
    while True:
        if count & 1:
            joined = base if result is None else result.plus(base)
            result = joined.trimmed(effort.cut, effort.cells)
        count >>= 1
        if not count:
            assert result is not None
            return result
        base = base.plus(base).trimmed(effort.cut, effort.cells)
