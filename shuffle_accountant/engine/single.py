"""One round: delta(epsilon) as a finite sum, no grid, and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable

from shuffle_accountant.bracket import ErrorLedger
from shuffle_accountant.engine.question import Query
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.roots import find_crossing

__all__ = ["single_delta", "single_epsilon", "what_limits"]

# Blocks of decoy counts this much relative width change epsilon by half of it at most; counts below
# its inverse are all taken one by one, and the answer is exact to round-off.
RESOLUTION = 1e-5

# How closely epsilon is located before it is located exactly.
_ROUGH = 1e-3
# How closely delta is located before it is known how much may be cut off.
_ROUGHER = 1e-2

_SMALLEST_TAIL = 1e-320
_NEGLIGIBLE = 1e-14  # of delta


def single_delta(
    loss: PrivacyLoss, epsilon: float, resolution: float = RESOLUTION
) -> tuple[float, float, ErrorLedger]:
    """Bracket (lower, upper, ledger) of delta at epsilon for one round, in the worse direction."""
    tail = 1e-20
    # how much may be cut off is found out roughly, then put to the proof
    for blocks in (max(resolution, _ROUGHER), resolution):
        while True:
            effort = Effort(tail, blocks)
            low = _worse(loss, epsilon, Bound.OPTIMISTIC, effort)
            high = _worse(loss, epsilon, Bound.PESSIMISTIC, effort)
            if tail <= low * _NEGLIGIBLE or tail <= _SMALLEST_TAIL or high == 0.0:
                break
            # a tail of a third of the decimals of what is known of delta takes few rounds
            tail = max(low * _NEGLIGIBLE, tail**3, _SMALLEST_TAIL) if low > 0 else _SMALLEST_TAIL
        if low == 0.0:
            break  # narrower blocks would not change that
    cut = min(tail, high - low)
    return low, high, ErrorLedger(discretisation=max(high - low - cut, 0.0), truncation=cut)


def single_epsilon(
    loss: PrivacyLoss, delta: float, resolution: float = RESOLUTION
) -> tuple[float, float, ErrorLedger]:
    """Bracket (lower, upper, ledger) of epsilon at delta for one round."""
    effort = Effort(max(delta * _NEGLIGIBLE, _SMALLEST_TAIL), resolution)

    def excess(side: Bound, effort: Effort) -> Callable[[float], float]:
        def function(epsilon: float) -> float:
            value = _worse(loss, epsilon, side, effort)
            return math.log(value / delta) if value > 0 else -math.inf

        return function

    largest = loss.largest
    if largest == math.inf:
        if _worse(loss, math.inf, Bound.OPTIMISTIC, effort) > delta:
            return math.inf, math.inf, ErrorLedger()
        certain = _worse(loss, math.inf, Bound.PESSIMISTIC, effort) <= delta
        largest = _beyond(excess(Bound.PESSIMISTIC if certain else Bound.OPTIMISTIC, effort))
    else:
        certain = True
    # a normal law's quantile, as a place to start from, then a cheap answer
    guess = min(loss.deviation * math.sqrt(-2.0 * math.log(delta)), 0.999 * largest)
    step, slope = 0.1 * min(loss.deviation, largest), math.nan
    if resolution < _ROUGH:
        rough = excess(
            Bound.PESSIMISTIC if certain else Bound.OPTIMISTIC, Effort(effort.tail, _ROUGH)
        )
        _, guess, slope = find_crossing(rough, largest, guess, step, 1e-2 * _ROUGH)
        step = min(step, 0.1 * _ROUGH * guess)
    rtol = max(1e-13, 1e-5 * resolution)  # far below what blocks may cost
    below = excess(Bound.OPTIMISTIC, effort)
    if not certain:
        lower = find_crossing(below, largest, guess, step, rtol, slope).left
        return lower, math.inf, ErrorLedger(discretisation=math.inf)
    above = excess(Bound.PESSIMISTIC, effort)
    _, upper, slope = find_crossing(above, largest, guess, step, rtol, slope)
    step = 0.01 * resolution * upper
    lower = find_crossing(below, upper, upper, step, rtol, slope).left
    return lower, upper, ErrorLedger(discretisation=max(upper - lower, 0.0))


def what_limits(
    loss: PrivacyLoss,
    query: Query,
    answer: tuple[float, float, ErrorLedger],
    tolerance: float,
) -> str | None:
    """What keeps one round's bracket wider than the tolerance, measured in epsilon, if it is.

    Args:
        loss: the round's.
        query: what was asked.
        answer: lower end, upper end and ledger.
        tolerance: relative width in epsilon.
    """
    lower, upper, ledger = answer
    if lower == upper or upper <= 5e-324:
        return None
    if query.delta is not None:
        # an epsilon far below the spread of the loss is 0 for all purposes
        wide = upper - lower > tolerance * max(upper, 1e-3 * loss.deviation)
    else:
        wide = lower <= upper * math.exp(-tolerance)
        if wide and lower > 0.0:
            step = 0.01 * loss.deviation
            beyond = _worse(loss, query.required + step, Bound.OPTIMISTIC, Effort(1e-300, _ROUGH))
            steps = math.log(lower / beyond) / step if 0.0 < beyond < lower else 0.0
            wide = math.log(upper / lower) > tolerance * max(1.0, steps * query.required)
    return ledger.limited_by if wide else None


def _beyond(excess: Callable[[float], float]) -> float:
    """A finite point where a function that is negative at infinity is negative."""
    point = 1.0
    while point < 1e300 and excess(point) > 0:
        point *= 8.0
    return point


def _worse(loss: PrivacyLoss, epsilon: float, side: Bound, effort: Effort) -> float:
    """The larger delta of the pair and its reverse; neighbours may be either way round."""
    value = loss.delta(epsilon, side, effort)
    if loss.reversed is not loss:
        value = max(value, loss.reversed.delta(epsilon, side, effort))
    return value
