"""Makes certificates: a witness for every distinct round, and the claim that follows from them.

Nothing here has to be trusted: a witness that does not prove its claim is refused. The spacing of
losses and how far they are followed come from the package's engine; the profiles that a witness has
to stay above are those that the verifier will compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import pairwise

from flint import arb

from shuffle_accountant import validation as validate
from shuffle_accountant.certificates import balls
from shuffle_accountant.certificates.composition import GridLaw, composed
from shuffle_accountant.certificates.description import Part, parts_of
from shuffle_accountant.certificates.schema import DOCUMENT, VERSION, Certificate, check
from shuffle_accountant.certificates.verification import ORDERS, Grid, each_order
from shuffle_accountant.engine.evaluation import evaluate
from shuffle_accountant.engine.question import Query
from shuffle_accountant.randomizers.base import FiniteRandomizer
from shuffle_accountant.randomizers.channel import DiscreteRandomizer
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Grid spacings per standard deviation of a round's loss (root mean square over the rounds).
_SPACINGS = 12.0
# Cells of the first block of graded grids: for sums made anew for each point, and those made once.
_CELLS_PER_POINT, _CELLS_ONCE = 1 << 8, 1 << 9
_MOST_PLACES = 4000
# Relative excess of a claim over the bracket above which a finer grid is tried.
_EXCESS = 0.008
# Relative width of the bracket that the claim is compared with.
_TOLERANCE = 1e-3
# Factors by which the spacing is divided then, in this order.
_REFINEMENTS = (2.0, 4.0)
# Tried in this order until a grid reaches: factor of the spacing, and doublings of the cells.
_ATTEMPTS = ((1.0, 0), (1.0, 3), (4.0, 0), (16.0, 3))
# Bounds on a grid of their own are convex but for this much: relative, and in units of what is cut.
_UNEVEN = ((2.0**-40, 0), (1e-5, 1), (1e-4, 16), (1e-3, 128), (1e-2, 1024))


class _TooFarError(ValueError):
    """Losses, or ratios, lie beyond the grid that was tried."""


def certify(
    protocol: Rounds,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    memory_limit: int = 2**30,
) -> Certificate:
    """A certificate of a protocol's ε at δ, or δ at ε.

    Args:
        protocol: a round, a `Protocol` or a list of pairs (round, count). Covered are rounds of any
            ε0-LDP randomizer, of finite randomizers by their blanket, of randomized response
            against the strong adversary, with or without sampling, of several messages a user,
            with a shuffler that exposes messages; counts from a threshold on; random allocations
            with Gaussian or pure steps; tables of losses.
        memory_limit: bytes for the bracket that the grid is chosen by.
    """
    if (delta is None) == (epsilon is None):
        raise ValueError(f"give delta or epsilon, one of them: {delta!r}, {epsilon!r}")
    if delta is not None:
        query = Query(delta=validate.open_unit(delta=delta))
    else:
        query = Query(epsilon=validate.finite_nonnegative(epsilon=epsilon))
    whole = as_protocol(protocol, name="protocol")
    protocol = Protocol([(_as_channel(one), count) for one, count in whole.distinct])
    state = protocol.to_dict()
    check(state, "protocol", DOCUMENT["properties"]["protocol"])
    parts_of(state)  # refuses what is not covered before anything takes time
    pairs = [(one.reduced(), count) for one, count in protocol.in_order]
    upper = evaluate(pairs, query, _TOLERANCE, memory_limit).upper
    if query.delta is not None and not math.isfinite(upper):
        raise ValueError(f"delta must have a finite epsilon to be certified, got {delta!r}")
    squares = math.fsum(count * pair.loss.deviation**2 for pair, count in pairs)
    mean = math.sqrt(squares / max(len(protocol), 1))
    smallest = query.delta if query.delta is not None else max(upper, 1e-60)
    spacing = (mean or 1.0) / _SPACINGS
    # a kink at the largest loss, where there is one: little lies above what it is rounded up to
    finite = [(count * x, x) for pair, count in pairs if 0.0 < (x := pair.loss.largest) < math.inf]
    largest = max(finite)[1] if finite else math.inf

    def made(wanted: float, finer: int = 0) -> Certificate:
        if wanted < largest < _MOST_PLACES * wanted:
            wanted = largest / math.ceil(largest / wanted)
        return _certificate(protocol, query, wanted, smallest, finer)

    most = upper * (1.0 + _EXCESS)
    if query.epsilon is not None:  # delta, where epsilon is that much less
        less = Query(epsilon=query.epsilon / (1.0 + _EXCESS))
        most = evaluate(pairs, less, _TOLERANCE, memory_limit).upper
    best = _first(made, spacing)
    for finer in _REFINEMENTS:
        if (best.epsilon if query.epsilon is None else best.delta) <= most:
            break
        try:
            found = made(spacing / finer)
        except (_TooFarError, balls.UndecidedError):
            continue
        best = min(best, found, key=lambda one: (one.epsilon, one.delta))
    return best


def _as_channel(one: Round) -> Round:
    """The round with the channel of its randomizer for it, if certificates do not know the kind."""
    if not isinstance(one, ShuffleRound) or one.randomizer.kind in DOCUMENT["$defs"]:
        return one
    randomizer = one.randomizer
    if not isinstance(randomizer, FiniteRandomizer) or not randomizer.representable:
        return one
    return replace(one, randomizer=DiscreteRandomizer(randomizer.matrix()))


def _first(made: Callable[[float, int], Certificate], spacing: float) -> Certificate:
    """The first certificate that can be made: on finer additive grids, or with wider spacings."""
    for coarser, finer in _ATTEMPTS:
        try:
            return made(coarser * spacing, finer)
        except (_TooFarError, balls.UndecidedError) as error:
            reason = str(error)
    raise ValueError(f"rounds could not be certified: {reason}")


def _certificate(
    protocol: Protocol, query: Query, wanted: float, smallest: float, finer: int
) -> Certificate:
    state = protocol.to_dict()
    rounds = max(len(protocol), 1)
    bits = 64 + math.ceil(math.log2(rounds / smallest))
    once = any("kind" in entry["round"] for entry in state["rounds"])
    fraction, exponent = math.frexp(wanted)
    places = max(40 - exponent, 0)
    grid = Grid(
        numerator=math.ceil(math.ldexp(fraction, exponent + places)),
        exponent=places,
        bits=bits,
        cells=(_CELLS_ONCE << finer) if once else _CELLS_PER_POINT,
    )
    with balls.working_precision(grid.effort(0).precision):
        parts = parts_of(state)
        laws = [_laws(part, grid) for part in parts]
        return Certificate.from_content(
            {
                "schema": VERSION,
                "protocol": state,
                "adjacency": state["adjacency"],
                "claim": _claim(parts, laws, grid, query),
                "grid": asdict(grid),
                "witnesses": [
                    {"theorem": part.theorem, "count": part.count}
                    | {
                        order: {"first": law.first, "masses": law.masses, "infinite": law.infinite}
                        for order, law in zip(ORDERS, held, strict=False)
                    }
                    for part, held in zip(parts, laws, strict=True)
                ],
            }
        )


def _laws(part: Part, grid: Grid) -> list[GridLaw]:
    """The coarse distributions that dominate a part, one for each order."""
    last = _last_place(part, grid)
    alphas = grid.alphas(-last, 2 * last + 1)
    return [_law(alphas, one.values(alphas, grid.effort(0)), last, grid) for one in part.orders]


def _last_place(part: Part, grid: Grid) -> int:
    """The first tried place beyond which the profile falls no more than may be cut."""
    effort, spacing = grid.effort(0), float(grid.spacing)
    places = sorted({min(round(12.0 * 1.2**i), _MOST_PLACES) for i in range(-5, 33)})
    alphas = [(k * grid.spacing).exp() for k in places]
    rows = [one.values(alphas, effort) for one in part.orders]
    negligible = 2.0 ** -(effort.cut - 6)
    for i, place in enumerate(places):
        if all(float(row[i]) - min(map(float, row)) <= negligible for row in rows):
            return place
    raise _TooFarError(
        f"rounds must have losses within {places[-1] * spacing:.3g} nats to be certified together"
    )


def _law(alphas: Sequence[arb], values: Sequence[arb], last: int, grid: Grid) -> GridLaw:
    """The distribution whose profile is the convex polygon above the values.

    Raises:
        _TooFarError: values that are not convex, not even roughly.
    """
    scale = 2 * grid.bits + 64
    xs = [0, *(balls.ceiling(alpha, scale) for alpha in alphas)]
    floor = [balls.ceiling(balls.at_least(0, 1 - alpha), scale) for alpha in alphas]
    needed = [max(balls.ceiling(v, scale), low) for v, low in zip(values, floor, strict=True)]
    for i in range(len(needed) - 2, -1, -1):
        needed[i] = max(needed[i], needed[i + 1])
    for relative, cuts in _UNEVEN:
        up, least = int(relative * 2**60), cuts << (scale - grid.effort(0).cut)
        raised = [value + (value * up >> 60) + least + 1 for value in needed]
        points = list(zip(xs, [1 << scale, *raised], strict=True))
        hull = _lower_hull(points)
        if _above(hull, list(zip(xs[1:], needed, strict=True))):
            return _masses(hull, xs, last, grid)
    raise _TooFarError("the rounds' profiles could not be bounded by convex polygons")


def _lower_hull(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The vertices of the largest convex function below the points, by ascending x."""
    hull: list[tuple[int, int]] = []
    for x, y in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x1) < (y - y1) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def _above(hull: Sequence[tuple[int, int]], points: Sequence[tuple[int, int]]) -> bool:
    """Whether the polygon is at least as high as all points."""
    i = 1
    for x, y in points:
        while hull[i][0] < x:
            i += 1
        (x0, y0), (x1, y1) = hull[i - 1], hull[i]
        if (y - y0) * (x1 - x0) > (y1 - y0) * (x - x0):
            return False
    return True


