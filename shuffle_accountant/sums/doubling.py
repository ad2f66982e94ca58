"""The law of a sum of n i.i.d. values with relative accuracy everywhere: no transform.

A transform knows a law up to rounding errors relative to its largest weight, and no tilt helps
where the law's logarithm is convex: ratios of normal densities have such tails, in which one huge
value outweighs many moderate ones. Here all arithmetic is on positive numbers. The law of 2m values
is that of m values added to itself, pair of atoms by pair of atoms, and gathered in cells that are
chosen for it: of equal width in its *normal score* (the normal quantile of its distribution
function), that is, of a fixed fraction of the deviation in a normal bulk and of a fixed ratio in a
lognormal tail. The probability in a cell goes to the cell's ends (PESSIMISTIC) or to its mean
(OPTIMISTIC), which keeps the mean and moves the law up or down in convex order, second order in the
width.

Once a sum has enough values for cells of one width to resolve it, it is added on a lattice instead
(`shuffle_accountant.sums.even_cells`): the same two bounds, at a hundredth of the time.

What is left out is followed by its probability and by the gain ``(sum / n)_+`` it takes along: its
probability under P, where values are likelihood ratios P/Q with mean one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.positive import convolution_roundings
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.hockey_stick import Ratios
from shuffle_accountant.numerics.rounding import (
    Array,
    Bound,
    lowered,
    outwards,
    pairwise_sum,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.sums.even_cells import EvenCells, even_cells
from shuffle_accountant.sums.pairs import pair_sums
from shuffle_accountant.sums.settings import DOUBLING


@dataclass(frozen=True, eq=False)
class SumLaw:
    """Bound of the law of a sum of ``count`` values, up to events that were left out.

    Attributes:
        value: ascending, shape (m,); either none is negative or errors are relative to ``reach``.
        mass: probabilities, rounded in the direction, shape (m,).
        count: number of values in the sum; one value's positive part has mean at most 1.
        lost_gain: bound of the expectation of ``(sum / count)_+`` over what was left out.
        lost: bound of the probability of what was left out.
        moved: error of a value, relative to itself if none is negative, else to ``reach``.
        reach: the largest size of one value times their number.
        cells: the law on a lattice, before its masses were rounded, if it is on one.
    """

    value: Array
    mass: Array
    count: int
    lost_gain: float
    lost: float
    moved: float
    reach: float
    cells: EvenCells | None = None

    def sizes(self, value: Array) -> Array:
        """Sizes that errors of the given values are relative to, shape of ``value``."""
        return np.full_like(value, self.reach) if self.signed else value

    @property
    def signed(self) -> bool:
        """Whether some value is negative."""
        return bool(self.value[0] < 0.0)

    def divergence(self, epsilon: float, side: Bound, swapped: bool) -> float:
        """Bound of ``H_alpha(P‖Q)``, or of ``H_alpha(Q‖P)``, where this is the law of dP/dQ."""
        sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
        total = self.lost if swapped else self.lost_gain
        ratios = Ratios.of(self.value, self.moved)
        terms = ratios.below(epsilon) if swapped else ratios.above(epsilon)
        positive = self.mass * terms.positive(upper=side is Bound.PESSIMISTIC)
        total += rounded(float(np.sum(positive)), 64)
        rounding = sign * (pairwise_sum(own=8) * total + 1e-300)
        return min(max(total + rounding, 0.0), 1.0)


def additions(count: int) -> int:
    """Number of additions of two laws by which `power` reaches the sum of ``count`` values."""
    return max(count.bit_length() + count.bit_count() - 2, 1)


def power(one: SumLaw, count: int, side: Bound, *, width: float, tail: float) -> SumLaw:
    """The law of the sum of ``count >= 1`` independent copies, by doubling and adding one.

    Args:
        one: the law of one copy.
        count: number of copies.
        side: PESSIMISTIC is above the true law in convex order, OPTIMISTIC below it, and masses are
            rounded that way.
        width: width of cells, in normal scores.
        tail: gain or probability that may be left out in all.
    """
    if one.value.size == 0:
        return replace(one, count=one.count * count)
    budget = tail / additions(count)
    step = _Addition(side, min(width, DOUBLING.widest), budget, one.count * count)
    if count > 1 and one.value.size > DOUBLING.most_cells:
        one = step.add(SumLaw(np.zeros(1), np.ones(1), 0, 0.0, 0.0, 0.0, 0.0), one)
    law = one
    for digit in bin(count)[3:]:
        if digit == "0":
            law = step.add(law, law)
            continue
        # a single value may have wider cells the more values it is added to
        single = single_width(step.width, 2 * law.count // one.count + 1)
        law = step.add(step.add(law, law), coarser(one, single, side))
    return law


def single_width(width: float, count: int) -> float:
    """Width of the cells of one of ``count`` values that are added in cells of ``width``.

    Both widths are in normal scores.
    """
    return min(math.sqrt(DOUBLING.coarser * count) * width, DOUBLING.widest)


def near_scores(mass: Array, width: float) -> tuple[NDArray[np.intp], int]:
    """Split atoms into groups of neighbours whose normal scores lie in one cell of some width.

    Returns:
        ``(starts, most)``: indices of the first atoms, and the size of the largest group. If
        there are more groups than half the atoms, every atom is a group of its own.
    """
    # half of each atom's own mass is below it, half above
    below, above = np.cumsum(mass) - 0.5 * mass, np.cumsum(mass[::-1])[::-1] - 0.5 * mass
    cell = np.floor(_quantiles(below, above) / width)
    starts = np.flatnonzero(np.append(True, np.diff(cell) != 0.0))
    if starts.size > mass.size // 2:
        return np.arange(mass.size), 1
    return starts, int(np.max(np.diff(starts, append=mass.size)))


def merged(
    value: Array, mass: Array, starts: NDArray[np.intp], side: Bound
) -> tuple[Array, Array, float]:
    """Atoms merged group by group: a law above the given one in convex order, or below it.

    PESSIMISTIC splits each atom between the first of its group and that of the next one, OPTIMISTIC
    puts groups, given by the indices of their first atoms, at their means.

    Returns:
        Values and masses, and the error of the masses, in their direction; values are off by twice
        that and 8 roundings.
    """
    most = int(np.max(np.diff(starts, append=value.size)))
    slack = sequential_sum(most + 1, own=2)
    if side is Bound.OPTIMISTIC:
        total = rounded(np.add.reduceat(mass, starts), most)
        # against the masses, so that means err as well
        moment = rounded(np.add.reduceat(mass * value, starts), -most)
        mean = np.divide(moment, total, out=value[starts], where=total > 0.0)
        return mean, lowered(total, slack), slack
    kept = np.union1d(starts, value.size - 1)
    ends = value[kept]
    left = np.minimum(np.searchsorted(kept, np.arange(value.size), "right"), kept.size - 1)
    gap = np.diff(ends)[left - 1]
    share = np.divide(value - ends[left - 1], gap, out=np.zeros(gap.size), where=gap > 0.0)
    share = np.clip(share, 0.0, 1.0)
    above = mass * share
    total = np.bincount(left - 1, mass - above, kept.size)
    total = rounded(total + np.bincount(left, above, kept.size), most)
    return ends, raised(np.asarray(total, np.float64), slack), slack


def coarser(law: SumLaw, width: float, side: Bound) -> SumLaw:
    """The law with atoms merged whose normal scores lie in one cell of this width.

    PESSIMISTIC is above the given law in convex order, OPTIMISTIC below it.
    """
    starts, most = near_scores(law.mass, width)
    if most == 1:
        return law
    value, mass, slack = merged(law.value, law.mass, starts, side)
    return replace(law, value=value, mass=mass, moved=law.moved + 2.0 * slack + roundings(8))


def add(a: SumLaw, b: SumLaw, side: Bound, *, width: float, budget: float, users: int) -> SumLaw:
    """The law of the sum of a value of each of two laws; see `_Addition`."""
    return _Addition(side, min(width, DOUBLING.widest), budget, users).add(a, b)


def sum_cells(a: SumLaw, b: SumLaw, *, width: float) -> Array:
    """Lower ends of cells, ``width`` normal scores wide, for the sum of a value of each law."""
    return _Addition(Bound.OPTIMISTIC, min(width, DOUBLING.widest), 0.0, 1)._edges(a, b)


@dataclass(frozen=True)
class _Addition:
    """Addition of two laws, with its direction, width of cells and budget.

    Attributes:
        side: PESSIMISTIC or OPTIMISTIC gathering of cells, as in `power`.
        width: width of cells, in normal scores.
        budget: gain or probability of the whole sum that one addition may leave out.
        users: number of values in the whole sum.
    """

    side: Bound
    width: float
    budget: float
    users: int

    def add(self, a: SumLaw, b: SumLaw) -> SumLaw:
        """The law of the sum of a value of each."""
        cells = self._cells(a, b)
        if cells is not None:
            return self._on_lattice(a, b, cells)
        edges = self._edges(a, b)
        mass, moment, error = pair_sums(a.value, a.mass, b.value, b.mass, edges)
        upper = self.side is Bound.PESSIMISTIC
        mass = outwards(mass, error, upper=upper)
        run = np.append(np.diff(edges), 0.0)
        # mean distance of a cell's mass from its lower end; moments have the masses' error
        inside = np.divide(moment, mass, out=np.zeros_like(mass), where=mass > 0.0)
        inside = np.minimum(inside, run)
        value = edges
        if upper:
            share = np.divide(inside, run, out=np.zeros_like(run), where=run > 0.0)
            above = mass * share
            mass = mass - above
            mass[1:] += above[:-1]
            mass = raised(rounded(mass, 3), roundings(4))
        else:
            value = edges + inside
        law = _sum_law(a, b, value, mass)
        # a mean's distance from its cell's lower end has the error of masses and moments; it is no
        # larger than the mean itself where no value is negative
        doubt = 2.0 * error * (float(np.max(run)) / law.reach if law.signed else 1.0)
        return pruned(replace(law, moved=law.moved + doubt), self.budget, self.users)

    def _cells(self, a: SumLaw, b: SumLaw) -> EvenCells | None:
        """The sum's law on a lattice as fine as the cells; None where no lattice will do."""
        large, small = (a, b) if a.count >= b.count else (b, a)
        if large.signed or small.signed or large.count == 0:
            return None
        mean, spread = _moments(large)
        if large.value[0] < DOUBLING.away_from_0 * mean or not 0.0 < spread < math.inf:
            return None
        spacing = large.cells.spacing if large.cells else DOUBLING.closer * self.width * spread
        points = max(float(law.value[-1] - law.value[0]) for law in (a, b)) / spacing
        if not points <= DOUBLING.most_cells:
            return None
        # rounding errors of the sum of all, of the smallest values too, stay below what cells do
        terms = convolution_roundings(math.ceil(points) + 2, math.ceil(points) + 2)
        if roundings(terms) * (self.users / large.count) > DOUBLING.away_from_0 * self.width**2:
            return None
        means = self.side is Bound.OPTIMISTIC
        on = large.cells or even_cells(large.value, large.mass, spacing, means=means)
        if small is large:
            other = on
        elif small.cells:
            other = small.cells.spaced(spacing)
        else:
            other = even_cells(small.value, small.mass, spacing, means=means)
        found = on.plus(other)
        apart = DOUBLING.closer * self.width * math.hypot(spread, _moments(small)[1])
        return found.spaced(apart) if DOUBLING.closer * apart > spacing else found

    def _on_lattice(self, a: SumLaw, b: SumLaw, cells: EvenCells) -> SumLaw:
        """The bound of the law of the sum, from its masses and moments on the lattice."""
        held = np.flatnonzero(cells.mass)
        cells = cells.between(int(held[0]), int(held[-1]) + 1)
        mass = outwards(cells.mass, cells.slack, upper=self.side is Bound.PESSIMISTIC)
        law = replace(_sum_law(a, b, cells.means, mass), cells=cells)
        moved = law.moved + cells.means_error / float(law.value.min())
        return pruned(replace(law, moved=moved), self.budget, self.users)

    def _edges(self, a: SumLaw, b: SumLaw) -> Array:
        """Edges of cells for the sum, from its smallest value to its largest."""
        low, high = a.value[0] + b.value[0], a.value[-1] + b.value[-1]
        value, score = _scores(a, b)
        density = self._density(a, b, value, score)
        place = np.append(0.0, np.cumsum(np.diff(score) * density))
        cells = math.ceil(float(place[-1]) / self.width) + 1
        goals = np.linspace(0.0, place[-1], min(max(cells, 8), DOUBLING.most_cells))
        edges = np.interp(goals, place, value)
        # a value that has much of the mass is not spread over a cell
        edges = np.append(edges, np.add.outer(_likeliest(a), _likeliest(b)))
        edges = np.unique(np.clip(np.append(edges, [low, high]), low, high))
        # edges closer to the one before than rounding errors are dropped
        return np.asarray(edges[np.append(True, np.diff(edges) > roundings(4) * np.abs(edges[1:]))])

    @staticmethod
    def _density(a: SumLaw, b: SumLaw, value: Array, score: Array) -> Array:
        """Number of cells per ``width`` of the normal score, between neighbouring values."""
        # a tail whose logarithm falls with slope s in log(x) moves by s times the squared ratio of
        # neighbouring edges: in the score's terms, by more the heavier it is
        mean = float(a.mass @ a.value + b.mass @ b.value)
        ratio = np.diff(np.log(np.abs(value - mean) + 1e-300))
        heavy = np.abs(score[1:] * ratio) / np.maximum(np.diff(score), 1e-300)
        return np.asarray(np.sqrt(np.clip(heavy, 1.0, DOUBLING.heaviest)))


