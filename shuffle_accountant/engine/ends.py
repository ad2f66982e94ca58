"""One end of a bracket, on the grid of a plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from shuffle_accountant.engine.composition import Composition, TiltedSum
from shuffle_accountant.engine.plan import Plan, Problem
from shuffle_accountant.engine.rare_losses import (
    DirectSum,
    RareLosses,
    SplitSum,
    without_rare_losses,
)
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.stacked import StackedComposition
from shuffle_accountant.lattice.convolve import BYTES_PER_POINT
from shuffle_accountant.lattice.discretize import SUBCELLS, discretize
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import Effort, EqualCells, GridTooFine, PrivacyLoss, Tabled
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import LIMITS, Bound
from shuffle_accountant.progress import share_of_bar


# The cache holds the grids of a few questions about a thousand different rounds, usually.
@kept(1 << 26, lambda grid: grid.mass.nbytes)
def loss_grid(
    loss: PrivacyLoss, side: Bound, spacing: float, effort: Effort, most_cells: float
) -> PldGrid:
    """The loss on the grid; cached, so that neighbouring questions cost no rebuilding.

    Args:
        loss: the loss to discretise.
        side: direction of the rounding.
        spacing: distance of grid points, nats.
        effort: accuracy with which the loss is resolved.
        most_cells: cells between 0 and the largest loss that memory allows.

    Raises:
        GridTooFine: more cells than that would be needed.
    """
    finer = 1 if side is Bound.PESSIMISTIC else SUBCELLS
    edges = EqualCells(spacing / finer, most_cells * finer)
    grid = discretize(loss.atoms(side, edges, effort), spacing)
    if not grid.mass.any():
        # all mass is at infinity: something to take averages over, too little to be seen
        return replace(grid, offset=0, mass=np.full(1, LIMITS.underflow))
    return grid


@dataclass(frozen=True)
class End:
    """One end of the bracket, and what its error is made of.

    Attributes:
        value: the end of epsilon or delta, whichever was asked for.
        delta: at that epsilon.
        slope: ``-d log(delta) / d epsilon`` there.
        truncation: error of delta by tails cut off.
        aliasing: error of delta by wrapped mass.
        round_off: error of delta by floating-point arithmetic.
        limited: whether what is known of single rounds decides, and no grid.
    """

    value: float
    delta: float
    slope: float
    truncation: float
    aliasing: float
    round_off: float
    limited: bool = False


def find_end(problem: Problem, plan: Plan, side: Bound) -> tuple[End, Plan]:
    """Compute the upper (PESSIMISTIC) or lower (OPTIMISTIC) end on the plan's grid.

    Returns:
        The end, and the plan with the spacing that memory allowed.

    Raises:
        GridTooFine: memory does not allow the spacing of direct convolution.
    """
    law: TiltedSum | SplitSum | DirectSum
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
        limited=composition.limited,
    )
    return end, plan


def _epsilon(
    problem: Problem,
    composition: Composition,
    law: TiltedSum | SplitSum | DirectSum,
    near: float,
    slope: float,
) -> float:
    """The epsilon at which delta is the one asked about, rounded to the safe side."""
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
    """The composition of all losses of a side, each on its grid."""
    # quantised, so that neighbouring questions share grids
    share = max(problem.share * plan.delta / problem.rounds, LIMITS.underflow)
    # for many losses, as few powers of ten as possible: a new one is a new table
    powers = 4 if problem.many else 1
    tail = 10.0 ** (powers * math.floor(math.log10(share / 1.5 ** (powers - 1)) / powers))
    resolution = 2.0 ** (math.floor(2.0 * math.log2(plan.resolution)) / 2.0)
    effort = Effort(
        tail=max(tail, LIMITS.underflow),
        resolution=max(resolution, SETTINGS.finest_resolution),
        most_atoms=problem.most_atoms,
        many=problem.many,
        rounds=2.0 ** math.floor(math.log2(problem.alike)),
    )
    spacing = _aligned(problem, plan.spacing)
    tables = [_table(loss) if problem.many else None for loss, _ in problem.on(side)]
    often = {
        table
        for table, count in Counter(tables).items()
        if table and count >= SETTINGS.many_losses // 2
    }
    efforts = [replace(effort, shared=True) if table in often else effort for table in tables]
    parts = [
        (loss_grid(loss, side, spacing, own, problem.most_cells), count)
        for (loss, count), own in zip(_shown(problem, side), efforts, strict=True)
    ]
    divergence = problem.losses[0][0].divergence
    if problem.many and StackedComposition.fits(parts, problem.memory_limit):
        return StackedComposition(parts, divergence)
    return Composition(parts, divergence)


def _table(loss: PrivacyLoss) -> Hashable:
    return loss.table if isinstance(loss, Tabled) else None


def _shown(problem: Problem, side: Bound) -> Iterator[tuple[PrivacyLoss, int]]:
    """Iterate over the losses of a side; if they are many, advance the progress bar by half."""
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
) -> tuple[Composition, TiltedSum | SplitSum, float, Plan]:
    """The composition under the tilt that suits the question, within the memory limit.

    Returns:
        What the tilt was made for (all losses, or all but rare ones), the law of all, the tilt, and
        the plan.
    """
    while True:
        try:
            composition = _composition(problem, plan, side)
        except GridTooFine as error:
            plan = plan.coarser(error.factor)
            continue
        tilt, rare = _tilt(problem, composition), None
        points = _points(composition, tilt)
        if points > SETTINGS.long_window:
            found = _split(problem, composition)
            if found is not None and 1.5 * found[3] < points:  # shorter by enough to pay
                composition, rare, tilt, points = found
        if plan.most_points is not None and points > 4 * plan.most_points:
            plan = plan.tried(points)
            continue
        allowed = problem.memory_limit / BYTES_PER_POINT / 1.2
        if points <= allowed:
            law = composition.tilted(tilt)
            return composition, law if rare is None else SplitSum(law, rare), tilt, plan
        plan = plan.coarser(points / allowed)


def _tilt(problem: Problem, composition: Composition) -> float:
    """The tilt of the question: the saddle point for its epsilon or delta."""
    delta = problem.query.delta
    if delta is None:
        return composition.saddle_for_epsilon(problem.query.required)
    infinite = composition.infinite if composition.side is Bound.PESSIMISTIC else 0.0
    return composition.saddle_for_delta(max(delta - infinite, 0.01 * delta))


def _split(
    problem: Problem, composition: Composition
) -> tuple[Composition, RareLosses, float, int] | None:
    """All but rare losses, those, the tilt, and the points of the window; None if none are rare.

    The cut begins six deviations above epsilon and moves up until what is missed is at most a tenth
    of the relative error allowed in delta; None as well if eight cuts do not do.
    """
    query = problem.query
    cut = (query.required if query.delta is None else problem.deviation) + 6.0 * problem.deviation
    for _ in range(8):
        others = without_rare_losses(composition, cut)
        if others is None:
            return None
        tilt = _tilt(problem, others)
        near = query.required if query.delta is None else others.cumulants(tilt)[1]
        rare = RareLosses(composition, others, near)
        delta = query.delta
        if delta is None:
            delta = math.exp(min(others.log_delta(tilt), 0.0)) + rare.delta(near).value
        if near < cut and rare.delta(near).aliasing <= 0.1 * problem.tolerance * delta:
            return others, rare, tilt, _points(others, tilt)
        cut *= 1.5
    return None


def _points(composition: Composition, tilt: float) -> int:
    first, last, _, _ = composition.window(tilt)
    return last - first + 1