def _masses(hull: Sequence[tuple[int, int]], xs: Sequence[int], last: int, grid: Grid) -> GridLaw:
    """The distribution of a polygon.

    Changes of slope are Q-masses; P-masses are rounded down, and the rest is infinite.
    """
    place = {x: i for i, x in enumerate(xs[1:])}
    slopes = [arb(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in pairwise(hull)]
    slopes.append(arb(0))
    masses = [0] * (2 * last + 1)
    for i, (x, _) in enumerate(hull[1:]):
        alpha = ((place[x] - last) * grid.spacing).exp()
        mass = alpha * (slopes[i + 1] - slopes[i])
        masses[place[x]] = max(-balls.ceiling(-mass, grid.bits), 0)
    infinite = (1 << grid.bits) - sum(masses)
    if infinite < 0:
        raise ValueError("the profile of a round could not be followed at this precision")
    return GridLaw(-last, tuple(masses), infinite, grid.bits)


def _claim(
    parts: list[Part], held: list[list[GridLaw]], grid: Grid, query: Query
) -> dict[str, float]:
    """The larger of both orders' answers, rounded up."""
    laws = [composed(chosen, grid.effort(0)) for chosen in each_order(parts, held)]
    if query.epsilon is not None:
        epsilon = balls.exact(query.epsilon)
        # slightly above the balls' upper ends
        deltas = [float(law.delta(epsilon, grid.spacing).upper()) for law in laws]
        delta = max(*deltas, 0.0) * (1.0 + 2.0**-40)
        return {"epsilon": query.epsilon, "delta": min(delta, 1.0)}
    assert query.delta is not None
    epsilon_up = max(_epsilon(law, balls.exact(query.delta), grid.spacing) for law in laws)
    return {"epsilon": epsilon_up, "delta": query.delta}


def _epsilon(law: GridLaw, delta: arb, spacing: arb) -> float:
    """Epsilon (nats) at which the law's profile, a polygon in alpha, passes delta, rounded up.

    Raises:
        _TooFarError: it never does.
    """
    left, height = arb(1), law.delta(arb(0), spacing)
    if height <= delta:
        return 0.0
    values, _ = law.profile(spacing)
    for place, value in enumerate(values, start=law.first):
        if place <= 0:
            continue
        alpha = (place * spacing).exp()
        if value <= delta:
            share = (height - delta) / (height - value)
            found = (left + share * (alpha - left)).log()
            if not found.is_finite():
                raise balls.UndecidedError("where the profile passes delta")
            return float(found.upper()) * (1.0 + 2.0**-40) + 2.0**-1000
        left, height = alpha, value
    raise _TooFarError(
        f"delta must be above the mass at infinite loss to be certified, got {float(delta)!r}"
    )
