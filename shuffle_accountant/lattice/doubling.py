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

What is left out is followed by its probability and by the gain ``(sum / n)_+`` it takes along: its
probability under P, where values are likelihood ratios P/Q with mean one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.lattice.pairs import pair_sums
from shuffle_accountant.numerics.rounding import Array, outwards, pairwise_sum, raised, roundings

__all__ = ["SumLaw", "add", "additions", "power", "sum_cells"]

# PldAtoms of which a law's shape is read off before its cells are chosen.
_SKETCH = 160
# Places at which it is read off.
_PLACES = 256
# Cells are not wider than this score, nor more than so many.
_WIDEST = 0.05
_MOST_CELLS = 4608
# Cells of heavy tails are narrower by the root of this at most.
_HEAVIEST = 9.0
# e^epsilon overflows beyond.
_LARGEST_EXPONENT = 700.0
# Relative error of a value per addition: the sum, the share of a split, the edge of a cell.
_MOVED = roundings(8)


@dataclass(frozen=True, eq=False)
class SumLaw:
    """Bound of the law of a sum of ``count`` values, up to events that were left out.

    Attributes:
        value: ascending, shape (m,); either none is negative or errors are relative to ``reach``.
        mass: probabilities, rounded in the direction, shape (m,).
        count: how many values add up; one value's positive part has mean at most 1.
        lost_gain: bound of the expectation of ``(sum / count)_+`` over what was left out.
        lost: bound of the probability of what was left out.
        moved: error of a value, relative to itself if none is negative, else to ``reach``.
        reach: the largest size of one value times their number.
    """

    value: Array
    mass: Array
    count: int
    lost_gain: float
    lost: float
    moved: float
    reach: float

    def sizes(self, value: Array) -> Array:
        """What errors of the given values are relative to."""
        return np.full_like(value, self.reach) if self.signed else value

    @property
    def signed(self) -> bool:
        """Whether some value is negative."""
        return bool(self.value[0] < 0.0)

    def divergence(self, epsilon: float, side: Bound, swapped: bool) -> float:
        """Bound of ``H_alpha(P‖Q)``, or of ``H_alpha(Q‖P)``, where this is the law of dP/dQ."""
        sign = 1.0 if side is Bound.PESSIMISTIC else -1.0
        total = self.lost if swapped else self.lost_gain
        if epsilon > _LARGEST_EXPONENT:
            total += float(self.mass[self.value == 0.0].sum()) if swapped else 0.0
        else:
            alpha = math.exp(epsilon)
            value = self.value * (1.0 + (-sign if swapped else sign) * self.moved)
            with np.errstate(over="ignore"):
                above = 1.0 - alpha * value if swapped else value - alpha
            total += float(np.sum(self.mass * np.maximum(above, 0.0)))
        rounding = sign * (pairwise_sum(own=8) * total + 1e-300)
        return min(max(total + rounding, 0.0), 1.0)


def additions(count: int) -> int:
    """How many laws are added to reach the sum of ``count`` values."""
    return max(count.bit_length() + count.bit_count() - 2, 1)


def power(one: SumLaw, count: int, side: Bound, *, width: float, tail: float) -> SumLaw:
    """The law of the sum of ``count`` independent copies.

    Args:
        one: the law of one copy.
        count: number of copies, >= 1.
        side: PESSIMISTIC is above the true law in convex order, OPTIMISTIC below it, and masses are
            rounded that way.
        width: of cells, in normal scores.
        tail: gain or probability that may be left out in all.
    """
    budget = tail / additions(count)
    step = _Addition(side, min(width, _WIDEST), budget, one.count * count)
    if one.value.size == 0:
        return replace(one, count=one.count * count)
    if count > 1 and one.value.size > _MOST_CELLS:
        one = step.add(SumLaw(np.zeros(1), np.ones(1), 0, 0.0, 0.0, 0.0, 0.0), one)
    base, total = one, None
    while True:
        if count & 1:
            total = base if total is None else step.add(base, total)
        count >>= 1
        if count == 0:
            assert total is not None
            return total
        base = step.add(base, base)


def add(a: SumLaw, b: SumLaw, side: Bound, *, width: float, budget: float, users: int) -> SumLaw:
    """The law of the sum of a value of each of two laws.

    Args:
        a: one law.
        b: another one.
        side: which way cells are gathered.
        width: of cells, in normal scores.
        budget: gain or probability that may be left out.
        users: number of values in the whole sum that this is a part of.
    """
    return _Addition(side, min(width, _WIDEST), budget, users).add(a, b)


def sum_cells(a: SumLaw, b: SumLaw, *, width: float) -> Array:
    """Lower ends of cells for the sum of a value of each of two laws, of a normal score's width."""
    return _Addition(Bound.OPTIMISTIC, min(width, _WIDEST), 0.0, 1)._edges(a, b)