def pruned(law: SumLaw, budget: float, users: int) -> SumLaw:
    """The law of a part of a sum of ``users`` values, without values too unlikely to matter.

    The budget is the gain or probability of the whole sum that may be left out.
    """
    gain = law.mass * np.maximum(law.value, 0.0) / law.count
    # a block of values is one of users / count, each of which takes the others' gain along
    cost = gain + law.mass * (users / law.count)
    keep = np.minimum(np.cumsum(cost), np.cumsum(cost[::-1])[::-1]) > 0.5 * budget
    if keep.all() or not keep.any():
        return law
    first, last = np.flatnonzero(keep)[[0, -1]].tolist()  # there is no gap
    return replace(
        law,
        value=law.value[keep],
        mass=law.mass[keep],
        cells=None if law.cells is None else law.cells.between(first, last + 1),
        lost_gain=law.lost_gain + float(gain[~keep].sum()),
        lost=law.lost + float(law.mass[~keep].sum()),
    )


def _sum_law(a: SumLaw, b: SumLaw, value: Array, mass: Array) -> SumLaw:
    """The law of the sum with these atoms, with bounds of what is left out and of errors."""
    count = a.count + b.count
    first, second = a.count / count, b.count / count
    # mass left out of one law takes the other's gain along
    lost_gain = first * a.lost_gain + second * a.lost + second * b.lost_gain + first * b.lost
    return SumLaw(
        value=rounded(value, 4),
        mass=mass,
        count=count,
        lost_gain=lost_gain,
        lost=a.lost + b.lost,
        # the sum, the share of a split, the edge of a cell
        moved=max(a.moved, b.moved) + roundings(8),
        reach=a.reach + b.reach,
    )


