"""Targets for epsilon and other measures of risk, and the monotone search that meets them.

It finds the first candidate, in the order of rising privacy, that meets the target.

On a logarithmic scale, where log-epsilon is nearly a straight line, the sign change is found by
`shuffle_accountant.numerics.roots`; what is left between two candidates is halved. The end is
always two neighbours that were both asked, so that nothing rests on the computed ends being
monotone.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, warn_loose
from shuffle_accountant.leakage.reidentification.bounds import bound
from shuffle_accountant.numerics.roots import Crossing, find_crossing
from shuffle_accountant.numerics.rounding import lowered, raised
from shuffle_accountant.progress import Report, share_of_bar
from shuffle_accountant.rounds.base import by_its_pair, certified_at, delta_by_pair
from shuffle_accountant.rounds.protocol import Protocol, trade_off_of
from shuffle_accountant.rounds.shuffle import ShuffleRound

N = TypeVar("N", int, float)

# First step of the search where no slope is known, on the logarithmic scale of the ladder.
_STEP = 0.1

# Least relative width of the brackets that locate the answer roughly, before the search decides.
_ROUGH = 0.1
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
    # widths are relative to the distance from the first candidate; the rest is halved
    near = crossing(of_index(rough), ladder.place(guess), 1e-3, -abs(slope))
    fall = -abs(slope) if math.isnan(near.slope) else near.slope
    found = crossing(decided, near.right, 1e-13, fall)
    # the ends of the interval need not have been asked
    misses, meets = ladder.nearest(found.left), ladder.nearest(found.right)
    if decided(meets) > 0.0:
        return None
    if decided(misses) <= 0.0:
        return misses
    between = range(misses + 1, meets)
    return between.start + bisect_left(between, True, key=lambda index: decided(index) <= 0.0)


class RiskTarget(ABC):
    """A measure of risk with the largest value allowed, decided by certified brackets.

    Attributes:
        argument: name of the target as the caller's user knows it.
        goal: largest value allowed of the measure.
        measure: the measure in words.
        tolerance: relative width, in epsilon, of the brackets that decide, > 0.
    """

    argument: str
    measure: str

    def __init__(self, goal: float, tolerance: float) -> None:
        self.goal = validate.open_unit(**{self.argument: goal})
        self.tolerance = validate.positive(tolerance=tolerance)

    @property
    def signal(self) -> float:
        """About ``2 mu^2`` of the Gaussian limit that meets the target: it says where to look.

        It is ``epsilon^2/log(1/delta)``; here that of normal distributions whose total variation,
        nearly ``mu/sqrt(2 pi)``, is the goal.
        """
        return 4.0 * math.pi * self.goal**2 / (1.0 - self.goal)

    @abstractmethod
    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of the measure, and what kept it wider than the tolerance; never warns."""

    def quicker(self, protocol: Protocol) -> bool:
        """Whether `excess` may be asked about the protocol."""
        return False

    def excess(self, protocol: Protocol, tolerance: float) -> float:
        """About the logarithm of the risk over the largest allowed, from one certified number.

        Quicker than `ask`, whose brackets may be narrower: it says where to look, they decide.
        """
        raise NotImplementedError

    def search(
        self,
        ladder: Ladder[N],
        protocol: Callable[[N], Protocol],
        guess: float,
        slope: float,
        safest: str,
    ) -> tuple[N, Evidence]:
        """The first candidate of the ladder that meets the target, with its evidence.

        Args:
            slope: slope of log-epsilon over the logarithm of the candidate, roughly.
            safest: the last candidate in words.

        Raises:
            ValueError: even the last candidate does not meet the target.
        """
        asked = itertools.count()
        moved: list[Report] = []

        def progress() -> None:
            share = min(next(asked) / 12, 0.95)  # as many brackets are usually asked for
            for report in moved:
                report(share)

        @cache
        def ask(value: N, tolerance: float) -> tuple[Bracket, str | None]:
            progress()
            return self.ask(protocol(value), tolerance)

        def log_ratio(measure: float) -> float:
            if not 0.0 < measure < math.inf:
                return -math.inf if measure == 0.0 else math.inf
            return math.log(measure) - math.log(self.goal)

        def rough(value: N) -> float:
            bracket, _ = ask(value, max(self.tolerance, _ROUGH))
            return log_ratio(0.5 * bracket.lower + 0.5 * bracket.upper)

        def close(value: N, tolerance: float = self.tolerance) -> float:
            return log_ratio(ask(value, tolerance)[0].upper)

        def quick(value: N, tolerance: float = self.tolerance) -> float:
            progress()
            found = self.excess(protocol(value), tolerance)
            # infinite ones say on which side the target is, brackets how far away
            return found if math.isfinite(found) else close(value, tolerance)

        def found() -> int | None:
            # where round-off alone may be more than the goal, no search
            last = ladder.value(ladder.last)
            if self.goal < 1e-11 and ask(last, self.tolerance)[0].upper > self.goal:
                return None
            # if numbers of rounds are tried, the guess may be a single round: its neighbour is not
            first = ladder.nearest(ladder.place(guess))
            near = {ladder.value(first), ladder.value(max(first - 1, 0))}
            if not all(self.quicker(protocol(value)) for value in near):
                return first_that_meets(ladder, rough, close, guess, slope)
            loose = partial(quick, tolerance=max(self.tolerance, _ROUGH))
            index = first_that_meets(ladder, loose, quick, guess, slope)
            index = ladder.last if index is None else index
            # brackets decide, which may be narrower than what was quicker
            if close(ladder.value(index)) <= 0.0 and (
                index == 0 or close(ladder.value(index - 1)) > 0.0
            ):
                return index
            return first_that_meets(ladder, close, close, ladder.value(index), slope)

        with share_of_bar() as bar:
            moved.append(bar)
            index = found()
        if index is None:
            least = ask(ladder.value(ladder.last), self.tolerance)[0].ends()[1]
            raise ValueError(
                f"{self.argument} must be at least the {self._of(safest)}, which is {least}; "
                f"got {self.goal!r}"
            )
        bracket, cause = ask(ladder.value(index), self.tolerance)
        if cause is not None:
            warn_loose(
                f"the answer is conservative by more than tolerance {self.tolerance!r}: its "
                f"bracket {bracket!r} is limited by {cause}"
            )
        further = ladder.value(index - 1) if index > 0 else None
        return ladder.value(index), Evidence(
            target_epsilon=self.goal,
            bracket=bracket,
            next_value=further,
            next_bracket=None if further is None else ask(further, self.tolerance)[0],
            capped=index == 0 and ladder.capped,
        )

    def _of(self, safest: str) -> str:
        return f"{self.measure} of {safest}"


