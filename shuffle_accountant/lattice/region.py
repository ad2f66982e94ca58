"""From points of an error region to a pair of laws: the lower side of a profile.

An event of probability p under P and q under Q gives ``p - alpha q <= H_alpha`` for every alpha. So
does every mixture of events: the concave hull of such points lies in the error region, and the
edges of that polygon are the atoms of a pair whose profile is a lower bound everywhere.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.lattice.grid import Bound, PldAtoms
from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array

__all__ = ["symmetric_atoms"]

# Least Q-probability of an event, to which smaller ones are raised, so that no quotient overflows.
_RAREST = 1e-290


def symmetric_atoms(q: Array, d: Array, infinite: float) -> PldAtoms:
    """The pair of laws below a pair that is as hard to distinguish as its reverse.

    Args:
        q: probabilities of events under Q, shape (m,), any order, >= 0.
        d: their P- less Q-probabilities, shape (m,), such that ``d - (alpha - 1) q`` is a
            lower bound for every alpha >= 1. For alpha < 1 the reverse answers.
        infinite: P-probability of events that are impossible under Q; d includes it.
    """
    x, y = _half(q, d, infinite)
    cost, gain = np.diff(x), np.diff(y)
    mass, loss = cost + gain, np.log1p(gain / cost)
    # the middle, where neither is likelier
    rest = max(1.0 - 2.0 * x[-1] - y[-1], 0.0)
    slack = 8 * UNIT_ROUNDOFF
    return PldAtoms(
        side=Bound.OPTIMISTIC,
        mass=np.concatenate([mass, [rest], cost[::-1]]) * (1.0 - slack),
        loss=np.concatenate([loss, [0.0], -loss[::-1]]),
        infinite=infinite,
        truncated=0.0,
        round_off=slack,
        # a quotient of differences, each off by u
        loss_error=slack * float(np.max(np.abs(loss), initial=1.0)),
    )


def _half(q: Array, d: Array, infinite: float) -> tuple[Array, Array]:
    """Corners of the hull of the points (q, d) from ``(0, infinite)`` to where it stops rising.

    On the axis of symmetry ``2 q + d = 1``; the mirror image of a point beyond it is before it.
    """
    kept = (q > 0.0) & (d > infinite)
    x, y = q[kept], d[kept]
    beyond = 2.0 * x + y > 1.0
    # the hull has the point on the axis between each of these and its mirror image
    x = np.where(beyond, np.maximum(0.5 * (1.0 - y), 0.0), x)
    x = np.maximum(x, _RAREST)
    order = np.lexsort((-y, x))
    corners = [(0.0, infinite)]
    for point in zip(x[order].tolist(), y[order].tolist(), strict=True):
        if point[1] <= corners[-1][1] or point[0] <= corners[-1][0]:
            continue
        while len(corners) > 1 and not _bends(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return np.array([c[0] for c in corners]), np.array([c[1] for c in corners])


def _bends(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Whether the slope falls at b."""
    return (b[1] - a[1]) * (c[0] - b[0]) > (c[1] - b[1]) * (b[0] - a[0])
