"""From atoms to the grid, both ways with an error of second order in the spacing.

* PESSIMISTIC, *connect the dots* (Doroshenko et al. 2022): an atom between two grid points is split
  over them so that its P- and its Q-mass are kept. This interpolates ``H_alpha`` linearly in alpha
  between grid points and is exact at them.
* OPTIMISTIC, *chords*: mass is merged, from the largest loss down, until its mean likelihood ratio
  is exactly that of a grid point. Merging is a post-processing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import PldAtoms, PldGrid
from shuffle_accountant.lattice.settings import LATTICE
from shuffle_accountant.numerics.budget import budget, rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    UNIT_ROUNDOFF,
    Array,
    Bound,
    outwards,
    sequential_sum,
)

# The lower side first merges atoms inside a cell of a grid this many times finer; that costs
# 1/(12 * 4^2) of a squared spacing in variance, against 1/12 or more for the chords themselves.
SUBCELLS = 4


def discretize(atoms: PldAtoms, spacing: float) -> PldGrid:
    """Put a pair on the grid of a spacing > 0 (nats), keeping its direction.

    The direction chooses the construction, ``loss_error`` includes the rounding of the positions.
    """
    # a loss this close to a grid point is taken to be there, which is part of the loss error
    snap, own = budget().snap, 32.0
    offset, mass = 0, np.zeros(1)
    scaled = atoms.loss / spacing
    nearest = np.rint(scaled)
    scaled = np.where(np.abs(scaled - nearest) <= snap * np.abs(scaled), nearest, scaled)
    if not scaled.size:
        pass
    elif np.array_equal(scaled, nearest):  # nothing to spread or to merge
        offset = int(nearest.min())
        index = (nearest - offset).astype(np.intp)
        mass = _totals(index, atoms.mass, int(index.max()) + 1)
    elif atoms.side is Bound.PESSIMISTIC:
        offset, mass = _connect_the_dots(atoms.mass, scaled, spacing)
    else:
        merged, losses = _merge_subcells(atoms.mass, scaled, spacing)
        if merged.size and _ends_at_the_bottom(merged, losses, spacing):
            offset, mass, own = _chords_from_below(merged, losses, spacing)
        elif merged.size:
            # what is left at the bottom has a mean ratio above its goal, so putting it there lowers
            # the pair
            goals, chords, _ = _chords(merged, losses, spacing)
            offset, mass = _placed(np.array(goals), np.array(chords))
    largest = float(np.max(np.abs(atoms.loss), initial=0.0))
    # each point holds shares of what lies on both sides of it
    slack = sequential_sum(2 * _most_in_a_cell(scaled), own=own)
    mass = outwards(mass, slack, upper=atoms.side is Bound.PESSIMISTIC)
    return PldGrid(
        side=atoms.side,
        spacing=spacing,
        offset=offset,
        mass=mass,
        infinite=atoms.infinite,
        truncated=atoms.truncated,
        round_off=atoms.round_off + slack * float(mass.sum()),
        loss_error=atoms.loss_error + 4 * snap * largest,
        limited=atoms.limited,
    )


def _most_in_a_cell(scaled: Array) -> int:
    cell = np.floor(scaled)
    return int(np.bincount((cell - cell.min(initial=math.inf)).astype(np.intp)).max(initial=0))


def _totals(index: NDArray[np.intp], weights: Array, size: int) -> Array:
    """Sum of the weights of each index, shape (size,)."""
    return np.asarray(np.bincount(index, weights=weights, minlength=size), dtype=np.float64)


def _connect_the_dots(mass: Array, scaled: Array, spacing: float) -> tuple[int, Array]:
    cell = np.floor(scaled)
    share = np.expm1(-spacing * (scaled - cell)) / math.expm1(-spacing)
    share = np.minimum(share, 1.0)  # above 1 by rounding only, which loss_error allows for
    first = int(cell.min())
    index = (cell - first).astype(np.intp)
    size = int(index.max()) + 2
    high = rounded(mass * share, 2)
    low = rounded(mass - high)
    return first, rounded(_totals(index, low, size) + _totals(index + 1, high, size))


def _merge_subcells(mass: Array, scaled: Array, spacing: float) -> tuple[Array, Array]:
    """Merge what shares a subcell; returns masses and losses (in spacings), losses descending."""
    subcell = np.floor(scaled * SUBCELLS)
    first, last = subcell.min(), subcell.max()
    if last - first < 4 * mass.size + 1e6:
        keys, index = np.arange(first, last + 1), (subcell - first).astype(np.intp)
    else:
        keys, index = np.unique(subcell, return_inverse=True)
    total = _totals(index, mass, keys.size)
    # relative to the subcell's own lower end, so that tiny losses keep their digits
    inside = spacing * (scaled - subcell / SUBCELLS)
    deficit = _totals(index, mass * np.expm1(-inside), keys.size)
    used = total > 0
    # subcells wider than 36 nats: where rounding hides the mean ratio, the loss is put lower
    share = np.maximum(deficit[used] / total[used], 2.0 * UNIT_ROUNDOFF - 1.0)
    merged = keys[used] / SUBCELLS - np.log1p(share) / spacing
    return total[used][::-1], merged[::-1]


def _ends_at_the_bottom(mass: Array, scaled: Array, spacing: float) -> bool:
    """Whether there is far more mass in the lowest cell than in the highest; losses descend."""
    if spacing > 1.0 or spacing * float(np.max(np.abs(scaled))) > LATTICE.mirrored:
        return False
    both = mass * (1.0 + np.exp(-spacing * scaled))
    lowest = float(both[scaled < math.floor(scaled[-1]) + 1.0].sum())
    highest = float(both[scaled >= math.ceil(scaled[0]) - 1.0].sum())
    return highest < LATTICE.far_less * lowest


def _chords_from_below(mass: Array, scaled: Array, spacing: float) -> tuple[int, Array, float]:
    """The optimistic grid by chords from the smallest loss up: those of the exchanged pair.

    What is left is at the top; no loss there is a spacing below its goal, and P's mass goes there.

    Returns:
        The offset, the masses, and the roundings of each.
    """
    loss = spacing * scaled[::-1]
    goals, chords, surplus = _chords(mass[::-1] * np.exp(-loss), -scaled[::-1], spacing)
    goal = -np.array(goals)
    left = np.array(chords)
    left[-1] = max(left[-1] - surplus * (1.0 + 2.0**-40), 0.0)  # of Q what P's share at the goal is
    found = left * np.exp(spacing * goal)
    if surplus > 0.0:
        goal[-1] -= 1
    # Q's masses are kept, and P's are off by what losses were moved by, here and before
    moved = 4.0 * budget().snap / UNIT_ROUNDOFF
    own = 32.0 + 4.0 * ELEMENTARY + (8.0 + moved) * float(np.max(np.abs(loss)))
    return *_placed(goal, found), own


def _placed(goal: NDArray[np.int64], mass: Array) -> tuple[int, Array]:
    """Offset of the first grid point, and the masses from there on."""
    offset = int(goal.min())
    index = goal - offset
    return offset, rounded(_totals(index, mass, int(index.max()) + 1), 2)


def _chords(mass: Array, scaled: Array, spacing: float) -> tuple[list[int], list[float], float]:
    """Walk down the ROC curve in chords whose slopes are grid points.

    ``surplus`` is the sum of ``p - q e^(x_goal)`` over the chord so far: not negative while its
    mean ratio is above that of its goal. The atom that would make it negative is split.

    Returns:
        Goals, P-masses of chords, and the surplus of the last one, for which no atoms were left.
    """
    masses = mass.tolist()
    nearest = np.rint(scaled)
    on_grid = np.abs(scaled - nearest) <= 2 * budget().snap * np.abs(scaled)
    floors = np.where(on_grid, nearest, np.floor(scaled)).astype(np.int64).tolist()
    scaled = np.where(on_grid, nearest, scaled)
    losses = scaled.tolist()
    # What an atom adds to a chord whose goal is its own cell's lower end, and what it takes from
    # one whose goal is that of the cell above: the cases that occur unless atoms are far apart.
    adds = (-np.expm1(spacing * np.minimum(np.array(floors) - scaled, 0.0))).tolist()
    takes = np.expm1(np.minimum(spacing * (np.array(floors) + 1.0 - scaled), 700.0)).tolist()
    goals: list[int] = []
    chords: list[float] = []
    i, count, left, surplus = 0, len(masses), masses[0], 0.0
    while i < count:
        goal = floors[i]
        collected = surplus = 0.0
        while i < count:
            steps = goal - floors[i]
            if steps == 0:
                surplus += left * adds[i]
            else:  # this atom lowers the chord's mean ratio
                if steps == 1:
                    deficit = takes[i]
                else:
                    deficit = math.expm1(min(spacing * (goal - losses[i]), 700.0))
                if surplus <= left * deficit:
                    taken = surplus / deficit
                    if taken > left:  # by rounding
                        taken = left
                    collected += taken
                    left -= taken
                    surplus = 0.0
                    break
                surplus -= left * deficit
            collected += left
            i += 1
            left = masses[i] if i < count else 0.0
        goals.append(goal)
        chords.append(collected)
    return goals, chords, surplus
