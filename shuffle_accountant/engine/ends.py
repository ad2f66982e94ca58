"""One end of a bracket, on the grid of a plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from shuffle_accountant.engine.composition import Composition, DirectSum, TiltedSum
from shuffle_accountant.engine.loss_grids import GridTooFine, loss_grid
from shuffle_accountant.engine.plan import FINEST_RESOLUTION, Plan, Problem
from shuffle_accountant.engine.stacked import composition_of
from shuffle_accountant.lattice.convolve import BYTES_PER_POINT
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, PrivacyLoss, Tabled
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.progress import share_of_bar

__all__ = ["End", "find_end"]

_LEAST_TAIL = 1e-305
# A table takes about as long as so many rounds one by one.
_TABLE_PAYS = 12
# A coarser grid is tried where that makes the window so many times shorter.
_MUCH_LONGER = 4
# Of windows with more points than this, smaller tilts are tried, these parts of the saddle point's.
_LONG, _LIGHTER = 1 << 17, (0.75, 0.5, 0.25, 0.125, 0.0)
# What a window's rounding may be, of what is allowed, and how much shorter it must be.
_NOISE, _SHORTER = 0.1, 1.5


@dataclass(frozen=True)
class End:
    """One end's answer.

    Attributes:
        value: what was asked for: epsilon or delta.
        delta: at the answer.
        slope: ``-d log(delta) / d epsilon`` there.
        truncation: what limits it: of delta, by tails cut off.
        aliasing: of delta, by wrapped mass.
        round_off: of delta, by floating-point arithmetic.
    """

    value: float
    delta: float
    slope: float
    truncation: float
    aliasing: float
    round_off: float


def find_end(problem: Problem, plan: Plan, side: Bound) -> tuple[End, Plan]:
    """The end on that side of the truth.

    Returns:
        The end, and the plan with the spacing that memory allowed.

    Raises:
        GridTooFine: memory does not allow the spacing of direct convolution.
    """
    law: TiltedSum | DirectSum
    if plan.top is None:
        composition, law, tilt, plan = _tilted(problem, plan, side)
        near = composition.cumulants(tilt)[1]  # the epsilon that the tilt was made for
    else:
        composition = _composition(problem, plan, side)
        law, tilt, near = DirectSum(composition, plan.top), 1.0 / plan.top, 0.25 * plan.top
    if problem.query.epsilon is not None:
        value = problem.query.epsilon
    else:
        near = max(near, 0.01 * plan.spacing)
        value = _epsilon(problem, composition, law, near, max(tilt, 1.0 / problem.deviation))
        if value == math.inf:
            infinite, known = composition.infinite, composition.truncated
            return End(math.inf, infinite, 1.0 / problem.deviation, known, 0.0, 0.0), plan
    terms = law.delta(value)
    step = 0.01 / max(tilt, 0.1 / problem.deviation)
    beyond = law.delta(value + step).value
    slope = math.log(terms.value / beyond) / step if 0 < beyond < terms.value else tilt
    end = End(
        value=terms.value if problem.query.delta is None else value,
        delta=terms.value,
        slope=max(slope, tilt),
        truncation=terms.truncation,
        aliasing=terms.aliasing,
        round_off=terms.round_off,
    )
    return end, plan


def _epsilon(
    problem: Problem,
    composition: Composition,
    law: TiltedSum | DirectSum,
    near: float,
    slope: float,
) -> float:
    """Where delta is the one asked about, on the safe side."""
    target, largest = problem.query.delta, problem.largest
    assert target is not None
    if composition.side is Bound.PESSIMISTIC and composition.infinite > target:
        return largest

    def log_ratio(epsilon: float) -> float:
        found = law.delta(epsilon).value
        return math.log(found / target) if found > 0 else -math.inf

    step = 0.5 / slope  # delta changes by about a factor e^0.5
    rtol = 1e-5 * problem.tolerance  # far below the grid's share of the bracket
    crossing = find_crossing(log_ratio, largest, near, step, rtol)
    return crossing.right if composition.side is Bound.PESSIMISTIC else crossing.left


def _composition(problem: Problem, plan: Plan, side: Bound) -> Composition:
    """The grids of all losses."""
    # quantised, so that neighbouring questions share grids
    share = max(problem.share * plan.delta / problem.rounds, _LEAST_TAIL)
    # of many rounds, as few powers of ten as possible: a new one is a new table
    powers = 4 if problem.many else 1
    tail = 10.0 ** (powers * math.floor(math.log10(share / 1.5 ** (powers - 1)) / powers))
    resolution = 2.0 ** (math.floor(2.0 * math.log2(plan.resolution)) / 2.0)
    effort = Effort(
        tail=max(tail, _LEAST_TAIL),
        resolution=max(resolution, FINEST_RESOLUTION),
        most_atoms=problem.most_atoms,
        many=problem.many,
        rounds=2.0 ** math.floor(math.log2(problem.alike)),
    )
    spacing = _aligned(problem, plan.spacing)
    tables = [_table(loss) if problem.many else None for loss, _ in problem.on(side)]
    often = {table for table, count in Counter(tables).items() if table and count >= _TABLE_PAYS}
    efforts = [replace(effort, shared=True) if table in often else effort for table in tables]
    return composition_of(
        [
            (loss_grid(loss, side, spacing, own, problem.most_cells), count)
            for (loss, count), own in zip(_shown(problem, side), efforts, strict=True)
        ],
        problem.losses[0][0].divergence,
        problem.memory_limit,
    )


def _table(loss: PrivacyLoss) -> Hashable:
    return loss.table if isinstance(loss, Tabled) else None


def _shown(problem: Problem, side: Bound) -> Iterator[tuple[PrivacyLoss, int]]:
    """The losses of a side; of many, a bar that is shown moves with them, half of it a side."""
    losses = problem.on(side)
    if not problem.many:
        yield from losses
        return
    start = 0.0 if side is Bound.PESSIMISTIC else 0.5
    with share_of_bar() as report:
        for done, item in enumerate(losses):
            report(start + 0.5 * done / len(losses))
            yield item


def _aligned(problem: Problem, spacing: float) -> float:
    """The spacing, a little smaller, so that the largest loss of all lies on the grid."""
    if problem.many:
        return spacing  # whose grids the next question asks for, and no one loss decides
    largest = max(loss.largest for loss, _ in problem.losses)
    if not largest < 1e7 * spacing:
        return float(2.0 ** (math.floor(4 * math.log2(spacing)) / 4))
    return largest / math.ceil(largest / spacing)


def _tilted(
    problem: Problem, plan: Plan, side: Bound
) -> tuple[Composition, TiltedSum, float, Plan]:
    """The composition under the tilt that suits the question, within the memory limit."""
    while True:
        try:
            composition = _composition(problem, plan, side)
        except GridTooFine as error:
            plan = plan.coarser(error.factor)
            continue
        tilt, points = _lighter(problem, composition, _tilt(problem, composition))
        if plan.most_points is not None and points > _MUCH_LONGER * plan.most_points:
            plan = plan.tried(points)
            continue
        allowed = problem.memory_limit / BYTES_PER_POINT / 1.2
        if points <= allowed:
            return composition, composition.tilted(tilt), tilt, plan
        plan = plan.coarser(points / allowed)


def _tilt(problem: Problem, composition: Composition) -> float:
    """The saddle point of the question."""
    delta = problem.query.delta
    if delta is None:
        return composition.saddle_for_epsilon(problem.query.required)
    infinite = composition.infinite if composition.side is Bound.PESSIMISTIC else 0.0
    return composition.saddle_for_delta(max(delta - infinite, 0.01 * delta))


def _lighter(problem: Problem, composition: Composition, saddle: float) -> tuple[float, int]:
    """The saddle point, or a smaller tilt with a shorter window, and the points of the window.

    A tilt makes large losses likelier: where it makes rare ones as likely as all others, a window
    has to hold several of them.
    """
    tilt, points = saddle, _points(composition, saddle)
    if problem.query.delta is None or saddle == 0.0:
        return tilt, points
    allowed = _NOISE * problem.tolerance * problem.query.delta
    for part in _LIGHTER if points > _LONG else ():
        fewer = _points(composition, part * saddle)
        if _SHORTER * fewer < points and composition.noise(part * saddle, fewer) <= allowed:
            tilt, points = part * saddle, fewer
    return tilt, points


def _points(composition: Composition, tilt: float) -> int:
    first, last, _, _ = composition.window(tilt)
    return last - first + 1
