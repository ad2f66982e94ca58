"""Filters: budgets for rounds that are chosen adaptively.

When the next round, its parameters, and when to stop are chosen from what was seen, the
accountant's epsilon of the rounds that happened is no privacy guarantee: it is itself a random
number that may depend on the data. A filter turns the question round. It fixes a plan and its
limits beforehand; before each round is released it adds the round's cost to the costs so far, and
refuses what would exceed a limit. Whoever chooses the rounds, and however, all outputs together are
(epsilon, delta)-private. The plans are in `training.plans`. Both directions of the neighbours are
covered, so each round pays for the worse one.

*Odometer.* Fix limits B_1 < B_2 < …, additive deltas D_j, and shares delta_j that sum to delta, and
let epsilon_j be the least epsilon at which N(sqrt(B_j), 1) against N(0, 1), plus D_j, is at most
delta_j. The reading is the epsilon_j of the first j whose limits hold all rounds so far. For every
adaptive choice of rounds, stopping time and event E the law P of one dataset and Q of a neighbour
satisfy ``P(E) <= E_Q[e^reading 1_E] + delta``. *Proof.* Where the reading is epsilon_j the outputs
are those of a filter of the limits (B_j, D_j), so that ``P(E, j) <= e^(epsilon_j) Q(E, j) +
delta_j``; sum over j. A reading without fixed limits, the epsilon of the sum so far, is not valid:
its delta grows with the number of times at which one might have stopped.
"""

from __future__ import annotations

import json
import math
import threading
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds.base import Round, conditions_of
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, round_from_dict
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.plans import (
    KINDS,
    ROUNDING,
    Plan,
    RenyiPlan,
    UnitPlan,
    best_plan,
    epsilon_of_mu,
    excess_order,
    gaussian_cost,
    read_plan,
)
from shuffle_accountant.training.store import FilterEntry, Kept, LedgerStore, Receipt

__all__ = ["FilterBudget", "Odometer", "PersonalFilter", "PrivacyFilter"]

SCHEMA = 1
_CONFIG = ("epsilon", "delta", "kind", "unit", "order", "planned", "plan")
_STORED = {1: ("schema", *_CONFIG, "spent", "steps", "adjacency", "receipt")}
# Memory of a filter: 16 bytes a person.
_MOST_PEOPLE = 10**9
# Number of limits, and the factor from each to the next: 64 of them reach 5e9 times the first.
_LIMITS, _FACTOR = 64, 1.42
# Part of a limit's delta that is kept for additive deltas, and that of one round in it.
_SHARE, _EACH = 0.1, 1e-7
_NAME = "Gaussian odometer"


class FilterBudget:
    """A target, and the plan of it: made when a round is known to plan with, and never changed.

    The arguments are those of `PrivacyFilter`; ``plan`` is the `Plan.to_dict` of one that was made
    before, and None makes it anew.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        kind: str,
        unit: Round | None,
        order: float | None,
        planned: Round | None,
        plan: Any = None,
    ) -> None:
        self.epsilon = validate.finite_nonnegative(epsilon=epsilon)
        self.delta = validate.open_unit(delta=delta)
        self.kind = validate.choice(KINDS, kind=kind)
        for name, one in (("unit", unit), ("planned", planned)):
            if one is not None:
                validate.instance(Round, **{name: one})  # type: ignore[type-abstract]
        self.unit, self.planned = unit, planned
        if unit is not None and kind not in ("auto", "unit"):
            raise ValueError(f"unit must be None with kind={kind!r}, got {unit!r:.80}")
        self.fixed_order = None if order is None else 1.0 + excess_order(order)
        if order is not None and (
            planned is not None or unit is not None or kind not in ("auto", "renyi")
        ):
            raise ValueError(
                f"order={order!r} must be given without planned and unit, and with "
                f"kind='renyi', got kind={kind!r}"
            )
        self.plan: Plan | None = None
        if plan is not None:
            self.plan = read_plan(plan, self.epsilon, self.delta)
        elif order is not None:
            self.plan = RenyiPlan(self.epsilon, self.delta, excess_order(order))
        elif self.planned is not None:
            self.planned_for(self.planned)
        elif self.unit is not None and kind == "unit":
            self.plan = UnitPlan(self.epsilon, self.delta, self.unit)

    def planned_for(self, one: Round) -> Plan:
        """The plan; the best one for rounds like this one, if there is none yet."""
        if self.plan is None:
            self.plan = best_plan(self.epsilon, self.delta, self.kind, one, self.unit)
        return self.plan

    def to_dict(self) -> dict[str, Any]:
        """What was asked for, and the plan if it is fixed, in plain JSON types."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kind": self.kind,
            "unit": None if self.unit is None else self.unit.to_dict(),
            "order": self.fixed_order,
            "planned": None if self.planned is None else self.planned.to_dict(),
            "plan": None if self.plan is None else self.plan.to_dict(),
        }

    @classmethod
    def from_dict(cls, config: dict[str, Any]) -> Self:
        """The budget of `to_dict`, with the same plan."""
        if set(config) != set(_CONFIG):
            raise ValueError(f"configuration must have fields {sorted(_CONFIG)}")
        rounds = {
            name: None if config[name] is None else round_from_dict(config[name])
            for name in ("unit", "planned")
        }
        return cls(**{**config, **rounds})

    @property
    def order(self) -> float | None:
        """The Rényi order, of a plan that has one."""
        return 1.0 + float(self.plan.fixed) if isinstance(self.plan, RenyiPlan) else None