def _likeliest(law: SumLaw) -> Array:
    """The few values of the largest masses."""
    few = min(DOUBLING.likeliest, law.mass.size)
    return law.value[np.argpartition(law.mass, -few)[-few:]]


def _moments(law: SumLaw) -> tuple[float, float]:
    """Mean and standard deviation, roughly; infinite where doubles end."""
    total = float(law.mass.sum())
    if total <= 0.0:
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(law.mass @ law.value) / total
        variance = float(law.mass @ (law.value - mean) ** 2) / total
    return mean, math.sqrt(variance) if variance < math.inf else math.inf


def _sketch(law: SumLaw) -> tuple[Array, Array]:
    """Neighbouring atoms taken together: means and masses of groups."""
    stride = max(law.value.size // DOUBLING.sketch, 1)
    starts = np.arange(0, law.value.size, stride)
    mass = np.add.reduceat(law.mass, starts)
    moment = np.add.reduceat(law.mass * law.value, starts)
    kept = mass > 0.0
    return moment[kept] / mass[kept], mass[kept]


def _scores(a: SumLaw, b: SumLaw) -> tuple[Array, Array]:
    """Some values of the sum and the normal quantiles of its distribution function there."""
    (u, f), (v, g) = _sketch(a), _sketch(b)
    tried = np.unique(np.add.outer(u, v))
    edges = np.append(u[0] + v[0], tried[tried > u[0] + v[0]])
    mass, _, _ = pair_sums(u, f, v, g, edges)
    below, above = np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[-2::-1]
    held = (below > 0.0) & (above > 0.0)
    if not held.any():
        return edges[:1], np.zeros(1)
    score = _quantiles(below[held], above[held])
    # evenly spaced, so that the far tails have their share
    goals = np.linspace(score[0], score[-1], DOUBLING.sketch)
    return np.interp(goals, score, edges[1:][held]), goals


def _quantiles(below: Array, above: Array) -> Array:
    """Normal quantiles from the smaller of the masses below and above."""
    from scipy.special import ndtri_exp

    small = np.minimum(below, above) / (below + above)
    score = ndtri_exp(np.log(np.clip(small, 1e-307, 0.5)))
    return np.asarray(np.where(below <= above, score, -score))
