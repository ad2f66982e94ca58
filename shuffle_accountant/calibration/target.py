"""A target for epsilon, and the search for the first candidate that certainly meets it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import certified
from shuffle_accountant.bracket import Bracket, warn_loose
from shuffle_accountant.calibration.evidence import Evidence
from shuffle_accountant.calibration.search import Ladder, first_that_meets
from shuffle_accountant.engine.question import Query
from shuffle_accountant.progress import Report, share_of_bar
from shuffle_accountant.rounds.protocol import Protocol

__all__ = ["Target"]

# The neighbourhood of the answer is found with brackets of this relative width.
_ROUGH = 0.1
# A search asks about so many questions.
_USUAL_ANSWERS = 12

N = TypeVar("N", int, float)


class Target:
    """Epsilon at most ``target_epsilon`` at ``delta``, by brackets of a relative width.

    Args:
        target_epsilon: nats, finite, > 0.
        delta: in (0, 1).
        tolerance: of the brackets that decide, > 0.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
    """

    def __init__(self, target_epsilon: float, delta: float, tolerance: float) -> None:
        self.epsilon = validate.positive(target_epsilon=target_epsilon)
        self.delta = validate.open_unit(delta=delta)
        self.tolerance = validate.positive(tolerance=tolerance)
        self.log_delta = -math.log(self.delta)

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
            ladder: the candidates.
            protocol: what happens with a candidate.
            guess: where to look first.
            slope: of log-epsilon over the logarithm of the candidate, roughly.
            safest: the last candidate in words.

        Raises:
            ValueError: even the last candidate does not meet the target.
        """
        asked: list[N] = []
        moved: list[Report] = []

        @cache
        def ask(value: N, tolerance: float) -> tuple[Bracket, str | None]:
            for report in moved:
                report(min(len(asked) / _USUAL_ANSWERS, 0.95))
            asked.append(value)
            return certified(protocol(value), Query(delta=self.delta), tolerance)

        def rough(value: N) -> float:
            bracket, _ = ask(value, max(self.tolerance, _ROUGH))
            return 0.5 * bracket.lower + 0.5 * bracket.upper

        def upper(value: N) -> float:
            return ask(value, self.tolerance)[0].upper

        with share_of_bar() as bar:
            moved.append(bar)
            index = first_that_meets(ladder, rough, upper, self.epsilon, guess, slope)
        if index is None:
            least = ask(ladder.value(ladder.last), self.tolerance)[0].ends()[1]
            raise ValueError(
                f"target_epsilon must be at least the epsilon of {safest} at "
                f"delta={self.delta!r}, which is {least}; got {self.epsilon!r}"
            )
        bracket, cause = ask(ladder.value(index), self.tolerance)
        if cause is not None:
            warn_loose(
                f"the answer is conservative by more than tolerance {self.tolerance!r}: its "
                f"bracket {bracket!r} is limited by {cause}"
            )
        further = ladder.value(index - 1) if index > 0 else None
        evidence = Evidence(
            target_epsilon=self.epsilon,
            bracket=bracket,
            next_value=further,
            next_bracket=None if further is None else ask(further, self.tolerance)[0],
        )
        return ladder.value(index), evidence
