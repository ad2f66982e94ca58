"""A cache for whether equal rounds fit a budget: asked at every step, computed rarely."""

from __future__ import annotations

import math
import threading
from functools import lru_cache

from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import MAX_ROUNDS

__all__ = ["BudgetCache", "BudgetExceeded", "budget_cache"]


class BudgetExceeded(RuntimeError):
    """Raised for a round that would exceed the budget; it was refused and not recorded."""


class BudgetCache:
    """Cache of the number of equal rounds known to fit a budget, and of a number known not to.

    Fewer rounds are a post-processing of more, so one bracket decides for all smaller (or larger)
    numbers. A question that is open takes one bracket ahead of it, four times as far each time that
    fits and half as far else, and if that does not decide, one at it. A loop that asks at each of T
    steps computes of the order of log T brackets; all other questions are comparisons.

    Args:
        round: what happens in each round.
        epsilon: nats; the certified upper end must be at most this.
        delta: in (0, 1).
        tolerance: relative width of the brackets.
    """

    def __init__(self, round: Round, epsilon: float, delta: float, tolerance: float) -> None:
        self._round, self._epsilon, self._delta = round, epsilon, delta
        self._tolerance = tolerance
        self._fits, self._exceeds = 0, math.inf
        self._ahead = 0
        self._lock = threading.Lock()

    def exceeded_by(self, rounds: int) -> bool:
        """Whether the certified upper end of epsilon of ``rounds`` rounds is above the budget."""
        with self._lock:
            if self._fits < rounds < self._exceeds:
                ahead = min(self._ahead, 3 * rounds + 16, MAX_ROUNDS - rounds)
                if rounds + ahead < self._exceeds and self._probe(rounds + ahead):
                    self._ahead = 4 * ahead + 3
                else:
                    self._ahead = ahead // 2
            if self._fits < rounds < self._exceeds:
                self._probe(rounds)
            return rounds > self._fits

    def _probe(self, rounds: int) -> bool:
        accountant = FourierAccountant(tolerance=self._tolerance)
        spent = accountant.compose(self._round, count=rounds).epsilon(delta=self._delta)
        if spent <= self._epsilon:
            self._fits = rounds
            return True
        self._exceeds = rounds
        return False


@lru_cache(maxsize=256)
def budget_cache(round: Round, epsilon: float, delta: float, tolerance: float) -> BudgetCache:
    """The shared `BudgetCache` of these rounds and this budget; arguments as for the class."""
    return BudgetCache(round, epsilon, delta, tolerance)
