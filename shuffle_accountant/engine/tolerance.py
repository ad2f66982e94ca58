"""When a bracket counts as wide, and the warnings about answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from shuffle_accountant.bracket import Bracket, FloorWarning, WeakPrivacyWarning, warn_loose
from shuffle_accountant.engine.question import Query
from shuffle_accountant.numerics.rounding import BELOW_ONE

__all__ = ["excess", "warn_if_below_floor", "warn_if_delta_is_large", "warn_if_loose"]

# The smallest number above 0; a delta that is not larger is 0 but for rounding.
_LEAST = 5e-324
# Below this part of the loss's standard deviation, epsilon is 0 for all purposes.
_SPREAD = 1e-3


def excess(
    query: Query,
    lower: float,
    upper: float,
    *,
    tolerance: float,
    deviation: float,
    slope: Callable[[], float],
) -> float:
    """Width of a bracket over the width that the tolerance allows, both measured in epsilon.

    Args:
        query: the question.
        lower: lower end.
        upper: upper end.
        tolerance: relative width in epsilon.
        deviation: standard deviation of the loss, nats.
        slope: computes ``-d log(delta) / d epsilon``, by which a width in log-delta is one in
            epsilon; called only if that decides.

    Returns:
        At most 1 if the tolerance is met; inf if the ends say too little for a ratio.
    """
    if lower == upper or upper <= _LEAST:
        return 0.0
    if query.delta is not None:
        if upper == math.inf:
            return math.inf
        return (upper - lower) / max(tolerance * max(upper, _SPREAD * deviation), _LEAST)
    if lower <= 0.0:
        return math.inf
    wide = math.log(upper / lower) / tolerance
    # a relative width in epsilon is one of epsilon times the slope in log-delta, and less than
    # the tolerance in delta itself is never required
    return wide / max(1.0, slope() * query.required) if wide > 1.0 else wide


def warn_if_loose(found: Bracket, cause: str | None, tolerance: float) -> None:
    """Warn, at the caller's line, that the bracket is wider than the tolerance, if it is.

    Args:
        found: the bracket.
        cause: reason why it is wide; None if it is not.
        tolerance: relative width in epsilon that was asked for.
    """
    if cause is not None:
        warn_loose(
            f"bracket [{found.lower!r}, {found.upper!r}] is wider than tolerance {tolerance!r}: "
            f"limited by {cause}"
        )


def warn_if_below_floor(
    found: Bracket, query: Query, floors: Iterable[tuple[Bracket | None, int]]
) -> None:
    """Warn, at the caller's line, if epsilon is infinite because of what dummies leave open.

    Args:
        found: the answer.
        query: the question.
        floors: for each distinct round, the delta that no epsilon makes smaller, and the count.
    """
    if query.delta is None or found.lower < math.inf:
        return
    known = [(floor.lower, count) for floor, count in floors if floor is not None]
    kept = sum(count * math.log1p(-min(floor, BELOW_ONE)) for floor, count in known)
    least = -math.expm1(kept)
    if least > query.delta:
        warn_loose(
            f"delta = {query.delta!r} is below the floor of {least:.6g}: with that probability "
            "counts are seen that only one of two neighbours can cause, so epsilon is infinite",
            FloorWarning,
        )


def warn_if_delta_is_large(delta: float | None, people: int | None) -> None:
    """Warn, at the caller's line, that a delta is too large for a meaningful guarantee.

    Args:
        delta: the delta of the question; None if delta was the answer.
        people: number of people whose data are protected; None if that is not known.
    """
    if delta is not None and people is not None and delta * people >= 1.0:
        warn_loose(
            f"delta = {delta!r} is at least 1/n for n = {people} people: whoever publishes the "
            "data of one of them, drawn at random, keeps epsilon = 0 at delta = 1/n",
            WeakPrivacyWarning,
        )
