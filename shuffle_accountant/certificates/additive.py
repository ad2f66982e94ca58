"""Sums of independent variables, on grids that widen, bounded from above in convex order.

A distribution here is one of masses, integers over ``2**bits``, on integer multiples of a unit: the
places of a *graded* grid, whose spacing is the same near its origin and then doubles with the
distance, so that ratios of 10^9 to 1 need some tens of blocks instead of 10^9 cells. Splitting a
mass over its two neighbours with its mean kept, and rounding a mass up, only add to ``E f(S)`` for
convex ``f >= 0``, and sums of independent variables inherit that. `Rising` bounds nondecreasing f,
`Falling` nonincreasing ones: they differ in what may be cut off, and what that costs. All steps are
exact arithmetic with integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from typing import Self, TypeVar

from flint import arb, fmpq, fmpz_poly

from shuffle_accountant.certificates.balls import Effort, ceiling, lower
from shuffle_accountant.certificates.work import Work, deviations, product_work, spend

# Units of work for one mass of a graded grid, besides products.
_EACH = 25.0

# Origins are multiples of the spacing times 2 to this power, so that grids have common places.
_COMMON = 3
# Place, in units, and mass.
Atom = tuple[int, int]
Law = TypeVar("Law", bound="GradedLaw")
T = TypeVar("T")


@dataclass(frozen=True)
class GradedLaw(ABC):
    """Masses on a graded grid.

    Attributes:
        origin: the first place, in units.
        spacing: of the first block, in units, a power of two.
        blocks: the first one holds an even number 2m of masses, at the origin and after it; the
            l-th after that holds m, on a spacing of ``spacing * 2**l``, where the one before ends.
        cost: of what was cut, over ``2**bits``; see the subclasses.
        bits: of all integers.
    """

    origin: int
    spacing: int
    blocks: Sequence[Sequence[int]]
    cost: int
    bits: int

    @classmethod
    def of(cls, atoms: Sequence[Atom], cost: int, effort: Effort) -> Self:
        """The graded distribution of masses at ascending places, without negligible tails.

        The cost is of what was cut before; it and the masses are over ``2**effort.fine_bits``.
        """
        bits = effort.fine_bits
        kept, further = cls._cut(atoms, 1 << max(bits - effort.cut, 0))
        half = max(effort.cells // 2, 1)
        reach = cls._reach(kept[0][0], _mean(kept)) // (2 * half)
        spacing = 1 << max(reach.bit_length() - 1, 0)
        # on multiples of the first few spacings, so that grids of different sums have common places
        origin = kept[0][0] & -(spacing << _COMMON)
        return cls(origin, spacing, _split(kept, origin, spacing, half), cost + further, bits)

    @staticmethod
    @abstractmethod
    def _cut(atoms: Sequence[Atom], allowed: int) -> tuple[list[Atom], int]:
        """The masses without tails, and the cost of cutting these."""

    @staticmethod
    @abstractmethod
    def _reach(origin: int, mean: int) -> int:
        """Distance, in units, that the first block divides into cells."""

    @property
    def half(self) -> int:
        """The number m: half the masses of the first block."""
        return len(self.blocks[0]) // 2

    @property
    def total(self) -> int:
        """Sum of the masses."""
        return sum(map(sum, self.blocks))

    def atoms(self) -> list[Atom]:
        """Places with masses > 0, ascending."""
        found = []
        for level, masses in enumerate(self.blocks):
            width = self.spacing << level
            start = self.origin + (self.half * width if level else 0)
            found += [(start + i * width, mass) for i, mass in enumerate(masses) if mass]
        return found

    def _lacking(self, points: Sequence[fmpq], unit: fmpq) -> list[fmpq]:
        """``E(c - S')_+`` for the distribution's own S' at exact points c, times ``2**bits``."""
        atoms = self.atoms()
        places = [x for x, _ in atoms]
        masses = [0, *accumulate(mass for _, mass in atoms)]
        moments = [0, *accumulate(x * mass for x, mass in atoms)]
        below = [bisect_right(places, int((c / unit).floor())) for c in points]
        return [c * masses[i] - unit * moments[i] for c, i in zip(points, below, strict=True)]

    def plus(self, other: Self, effort: Effort) -> Self:
        """The sum of two independent variables.

        Pairs of cells are added on the spacing of the one that is farther out, to which all nearer
        ones are brought: two products of polynomials for each block.
        """
        spacing = max(self.spacing, other.spacing)
        left, right = self._widened(spacing), other._widened(spacing)
        levels = max(len(left), len(right))
        spend(_plus_work(levels, 2 * self.half, self.bits).units)
        origin, up = self.origin + other.origin, (1 << self.bits) - 1
        atoms: list[Atom] = []
        near_left, near_right, far = list[int](), list[int](), list[int]()
        for level in range(levels):
            own_left, own_right = (_block(law, level, self.half) for law in (left, right))
            near_left, near_right = _coarser(near_left), _coarser(near_right)
            product = fmpz_poly(own_left) * fmpz_poly(near_right)
            near_left, near_right = _joined(near_left, own_left), _joined(near_right, own_right)
            product += fmpz_poly(near_left) * fmpz_poly(own_right)
            found = _joined(_coarser(far), list(map(int, product.coeffs())))
            # what is beyond the block goes to the next one
            end = 2 * self.half if level < levels - 1 else len(found)
            far = [*([0] * end), *found[end:]]
            width = spacing << level
            atoms += [
                (origin + i * width, (mass + up) >> self.bits)
                for i, mass in enumerate(found[:end])
                if mass
            ]
        crossed = self.cost * max(other.total, up + 1) + other.cost * max(self.total, up + 1)
        return self.of(atoms, (crossed + up) >> self.bits, effort)

    def _widened(self, spacing: int) -> Sequence[Sequence[int]]:
        """The distribution's blocks on another spacing, no finer than its own."""
        if spacing == self.spacing:
            return self.blocks
        return _split(self.atoms(), self.origin, spacing, self.half)


class Rising(GradedLaw):
    """Bound of variables S: ``E f(S + R) <= E f(S' + R) + cost`` for the distribution's own S'.

    Here f is any nondecreasing convex function of Lipschitz constant one, R is independent, and the
    cost is in units. Small values may be moved up; the top may be cut off for its excess.
    """

    @staticmethod
    def _cut(atoms: Sequence[Atom], allowed: int) -> tuple[list[Atom], int]:
        low, below = few((mass for _, mass in atoms), allowed)
        # what is above counts for how far above it is, measured by what is typical
        allowed *= max(_mean(atoms) - atoms[low][0], 1)
        high, above, excess = len(atoms) - 1, 0, 0
        while high > low:
            more = (above + atoms[high][1]) * (atoms[high][0] - atoms[high - 1][0])
            if excess + more > allowed:
                break
            above, excess, high = above + atoms[high][1], excess + more, high - 1
        kept = list(atoms[low : high + 1])
        kept[-1] = (kept[-1][0], kept[-1][1] + above)
        kept[0] = (kept[0][0], kept[0][1] + below)
        return kept, excess

    @staticmethod
    def _reach(origin: int, mean: int) -> int:
        return mean - origin

    def beyond(self, points: Sequence[fmpq], unit: fmpq) -> list[arb]:
        """Upper bounds of ``E(S - a)_+`` at exact points a, given the unit of the places."""
        masses, moments = self.total, sum(x * mass for x, mass in self.atoms())
        return [
            arb((lacking + unit * (moments + self.cost) - a * masses) / (1 << self.bits))
            for a, lacking in zip(points, self._lacking(points, unit), strict=True)
        ]


class Falling(GradedLaw):
    """Bound of variables S >= 0: ``E f(S) <= E f(S') + cost f(0)`` for the distribution's own S'.

    Here f is any nonincreasing convex function >= 0. Large values may be moved down; small ones may
    be given up for 0, and their masses are the cost.
    """

    @staticmethod
    def _cut(atoms: Sequence[Atom], allowed: int) -> tuple[list[Atom], int]:
        low, below = few((mass for _, mass in atoms), allowed)
        high, above = few((mass for _, mass in reversed(atoms[low:])), allowed)
        kept = list(atoms[low : len(atoms) - high])
        kept[-1] = (kept[-1][0], kept[-1][1] + above)
        return kept, below

    @staticmethod
    def _reach(origin: int, mean: int) -> int:
        # the sum may be compared with any number, however small
        return min(origin, mean - origin)

    def below(self, points: Sequence[fmpq], unit: fmpq) -> list[arb]:
        """Upper bounds of ``E(c - S')_+`` at exact points c, given the unit of the places."""
        return [arb(lacking / (1 << self.bits)) for lacking in self._lacking(points, unit)]


def graded(origin: int, spacing: int, half: int) -> Iterator[int]:
    """The places of a graded grid, one after the other."""
    yield from range(origin, origin + half * spacing, spacing)
    width = spacing
    while True:
        start = origin + half * width
        yield from range(start, start + half * width, width)
        width *= 2


def spread(letters: Sequence[tuple[arb, arb]], unit: fmpq, effort: Effort) -> Falling:
    """A distribution of few values >= 0, each split over its two neighbours with its mean kept.

    Values are rounded down, and their probabilities up; the unit is that of the places.
    """
    held: dict[int, int] = {}
    for value, probability in letters:
        place = max(lower(value), fmpq(0)) / unit
        below = int(place.floor())
        inside = place - below
        mass = fmpq(max(ceiling(probability, effort.fine_bits), 0))
        for j, share in ((below, 1 - inside), (below + 1, inside)):
            if share > 0:
                held[j] = held.get(j, 0) + int((mass * share).ceil())
    return Falling.of(sorted(held.items()), 0, effort)


def repeated(one: T, count: int, joined: Callable[[T, T], T], start: T | None = None) -> T:
    """``count`` >= 1 copies of one, joined by doubling, and with what there is at the start."""
    while True:
        if count & 1:
            start = one if start is None else joined(start, one)
        count >>= 1
        if not count:
            assert start is not None
            return start
        one = joined(one, one)


def power(law: Law, count: int, effort: Effort) -> Law:
    """The sum of ``count`` >= 1 independent variables of one distribution."""
    return repeated(law, count, lambda one, other: one.plus(other, effort))


@dataclass(frozen=True)
class Moments:
    """Moments of one summand >= 0, in units of a grid's places."""

    mean: float
    variance: float
    largest: float

    def levels(self, count: int, effort: Effort) -> float:
        """Approximate number of blocks of the `Falling` grid of a sum of ``count`` summands."""
        mean, variance = count * self.mean, count * self.variance
        second = variance + mean * self.mean
        low = max(mean - math.sqrt(2.0 * second * math.log(2.0) * effort.cut), 0.0)
        beyond = deviations(variance, self.largest, effort.cut)
        high = min(count * self.largest, mean + beyond)
        spacing = max(min(low, mean - low) / effort.cells / 2.0, 1.0)
        return max(math.log2(max((high - low) / (effort.cells / 2.0 * spacing), 1.0)), 0.0) + 2.0


def power_work(levels: Callable[[int], float], count: int, effort: Effort) -> Work:
    """Work and memory of `power`, given the number of blocks of the sum."""
    work, added = Work(), 1
    while added <= count:
        if 2 * added <= count:
            work += _plus_work(levels(2 * added), effort.cells, effort.fine_bits)
        if count & added and count & (added - 1):
            work += _plus_work(levels(count & (2 * added - 1)), effort.cells, effort.fine_bits)
        added *= 2
    return work


def _plus_work(levels: float, cells: int, bits: int) -> Work:
    products = product_work(cells, cells, bits).times(2.0)
    each = products + Work(_EACH * cells)
    return Work(each.units * levels, 4.0 * each.memory * levels)


def few(masses: Iterable[int], allowed: int) -> tuple[int, int]:
    """Number of first masses, not all, whose sum is at most ``allowed``, and that sum."""
    sums = list(accumulate(masses, initial=0))
    count = min(bisect_right(sums, allowed) - 1, max(len(sums) - 2, 0))
    return count, sums[count]


def _mean(atoms: Sequence[Atom]) -> int:
    """Mean place of the atoms, rounded down; they need not have a total mass of 1."""
    return sum(x * mass for x, mass in atoms) // max(sum(mass for _, mass in atoms), 1)


def _split(atoms: Sequence[Atom], origin: int, spacing: int, half: int) -> list[list[int]]:
    """Blocks of a graded grid: each mass in two parts with its mean kept."""
    blocks, level, shift = [[0] * (2 * half)], 0, spacing.bit_length() - 1
    for x, mass in atoms:
        away = x - origin
        while away >> shift >= 2 * half:
            level, shift = level + 1, shift + 1
        start = half if level else 0
        i, rest = away >> shift, away & ((1 << shift) - 1)
        parts = [(i, -(-mass * ((1 << shift) - rest) >> shift)), (i + 1, -(-mass * rest >> shift))]
        for j, part in parts:
            # the cell after a block's last one is the first of the next block
            at = (level, j - start) if j < 2 * half else (level + 1, 0)
            while part and at[0] >= len(blocks):
                blocks.append([0] * half)
            if part:
                blocks[at[0]][at[1]] += part
    return blocks


def _block(blocks: Sequence[Sequence[int]], level: int, half: int) -> Sequence[int]:
    """The masses of a block at their distances from the origin, in its spacing."""
    if level >= len(blocks):
        return []
    return [*([0] * half), *blocks[level]] if level else blocks[0]


def _coarser(masses: Sequence[int]) -> list[int]:
    """The masses on twice the spacing: every other mass is split in two halves."""
    halves = [-(-mass // 2) for mass in masses[1::2]]
    triples = zip_longest(masses[::2], [0, *halves], halves, fillvalue=0)
    return [sum(three) for three in triples]


def _joined(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The sum of two lists of masses, entry by entry."""
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]
