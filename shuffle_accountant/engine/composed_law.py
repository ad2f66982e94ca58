"""The distribution of the composed loss: a pessimistic pmf on a grid that the caller chooses.

A question needs the law near one point only; here it is wanted everywhere, for other software to
compose with. One transform knows it up to an absolute error; under a tilt it knows one stretch of
it up to a relative error. So the sum is taken under a ladder of tilts, and each grid point gets the
least of the upper bounds.

All that has to be shown is that the loss is stochastically no smaller: ``delta = E_P(1 - e^(eps -
L))_+`` grows with L, and so do sums of losses. So mass above 1 may be taken away where the losses
are smallest, and mass that is not accounted for goes to +inf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from shuffle_accountant.engine.composition import Composition
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.lattice.discretize import discretize
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    Array,
    Bound,
    raised,
    roundings,
    sequential_sum,
)


@lru_cache(maxsize=16)
def composed_law(
    parts: tuple[tuple[PrivacyLoss, int], ...], interval: float, tolerance: float
) -> PldGrid:
    """The composed loss on multiples of the interval, no smaller than the true one.

    Losses above 650, or above a million intervals, count as infinite. Cached, because a search for
    one mechanism's parameter asks for the others' law again and again.

    Args:
        parts: pairs (loss, count >= 1), at least one, all read by the hockey-stick divergence.
        interval: distance of grid points, nats.
        tolerance: relative accuracy in epsilon to aim for, besides the interval.

    Returns:
        The law, with a total of 1 to round-off and no ``loss_error``.

    Raises:
        ValueError: the sum reaches over too many intervals.
    """
    steps = _fineness(parts, interval, tolerance)
    while True:
        composition = Composition(_grids(parts, interval / steps, tolerance))
        top = composition.saddle_for_delta(SETTINGS.least_tail)
        points = composition.window(top)[1] - composition.window(0.0)[0] + 1
        if points <= SETTINGS.most_points:
            break
        if steps == 1:
            least = 1.1 * interval * points / SETTINGS.most_points
            raise ValueError(
                f"value_discretization_interval must be at least {least:.2g} for losses that reach "
                f"over {points * interval:.2g} nats, got {interval!r}"
            )
        steps = max(min(steps // 2, steps * SETTINGS.most_points // points), 1)
    if sum(count for _, count in parts) == 1:
        grid = composition.parts[0][0]
        first, mass, lost = grid.offset, grid.mass, 0.0
    else:
        first, mass, lost = _masses(composition, top)
    infinite = min(raised(composition.infinite, roundings(8)) + lost + LIMITS.underflow, 1.0)
    # a grid point times the interval is off by the rounding of the interval's parts
    reach = composition.spacing * max(abs(first), abs(first + mass.size))
    error = composition.loss_error + roundings(8) * reach
    first, mass = _onto(first, mass, steps, interval, error)
    first, mass, infinite = _whole(first, mass, infinite)
    return PldGrid(Bound.PESSIMISTIC, interval, first, mass, infinite, lost, 0.0, 0.0)


def _fineness(parts: Sequence[tuple[PrivacyLoss, int]], interval: float, tolerance: float) -> int:
    """Number of grid steps per interval, so that the rounds' discretisation errors stay small."""
    rounds = sum(count for _, count in parts)
    if rounds == 1:
        return 1
    top = max(loss.deviation for loss, _ in parts)
    variance = sum(count * (loss.deviation / top) ** 2 for loss, count in parts)
    # connecting the dots adds spacing^2 / 6 to the variance of each round; see `engine.ends`
    wanted = 0.5 * top * math.sqrt(1.5 * tolerance * variance / rounds)
    reach = min(max(loss.largest for loss, _ in parts), LIMITS.largest_log)
    followed = interval * (SETTINGS.most_points // 4) / max(reach, interval)
    return max(min(math.ceil(interval / max(wanted, LIMITS.underflow)), math.floor(followed)), 1)


def _grids(
    parts: Sequence[tuple[PrivacyLoss, int]], spacing: float, tolerance: float
) -> list[tuple[PldGrid, int]]:
    """Pessimistic grids of all rounds' losses, with their counts."""
    rounds = sum(count for _, count in parts)
    effort = Effort(
        tail=max(0.1 * SETTINGS.least_tail / rounds, LIMITS.underflow), resolution=0.25 * tolerance
    )
    cap = min(LIMITS.largest_log, spacing * (SETTINGS.most_points // 4))

    def edges(largest: float) -> Array:
        steps = math.ceil(min(largest, cap) / spacing) + 2
        followed = np.arange(steps, dtype=np.float64) * spacing
        return np.append(followed, [2.0 * largest] if followed[-1] <= largest else [])

    grids = []
    for loss, count in parts:
        atoms = loss.atoms(Bound.PESSIMISTIC, edges, effort)
        far = atoms.loss > cap
        atoms = replace(
            atoms,
            mass=atoms.mass[~far],
            loss=np.maximum(atoms.loss[~far], -cap),
            infinite=min(atoms.infinite + float(atoms.mass[far].sum()), 1.0),
        )
        grid = discretize(atoms, spacing)
        held = np.flatnonzero(grid.mass)
        if held.size:  # nothing beyond the largest loss: the sum's window ends where it must
            inside = slice(int(held[0]), int(held[-1]) + 1)
            grid = replace(grid, offset=grid.offset + inside.start, mass=grid.mass[inside])
        else:  # something to take averages over, too little to be seen
            grid = replace(grid, mass=np.full(1, LIMITS.underflow))
        grids.append((grid, count))
    return grids


def _masses(composition: Composition, top: float) -> tuple[int, Array, float]:
    """Upper bounds of the masses of the sum, from the first grid point on, and the mass above."""
    first, bound, lost, below = 0, np.zeros(0), 0.0, 0.0
    for lam in sorted({top * i / SETTINGS.tilts for i in range(SETTINGS.tilts + 1)}):
        rung = composition.tilted(lam)
        start, mass = rung.masses()
        under, above = rung.beyond()
        if not bound.size:
            first, bound, lost, below = start, mass, above, under
            continue
        end = first + bound.size
        if start + mass.size > end:
            lost = above
        # where there is no bound yet, a mass is at most 1
        low = min(first, start)
        wider = np.ones(max(end, start + mass.size) - low)
        wider[first - low : end - low] = bound
        here = wider[start - low : start - low + mass.size]
        np.minimum(here, mass, out=here)
        first, bound = low, wider
    bound[0] += below
    return first, bound, lost


def _onto(first: int, mass: Array, steps: int, interval: float, error: float) -> tuple[int, Array]:
    """Raise the losses by their error and split each over the two multiples of the interval."""
    spacing = interval / steps
    whole = math.floor(error / spacing)
    index = np.arange(first + whole, first + whole + mass.size)
    cell = np.floor_divide(index, steps)
    inside = (index - cell * steps) * spacing + (error - whole * spacing)
    share = rounded(np.expm1(-inside) / math.expm1(-interval), ELEMENTARY)
    share = raised(share, roundings(2 * ELEMENTARY + 4))
    high = rounded(mass * np.minimum(share, 1.0))
    start = int(cell[0])
    size = int(cell[-1]) - start + 2
    low = np.bincount(cell - start, mass - high, size)
    both = np.asarray(low + np.bincount(cell - start + 1, high, size), dtype=np.float64)
    return start, raised(rounded(both, 4), sequential_sum(2 * steps, own=16))


def _whole(first: int, mass: Array, infinite: float) -> tuple[int, Array, float]:
    """First index, masses and mass at +inf, with a total of 1 and no empty ends."""
    surplus = math.fsum([*mass.tolist(), infinite]) - 1.0
    if surplus < 0.0:
        infinite = min(infinite - surplus + roundings(2), 1.0)
    else:
        below = np.cumsum(mass)
        cut = int(np.searchsorted(below, surplus, side="right"))
        if cut < mass.size:
            mass = mass.copy()
            # both sums are rounded; what is taken away must not be too much
            rounding = roundings(2) + sequential_sum(cut, own=4) * below[cut]
            mass[cut] = min(mass[cut], below[cut] - surplus + rounding)
            mass[:cut] = 0.0
        else:
            mass, infinite = np.zeros(1), 1.0
    held = np.flatnonzero(mass)
    low, high = (int(held[0]), int(held[-1]) + 1) if held.size else (0, 1)
    return first + low, mass[low:high], infinite
