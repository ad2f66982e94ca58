"""Targets for epsilon and other measures of risk, and the certified search that meets them."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import TypeVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, warn_loose
from shuffle_accountant.calibration.search import Evidence, Ladder, first_that_meets
from shuffle_accountant.leakage.reidentification.bounds import bound
from shuffle_accountant.numerics.rounding import lowered, raised
from shuffle_accountant.progress import Report, share_of_bar
from shuffle_accountant.rounds.base import by_its_pair, certified_at, delta_by_pair
from shuffle_accountant.rounds.protocol import Protocol, trade_off_of
from shuffle_accountant.rounds.shuffle import ShuffleRound

# Least relative width of the brackets that locate the answer roughly, before the search decides.
_ROUGH = 0.1
# Goals below this may be under the round-off: brackets of such measures may be as wide as they are.
_NEAR_ROUND_OFF = 1e-11
# Ratio of the ends at which the search for the distance of two normal laws stops.
_CLOSE_ENOUGH = 1.0 + 1e-9
# Number of brackets that a search usually asks for: it scales the progress bar.
_USUAL_ANSWERS = 12

N = TypeVar("N", int, float)


class RiskTarget(ABC):
    """A measure of risk with the largest value allowed, decided by certified brackets.

    Attributes:
        argument: name of the target as the caller's user knows it.
        goal: largest value allowed of the measure.
        measure: the measure in words.
        tolerance: relative width, in epsilon, of the brackets that decide, > 0.
    """

    argument: str
    goal: float
    measure: str
    tolerance: float

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
            protocol: that of a candidate.
            guess: starting point of the search.
            slope: slope of log-epsilon over the logarithm of the candidate, roughly.
            safest: the last candidate in words.

        Raises:
            ValueError: even the last candidate does not meet the target.
        """
        asked = itertools.count()
        moved: list[Report] = []

        def progress() -> None:
            share = min(next(asked) / _USUAL_ANSWERS, 0.95)
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
            if self.goal < _NEAR_ROUND_OFF and ask(last, self.tolerance)[0].upper > self.goal:
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
        while high > _CLOSE_ENOUGH * low:
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

    def __init__(self, target_advantage: float, tolerance: float) -> None:
        self.goal = validate.open_unit(target_advantage=target_advantage)
        self.tolerance = validate.positive(tolerance=tolerance)

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
        self.goal = 1.0 - self.rate - missed
        if not self.goal > 0.0:
            raise ValueError(
                f"target_trade_off must be two rates whose sum is below 1, got {pair!r:.60}"
            )
        self.tolerance = validate.positive(tolerance=tolerance)

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

    def __init__(self, target_reidentification: float, tolerance: float) -> None:
        self.goal = validate.open_unit(target_reidentification=target_reidentification)
        self.tolerance = validate.positive(tolerance=tolerance)

    @property
    def signal(self) -> float:
        """Constant: the measure is about ``e^eps0`` over the number of users."""
        return 1.0

    def ask(self, protocol: Protocol, tolerance: float) -> tuple[Bracket, str | None]:
        """Bracket of the success probability."""
        ((one, _),) = protocol
        assert isinstance(one, ShuffleRound)
        return bound(one.randomizer, users=one.plain_users), None
