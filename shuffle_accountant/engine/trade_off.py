"""Other forms of a privacy profile: the trade-off curve of tests, one pair of laws below several.

The trade-off f(x) is the least false negative rate of a test of false positive rate x, and

    f(x) = sup over t > 0 of  1 - H(t) - t x,

with H the hockey-stick divergence at t = e^epsilon (Dong, Roth and Su 2022, Proposition 2.12).
Where delta is the larger one of both orders, ``H(1/t) = 1 - (1 - H(t))/t``, and f is symmetric. H
is convex, so ``h(t) = 1 - H(t) - t x`` is concave in t: between points where H is bracketed, h lies
below lines through its upper end at the nearest point and its lower end at the one after it.

*The smallest of several upper bounds* of one profile, as one pair of laws. Each bound is convex in
alpha and at least the profile, which is convex itself; so the profile is at most the largest convex
function below all of them. Its kinks are kinks of the bounds: hulls of points above them are above
it, and hulls of kinks of polygons below them are below it. Adjacency: that of the bounds, whose
profiles are those of both orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.lattice.grid import PldAtoms
from shuffle_accountant.lattice.profile import (
    polygon_atoms,
    profile_atoms,
    whole_losses,
    whole_places,
    whole_profile,
)
from shuffle_accountant.losses.tabulated import LossBounds, PldTable, TabulatedLoss
from shuffle_accountant.numerics.budget import disturbed, rounded
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Array,
    Bound,
    lowered,
    pairwise_sum,
    roundings,
)

Profile = Callable[[float], tuple[float, float]]
"""Both certified ends of delta at an epsilon >= 0."""


def envelope_loss(profiles: Sequence[Profile], losses: Array) -> TabulatedLoss:
    """Privacy loss of the pair whose profile is the convex envelope of the smallest bound.

    Args:
        profiles: bounds of one profile, in the worse order each; at least one.
        losses: 0 and further epsilons at which the bounds are asked for, nats, ascending; all
            bounds are 0 at the last.
    """
    # the smallest delta first: what was prepared for it serves the others
    backward = losses[::-1].tolist()
    ends = [np.array([profile(x) for x in backward]).T[:, ::-1] for profile in profiles]
    high = np.minimum.accumulate(np.min([upper for _, upper in ends], axis=0))
    high[-1] = 0.0
    above = profile_atoms(losses, (high, high), (high, high), 0.0, Bound.PESSIMISTIC)
    polygons = [
        profile_atoms(losses, (low, upper), (low, upper), 0.0, Bound.OPTIMISTIC)
        for low, upper in ends
    ]
    # where the polygons have kinks: between them all are lines, and so is a chord below the least
    every = np.concatenate([np.maximum(one.loss - one.loss_error, 0.0) for one in polygons])
    places = np.unique(np.concatenate([losses, every]))
    least = np.min([_heights(one, places) for one in polygons], axis=0)
    # of places that rounding hardly tells apart, the first with the least height is below them
    starts = np.flatnonzero(np.append(True, np.diff(places) > SETTINGS.kinks_apart * places[-1]))
    places, least = places[starts], np.minimum.reduceat(least, starts)
    whole = whole_losses(places)
    value = whole_profile(places, least, least)
    below = polygon_atoms(whole_places(whole), value, whole, 0.0, Bound.OPTIMISTIC)
    bounds = LossBounds(upper=table_of(above), lower=table_of(below))
    return TabulatedLoss(bounds=bounds, backward=bounds)


def _heights(atoms: PldAtoms, places: Array) -> Array:
    """Lower bounds of the hockey-stick divergence of a pair below, at losses."""
    gain = -np.expm1(np.minimum(places[:, None] - (atoms.loss - atoms.loss_error), 0.0))
    total = rounded(gain @ atoms.mass, 16.0)
    return np.asarray(np.maximum(lowered(total, pairwise_sum(own=16)) - 1e-300, 0.0))


def table_of(atoms: PldAtoms) -> PldTable:
    """The atoms as a table, their losses moved by their error."""
    moved = atoms.loss_error if atoms.side is Bound.PESSIMISTIC else -atoms.loss_error
    loss, where = np.unique(atoms.loss + moved, return_inverse=True)
    mass = np.bincount(where, atoms.mass, loss.size)
    return PldTable(loss, np.minimum(mass, 1.0), infinity_mass=min(atoms.infinite, 1.0))


def refined_trade_off(
    delta: Profile, last: float, rates: Array, width: float
) -> tuple[Array, Array]:
    """Lower and upper ends of the trade-off curve, from points of the profile where they matter.

    More and more points are asked for around those where a rate's supremum was found last. Any
    points give a bracket; which ones only decides how wide it is.

    Args:
        delta: both ends of delta at an epsilon >= 0.
        last: largest epsilon to ask for, > 0, finite; those above 650 serve the rate 0 alone.
        rates: false positive rates, in [0, 1], shape (r,), which is that of both ends.
        width: width of the bracket to aim for, relative to what the test gains over guessing.
    """
    asked: dict[float, tuple[float, float]] = {}
    finite = min(last, LIMITS.largest_log)
    first, most = SETTINGS.profile_points
    wanted, before = np.linspace(0.0, finite, first), np.full(rates.shape, np.inf)
    # f(0) is 1 less the least H
    at_zero = 1.0 - delta(last)[1] - roundings(64.0) if last > LIMITS.largest_log else 0.0
    while True:
        asked.update({x: delta(x) for x in wanted.tolist()})
        points = np.array(sorted(asked))
        below, above = np.array([asked[x] for x in points.tolist()]).T
        lower, upper, wanted = trade_off_ends(points, below, above, rates)
        lower = np.where(rates == 0.0, np.maximum(lower, at_zero), lower)
        gap = upper - lower
        # ends of delta that are apart themselves gain nothing from further points
        wide = (gap > width * (1.0 - rates - lower)) & (gap < SETTINGS.stalled * before)
        wanted = np.unique(wanted[wide & (wanted < finite)])
        wanted = wanted[np.diff(wanted, prepend=-1.0) > 1e-12]
        wanted = wanted[np.min(np.abs(np.subtract.outer(wanted, points)), axis=1) > 1e-12]
        if wanted.size == 0 or points.size >= most:
            return lower, upper
        before = gap


def trade_off_ends(
    epsilons: Array, lower: Array, upper: Array, rates: Array
) -> tuple[Array, Array, Array]:
    """Lower and upper ends of the trade-off curve at false positive rates, and where to look next.

    Args:
        epsilons: nats, in [0, 650], ascending by 1e-12 or more, the first one 0, at least two,
            shape (m,).
        lower: lower ends of delta there, shape (m,).
        upper: upper ends, likewise.
        rates: false positive rates, in [0, 1], shape (r,).

    Returns:
        Lower and upper ends, and the epsilons that the upper ends come from, infinite where that is
        beyond all points; each of shape (r,).
    """
    t = np.exp(epsilons)
    # points below 1 by the symmetry; the larger the divergence, the larger its mirror image
    points = np.concatenate([1.0 / t[:0:-1], t])
    above = np.concatenate([1.0 - (1.0 - upper[:0:-1]) / t[:0:-1], upper])
    below = np.concatenate([1.0 - (1.0 - lower[:0:-1]) / t[:0:-1], lower])
    # H is 1 at t = 0 and at least 1 - t
    points = np.append(0.0, points)
    above, below = np.append(1.0, above), np.append(1.0, below)
    ends = [_one(points, above, below, float(rate)) for rate in rates]
    lowest, highest, places = np.array(ends).T
    with np.errstate(divide="ignore"):
        return lowest, highest, np.abs(np.log(places))


def _one(points: Array, above: Array, below: Array, rate: float) -> tuple[float, float, float]:
    """Both ends at one rate, and the t that the upper end comes from."""
    size = 1.0 + points * rate
    # few operations on numbers up to 1 + t x; that t is rounded itself moves H no more: t times
    # its slope is at most the mass of larger losses, so at most 1
    line, moved = disturbed(1.0 - points * rate, roundings(8) * size), roundings(64.0) * size
    least, most = line - above - moved, line - below + moved  # of h, at the points
    lower = float(np.max(least))
    gap = np.diff(points)
    # H falls, and so does -t x: H at the cell's end, the line at its start
    cells = 1.0 - below[1:] - points[:-1] * rate + moved[:-1]
    # slopes of the line through points i - 1 and i, beyond i; and through i and i + 1, before i.
    # What both points are moved by makes a line steeper by far more than its own round-off.
    rising = disturbed((most[1:-1] - least[:-2]) / gap[:-1], roundings(8) * size[1:-1] / gap[:-1])
    falling = disturbed((least[2:] - most[1:-1]) / gap[1:], roundings(8) * size[1:-1] / gap[1:])
    # the first cell has no line from the left, the last one none from the right
    right = most[1:-1] + np.maximum(-falling * gap[:-1], 0.0)
    left = most[1:-1] + np.maximum(rising * gap[1:], 0.0)
    cells[:-1] = np.minimum(cells[:-1], right)
    cells[1:] = np.minimum(cells[1:], left)
    both, meeting = _lower_of_two(most[1:-2], rising[:-1], most[2:-1], falling[1:], gap[1:-1])
    places = np.sqrt(points[:-1]) * np.sqrt(points[1:])
    # at the meeting point, but not so near an end that a wide cell stays wide
    inside = points[1:-2] + np.clip(meeting, 0.1 * gap[1:-1], 0.9 * gap[1:-1])
    places[1:-1] = np.where((meeting > 0.0) & (both < cells[1:-1]), inside, places[1:-1])
    cells[1:-1] = np.minimum(cells[1:-1], both)
    # beyond the last point: H >= 0, and the line from the left if it does not rise
    last = float(line[-1] + moved[-1])
    if rising[-1] <= 0.0:
        last = min(last, float(most[-2]))
    last = max(last, float(most[-1]))
    highest = int(np.argmax(cells))
    upper = max(float(cells[highest]), last, lower)
    place = float(places[highest]) if cells[highest] >= last else math.inf
    # guessing has the false negative rate 1 - x
    return min(max(lower, 0.0), 1.0 - rate), min(max(upper, 0.0), 1.0 - rate), place


def _lower_of_two(
    start: Array, rising: Array, stop: Array, falling: Array, width: Array
) -> tuple[Array, Array]:
    """Largest value in cells of the lower of two lines, from the left and from the right end.

    And how far from the left the lines meet there; 0 where they do not.
    """
    first = np.minimum(start, stop - falling * width)
    last = np.minimum(start + rising * width, stop)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = (stop - start - falling * width) / (rising - falling)
    meets = (place > 0.0) & (place < width)
    place = np.where(meets, place, 0.0)
    meeting = np.where(meets, start + rising * place, -np.inf)
    return np.maximum(np.maximum(first, last), meeting), place
