"""Monotone search: the first candidate, in the order of rising privacy, that meets a target.

On a logarithmic scale, where log-epsilon is nearly a straight line, the sign change is found by
`shuffle_accountant.numerics.roots`; what is left between two candidates is halved. The end is
always two neighbours that were both asked, so that nothing rests on the computed ends being
monotone.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeVar

from shuffle_accountant.bracket import Bracket
from shuffle_accountant.numerics.roots import Crossing, find_crossing

N = TypeVar("N", int, float)

# Width at which the cheap search stops, relative to the distance from the first candidate.
_ROUGHLY = 1e-3
# Width at which the close search stops, likewise; candidates closer still are found by halving.
_CLOSELY = 1e-13
# First step of the search where no slope is known, on the logarithmic scale of the ladder.
_STEP = 0.1

# Count of the numbers of six significant digits in each power of ten: 100,000 to 999,999.
_PER_DECADE = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a calibrated number is right: certified brackets of epsilon there and one step further.

    Attributes:
        target_epsilon: the target, nats; for a target in another measure of leakage, the largest
            value allowed of that measure, which the brackets then enclose.
        bracket: of epsilon at the number; its upper end is at most the target.
        next_value: the number one step further, with less privacy; None at the end of the range.
        next_bracket: of epsilon there; its upper end is above the target.
        capped: whether the search ended at the end of its range, although numbers beyond it may
            meet the target too.
    """

    target_epsilon: float
    bracket: Bracket
    next_value: float | None
    next_bracket: Bracket | None
    capped: bool = False

    @property
    def proven(self) -> bool:
        """Whether one step further provably misses the target.

        If not, the target lies inside `next_bracket`, and a smaller tolerance may go further, or
        the search was `capped`.
        """
        if self.capped:
            return False
        return self.next_bracket is None or self.next_bracket.lower > self.target_epsilon


class _Calibrated:
    """A number with its evidence."""

    plain: ClassVar[type[float]]
    evidence: Evidence

    def __new__(cls, value: float, evidence: Evidence) -> Self:
        """Attach the evidence."""
        self = super().__new__(cls, value)  # type: ignore[call-arg]
        self.evidence = evidence
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.plain(self), self.evidence)  # type: ignore[arg-type]


class CalibratedFloat(_Calibrated, float):
    """A float with its `Evidence`; arithmetic gives plain floats."""

    plain = float


class CalibratedInt(_Calibrated, int):
    """An int with its `Evidence`; arithmetic gives plain ints."""

    plain = int


@dataclass(frozen=True)
class Ladder(Generic[N]):
    """Candidates with indices 0 … ``last``, in the order of rising privacy.

    Attributes:
        last: index of the most private one.
        value: the candidate with an index.
        index: that of the candidate nearest to a number; it may lie outside of 0 … ``last``.
        upwards: whether values rise with their indices.
        capped: whether there are numbers before the candidate 0, which are not tried.
    """

    last: int
    value: Callable[[int], N]
    index: Callable[[float], int]
    upwards: bool = False
    capped: bool = True

    def place(self, value: float) -> float:
        """Where a number > 0 stands on a logarithmic scale, 0 for the candidate 0."""
        first = self.value(0)
        return math.log(value / first if self.upwards else first / value)

    def nearest(self, place: float) -> int:
        """Index of the candidate nearest to a place."""
        near = self.value(0) * math.exp(place if self.upwards else -place)
        return min(max(self.index(near), 0), self.last)


def integers_upwards(most: int) -> Ladder[int]:
    """The candidates 1 … ``most``: more users are more private."""
    return Ladder(most - 1, lambda i: i + 1, lambda near: round(near) - 1, True, capped=False)


def integers_downwards(most: int) -> Ladder[int]:
    """The candidates ``most`` … 1: fewer rounds are more private."""
    return Ladder(most - 1, lambda i: most - i, lambda near: most - round(near))


def decimals(first: float, last: float) -> Ladder[float]:
    """The numbers of six significant digits from about ``first`` to about ``last``, up or down."""
    start, sign = _rank(first), 1 if first < last else -1
    return Ladder(
        sign * (_rank(last) - start),
        lambda i: _ranked(start + sign * i),
        lambda near: sign * (_rank(near) - start),
        upwards=first < last,
    )


def ratios_downwards(largest: float, least: float, ratio: float) -> Ladder[float]:
    """Numbers from ``largest`` down to about ``least``, each ``ratio`` times the next one."""
    step = math.log(ratio)
    return Ladder(
        math.ceil(math.log(largest / least) / step),
        lambda i: largest * math.exp(-step * i),
        lambda near: round(math.log(largest / near) / step),
    )


def _rank(value: float) -> int:
    """Place of the nearest number of six significant digits among all of them."""
    mantissa, exponent = f"{value:.5e}".split("e")
    return _PER_DECADE * int(exponent) + int(mantissa.replace(".", "")) - 100_000


def _ranked(rank: int) -> float:
    """Inverse of `_rank`."""
    exponent, mantissa = divmod(rank, _PER_DECADE)
    return float(f"{mantissa + 100_000}e{exponent - 5}")


def first_that_meets(
    ladder: Ladder[N],
    rough: Callable[[N], float],
    close: Callable[[N], float],
    guess: float,
    slope: float,
) -> int | None:
    """Index of a candidate that meets a target while the one before it does not.

    It is the first one that meets it if the measure falls along the ladder.

    Args:
        rough: a cheap estimate of the logarithm of the measure over the target, which says where to
            look.
        close: that of its certified upper end, not positive where the target is met.
        guess: starting point of the search.
        slope: slope of these over the logarithm of the value, roughly; nan if it is not known.

    Returns:
        0 if even that candidate meets the target; None if the last one does not.
    """

    def of_index(function: Callable[[N], float]) -> Callable[[int], float]:
        return cache(lambda index: function(ladder.value(index)))

    def crossing(
        decide: Callable[[int], float], start: float, width: float, fall: float
    ) -> Crossing:
        end = ladder.place(ladder.value(ladder.last))
        return find_crossing(lambda x: decide(ladder.nearest(x)), end, start, _STEP, width, fall)

    decided = of_index(close)
    near = crossing(of_index(rough), ladder.place(guess), _ROUGHLY, -abs(slope))
    fall = -abs(slope) if math.isnan(near.slope) else near.slope
    found = crossing(decided, near.right, _CLOSELY, fall)
    # the ends of the interval need not have been asked
    misses, meets = ladder.nearest(found.left), ladder.nearest(found.right)
    if decided(meets) > 0.0:
        return None
    if decided(misses) <= 0.0:
        return misses
    between = range(misses + 1, meets)
    return between.start + bisect_left(between, True, key=lambda index: decided(index) <= 0.0)
