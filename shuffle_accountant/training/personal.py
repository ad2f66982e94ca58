"""A filter for each person: budgets for rounds that are chosen adaptively, one budget a head."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.training.filters import FilterBudget
from shuffle_accountant.training.plans import ROUNDING

__all__ = ["PersonalFilter"]

# Memory of a filter: 16 bytes a person.
_MOST_PEOPLE = 10**9


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
        self._budget = FilterBudget(epsilon, delta, kind, unit, order, planned)
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
            cost = np.asarray(self._budget.cost(round))[:, None]
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
