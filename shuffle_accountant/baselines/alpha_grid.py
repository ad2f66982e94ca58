"""The dominating pair of a round on a grid of alpha: a construction to compare with, not a bound.

'Numerical Accounting in the Shuffle Model', Section 3.4, makes a pair for a sampled round from the
profile h(alpha) of its equation (2.3), known at ``alpha = e^x`` for equidistant x in [-reach,
reach], by Algorithm 1 of Doroshenko et al. 2022 (`shuffle_accountant.lattice.profile`). Beyond the
grid the profile is taken to be constant. The accountant needs no such grid for a sampled round:
`shuffle_accountant.losses.combined.subsampled` has the pair itself, which the gridded one
approaches from above, with an error of second order in the grid's spacing.

Upper bound of the profile; it holds for every round that the accountant can do, sampled or not.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import profile_atoms
from shuffle_accountant.losses.base import Effort, divergence_of
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["LEAST_REACH", "MOST_POINTS", "MOST_REACH", "delta", "name", "pair", "sound", "source"]

name = "alpha_grid"
source = "Doroshenko et al. 2022, Algorithm 1"
sound = True

MOST_POINTS = 10**6
"""Most points of a grid; the profile is computed at half as many."""

LEAST_REACH, MOST_REACH = 1e-100, 700.0
"""Outside slopes of the profile, or e^reach, overflow."""

# The profile is asked for as closely as for an answer about one round.
_EFFORT = Effort(tail=1e-30, resolution=1e-5)


def pair(round: ShuffleRound, *, points: int, reach: float = 0.25) -> PldAtoms:
    """The pair of laws whose profile is the polygon through h at the grid's points.

    Args:
        round: what happens in the round, sampled or not.
        points: number of intervals of the grid over [-reach, reach], even, in [2, 10^6].
        reach: largest loss on the grid, nats, in [1e-100, 700].

    Returns:
        PldAtoms at ``points + 1`` losses at most, and the value of h at the end of the grid at
        +inf.
    """
    round = validate.instance(ShuffleRound, round=round)
    points = validate.integer(minimum=2, maximum=MOST_POINTS, points=points)
    if points % 2:
        raise ValueError(f"points must be an even integer >= 2, got {points}")
    reach = validate.positive(reach=reach)
    if not LEAST_REACH <= reach <= MOST_REACH:
        raise ValueError(
            f"reach must be a number in [{LEAST_REACH:g}, {MOST_REACH:g}], got {reach!r}"
        )
    losses = np.linspace(0.0, reach, points // 2 + 1)
    loss = round.reduced().loss
    forward, backward = (
        np.array([side.delta(x, Bound.PESSIMISTIC, _EFFORT) for x in losses.tolist()])
        for side in (loss, loss.reversed)
    )
    return profile_atoms(losses, (forward, forward), (backward, backward), 0.0, Bound.PESSIMISTIC)


def delta(round: ShuffleRound, *, epsilon: float, points: int, reach: float = 0.25) -> float:
    """Delta of one round at epsilon by the gridded `pair`, whose arguments the others are.

    Args:
        epsilon: nats, finite, >= 0.
    """
    epsilon = validate.finite_nonnegative(epsilon=epsilon)
    return divergence_of(pair(round, points=points, reach=reach), epsilon)


explain_calls(__name__)
