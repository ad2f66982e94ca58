"""From a question to two ends by grids: answer from both sides, refine until close enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from shuffle_accountant.bracket import ErrorLedger, in_order
from shuffle_accountant.engine.ends import (
    End,
    Plan,
    Problem,
    direct_plan,
    earlier_end,
    find_end,
    finer,
    first_plan,
)
from shuffle_accountant.engine.question import Answer, Query, excess
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import GridTooFine, PrivacyLoss
from shuffle_accountant.numerics.rounding import LIMITS, Bound


@dataclass(frozen=True)
class _Ends:
    """Both ends; every pair is valid, so their intersection is."""

    lower: End
    upper: End

    def within(self, other: _Ends | None) -> _Ends:
        """The better end of each side: the larger lower one and the smaller upper one."""
        if other is None:
            return self
        return _Ends(
            lower=max(self.lower, other.lower, key=lambda end: end.value),
            upper=min(self.upper, other.upper, key=lambda end: end.value),
        )

    @property
    def limited(self) -> bool:
        """Whether the accuracy of single rounds, and not the grid, decides an end."""
        return self.upper.limited or self.lower.limited

    @property
    def out_of_reach(self) -> bool:
        """Whether the transform's rounding, and not the grid, decides the bracket."""
        return _out_of_reach(self.upper, self.lower)


def _out_of_reach(*ends: End) -> bool:
    """Whether the transform's rounding, and not the grid, decides the ends."""
    noise = sum(end.delta.round_off + end.delta.aliasing for end in ends)
    return noise > 0.1 * max(end.delta.value for end in ends)


def refine(
    losses: Sequence[tuple[PrivacyLoss, int]],
    query: Query,
    tolerance: float,
    memory_limit: int,
    largest: float,
    below: Sequence[tuple[PrivacyLoss, int]] | None = None,
) -> Answer:
    """Refine until the bracket is narrow enough, or memory or patience ends.

    Args:
        losses: losses of the distinct rounds, with their counts, two rounds at least in all.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        memory_limit: bytes.
        largest: no sum of losses is larger, nats.
        below: losses for the lower end, if they are others.
    """
    losses, below = tuple(losses), tuple(losses if below is None else below)
    problem = Problem(losses, below, query, tolerance, memory_limit, largest)
    earlier = [earlier_end(problem, side) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)]
    if earlier[0] is not None and earlier[1] is not None:
        ends = _Ends(earlier[0], earlier[1])
        if ends.upper.value <= LIMITS.underflow or _excess(problem, ends) <= 1.0:
            return _answer(problem, ends)
    ends, plan = _by_transforms(problem)
    wide = _excess(problem, ends)
    # without a lower end the transform has failed, however well single rounds are known
    known = not (problem.gathered or (ends.limited and ends.lower.value > 0.0))
    if known and wide > 1.0:
        ends = _directly(problem, plan, ends)
    return _answer(problem, ends, limited=plan.limited)


def lower_end(
    losses: Sequence[tuple[PrivacyLoss, int]],
    query: Query,
    tolerance: float,
    memory_limit: int,
    largest: float,
) -> float:
    """As `refine`, the best lower end of a few grids, for losses known from below only."""
    losses = tuple(losses)
    problem = Problem(losses, losses, query, tolerance, memory_limit, largest)
    first = replace(first_plan(problem), most_points=None)
    end, plan = find_end(problem, first, Bound.OPTIMISTIC)
    for _ in range(SETTINGS.few_grids):
        resolution = max(0.25 * plan.resolution, SETTINGS.finest_resolution)
        plan = replace(plan, spacing=0.5 * plan.spacing, resolution=resolution)
        other, plan = find_end(problem, plan, Bound.OPTIMISTIC)
        gain = other.value - end.value
        end = max(end, other, key=lambda end: end.value)
        if plan.limited or gain <= 0.1 * tolerance * end.value:
            break
    if end.value > 0.0 and _out_of_reach(end):
        for doubled in range(2):
            found = _direct_ends(problem, plan, end, doubled, (Bound.OPTIMISTIC,))
            if found is None:
                break
            end = max(end, *found, key=lambda end: end.value)
    return end.value


def _by_transforms(problem: Problem) -> tuple[_Ends, Plan]:
    """The best ends of a series of grids, and the last plan."""
    plan = _with_scale(problem, first_plan(problem))
    best: _Ends | None = None
    hopeless = endless = 0
    cut = math.inf  # off delta, on the grid before
    for _ in range(SETTINGS.few_grids if problem.gathered else SETTINGS.most_grids):
        before = plan
        ends, plan = _both(problem, plan)
        best = ends = ends.within(best)
        wide = _excess(problem, ends)
        if plan.spacing > before.spacing and not plan.limited and wide > 1.0:
            # the coarser grid did not do: as fine as it needs to be, but no finer than planned
            enough = finer(problem, plan, wide)
            plan = enough if enough.spacing > before.spacing else before
            plan = replace(plan, most_points=None)
            continue
        plan = replace(plan, most_points=None)
        hopeless += ends.lower.value == 0.0
        endless += ends.upper.value == math.inf
        if problem.query.delta is None and hopeless >= SETTINGS.few_grids:
            break  # delta there is below what double precision can tell from 0
        if endless >= SETTINGS.few_grids:
            break  # more mass than delta is nowhere but at infinity, on a finer grid too
        falls, cut = ends.upper.delta.truncation < 0.5 * cut, ends.upper.delta.truncation
        if _too_coarse_a_tail(problem, plan, ends):
            # the lower end of delta or, if that is 0, far less than was assumed
            found = ends.lower.value if ends.lower.value > 0 else plan.delta**3
            least = max(min(found, 1e-6 * plan.delta), LIMITS.underflow)
            # a tail that stays where it is gets one last chance
            plan = replace(plan, delta=least if falls else LIMITS.underflow)
            continue
        stalled = plan.previous is not None and (
            wide > SETTINGS.stalled * plan.previous[1]
            or (problem.gathered and _left_by_any_grid(plan, wide) > 1.0)
        )
        # where the profile of a round is known too loosely, one finer grid may help, two do not
        hopeless_rounds = ends.limited and plan.previous is not None
        if wide <= 1.0 or stalled or plan.limited or hopeless_rounds or ends.out_of_reach:
            break
        plan = finer(problem, plan, wide)
    assert best is not None
    return best, plan


