"""Rényi filters: budgets for rounds that are chosen adaptively.

When the next round, its parameters, and when to stop are chosen from what was seen, the
accountant's epsilon of the rounds that happened is no privacy guarantee: it is itself a random
number that may depend on the data. A filter turns the question round. Its order lambda > 1 and its
budget are fixed beforehand; before each round is released it adds that round's Rényi divergence to
those so far, and refuses what would exceed the budget. Whoever chooses the rounds, and however, all
outputs together then have a Rényi divergence of at most the budget (Feldman and Zrnic 2021,
"Individual privacy accounting via a Rényi filter", Theorem 4.3), and the usual conversion at lambda
gives (epsilon, delta). Both directions of the neighbours have their own sum, so each round pays for
the worse one.

The same with the privacy-loss distributions themselves, adding up until their epsilon reaches the
budget, is *not* valid in general (arXiv 2602.06756): a protocol may move so that the law of the
composed loss, looked at along the way, promises what the whole does not keep.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.baselines.renyi import epsilon_of
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.renyi_cost import log_moment_cost

__all__ = ["PersonalFilter", "PrivacyFilter"]

# Excess orders t = order - 1 that are tried for a planned round, sixteen per decade.
_ORDERS = np.logspace(-3.0, 5.0, 8 * 16 + 1)
# Relative error of a sum or conversion of a few terms, each rounded fewer than a hundred times:
# sums of costs are raised by it, the limit is lowered by it.
_ROUNDING = 1e-12
_MOST_PEOPLE = 10**9


class _RenyiBudget:
    """The order, fixed once, and the log moment that may be spent at it."""

    def __init__(
        self, epsilon: float, delta: float, order: float | None, planned: Round | None
    ) -> None:
        self.epsilon = validate.finite_nonnegative(epsilon=epsilon)
        self.delta = validate.open_unit(delta=delta)
        self.t: float | None = None
        if order is not None:
            order = validate.positive(order=order)
            if not order > 1.0:
                raise ValueError(f"order must be a finite number > 1, got {order!r}")
            if planned is not None:
                raise ValueError(f"give order or planned, not both: {order!r}, {planned!r:.80}")
            self.t = order - 1.0
        elif planned is not None:
            self.plan(validate.instance(Round, planned=planned))  # type: ignore[type-abstract]

    def plan(self, round: Round) -> float:
        """Excess order; the one at which most rounds like this fit, if none is fixed yet."""
        if self.t is None:
            fit = [(self.limit(t) / self._positive(round, t), t) for t in _ORDERS.tolist()]
            self.t = max(fit)[1]
        return self.t

    def limit(self, t: float) -> float:
        """Log moment that converts to epsilon at delta; negative if even 0 does not."""
        without = epsilon_of(0.0, t, self.delta)
        limit = t * (self.epsilon - without)
        return limit - _ROUNDING * (t * (self.epsilon + abs(without)) + abs(limit))

    def cost(self, round: Round) -> float:
        """Log moment of a round at the order, from above."""
        return log_moment_cost(round, self.plan(round))

    def converted(self, log_moment: float, t: float) -> float:
        """Epsilon at delta of a sum of log moments that is within the limit."""
        found = epsilon_of(log_moment, t, self.delta)
        return min(max(found + _ROUNDING * (1.0 + abs(found)), 0.0), self.epsilon)

    def _positive(self, round: Round, t: float) -> float:
        try:
            return max(log_moment_cost(round, t), 1e-300)
        except ValueError:
            if t == _ORDERS[0]:
                raise  # no order is finite
            return math.inf


class PrivacyFilter:
    """A budget for rounds of which each may depend, in every way, on all outputs before.

        budget = sa.training.PrivacyFilter(epsilon=3.0, delta=1e-6)
        while useful:
            round = choose(outputs)
            budget.step(round)  # raises BudgetExceeded; nothing may be released then
            outputs.append(release(round))

    All that is released is (epsilon, delta)-differentially private together. Fixed beforehand must
    be: epsilon, delta, and the order of the Rényi divergence. Free are the rounds, their
    parameters and when to stop.

    Args:
        epsilon: nats, finite, >= 0.
        delta: in (0, 1).
        order: Rényi order lambda, finite, > 1. If left out it is the one at which most planned
            rounds fit.
        planned: a typical round, of the planning alone. If neither is given it is the first round,
            which is chosen before anything is released.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        order: float | None = None,
        planned: Round | None = None,
    ) -> None:
        self._budget = _RenyiBudget(epsilon, delta, order, planned)
        self._spent = 0.0
        self._steps = 0
        self._adjacency: Adjacency | None = None
        self._lock = threading.RLock()

    @property
    def epsilon(self) -> float:
        """The guarantee of all rounds together, nats, whatever was spent so far."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the budget."""
        return self._budget.delta

    @property
    def order(self) -> float | None:
        """The Rényi order; None before the first round of a filter that was given no order."""
        return None if self._budget.t is None else 1.0 + self._budget.t

    @property
    def divergence(self) -> float:
        """Sum of the certified upper ends of the rounds' Rényi divergences, nats."""
        with self._lock:
            return 0.0 if self._budget.t is None else self._spent / self._budget.t

    @property
    def spent(self) -> float:
        """Part of ``epsilon`` that is used up, nats; 0 before the first round, never above it.

        It is `divergence`, converted at ``delta``. If all rounds had been fixed beforehand it would
        be a guarantee; of rounds chosen adaptively only ``epsilon`` is one.
        """
        with self._lock:
            if not self._steps or self._budget.t is None:
                return 0.0
            return self._budget.converted(self._spent, self._budget.t)

    def __len__(self) -> int:
        """Rounds recorded so far."""
        return self._steps

    def __bool__(self) -> bool:
        """Always True, also for a filter without rounds."""
        return True

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"order={self.order!r}, rounds={len(self)})"
        )

    def would_exceed(self, round: Round, count: int = 1) -> bool:
        """Whether `step` would refuse ``count`` further rounds.

        Raises:
            ValueError: no finite Rényi divergence is known of the round, it is of another adjacency
                than those before, or the count is out of range.
        """
        with self._lock:
            return self._sum_with(round, count) is None

    def step(self, round: Round, count: int = 1) -> None:
        """Record rounds, before anything of them is released.

        Args:
            round: what happens next.
            count: how often, >= 0.

        Raises:
            ValueError: no finite Rényi divergence is known of the round, it is of another adjacency
                than those before, or the count is out of range.
            BudgetExceeded: the budget does not allow them; nothing is recorded.
        """
        with self._lock:
            total = self._sum_with(round, count)
            if total is None:
                raise BudgetExceeded(
                    f"round {self._steps + count} would exceed the filter of epsilon = "
                    f"{self.epsilon:g} at delta = {self.delta:g}; {self._steps} recorded"
                )
            if count > 0:
                self._adjacency = round.adjacency
                self._spent = total
                self._steps += count

    def _sum_with(self, round: Round, count: int) -> float | None:
        """Log moments of all rounds so far and these, from above; None if they do not fit."""
        validate.instance(Round, round=round)  # type: ignore[type-abstract]
        count = validate.integer(minimum=0, maximum=MAX_ROUNDS - self._steps, count=count)
        if self._adjacency is not None and round.adjacency is not self._adjacency:
            raise ValueError(
                f"round must be of adjacency {self._adjacency.named} as those before, got "
                f"{round.adjacency.named}"
            )
        if count == 0:
            return self._spent
        cost = self._budget.cost(round)
        assert self._budget.t is not None
        total = (self._spent + count * cost) * (1.0 + _ROUNDING)
        return total if total <= self._budget.limit(self._budget.t) else None