class Target(RiskTarget):
    """Epsilon (nats, finite, > 0) at most ``target_epsilon`` at ``delta`` in (0, 1)."""

    argument = "target_epsilon"
    measure = "epsilon"

    def __init__(self, target_epsilon: float, delta: float, tolerance: float) -> None:
        self.goal = self.epsilon = validate.positive(target_epsilon=target_epsilon)
        self.delta = validate.open_unit(delta=delta)
        self.tolerance = validate.positive(tolerance=tolerance)
        self.log_delta = -math.log(self.delta)

    @property
    def signal(self) -> float:
        """The square of epsilon, kept above 0 and finite, over ``log(1/delta)``."""
        return min(max(self.epsilon, 1e-150), 1e150) ** 2 / self.log_delta

    @cached_property
    def squared_mu(self) -> float:
        """``mu^2`` of the normal laws N(0, 1) and N(mu, 1) that just meet the target."""
        return self._squared_mu(self.delta)

    def _squared_mu(self, delta: float) -> float:
        """``mu^2`` with another delta at the target's epsilon."""
        from scipy.special import log_ndtr

        epsilon = min(max(self.epsilon, 1e-150), 1e150)

        def meets(mu: float) -> bool:
            near, far = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
            below = epsilon + float(log_ndtr(-far))
            if delta > 0.5:  # where the complement has the digits
                return float(np.logaddexp(log_ndtr(near), below)) >= math.log1p(-delta)
            above = float(log_ndtr(-near))
            return above <= below or above + math.log(-math.expm1(below - above)) <= math.log(delta)

        # a hundred deviations either way
        low, high = 0.01 * min(epsilon, math.sqrt(epsilon)), 100.0 * max(1.0, math.sqrt(epsilon))
        while high > (1.0 + 1e-9) * low:
            middle = math.sqrt(low) * math.sqrt(high)
            low, high = (middle, high) if meets(middle) else (low, middle)
        return low * low

    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of epsilon."""
        return certified_at(protocol.distinct, tolerance, delta=self.delta)

    def quicker(self, protocol: Protocol) -> bool:
        """Whether it is a single shuffled round.

        Delta of other kinds may fall to 1e-300 at once where the target is met.
        """
        one = protocol.distinct[0][0] if len(protocol) else None
        return isinstance(one, ShuffleRound) and by_its_pair(protocol.distinct, self.epsilon)

    def excess(self, protocol: Protocol, tolerance: float) -> float:
        """Log of the distance mu of N(0, 1) and N(mu, 1) with the round's delta, over that allowed.

        It is nearly linear in the logarithm of a parameter, which the logarithm of delta is not.
        """
        ((one, _),) = protocol.distinct
        found = delta_by_pair(one, tolerance, epsilon=self.epsilon, delta=self.delta)
        if not 0.0 < found < 1.0:
            return -math.inf if found == 0.0 else math.inf
        return 0.5 * math.log(self._squared_mu(found) / self.squared_mu)

    def _of(self, safest: str) -> str:
        return f"epsilon of {safest} at delta={self.delta!r}"


class AdvantageTarget(RiskTarget):
    """Total variation at most ``target_advantage``, in (0, 1): what any test of neighbours gains.

    The true positive rate minus the false positive rate, of the best test; delta at epsilon 0.
    """

    argument = "target_advantage"
    measure = "advantage"

    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of the total variation."""
        return certified_at(protocol.distinct, tolerance, epsilon=0.0)