def _with_scale(problem: Problem, plan: Plan) -> Plan:
    """The plan for about the delta there is, where it seems to be far below what is expected."""
    query = problem.query
    if query.delta is not None or query.least is not None or problem.gathered:
        return plan
    squares = query.required * query.required, problem.deviation * problem.deviation
    if squares[0] < -2.0 * math.log(plan.delta) * squares[1]:
        return plan
    # with too coarse a tail the lower end is still close, and cheaper than both
    end, _ = find_end(problem, plan, Bound.OPTIMISTIC)
    if not LIMITS.underflow < end.value < plan.delta:
        return plan
    return replace(plan, delta=end.value)


def _directly(problem: Problem, plan: Plan, ends: _Ends) -> _Ends:
    """The ends, narrowed by direct convolution."""
    for doubled in range(SETTINGS.few_grids):
        both = _direct_ends(problem, plan, ends.upper, doubled, tuple(Bound))
        if both is None:
            break
        found = _Ends(upper=both[0], lower=both[1])
        ends = found.within(ends)
        if _excess(problem, ends) <= 1.0 or found.upper.value == math.inf:
            break  # more cells would not hold what is beyond the window
        if found.limited and found.lower.value > 0.0:
            break  # what is known of single rounds decides, which takes most of the time
    return ends


def _direct_ends(
    problem: Problem, plan: Plan, known: End, doubled: int, sides: tuple[Bound, ...]
) -> list[End] | None:
    """Ends by direct convolution on cells ``doubled`` times; None where no such grid fits."""
    epsilon = known.value if problem.query.delta is not None else problem.query.required
    direct = direct_plan(problem, plan, epsilon, SETTINGS.direct_cells << doubled)
    if direct is None:
        return None
    try:
        return [find_end(problem, direct, side)[0] for side in sides]
    except GridTooFine:
        return None


def _both(problem: Problem, plan: Plan) -> tuple[_Ends, Plan]:
    """Both ends on one plan, and that plan within the memory limit."""
    upper, plan = find_end(problem, plan, Bound.PESSIMISTIC)
    lower, plan = find_end(problem, plan, Bound.OPTIMISTIC)
    return _Ends(lower, upper), plan


def _excess(problem: Problem, ends: _Ends) -> float:
    """Width of the bracket over the width allowed."""
    return excess(
        problem.query,
        ends.lower.value,
        ends.upper.value,
        tolerance=problem.tolerance,
        deviation=problem.deviation,
        slope=ends.upper.slope,
    )


def _left_by_any_grid(plan: Plan, wide: float) -> float:
    """The excess that no grid would remove, if the rest falls linearly with the spacing."""
    assert plan.previous is not None
    spacing, before = plan.previous
    return wide - (before - wide) / max(spacing / plan.spacing - 1.0, 1e-9)


def _too_coarse_a_tail(problem: Problem, plan: Plan, ends: _Ends) -> bool:
    """Whether delta turned out so small that less must be cut off."""
    if problem.query.delta is not None or plan.delta <= 1e-290:
        return False
    return ends.upper.delta.truncation > 0.1 * problem.tolerance * ends.upper.value


def _answer(problem: Problem, ends: _Ends, *, limited: bool = False) -> Answer:
    """The answer: both ends, their error budget, and what limited them, such as memory."""
    upper, lower = ends.upper, ends.lower
    low, high = in_order(lower.value, upper.value)
    memory = "the memory limit" if limited else None
    if high == math.inf:  # what was cut off may be more than delta
        ledger = ErrorLedger(truncation=math.inf, method="grid")
        return Answer(lower=low, upper=high, ledger=ledger, cause=memory or "truncation")
    width = high - low
    # the ledger's unit is the answer's: delta's errors become epsilon's through the slope
    unit = 1.0
    if problem.query.delta is not None:
        unit = 1.0 / max(max(upper.slope(), 1e-300) * problem.query.delta, 1e-300)
    over, under = upper.delta, lower.delta
    truncation = min((over.truncation + under.truncation) * unit, width)
    aliasing = min((over.aliasing + under.aliasing) * unit, width - truncation)
    round_off = min((over.round_off + under.round_off) * unit, width - truncation - aliasing)
    ledger = ErrorLedger(
        discretisation=max(width - truncation - aliasing - round_off, 0.0),
        truncation=truncation,
        aliasing=max(aliasing, 0.0),
        round_off=max(round_off, 0.0),
        method="grid",
    )
    cause = (memory or ledger.limited_by) if _excess(problem, ends) > 1.0 else None
    return Answer(lower=low, upper=high, ledger=ledger, cause=cause)
