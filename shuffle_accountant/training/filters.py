"""Filters: budgets for rounds that are chosen adaptively.

When the next round, its parameters, and when to stop are chosen from what was seen, the
accountant's epsilon of the rounds that happened is no privacy guarantee: it is itself a random
number that may depend on the data. A filter turns the question round. It fixes a plan and its
limits beforehand; before each round is released it adds the round's cost to the costs so far, and
refuses what would exceed a limit. Whoever chooses the rounds, and however, all outputs together are
(epsilon, delta)-private. The plans are in `training.plans`. Both directions of the neighbours are
covered, so each round pays for the worse one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.plans import (
    KINDS,
    ROUNDING,
    Plan,
    RenyiPlan,
    UnitPlan,
    best_plan,
)

__all__ = ["PersonalFilter", "PrivacyFilter"]

_MOST_PEOPLE = 10**9


class _Budget:
    """A target, and the plan of it: made when a round is known to plan with, and never changed."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        kind: str,
        unit: Round | None,
        order: float | None,
        planned: Round | None,
    ) -> None:
        self.epsilon = validate.finite_nonnegative(epsilon=epsilon)
        self.delta = validate.open_unit(delta=delta)
        self.kind = validate.choice(KINDS, kind=kind)
        self.unit = None if unit is None else validate.instance(Round, unit=unit)  # type: ignore[type-abstract]
        if unit is not None and kind not in ("auto", "unit"):
            raise ValueError(f"unit must be None with kind={kind!r}, got {unit!r:.80}")
        self.plan: Plan | None = None
        if order is not None:
            order = validate.positive(order=order)
            if not order > 1.0:
                raise ValueError(f"order must be a finite number > 1, got {order!r}")
            if planned is not None or unit is not None or kind not in ("auto", "renyi"):
                raise ValueError(
                    f"order={order!r} must be given without planned and unit, and with "
                    f"kind='renyi', got kind={kind!r}"
                )
            self.plan = RenyiPlan(self.epsilon, self.delta, order - 1.0)
        elif planned is not None:
            self.planned_for(validate.instance(Round, planned=planned))  # type: ignore[type-abstract]
        elif self.unit is not None and kind == "unit":
            self.plan = UnitPlan(self.epsilon, self.delta, self.unit)

    def planned_for(self, one: Round) -> Plan:
        """The plan; the best one for rounds like this one, if there is none yet."""
        if self.plan is None:
            self.plan = best_plan(self.epsilon, self.delta, self.kind, one, self.unit)
        return self.plan

    @property
    def order(self) -> float | None:
        """The Rényi order, of a plan that has one."""
        return 1.0 + self.plan.t if isinstance(self.plan, RenyiPlan) else None