class PrivacyFilter(Kept[FilterEntry, Round]):
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

    Attributes:
        receipt: number and digest of the last entry; kept elsewhere it shows that entries were
            lost.
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
        self._begin(FilterBudget(epsilon, delta, kind, unit, order, planned))

    def _begin(self, budget: FilterBudget) -> None:
        """Set what a filter without rounds has."""
        self._budget = budget
        self._spent = (0.0, 0.0)
        self._recorded = 0
        self._adjacency: Adjacency | None = None
        self._begin_log(SCHEMA, json.dumps(budget.to_dict(), sort_keys=True))

    @classmethod
    def open(
        cls,
        url: str,
        name: str,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        kind: str = "auto",
        unit: Round | None = None,
        order: float | None = None,
        planned: Round | None = None,
        at_least: Receipt | str | None = None,
    ) -> Self:
        """A filter that is kept in a database, made there if it is new (extra ``ledger``).

        A round is on disk when `step` returns, and only then may it be released. Any number of
        processes, on PostgreSQL of any number of machines, may have the filter open: together they
        never exceed the budget. Its plan is fixed when it is made.

        Args:
            url: of the database, as for `ShuffleLedger.open`; ledgers may be in it too.
            name: of the filter, 1 to 200 characters; a ledger of that name is another thing.
            epsilon: nats, finite, >= 0. It and ``delta``, ``kind``, ``unit``, ``order`` and
                ``planned``, as for the class, make a new filter; of one that is there already they
                must be the same, or all be left out.
            planned: a typical round. A new filter needs it, ``order``, or kind "unit" and ``unit``.
            at_least: a receipt of an earlier `step`, or its text. A filter that does not have that
                entry, as one from an older backup, is refused; no new one is made.

        Raises:
            ValueError: a filter with another budget, of a newer schema, cut, altered, or behind
                ``at_least``; no filter of that name, and no epsilon for a new one.
            StorageError: the database cannot be read or written.
        """
        least = None if at_least is None else Receipt.read(at_least=at_least)
        store = LedgerStore(url, name, FilterEntry)  # a bad url is refused before a plan is made
        asked: FilterBudget | None = None
        if epsilon is not None:
            delta = validate.open_unit(delta=delta)
            asked = FilterBudget(epsilon, delta, kind, unit, order, planned)
            if asked.plan is None:
                raise ValueError(
                    "planned must be a round: a filter in a database has its plan from the start, "
                    "got None"
                )
        elif kind != "auto" or any(one is not None for one in (delta, unit, order, planned)):
            raise ValueError("delta, kind, unit, order and planned need an epsilon, got None")

        def agree(kept: Self) -> None:
            held = kept._budget.to_dict()
            wanted = held if asked is None else asked.to_dict()
            for field in _CONFIG[:-1]:  # the plan was made from these, perhaps by another version
                if wanted[field] != held[field]:
                    raise ValueError(
                        f"{field} must be that of the filter {name!r}, {held[field]!r:.200}, got "
                        f"{wanted[field]!r:.200}"
                    )

        return cls._opened(store, None if asked is None else asked.to_dict(), least, agree)

    @classmethod
    def _configured(cls, config: dict[str, Any]) -> Self:
        made = cls.__new__(cls)
        made._begin(FilterBudget.from_dict(config))
        return made

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
            self._refresh()
            if not self._recorded or self._budget.plan is None:
                return 0.0
            return self._budget.plan.spent(*self._spent)

    def remaining(self, round: Round) -> int:
        """How many further rounds like this one `step` would record; errors as `step`."""
        with self._lock:
            self._refresh()
            most = range(1, MAX_ROUNDS - self._recorded + 1)
            return bisect_left(most, True, key=lambda count: self._sum_with(round, count) is None)

    def __repr__(self) -> str:
        kept = "" if self._store is None else f", kept in {self._store!r}"
        return (
            f"{type(self).__name__}(epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"kind={self.kind!r}, rounds={self._recorded}{kept})"
        )

    def allows(self, round: Round, count: int = 1) -> bool:
        """Whether `step` would record ``count`` further rounds; errors as `step`."""
        return not self.would_exceed(round, count)

    def would_exceed(self, round: Round, count: int = 1) -> bool:
        """Whether `step` would refuse ``count`` further rounds; errors as `step`."""
        with self._lock:
            self._refresh()
            return self._sum_with(round, count) is None

    def step(self, round: Round, count: int = 1) -> Receipt:
        """Record ``count`` >= 0 rounds, before anything of them is released; their receipt.

        Raises:
            ValueError: the plan needs a finite Rényi divergence of the round and none is known, it
                is of another adjacency than those before, or the count is out of range.
            BudgetExceeded: the budget does not allow them; nothing is recorded.
            StorageError: the database of a filter that has one cannot be written. The rounds may
                have been recorded, and must not be released.
        """
        return self._record(round, count)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it."""
        with self._lock:
            self._refresh()
            return sealed(
                {
                    "schema": SCHEMA,
                    **self._budget.to_dict(),
                    "spent": list(self._spent),
                    "steps": self._recorded,
                    "adjacency": None if self._adjacency is None else self._adjacency.value,
                    "receipt": str(self._receipt),
                }
            )

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """A new filter, in memory, from `state_dict`; it goes on with the same plan.

        Raises:
            ValueError: the state was altered, has other fields, or is of a newer schema.
        """
        state = unsealed(state, _STORED, sealed_since=1)
        made = cls._configured({name: state[name] for name in _CONFIG})
        spent = validate.items(spent=state["spent"])
        amount, slack = (validate.finite_nonnegative(spent=one) for one in spent)
        made._spent = (amount, slack)
        made._recorded = validate.integer(minimum=0, maximum=MAX_ROUNDS, steps=state["steps"])
        if state["adjacency"] is not None:
            made._adjacency = Adjacency(state["adjacency"])
        made._receipt = Receipt.read(receipt=state["receipt"])
        return made

    def _entry_of(self, round: Round, count: int) -> FilterEntry:
        return FilterEntry(json.dumps(round.to_dict(), sort_keys=True), count)

    def _round_of(self, entry: FilterEntry) -> Round:
        return _read_round(entry.round)

    def _apply(self, round: Round, count: int) -> None:
        self._spent = self._sum(round, count)
        self._adjacency = round.adjacency
        self._recorded += count

    def _require(self, round: Round, count: int) -> None:
        if self._sum_with(round, count) is None:
            raise BudgetExceeded(
                f"round {self._recorded + count} would exceed the filter of epsilon = "
                f"{self.epsilon:g} at delta = {self.delta:g}; {self._recorded} recorded"
            )

    def _sum(self, round: Round, count: int) -> tuple[float, float]:
        """Costs of all rounds so far and these, from above."""
        amount, slack = self._budget.planned_for(round).cost(round)
        return (
            (self._spent[0] + count * amount) * (1.0 + ROUNDING),
            (self._spent[1] + count * slack) * (1.0 + ROUNDING),
        )

    def _sum_with(self, round: Round, count: int) -> tuple[float, float] | None:
        """Costs of all rounds so far and these, from above; None if they exceed a limit."""
        validate.instance(Round, round=round)  # type: ignore[type-abstract]
        count = validate.integer(minimum=0, maximum=MAX_ROUNDS - self._recorded, count=count)
        _require_same(self._adjacency, round)
        if count == 0:
            return self._spent
        plan, total = self._budget.planned_for(round), self._sum(round, count)
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


@lru_cache(maxsize=4096)
def _read_round(text: str) -> Round:
    return round_from_dict(json.loads(text))


def _require_zero_out(round: Round) -> None:
    validate.instance(Round, round=round)  # type: ignore[type-abstract]
    if round.adjacency is not Adjacency.ZERO_OUT:
        raise ValueError(
            f"personal filters are for rounds of adjacency {Adjacency.ZERO_OUT.named}, got one of "
            f"{round.adjacency.named}"
        )


def _require_same(adjacency: Adjacency | None, round: Round) -> None:
    """Refuse a round of another adjacency than those before."""
    if adjacency is not None and round.adjacency is not adjacency:
        raise ValueError(
            f"round must be of adjacency {adjacency.named} as those before, got "
            f"{round.adjacency.named}"
        )


class Odometer:
    """The epsilon of all rounds so far, an upper end that holds whenever one stops to look.

        meter = sa.training.Odometer(delta=1e-8)
        while useful:
            reading = meter.step(choose(outputs))  # before anything of the round is released
            outputs.append(...)

    Rounds, their parameters and when to stop may depend on all outputs before. A budget that is
    fixed beforehand costs less: `PrivacyFilter`.

    Args:
        delta: in (0, 1).
    """

    def __init__(self, *, delta: float) -> None:
        self.delta = validate.open_unit(delta=delta)
        self._limits: list[float] = []
        self._readings: dict[int, Bracket] = {}
        self._costs: dict[Round, tuple[float, float]] = {}
        self._amount = self._slack = 0.0
        self._steps = 0
        self._adjacency: Adjacency | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """Rounds recorded so far."""
        return self._steps

    def __repr__(self) -> str:
        return f"Odometer(delta={self.delta!r}, rounds={self._steps})"

    @property
    def reading(self) -> Bracket:
        """Epsilon of all rounds so far: from 0 to an upper end, infinite beyond the limits."""
        with self._lock:
            if not self._steps:
                return Bracket(lower=0.0, upper=0.0, ledger=ErrorLedger(), reduction=_NAME)
            place = bisect_left(self._limits, self._amount)
            if self._slack > _SHARE * self.delta / _LIMITS:
                place = _LIMITS
            if place not in self._readings:
                upper = math.inf
                if place < _LIMITS:
                    mu = math.sqrt(self._limits[place]) * (1.0 + ROUNDING)
                    left = (1.0 - _SHARE) * self.delta / _LIMITS * (1.0 - ROUNDING)
                    upper = epsilon_of_mu(mu, left)
                self._readings[place] = Bracket(
                    lower=0.0,
                    upper=upper,
                    ledger=ErrorLedger(method="sum"),
                    reduction=_NAME,
                    adjacency=self._adjacency,
                    conditions=lambda: conditions_of(tuple(self._costs)),
                )
            return self._readings[place]

    def step(self, round: Round, count: int = 1) -> Bracket:
        """Record ``count`` >= 0 rounds, before anything of them is released; the new reading.

        Raises:
            ValueError: it is of another adjacency than those before, or the count is out of range.
        """
        with self._lock:
            cost = self._costs.get(round) or self._cost(round)
            if count != 1:
                count = validate.integer(minimum=0, maximum=MAX_ROUNDS, count=count)
            if count == 0:  # an infinite cost none of which is paid
                return self.reading
            self._amount = (self._amount + count * cost[0]) * (1.0 + 1e-15)
            self._slack = (self._slack + count * cost[1]) * (1.0 + 1e-15)
            self._steps += count
            return self.reading

    def _cost(self, one: Round) -> tuple[float, float]:
        """Squared mu and additive delta of a round; the first one fixes the limits."""
        validate.instance(Round, round=one)  # type: ignore[type-abstract]
        _require_same(self._adjacency, one)
        self._adjacency = one.adjacency
        mu, slack = gaussian_cost(one, _EACH * _SHARE * self.delta / _LIMITS)
        if not self._limits:
            first = max(mu * mu, 1e-12) if math.isfinite(mu) else 1.0
            first *= 1.0 + 2.0 * ROUNDING  # one round is within it, as its cost is rounded up
            self._limits = (first * _FACTOR ** np.arange(_LIMITS)).tolist()
        self._costs[one] = found = (mu * mu * (1.0 + ROUNDING), slack)
        return found