class PersonalFilter:
    """A filter for each person: who has used up the budget is left out, the others go on.

    A round is for those who take part in it; the records of all others are replaced by the null
    record that adjacency zero-out compares with, and go on being sent, so that crowds keep their
    size. Everything released is (epsilon, delta)-differentially private for every person, whatever
    the others do (Feldman and Zrnic 2021, Theorem 5.1).

    The sums are secret: who is left out, and how many are, may depend on the data.

        people = sa.training.PersonalFilter(epsilon=3.0, delta=1e-6, people=10_000)
        taking_part = people.step(round, people=wanted)  # the wanted who still may

    Args:
        epsilon: nats, finite, >= 0.
        delta: in (0, 1).
        people: how many there are, numbered from 0.
        order: Rényi order lambda, finite, > 1; as for `PrivacyFilter`.
        planned: a typical round; as for `PrivacyFilter`.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        people: int,
        order: float | None = None,
        planned: Round | None = None,
    ) -> None:
        if planned is not None:
            _require_zero_out(planned)
        self._budget = _RenyiBudget(epsilon, delta, order, planned)
        people = validate.integer(minimum=1, maximum=_MOST_PEOPLE, people=people)
        self._sums = np.zeros(people)
        self._steps = 0
        self._lock = threading.RLock()

    @property
    def order(self) -> float | None:
        """The Rényi order; None before the first round of a filter that was given no order."""
        return None if self._budget.t is None else 1.0 + self._budget.t

    @property
    def spent(self) -> NDArray[np.float64]:
        """Each person's share of epsilon used up, nats, shape (people,); secret."""
        with self._lock:
            if self._budget.t is None:
                return np.zeros(self._sums.size)
            spent = [self._budget.converted(one, self._budget.t) for one in self._sums.tolist()]
            return np.where(self._sums > 0.0, spent, 0.0)

    def __len__(self) -> int:
        """Rounds recorded so far."""
        return self._steps

    def step(self, round: Round, *, people: Iterable[int] | None = None) -> NDArray[np.int64]:
        """Record a round, before anything of it is released.

        Args:
            round: what happens next, of adjacency ZERO_OUT.
            people: who is to take part; everybody if left out.

        Returns:
            Those of them whose budget allows it, increasing. All others must be null in this round.

        Raises:
            ValueError: another adjacency, no finite Rényi divergence, or a person who does not
                exist.
        """
        _require_zero_out(round)
        with self._lock:
            wanted = self._people(people)
            cost = self._budget.cost(round)
            assert self._budget.t is not None
            sums = (self._sums[wanted] + cost) * (1.0 + _ROUNDING)
            allowed = sums <= self._budget.limit(self._budget.t)
            taking_part = wanted[allowed]
            self._sums[taking_part] = sums[allowed]
            self._steps += 1
            return taking_part

    def _people(self, people: Iterable[int] | None) -> NDArray[np.int64]:
        if people is None:
            return np.arange(self._sums.size, dtype=np.int64)
        most = self._sums.size - 1
        given = [
            validate.integer(minimum=0, maximum=most, people=one)
            for one in validate.items(people=people)
        ]
        return np.unique(np.array(given, dtype=np.int64))


def _require_zero_out(round: Round) -> None:
    validate.instance(Round, round=round)  # type: ignore[type-abstract]
    if round.adjacency is not Adjacency.ZERO_OUT:
        raise ValueError(
            f"personal filters are for rounds of adjacency {Adjacency.ZERO_OUT.named}, got one of "
            f"{round.adjacency.named}"
        )