@dataclass(frozen=True)
class _Addition:
    """How two laws are added.

    Attributes:
        side: which way cells are gathered.
        width: of cells, in normal scores.
        budget: gain or probability of the whole sum that one addition may leave out.
        users: number of values in the whole sum.
    """

    side: Bound
    width: float
    budget: float
    users: int

    def add(self, a: SumLaw, b: SumLaw) -> SumLaw:
        """The law of the sum of a value of each."""
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
            mass = raised(mass, roundings(4))
        else:
            value = edges + inside
        count = a.count + b.count
        shares = a.count / count, b.count / count
        law = SumLaw(
            value=value,
            mass=mass,
            count=count,
            # what one law loses takes the other's gain along
            lost_gain=shares[0] * a.lost_gain
            + shares[1] * a.lost
            + shares[1] * b.lost_gain
            + shares[0] * b.lost,
            lost=a.lost + b.lost,
            moved=max(a.moved, b.moved) + _MOVED,
            reach=a.reach + b.reach,
        )
        # a mean's distance from its cell's lower end has the error of masses and moments; it is no
        # larger than the mean itself where no value is negative
        rounded = 2.0 * error * (float(np.max(run)) / law.reach if law.signed else 1.0)
        return self._pruned(replace(law, moved=law.moved + rounded))

    def _pruned(self, law: SumLaw) -> SumLaw:
        """The law without values too unlikely to matter."""
        gain = law.mass * np.maximum(law.value, 0.0) / law.count
        # a block of values is one of users / count, each of which takes the others' gain along
        cost = gain + law.mass * (self.users / law.count)
        keep = np.minimum(np.cumsum(cost), np.cumsum(cost[::-1])[::-1]) > 0.5 * self.budget
        if keep.all() or not keep.any():
            return law
        return replace(
            law,
            value=law.value[keep],
            mass=law.mass[keep],
            lost_gain=law.lost_gain + float(gain[~keep].sum()),
            lost=law.lost + float(law.mass[~keep].sum()),
        )

    def _edges(self, a: SumLaw, b: SumLaw) -> Array:
        """Edges of cells for the sum, from its smallest value to its largest."""
        low, high = a.value[0] + b.value[0], a.value[-1] + b.value[-1]
        value, score = _scores(a, b)
        place = np.append(0.0, np.cumsum(np.diff(score) * self._density(a, b, value, score)))
        cells = math.ceil(float(place[-1]) / self.width) + 1
        goals = np.linspace(0.0, place[-1], min(max(cells, 8), _MOST_CELLS))
        edges = np.interp(goals, place, value)
        edges = np.concatenate([[low], edges[(edges > low) & (edges < high)], [high]])
        # closer edges could not be told apart
        return np.asarray(edges[np.append(True, np.diff(edges) > roundings(4) * np.abs(edges[1:]))])

    @staticmethod
    def _density(a: SumLaw, b: SumLaw, value: Array, score: Array) -> Array:
        """How many cells per width of the score, between neighbouring values."""
        # a tail whose logarithm falls with slope s in log(x) moves by s times the squared ratio of
        # neighbouring edges: in the score's terms, by more the heavier it is
        mean = float(a.mass @ a.value + b.mass @ b.value)
        ratio = np.diff(np.log(np.abs(value - mean) + 1e-300))
        heavy = np.abs(score[1:] * ratio) / np.maximum(np.diff(score), 1e-300)
        return np.asarray(np.sqrt(np.clip(heavy, 1.0, _HEAVIEST)))


def _sketch(law: SumLaw) -> tuple[Array, Array]:
    """Neighbouring atoms taken together: means and masses of at most a few hundred groups."""
    stride = max(law.value.size // _SKETCH, 1)
    starts = np.arange(0, law.value.size, stride)
    mass = np.add.reduceat(law.mass, starts)
    moment = np.add.reduceat(law.mass * law.value, starts)
    kept = mass > 0.0
    return moment[kept] / mass[kept], mass[kept]


def _scores(a: SumLaw, b: SumLaw) -> tuple[Array, Array]:
    """Some values of the sum and the normal quantiles of its distribution function there."""
    u, f = _sketch(a)
    v, g = _sketch(b)
    sums = np.add.outer(u, v).ravel()
    order = np.argsort(sums)
    sums = sums[order]
    score = _quantiles(*_cumulated(np.multiply.outer(f, g).ravel()[order]))
    # evenly spaced, so that the far tails have their share
    value = np.unique(np.interp(np.linspace(score[0], score[-1], _PLACES), score, sums))
    # atoms of a sketch come in lumps; the other law as it is fills the gaps between them
    below, above = _cumulated(b.mass)
    place = value[:, None] - u
    score = _quantiles(
        np.interp(place, b.value, below, left=0.0) @ f,
        np.interp(place, b.value, above, right=0.0) @ f,
    )
    return value, np.maximum.accumulate(score)


def _cumulated(mass: Array) -> tuple[Array, Array]:
    """Mass below and above each atom, half of its own included in both."""
    return np.cumsum(mass) - 0.5 * mass, np.cumsum(mass[::-1])[::-1] - 0.5 * mass


def _quantiles(below: Array, above: Array) -> Array:
    """Normal quantiles from the smaller of the masses below and above."""
    from scipy.special import ndtri_exp

    small = np.minimum(below, above) / (below + above)
    score = ndtri_exp(np.log(np.clip(small, 1e-307, 0.5)))
    return np.asarray(np.where(below <= above, score, -score))