class TradeOffTarget(RiskTarget):
    """A least false negative rate at a false positive rate: a point of the trade-off curve.

    Both are in (0, 1), with a sum below 1. What the best test gains there is one minus both.
    """

    argument = "target_trade_off"
    measure = "gain over guessing"

    def __init__(self, target_trade_off: tuple[float, float], tolerance: float) -> None:
        pair = validate.items(target_trade_off=target_trade_off)
        if len(pair) != 2:
            raise ValueError(
                "target_trade_off must be a false positive and a false negative rate, got "
                f"{len(pair)} numbers"
            )
        self.rate, missed = (validate.open_unit(target_trade_off=rate) for rate in pair)
        goal = 1.0 - self.rate - missed
        if not goal > 0.0:
            raise ValueError(
                f"target_trade_off must be two rates whose sum is below 1, got {pair!r:.60}"
            )
        super().__init__(goal, tolerance)

    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of one minus the false positive rate minus the least false negative rate."""
        lower, upper, reduction = trade_off_of(protocol, np.array([self.rate]), tolerance)
        return Bracket(
            lower=max(lowered(1.0 - self.rate - float(upper[0]), 1e-15), 0.0),
            upper=max(raised(1.0 - self.rate - float(lower[0]), 1e-15), 0.0),
            reduction=reduction,
            adjacency=protocol.adjacency,
            conditions=partial(getattr, protocol, "conditions"),
        ), None


class ReidentificationTarget(RiskTarget):
    """Probability to name the target's message at most ``target_reidentification``, in (0, 1).

    One guess, by an adversary who knows all inputs, after a single round; see
    `shuffle_accountant.leakage.reidentification.bound`.
    """

    argument = "target_reidentification"
    measure = "chance to name the target's message"

    @property
    def signal(self) -> float:
        """Constant: the measure is about ``e^eps0`` over the number of users."""
        return 1.0

    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of the success probability."""
        ((one, _),) = protocol
        assert isinstance(one, ShuffleRound)
        return bound(one.randomizer, users=one.plain_users), None
