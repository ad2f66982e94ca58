"""One round: delta(epsilon) as a finite sum, no grid, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from shuffle_accountant.bracket import ErrorLedger, in_order
from shuffle_accountant.engine.question import Answer, Query, excess
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import Effort, PrivacyLoss, way_of
from shuffle_accountant.numerics.probabilities import about_epsilon
from shuffle_accountant.numerics.roots import find_crossing
from shuffle_accountant.numerics.rounding import LIMITS, NORMAL, Bound


def single_answer(loss: PrivacyLoss, query: Query, tolerance: float, resolution: float) -> Answer:
    """The answer for one round, in the worse of the two directions.

    Args:
        loss: the round's.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        resolution: relative width of the blocks to begin with.
    """

    def slope() -> float:
        """``-d log(delta) / d epsilon`` at the lower end of delta."""
        step = 0.01 * loss.deviation
        effort = _effort(lower, SETTINGS.rough)
        beyond = _worse(loss, query.required + step, Bound.OPTIMISTIC, effort)
        return math.log(lower / beyond) / step if 0.0 < beyond < lower else 0.0

    lower, upper, ledger, effort = 0.0, math.inf, ErrorLedger(), _effort(0.0, resolution)
    for _ in range(SETTINGS.few_grids):
        width = upper - lower
        if query.delta is not None:
            found = _epsilon(loss, query.delta, resolution)
        else:
            found = _delta(loss, query.required, resolution)
        if found[1] - found[0] > width:  # narrower blocks are more messages, too many perhaps
            break
        lower, upper, ledger, effort = found
        size = {"tolerance": tolerance, "deviation": loss.deviation}
        wide = excess(query, lower, upper, slope=slope, **size)
        # a width that blocks do not decide stays as it is
        if wide <= 1.0 or wide == math.inf or upper - lower >= 0.5 * width:
            break
        finer = resolution * max(1.0 / 16.0, SETTINGS.aim / wide**2)
        if query.delta is not None:
            before, after = (_apart(loss, lower, query.delta, part) for part in (resolution, finer))
            if after > max(0.5, 1.0 / wide) * before:  # neither half as wide nor narrow enough
                break
        resolution = finer
    cause = ledger.limited_by if wide > 1.0 else None
    at = query.required if query.delta is None else upper
    ledger = replace(ledger, method=way_of(loss, at, effort))
    return Answer(lower=lower, upper=upper, ledger=ledger, cause=cause)


def upper_delta(loss: PrivacyLoss, *, epsilon: float, delta: float, tolerance: float) -> float:
    """Upper end of one round's delta at epsilon >= 0 (nats), by one evaluation.

    It is as tight as the tolerance asks for near ``delta``, in (0, 1).
    """
    return _worse(loss, epsilon, Bound.PESSIMISTIC, _effort(delta, blocks_of(tolerance)))


def _effort(delta: float, resolution: float) -> Effort:
    """The effort for a delta of about this size."""
    return Effort(max(delta * SETTINGS.negligible, NORMAL), resolution)


def blocks_of(tolerance: float) -> float:
    """Relative width of the blocks to begin with, for a tolerance."""
    # half the width of a block is its share of the bracket; the rest is exact
    return max(1e-5, 0.025 * tolerance) if tolerance > 1e-5 else 0.1 * tolerance


def _delta(
    loss: PrivacyLoss, epsilon: float, resolution: float
) -> tuple[float, float, ErrorLedger, Effort]:
    """Lower end, upper end and error budget of delta at epsilon, and the effort of both ends."""
    tail, low, high = SETTINGS.negligible, 0.0, 1.0
    # how much may be cut off is found out roughly, then put to the proof
    for blocks in (max(resolution, SETTINGS.rough), resolution):
        if low > 0.0:  # the rough look may have cut off far less than it had to
            tail = max(tail, low * SETTINGS.negligible)
        while True:
            effort = Effort(tail, blocks)
            low = _worse(loss, epsilon, Bound.OPTIMISTIC, effort)
            high = _worse(loss, epsilon, Bound.PESSIMISTIC, effort)
            if tail <= low * SETTINGS.negligible or tail <= NORMAL or high == 0.0:
                break
            # three times the decimals each time takes few rounds, and goes no further than need be
            tail = max(low * SETTINGS.negligible, tail**3, NORMAL)
        if low == 0.0:
            break  # narrower blocks would not change that
    low, high = in_order(low, high)
    cut = min(tail, high - low)
    ledger = ErrorLedger(discretisation=max(high - low - cut, 0.0), truncation=cut)
    return low, high, ledger, effort


def _epsilon(
    loss: PrivacyLoss, delta: float, resolution: float
) -> tuple[float, float, ErrorLedger, Effort]:
    """Lower end, upper end and error budget of epsilon at delta, and the effort of both ends."""
    effort = _effort(delta, resolution)

    def log_ratio(side: Bound, effort: Effort) -> Callable[[float], float]:
        @cache
        def function(epsilon: float) -> float:
            value = _worse(loss, epsilon, side, effort)
            return math.log(value / delta) if value > 0 else -math.inf

        return function

    largest, certain = loss.largest, True
    if largest == math.inf:
        if _worse(loss, math.inf, Bound.OPTIMISTIC, effort) > delta:
            return math.inf, math.inf, ErrorLedger(), effort
        certain = _worse(loss, math.inf, Bound.PESSIMISTIC, effort) <= delta
    # start from the epsilon of a normal loss, then from that of a cheap answer
    step, guess, slope = 0.1 * min(loss.deviation, largest), 0.0, math.nan
    if loss.deviation > LIMITS.underflow:
        guess, slope = about_epsilon(min(loss.deviation, LIMITS.farthest_score), delta)
    guess = min(max(guess, step), 0.999 * largest)
    if resolution < SETTINGS.rough:
        quick = Effort(effort.tail, SETTINGS.rough)
        rough = log_ratio(Bound.PESSIMISTIC if certain else Bound.OPTIMISTIC, quick)
        near = find_crossing(rough, largest, guess, step, 0.1 * SETTINGS.rough, slope)
        # nothing can be read off the largest loss, where delta is 0
        guess, slope = near.right if near.right < largest else near.left, near.slope
        if certain and guess == 0.0:  # the total variation is no more than delta
            return 0.0, 0.0, ErrorLedger(), effort
        step = min(step, 0.1 * SETTINGS.rough * guess)
        if certain and slope < 0.0:
            apart = rough(guess) - log_ratio(Bound.OPTIMISTIC, quick)(guess)
            if apart <= -slope * resolution * guess:  # no need of narrower blocks
                effort = quick
    below = log_ratio(Bound.OPTIMISTIC, effort)
    rtol = 1e-5 * resolution  # far below what blocks may cost
    if not certain:
        lower = find_crossing(below, largest, guess, step, rtol, slope).left
        return lower, math.inf, ErrorLedger(discretisation=math.inf), effort
    above = log_ratio(Bound.PESSIMISTIC, effort)
    rtol = max(rtol, 1e-13)
    width = 0.0
    if slope < 0.0 and not math.isnan(apart := above(guess) - below(guess)):
        # ends that are good to a thirtieth of the bracket's width are close enough
        width = min(apart / -slope, 0.1 * guess)
        rtol = max(rtol, min(0.03 * width / guess, resolution))
    _, upper, slope = find_crossing(above, largest, guess, step, rtol, slope)
    step = max(0.01 * resolution * upper, 0.1 * width)
    lower = find_crossing(below, upper, max(upper - width, 0.0), step, rtol, slope).left
    if lower == upper < largest:  # delta's lower end is larger than asked there
        lower = find_crossing(below, largest, upper, step, rtol, slope).left
    lower, upper = in_order(lower, upper)
    return lower, upper, ErrorLedger(discretisation=upper - lower), effort


def _apart(loss: PrivacyLoss, epsilon: float, delta: float, resolution: float) -> float:
    """Logarithm of delta's upper end at epsilon over its lower end, nats."""
    high, low = (_worse(loss, epsilon, side, _effort(delta, resolution)) for side in Bound)
    return math.log(high / low) if low > 0.0 else math.inf


def _worse(loss: PrivacyLoss, epsilon: float, side: Bound, effort: Effort) -> float:
    """The larger delta of the pair and its reverse; neighbours may be either way round."""
    value = loss.delta(epsilon, side, effort)
    if loss.reversed is not loss:
        value = max(value, loss.reversed.delta(epsilon, side, effort))
    return value
