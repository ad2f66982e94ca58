"""Rounding a real variable to a lattice without moving its mean.

For a convex function f, ``E f(X)`` can only grow when each value is split over its two lattice
neighbours (PESSIMISTIC), and only fall when neighbouring values are merged (OPTIMISTIC); both keep
the mean, and both are second order in the spacing. Weights are *tilted*: the weight of a mass p at
x is ``p e^(theta x)`` up to a common factor, so that the far tail of a law can be followed. A mass
that moves by d changes its weight by ``e^(theta d)``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.numerics.budget import budget, rounded
from shuffle_accountant.numerics.compiled import compiled
from shuffle_accountant.numerics.rounding import Array

__all__ = ["round_to_lattice"]

# Weights smaller than this times the largest are dropped; whoever adds up weights allows for it.
_UNSEEN = 1e-200

# The lower side adds up values inside a cell of a lattice this many times finer when there are
# more values than such cells.
_SUBCELLS = 8


def round_to_lattice(scaled: Array, weight: Array, tilt: float, side: Bound) -> tuple[int, Array]:
    """Round to the integers.

    Args:
        scaled: values in units of the spacing, shape (m,), any order.
        weight: their tilted weights, shape (m,), >= 0.
        tilt: theta times the spacing, >= 0.
        side: PESSIMISTIC splits, OPTIMISTIC merges. Where too little lies above the lowest cell to
            bring its mean up to a lattice point, OPTIMISTIC moves it down instead, which is below
            for
            *increasing* convex functions only.

    Returns:
        ``(first, weights)``: tilted weights on the integers ``first, first + 1, …``
    """
    # what is far below all rounding errors; without the tilt its weight could overflow
    seen = weight > _UNSEEN * float(weight.max())
    if not seen.all():
        scaled, weight = scaled[seen], weight[seen]
    # a value this close to a lattice point is taken to lie on it; whoever adds up many such values
    # allows for it
    nearest = np.rint(scaled)
    scaled = np.where(np.abs(scaled - nearest) <= budget().lattice_snap, nearest, scaled)
    cell = np.floor(scaled)
    first = int(cell.min())
    size = int(cell.max()) - first + 2
    index = (cell - first).astype(np.intp)
    inside = scaled - cell
    if side is Bound.PESSIMISTIC:
        low = weight * (1.0 - inside) * np.exp(-tilt * inside)
        high = weight * inside * np.exp(tilt * (1.0 - inside))
        return first, rounded(_totals(index, low, size) + _totals(index + 1, high, size))
    if scaled.size > 2 * _SUBCELLS * size:
        scaled, weight = _merge_subcells(scaled - first, weight, tilt, size)
        scaled = scaled + first
    else:
        order = np.argsort(scaled, kind="stable")
        scaled, weight = scaled[order], weight[order]
    result = np.zeros(size)
    compiled(_merge)(scaled - first, weight, tilt, result)
    return first, rounded(result)


def _totals(index: NDArray[np.intp], weight: Array, size: int) -> Array:
    """Sum of the weights of each index, shape (size,)."""
    return np.asarray(np.bincount(index, weight, size), dtype=np.float64)


def _merge_subcells(scaled: Array, weight: Array, tilt: float, size: int) -> tuple[Array, Array]:
    """Merge what shares a subcell into its mean; values >= 0, ascending in the result."""
    cell = np.floor(scaled * _SUBCELLS)
    index = cell.astype(np.intp)
    inside = scaled - cell / _SUBCELLS
    moved = weight * np.exp(-tilt * inside)  # weights of the masses at their subcell's lower end
    total = _totals(index, moved, size * _SUBCELLS)
    moment = _totals(index, moved * inside, size * _SUBCELLS)
    used = np.flatnonzero(total > 0)
    mean = moment[used] / total[used]
    return used / float(_SUBCELLS) + mean, total[used] * np.exp(tilt * mean)


def _merge(scaled: Array, weight: Array, tilt: float, result: Array) -> None:
    """Merge ascending values >= 0, from the largest down, into groups whose mean is an integer.

    ``surplus`` is the sum of mass times distance above the group's goal, the integer below its
    largest value; a value below the goal is split when taking all of it would make it negative.
    The last group's mean may stay above its goal: it is brought to the next integer by taking
    masses from groups above.
    """
    i = scaled.size - 1
    left = weight[i]
    goal = 0
    surplus = 0.0
    collected = 0.0
    while i >= 0:
        goal = math.floor(scaled[i])
        surplus = 0.0
        collected = 0.0
        whole = False
        while i >= 0 and not whole:
            distance = scaled[i] - goal
            mass = left * math.exp(-tilt * distance)
            deficit = -mass * distance
            if distance < 0.0 and deficit >= surplus:
                taken = surplus / deficit if deficit > 0.0 else 0.0
                collected += taken * mass
                left *= 1.0 - taken
                surplus = 0.0
                whole = True
                if left <= 0.0:
                    i -= 1
                    left = weight[i] if i >= 0 else 0.0
            else:
                surplus += mass * distance
                collected += mass
                i -= 1
                left = weight[i] if i >= 0 else 0.0
        if i >= 0 or surplus <= 0.0:
            result[int(goal)] += collected
            collected = 0.0
    if collected <= 0.0:
        return
    need = collected - surplus
    above = 0.0
    for j in range(int(goal) + 2, result.size):
        above += result[j] * math.exp(-tilt * (j - goal)) * (j - goal - 1)
        if above >= need:
            break
    if above < need:
        result[int(goal)] += collected
        return
    for j in range(int(goal) + 2, result.size):
        steps = j - goal - 1
        mass = result[j] * math.exp(-tilt * (j - goal))
        taken = min(mass, need / steps)
        result[j] = max(result[j] - taken * math.exp(tilt * (j - goal)), 0.0)
        collected += taken
        need -= taken * steps
        if need <= 0.0:
            break
    result[int(goal) + 1] += collected * math.exp(tilt)