class PrivacyFilter:
    """A budget for rounds of which each may depend, in every way, on all outputs before.

        budget = sa.training.PrivacyFilter(epsilon=3.0, delta=1e-6)
        while useful:
            round = choose(outputs)
            budget.step(round)  # raises BudgetExceeded; nothing may be released then
            outputs.append(release(round))

    All that is released is (epsilon, delta)-differentially private together. Fixed beforehand must
    be: epsilon, delta, and the plan. Free are the rounds, their parameters and when to stop.

    Args:
        epsilon: nats, finite, >= 0.
        delta: in (0, 1).
        kind: the plan: "gaussian", "unit", "renyi" (see `training.plans`), or "auto", the one that
            allows most planned rounds.
        unit: the round that others are paid in, for "unit" and "auto"; the planned round if left
            out.
        order: Rényi order lambda, finite, > 1, for "renyi" (and then for "auto"). If left out it is
            the one at which most planned rounds fit.
        planned: a typical round, of the planning alone. If it is left out it is the first round,
            which is chosen before anything is released.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        kind: str = "auto",
        unit: Round | None = None,
        order: float | None = None,
        planned: Round | None = None,
    ) -> None:
        self._budget = _Budget(epsilon, delta, kind, unit, order, planned)
        self._spent = (0.0, 0.0)
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
    def kind(self) -> str:
        """The plan's kind; "auto" before the first round where it is not fixed yet."""
        return self._budget.kind if self._budget.plan is None else self._budget.plan.kind

    @property
    def order(self) -> float | None:
        """The Rényi order of a plan that has one; else None."""
        return self._budget.order

    @property
    def spent(self) -> float:
        """Part of ``epsilon`` that is used up, nats; 0 before the first round, never above it.

        It is the epsilon at ``delta`` of the costs so far. If all rounds had been fixed beforehand
        it would be a guarantee; of rounds chosen adaptively only ``epsilon`` is one.
        """
        with self._lock:
            if not self._steps or self._budget.plan is None:
                return 0.0
            return self._budget.plan.spent(*self._spent)

    def remaining(self, round: Round) -> int:
        """How many further rounds like this one `step` would record.

        Raises:
            ValueError: as `step`.
        """
        with self._lock:
            low, high = 0, MAX_ROUNDS - self._steps
            while low < high:
                middle = (low + high + 1) // 2
                if self._sum_with(round, middle) is None:
                    high = middle - 1
                else:
                    low = middle
            return low

    def __len__(self) -> int:
        """Rounds recorded so far."""
        return self._steps

    def __bool__(self) -> bool:
        """Always True, also for a filter without rounds."""
        return True

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"kind={self.kind!r}, rounds={len(self)})"
        )

    def allows(self, round: Round, count: int = 1) -> bool:
        """Whether `step` would record ``count`` further rounds; errors as `step`."""
        return not self.would_exceed(round, count)

    def would_exceed(self, round: Round, count: int = 1) -> bool:
        """Whether `step` would refuse ``count`` further rounds.

        Raises:
            ValueError: the plan needs a finite Rényi divergence of the round and none is known, it
                is of another adjacency than those before, or the count is out of range.
        """
        with self._lock:
            return self._sum_with(round, count) is None

    def step(self, round: Round, count: int = 1) -> None:
        """Record rounds, before anything of them is released.

        Args:
            round: what happens next.
            count: how often, >= 0.

        Raises:
            ValueError: the plan needs a finite Rényi divergence of the round and none is known, it
                is of another adjacency than those before, or the count is out of range.
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

    def _sum_with(self, round: Round, count: int) -> tuple[float, float] | None:
        """Costs of all rounds so far and these, from above; None if they exceed a limit."""
        validate.instance(Round, round=round)  # type: ignore[type-abstract]
        count = validate.integer(minimum=0, maximum=MAX_ROUNDS - self._steps, count=count)
        if self._adjacency is not None and round.adjacency is not self._adjacency:
            raise ValueError(
                f"round must be of adjacency {self._adjacency.named} as those before, got "
                f"{round.adjacency.named}"
            )
        if count == 0:
            return self._spent
        plan = self._budget.planned_for(round)
        cost = plan.cost(round)
        total = (
            (self._spent[0] + count * cost[0]) * (1.0 + ROUNDING),
            (self._spent[1] + count * cost[1]) * (1.0 + ROUNDING),
        )
        within = total[0] <= plan.limits[0] and total[1] <= plan.limits[1]
        # an infinite cost is refused whatever the limits
        return total if within and math.isfinite(total[0]) else None


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
        kind: as for `PrivacyFilter`, and so are ``unit``, ``order`` and ``planned``.
        unit: the round that others are paid in.
        order: Rényi order lambda, finite, > 1.
        planned: a typical round.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        people: int,
        kind: str = "auto",
        unit: Round | None = None,
        order: float | None = None,
        planned: Round | None = None,
    ) -> None:
        for one in (planned, unit):
            if one is not None:
                _require_zero_out(one)
        self._budget = _Budget(epsilon, delta, kind, unit, order, planned)
        people = validate.integer(minimum=1, maximum=_MOST_PEOPLE, people=people)
        self._sums = np.zeros((2, people))
        self._steps = 0
        self._lock = threading.RLock()

    @property
    def order(self) -> float | None:
        """The Rényi order of a plan that has one; else None."""
        return self._budget.order

    @property
    def spent(self) -> NDArray[np.float64]:
        """Each person's share of epsilon used up, nats, shape (people,); secret."""
        with self._lock:
            found = np.zeros(self._sums.shape[1])
            if self._budget.plan is not None:
                sums, which = np.unique(self._sums, axis=1, return_inverse=True)
                spent = [self._budget.plan.spent(*one) if one[0] > 0 else 0.0 for one in sums.T]
                found = np.asarray(spent, np.float64)[which.ravel()]
            return found

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
            ValueError: another adjacency, no finite Rényi divergence where the plan needs one, or a
                person who does not exist.
        """
        _require_zero_out(round)
        with self._lock:
            wanted = self._people(people)
            plan = self._budget.planned_for(round)
            cost = np.asarray(plan.cost(round))[:, None]
            sums = (self._sums[:, wanted] + cost) * (1.0 + ROUNDING)
            allowed = np.all(sums <= np.asarray(plan.limits)[:, None], axis=0)
            allowed &= np.isfinite(sums[0])
            taking_part = wanted[allowed]
            self._sums[:, taking_part] = sums[:, allowed]
            self._steps += 1
            return taking_part

    def _people(self, people: Iterable[int] | None) -> NDArray[np.int64]:
        if people is None:
            return np.arange(self._sums.shape[1], dtype=np.int64)
        most = self._sums.shape[1] - 1
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
