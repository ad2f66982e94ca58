"""From a privacy profile known at points to a pair of laws (Doroshenko et al. 2022, Algorithm 1).

A convex, piecewise linear function of alpha with kinks at ``e^(x_j)`` *is* the hockey-stick profile
of a pair of laws on the losses x_j: the Q-mass there is the change of slope, the P-mass
``e^(x_j)`` times it, and the mass at +inf is the limit of the function.

Profiles are given by their part above ``(1 - alpha)_+``, which keeps its digits on both sides of
alpha = 1: ``k(alpha) = h(alpha)`` for alpha >= 1 and ``h(alpha) - (1 - alpha)`` below.

A lower side may come from points of an error region instead: an event of probability p under P and
q under Q gives ``p - alpha q <= H_alpha`` for every alpha. So does every mixture of events, so the
edges of the concave hull of such points are the atoms of a pair below (`symmetric_atoms`).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    ELEMENTARY,
    LIMITS,
    UNIT_ROUNDOFF,
    Array,
    Bound,
    exponential,
    outwards,
    product,
    roundings,
)

# A point (alpha - 1, k) of a profile, and the loss log(alpha).
Point = tuple[float, float, float]


def profile_atoms(
    losses: Array,
    forward: tuple[Array, Array],
    backward: tuple[Array, Array],
    infinite: float,
    side: Bound,
) -> PldAtoms:
    """The pair of laws on the given losses and their mirror images.

    Args:
        losses: 0 = x_0 < x_1 < … < x_m, nats.
        forward: lower and upper bounds of ``H_alpha(P‖Q)`` at ``e^losses``, shape (m + 1,) each.
        backward: bounds of ``H_alpha(Q‖P)``, likewise; they give the profile below alpha = 1, as
            ``H_alpha(P‖Q) = 1 - alpha + alpha H_(1/alpha)(Q‖P)``.
        infinite: lower bound of the profile's limit for alpha to infinity (for OPTIMISTIC).
        side: PESSIMISTIC takes the lower convex hull of the upper bounds. OPTIMISTIC stays below
            the extensions of chords, so below every convex function between the bounds; one of its
            losses may lie off the given ones.
    """
    which = 1 if side is Bound.PESSIMISTIC else 0
    loss = whole_losses(losses)
    place = whole_places(loss)
    value = whole_profile(losses, forward[which], backward[which])
    if side is Bound.PESSIMISTIC:
        return polygon_atoms(place, value, loss, float(value[-1]), side)
    high = whole_profile(losses, forward[1], backward[1])
    place, value, loss = _with_end(place, value, high, loss, infinite)
    return polygon_atoms(place, value, loss, infinite, side)


def whole_losses(losses: Array) -> Array:
    """The losses, their mirror images and -inf, ascending."""
    return np.concatenate([[-math.inf], -losses[:0:-1], losses])


def whole_places(loss: Array) -> Array:
    """``alpha - 1`` at ascending losses, the first of which is -inf."""
    return np.concatenate([[-1.0], rounded(np.expm1(loss[1:]), ELEMENTARY)])


def whole_profile(losses: Array, forward: Array, backward: Array) -> Array:
    """The part of a profile above ``(1 - alpha)_+``, at the losses, their mirror images and -inf.

    The losses are as in `profile_atoms`; ``H_alpha(P‖Q)`` and ``H_alpha(Q‖P)`` there have the shape
    (…, m + 1), and what comes back (…, 2 m + 2).
    """
    below = np.exp(-losses[:0:-1]) * backward[..., :0:-1]
    return np.concatenate([np.zeros((*forward.shape[:-1], 1)), below, forward], axis=-1)


def polygon_atoms(
    place: Array, value: Array, loss: Array, infinite: float, side: Bound
) -> PldAtoms:
    """The pair of laws whose profile is the lower convex hull of some points.

    Args:
        place: ``alpha - 1`` of the points, the first one -1.
        value: the profile's part above ``(1 - alpha)_+`` there, or (OPTIMISTIC) below that.
        loss: ``log(alpha)``.
        infinite: the profile's limit: its last value, or (OPTIMISTIC) a lower bound.
        side: side of the profile that the points' polygon is on.
    """
    points = _hull(list(zip(place.tolist(), value.tolist(), loss.tolist(), strict=True)))
    if side is Bound.OPTIMISTIC:
        points = _clip(points, infinite)
    mass, slack = _masses(points)
    kept = mass > 0.0
    where = np.array([point[2] for point in points[1:]])[kept]
    return PldAtoms(
        side=side,
        mass=outwards(mass[kept], slack[kept], upper=side is Bound.PESSIMISTIC),
        loss=where,
        infinite=infinite,
        truncated=infinite if side is Bound.PESSIMISTIC else 0.0,
        round_off=float(np.sum((mass * slack)[kept])),
        loss_error=roundings(2 * ELEMENTARY) * float(np.max(np.abs(where), initial=0.0)),
    )


def _run(a: Point, b: Point) -> float:
    """Distance in alpha from a to b, without cancellation near alpha = 1 and near 0."""
    return b[0] - a[0] if b[0] > -0.5 else math.exp(b[2]) - math.exp(a[2])


def _slope(a: Point, b: Point) -> tuple[float, float]:
    """Slope of the profile from a to b as (offset, slope of k): their sum, without rounding."""
    if b[0] <= 0.0:
        return -1.0, (b[1] - a[1]) / _run(a, b)
    return 0.0, (b[1] - a[1] + min(a[0], 0.0)) / _run(a, b)


def _steeper(a: tuple[float, float], b: tuple[float, float]) -> bool:
    """Whether slope a is at least slope b."""
    return a[1] >= b[1] if a[0] == b[0] else a[0] + a[1] >= b[0] + b[1]


def _hull(points: list[Point]) -> list[Point]:
    """Lower convex hull, from left to right."""
    hull: list[Point] = []
    for point in points:
        while len(hull) >= 2 and _steeper(_slope(hull[-2], hull[-1]), _slope(hull[-1], point)):
            hull.pop()
        hull.append(point)
    return hull


def below_chords(place: Array, low: Array, high: Array, loss: Array) -> Array:
    """Values whose polygon is below every convex function between the bounds, at such points.

    Such a function is, over each step, above the continuations of the chords to the left and to the
    right, which go through an upper bound further away and the lower bound next to the step. The
    polygon passes below the point where they meet. Bounds of the part above ``(1 - alpha)_+`` have
    the shape (…, m), and the ascending ``alpha - 1``, from -1, and ``log(alpha)`` the shape (m,).
    """
    run = np.where(place[1:] > -0.5, np.diff(place), np.diff(np.exp(loss)))
    offset = np.where(place[1:] > 0.0, 0.0, -1.0)  # slope of (1 - alpha)_+ over each step
    edge = np.zeros((*low.shape[:-1], 1))
    across = np.diff(low) / run
    # over the first step, the chord to the left is (1 - alpha)_+ itself
    before = np.concatenate([edge, (low[..., 1:-1] - high[..., :-2]) / run[:-1]], axis=-1)
    bend_left = across - before + np.diff(offset, prepend=-1.0)
    after = (high[..., 2:] - low[..., 1:-1]) / run[1:]
    bend_right = after - across[..., :-1] + np.diff(offset)
    left = np.maximum(bend_left, 0.0)
    right = np.concatenate([np.maximum(bend_right, 0.0), edge + math.inf], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = left / right
        # of the meeting point below the chord across
        depth = np.where(np.isinf(share), run * right, run * left / (1.0 + share))
    depth = np.where(right > 0.0, depth, 0.0)
    below = np.maximum(
        np.concatenate([edge, depth], axis=-1),
        np.concatenate([depth[..., :-1], edge, edge], axis=-1),
    )
    below[..., 0] = 0.0  # the profile is 1 at alpha = 0
    below[..., 1] = np.maximum(below[..., 1], np.where(depth[..., 0] > 0.0, low[..., 1], 0.0))
    return np.asarray(low - below)


def _with_end(
    place: Array, low: Array, high: Array, loss: Array, infinite: float
) -> tuple[Array, Array, Array]:
    """The points of `below_chords`, and one beyond the last, where the limit is reached."""
    value = below_chords(place, low, high, loss)
    run = place[-1] - place[-2] if place[-1] > -0.5 else math.exp(loss[-1]) - math.exp(loss[-2])
    slope = (low[-1] - high[-2]) / run + (0.0 if place[-1] > 0.0 else -1.0)
    if low[-1] > infinite and slope < 0.0:
        # beyond the last point, down to the limit, if that point is another double
        run = (low[-1] - infinite) / max(-slope, (low[-1] - infinite) * LIMITS.underflow)
        if run * LIMITS.underflow < 1.0 and place[-1] + run > place[-1]:
            place, value = np.append(place, place[-1] + run), np.append(value, infinite)
            loss = np.append(loss, math.log1p(place[-1]))
        else:
            value[-1] = min(value[-1], infinite)
    return place, value, loss


def _clip(points: list[Point], infinite: float) -> list[Point]:
    """The maximum of a polygon, ``(1 - alpha)_+`` and the limit, which all are lower bounds."""
    centre = next(i for i, point in enumerate(points) if point[0] >= 0.0)
    if points[centre][0] > 0.0:  # the hull passed below the point at alpha = 1
        before = points[centre - 1]
        height = before[1] - before[0] - before[0] * sum(_slope(before, points[centre]))
        points = [*points[:centre], (0.0, height, 0.0), *points[centre:]]
    start = max((i for i in range(1, centre) if points[i][1] < 0.0), default=0)
    at_limit = points[centre][1] <= infinite  # the profile itself, from below 1 on
    if at_limit:
        above = (i for i in range(centre) if points[i][1] - points[i][0] > infinite)
        stop = max(above, default=0)
    else:
        stop = max(i for i in range(centre, len(points)) if points[i][1] > infinite)
    kept = points[start + 1 : stop + 1]
    if 0 < start < stop:
        kept.insert(0, _crossing(points[start], points[start + 1], 0.0))
    kept.insert(0, points[0])
    if at_limit:
        last = max(start, stop)
        end = _at_limit(points[last], points[last + 1], infinite)
        return [*kept, *([end] if kept[-1][0] < end[0] < 0.0 else []), (0.0, infinite, 0.0)]
    if stop + 1 < len(points):
        kept.append(_crossing(points[stop], points[stop + 1], infinite))
    return kept


def _crossing(a: Point, b: Point, level: float) -> Point:
    """The point at which the segment from a to b passes the level."""
    share = min(max((level - a[1]) / (b[1] - a[1]), 0.0), 1.0)
    place = min(a[0] + share * (b[0] - a[0]), b[0])
    if place > -0.5:
        return place, level, rounded(math.log1p(place), ELEMENTARY)
    alpha = (1.0 - share) * math.exp(a[2]) + share * math.exp(b[2])
    return place, level, math.log(max(alpha, 1e-300))


def _at_limit(a: Point, b: Point, infinite: float) -> Point:
    """The point at which the profile of a segment below alpha = 1 is at its limit."""
    high, low = a[1] - a[0], b[1] - b[0]
    share = min(max((high - infinite) / (high - low), 0.0), 1.0) if high > low else 0.0
    alpha = (1.0 - share) * math.exp(a[2]) + share * math.exp(b[2])
    place = min(max(a[0] + share * (b[0] - a[0]), a[0]), b[0])
    if infinite + place < 0.0:  # where (1 - alpha)_+ is at the limit
        return -infinite, 0.0, math.log1p(-infinite)
    return place, infinite + place, math.log(max(alpha, 1e-300))


def _masses(points: list[Point]) -> tuple[Array, Array]:
    """P-masses of all points but the first (alpha = 0), and bounds on their relative errors."""
    slopes = [_slope(a, b) for a, b in pairwise(points)] + [(0.0, 0.0)]
    offset = np.array([slope[0] for slope in slopes])
    slope = np.array([slope[1] for slope in slopes])
    change = np.maximum(np.diff(slope) + np.diff(offset), 0.0)  # below 0 by rounding only
    jump = np.abs(np.diff(offset))
    size = np.abs(slope[1:]) + np.abs(slope[:-1]) + jump
    # a difference of slopes, each the quotient of two differences of numbers good to an ulp
    height = np.array([point[1] for point in points])
    run = [_run(a, b) for a, b in pairwise(points)]
    near = np.abs(height) / np.array([*run, math.inf])
    size += near[1:] + near[:-1]
    slack = np.divide(roundings(16) * size, change, out=np.zeros_like(change), where=change > 0)
    loss = np.array([point[2] for point in points[1:]])
    # the loss is a logarithm, and the mass an exponential of it
    own = exponential(roundings(2 * ELEMENTARY) * np.abs(loss))
    return rounded(np.exp(loss) * change, ELEMENTARY), product(slack + own * (1.0 + slack))


def symmetric_atoms(q: Array, d: Array, infinite: float) -> PldAtoms:
    """The pair of laws below a pair that is as hard to distinguish as its reverse.

    Args:
        q: probabilities of events under Q, shape (m,), any order, >= 0.
        d: their P- less Q-probabilities, likewise, such that ``d - (alpha - 1) q`` is a lower
            bound for every alpha >= 1. For alpha < 1 the reverse answers.
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
    # no quotient may overflow
    x = np.maximum(x, LIMITS.underflow)
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
