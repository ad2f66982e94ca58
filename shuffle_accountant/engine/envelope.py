"""The smallest of several upper bounds of one privacy profile, as one pair of laws.

Each bound is convex in alpha and at least the profile, which is convex itself; so the profile is at
most the largest convex function below all of them. Its kinks are kinks of the bounds: hulls of
points above them are above it, and hulls of kinks of polygons below them are below it. Adjacency:
that of the bounds, whose profiles are those of both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import (
    polygon_atoms,
    profile_atoms,
    whole_losses,
    whole_places,
    whole_profile,
)
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.rounding import Array, Bound, lowered, pairwise_sum

# Least distance of kinks, relative to the last one.
_APART = 1e-10

Profile = Callable[[float], tuple[float, float]]
"""Both certified ends of delta at an epsilon >= 0."""


def envelope_loss(profiles: Sequence[Profile], losses: Array) -> TabulatedLoss:
    """Privacy loss of the pair whose profile is the convex envelope of the smallest bound.

    Args:
        profiles: bounds of one profile, in the worse order each; at least one. All are 0 at the
            last of the losses.
        losses: 0 and further epsilons at which the bounds are asked for, nats, ascending.
    """
    ends = [np.array([profile(x) for x in losses.tolist()]).T for profile in profiles]
    high = np.minimum.accumulate(np.min([upper for _, upper in ends], axis=0))
    high[-1] = 0.0
    whole = whole_losses(losses)
    value = whole_profile(losses, high, high)
    above = polygon_atoms(whole_places(whole), value, whole, 0.0, Bound.PESSIMISTIC)
    polygons = [
        profile_atoms(losses, (low, upper), (low, upper), 0.0, Bound.OPTIMISTIC)
        for low, upper in ends
    ]
    every = np.concatenate([np.abs(one.loss) + one.loss_error for one in polygons])
    places = np.unique(np.concatenate([losses, every]))
    least = np.min([_heights(one, places) for one in polygons], axis=0)
    # of places that rounding hardly tells apart, the first with the least height is below them
    starts = np.flatnonzero(np.append(True, np.diff(places) > _APART * places[-1]))
    places, least = places[starts], np.minimum.reduceat(least, starts)
    whole = whole_losses(places)
    value = whole_profile(places, least, least)
    below = polygon_atoms(whole_places(whole), value, whole, 0.0, Bound.OPTIMISTIC)
    bounds = LossBounds(upper=table_of(above), lower=table_of(below))
    return TabulatedLoss(bounds=bounds, backward=bounds)


def _heights(atoms: PldAtoms, places: Array) -> Array:
    """Lower bounds of the hockey-stick divergence of a pair below, at losses."""
    gain = -np.expm1(np.minimum(places[:, None] - (atoms.loss - atoms.loss_error), 0.0))
    return np.asarray(np.maximum(lowered(gain @ atoms.mass, pairwise_sum(own=16)) - 1e-300, 0.0))


def table_of(atoms: PldAtoms) -> PldTable:
    """The atoms as a table, their losses moved by their error."""
    moved = atoms.loss_error if atoms.side is Bound.PESSIMISTIC else -atoms.loss_error
    loss, where = np.unique(atoms.loss + moved, return_inverse=True)
    mass = np.bincount(where, atoms.mass, loss.size)
    return PldTable(loss, np.minimum(mass, 1.0), infinity_mass=min(atoms.infinite, 1.0))
