"""A question put to a composition, its answer, and when that is narrow enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from shuffle_accountant.bracket import Bracket, ErrorLedger, FloorWarning, warn_loose
from shuffle_accountant.numerics.rounding import BELOW_ONE, SMALLEST


@dataclass(frozen=True)
class Query:
    """One question: epsilon at ``delta``, or delta at ``epsilon``; the other field is None.

    Attributes:
        delta: at which epsilon is asked for.
        epsilon: at which delta is asked for, nats.
        least: about the least delta that is asked for beside this one, if it is known: what is
            prepared for that serves here too.
        laws: laws of the sum that earlier questions about the same rounds have made, which answer
            this one where they are close enough; new ones are added. None for a single question.
    """

    delta: float | None = None
    epsilon: float | None = None
    least: float | None = None
    laws: dict[Hashable, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def required(self) -> float:
        """The epsilon asked about, when it is delta that is wanted."""
        assert self.epsilon is not None
        return self.epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Two certified ends, where the gap comes from, and whether it is wider than asked for.

    Attributes:
        lower: certified lower end.
        upper: certified upper end.
        ledger: where the gap comes from, in the unit of the ends.
        cause: reason why the gap is wider than the tolerance, in a few words; None if it is not.
    """

    lower: float
    upper: float
    ledger: ErrorLedger = field(default_factory=ErrorLedger)
    cause: str | None = None

    def at_most(self, upper: float) -> Answer:
        """The answer if another way leads to this upper end, should that be smaller."""
        if upper >= self.upper:
            return self
        lower = min(self.lower, upper)
        ledger = ErrorLedger(round_off=upper - lower, method="moments")
        return Answer(lower=lower, upper=upper, ledger=ledger)

    def worse(self, other: Answer) -> Answer:
        """The answer if either may be the case: the larger of both, with the reasons of its end."""
        higher = other if other.upper > self.upper else self
        return Answer(
            lower=max(self.lower, other.lower),
            upper=higher.upper,
            ledger=higher.ledger,
            cause=higher.cause,
        )


NOTHING = Answer(lower=0.0, upper=0.0)
EVERYTHING = Answer(lower=math.inf, upper=math.inf)


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
        lower: lower end of the answer.
        upper: upper end of the answer.
        tolerance: relative width in epsilon.
        deviation: standard deviation of the loss, nats.
        slope: computes ``-d log(delta) / d epsilon``, by which a width in log-delta is one in
            epsilon; called only if that decides.

    Returns:
        At most 1 if the tolerance is met; inf if the ends say too little for a ratio.
    """
    if lower == upper or upper <= SMALLEST:
        return 0.0
    if query.delta is not None:
        if upper == math.inf:
            return math.inf
        # an epsilon below the tolerance's part of a deviation is 0 for all purposes
        allowed = tolerance * max(upper, tolerance * deviation)
        return (upper - lower) / max(allowed, SMALLEST)
    if lower <= 0.0:
        return math.inf
    wide = math.log(upper / lower) / tolerance
    # a relative width in epsilon is one of epsilon times the slope in log-delta, and less than
    # the tolerance in delta itself is never required
    return wide / max(1.0, slope() * query.required) if wide > 1.0 else wide


def warn_if_loose(found: Bracket, cause: str | None, tolerance: float) -> None:
    """Warn, at the caller's line, that the bracket is wider than asked for, if that has a cause."""
    if cause is not None:
        warn_loose(
            f"bracket [{found.lower!r}, {found.upper!r}] is wider than tolerance {tolerance!r}: "
            f"limited by {cause}"
        )


def warn_if_below_floor(
    found: Bracket, query: Query, floors: Iterable[tuple[Bracket | None, int]]
) -> None:
    """Warn, at the caller's line, if epsilon is infinite because of what dummies leave open.

    ``floors`` are the deltas that no epsilon makes smaller, of distinct rounds, with their counts.
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
