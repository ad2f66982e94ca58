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

import json
import math
import threading
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, round_from_dict
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.plans import (
    KINDS,
    ROUNDING,
    Plan,
    RenyiPlan,
    UnitPlan,
    best_plan,
    excess_order,
    read_plan,
)
from shuffle_accountant.training.receipts import Receipt
from shuffle_accountant.training.store import FilterEntry, LedgerStore

__all__ = ["FilterBudget", "PersonalFilter", "PrivacyFilter"]

SCHEMA = 1
_CONFIG = ("epsilon", "delta", "kind", "unit", "order", "planned", "plan")
_STORED = {1: ("schema", *_CONFIG, "spent", "steps", "adjacency", "receipt")}
# Most rounds whose costs are kept; with more of them all are worked out anew.
_MOST_COSTS = 4096


# Memory of a filter: 16 bytes a person.
_MOST_PEOPLE = 10**9


class FilterBudget:
    """A target, and the plan of it: made when a round is known to plan with, and never changed.

    Args:
        epsilon: nats, finite, >= 0.
        delta: in (0, 1).
        kind: of the plan, one of `KINDS`.
        unit: the round that others are paid in, or None.
        order: Rényi order > 1, or None.
        planned: a typical round, or None.
        plan: what `Plan.to_dict` says of one that was made before; None makes it anew.
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
        self.unit = None if unit is None else validate.instance(Round, unit=unit)  # type: ignore[type-abstract]
        if unit is not None and kind not in ("auto", "unit"):
            raise ValueError(f"unit must be None with kind={kind!r}, got {unit!r:.80}")
        self.planned = (
            None if planned is None else validate.instance(Round, planned=planned)  # type: ignore[type-abstract]
        )
        self.fixed_order = None if order is None else 1.0 + excess_order(order)
        if order is not None and (
            planned is not None or unit is not None or kind not in ("auto", "renyi")
        ):
            raise ValueError(
                f"order={order!r} must be given without planned and unit, and with "
                f"kind='renyi', got kind={kind!r}"
            )
        self._costs: dict[Round, tuple[float, float]] = {}
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

    def cost(self, one: Round) -> tuple[float, float]:
        """Amount and additive delta of a round by the plan, from above; worked out once."""
        if one not in self._costs:
            found = self.planned_for(one).cost(one)
            if len(self._costs) >= _MOST_COSTS:
                self._costs.clear()
            self._costs[one] = found
        return self._costs[one]

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
        """The budget of `to_dict`, with the same plan.

        Raises:
            ValueError: fields are missing or unknown, or one is out of range.
        """
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
        self._begin(FilterBudget(epsilon, delta, kind, unit, order, planned))

    def _begin(self, budget: FilterBudget) -> None:
        """Set what a filter without rounds has."""
        self._budget = budget
        self._spent = (0.0, 0.0)
        self._steps = 0
        self._adjacency: Adjacency | None = None
        self._store: LedgerStore[FilterEntry] | None = None
        self._receipt = Receipt.first("", SCHEMA, json.dumps(budget.to_dict(), sort_keys=True))
        self._lock = threading.RLock()

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
            epsilon: nats, finite, >= 0. It and the arguments after it make a new filter; of one
                that is there already they must be the same, or all be left out.
            delta: in (0, 1).
            kind: as for the class, and so are ``unit``, ``order`` and ``planned``.
            unit: the round that others are paid in.
            order: Rényi order lambda, finite, > 1.
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
        new = asked is not None and least is None
        config, entries, end = store.open(asked.to_dict() if asked and new else None)
        try:
            budget = FilterBudget.from_dict(config)
        except (TypeError, ValueError) as error:
            raise ValueError(f"filter {store!r} cannot be read: {error}") from None
        wanted, held = (asked or budget).to_dict(), budget.to_dict()
        for field in _CONFIG[:-1]:  # the plan was made from these, perhaps by another version
            if wanted[field] != held[field]:
                raise ValueError(
                    f"{field} must be that of the filter {name!r}, {held[field]!r:.200}, got "
                    f"{wanted[field]!r:.200}"
                )
        if least is not None:
            store.require(least)
        kept = cls.__new__(cls)
        kept._begin(budget)
        kept._store = store
        kept._follow(entries, end)
        return kept

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
            if not self._steps or self._budget.plan is None:
                return 0.0
            return self._budget.plan.spent(*self._spent)

    @property
    def receipt(self) -> Receipt:
        """Number and digest of the last entry; kept elsewhere it shows that entries were lost."""
        with self._lock:
            self._refresh()
            return self._receipt

    def remaining(self, round: Round) -> int:
        """How many further rounds like this one `step` would record.

        Raises:
            ValueError: as `step`.
        """
        with self._lock:
            self._refresh()
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
        with self._lock:
            self._refresh()
            return self._steps

    def __bool__(self) -> bool:
        """Always True, also for a filter without rounds."""
        return True

    def __repr__(self) -> str:
        kept = "" if self._store is None else f", kept in {self._store!r}"
        return (
            f"{type(self).__name__}(epsilon={self.epsilon!r}, delta={self.delta!r}, "
            f"kind={self.kind!r}, rounds={self._steps}{kept})"
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
            self._refresh()
            return self._sum_with(round, count) is None

    def step(self, round: Round, count: int = 1) -> Receipt:
        """Record rounds, before anything of them is released; the receipt of them.

        Args:
            round: what happens next.
            count: how often, >= 0.

        Raises:
            ValueError: the plan needs a finite Rényi divergence of the round and none is known, it
                is of another adjacency than those before, or the count is out of range.
            BudgetExceeded: the budget does not allow them; nothing is recorded.
            StorageError: the database of a filter that has one cannot be written. The rounds may
                have been recorded, and must not be released.
        """
        with self._lock:
            # of a filter in a database costs are worked out before others have to wait
            self._refresh()
            total = self._required(round, count)
            if count > 0:
                entry = FilterEntry(json.dumps(round.to_dict(), sort_keys=True), int(count))
                if self._store is None:
                    after = self._receipt.after("", entry.round, entry.count)
                else:
                    with self._store.transaction() as transaction:
                        self._follow(*transaction.entries(self._receipt))
                        total = self._required(round, count)
                        after = transaction.append(entry)
                self._apply(round, count, total)
                self._receipt = after
            return self._receipt

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it."""
        with self._lock:
            self._refresh()
            return sealed(
                {
                    "schema": SCHEMA,
                    **self._budget.to_dict(),
                    "spent": list(self._spent),
                    "steps": self._steps,
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
        made = cls.__new__(cls)
        made._begin(FilterBudget.from_dict({name: state[name] for name in _CONFIG}))
        spent = validate.items(spent=state["spent"])
        amount, slack = (validate.finite_nonnegative(spent=one) for one in spent)
        made._spent = (amount, slack)
        made._steps = validate.integer(minimum=0, maximum=MAX_ROUNDS, steps=state["steps"])
        if state["adjacency"] is not None:
            made._adjacency = Adjacency(state["adjacency"])
        made._receipt = Receipt.read(receipt=state["receipt"])
        return made

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self._store is not None:
            return type(self).open, (self._store.url, self._store.name)
        return type(self).from_state_dict, (self.state_dict(),)

    def _refresh(self) -> None:
        """Read the entries that other processes have recorded."""
        if self._store is not None:
            self._follow(*self._store.entries(self._receipt))

    def _follow(self, entries: Iterable[FilterEntry], end: Receipt) -> None:
        """Add entries of the log, in their order, whether or not they are within the limits."""
        rounds: dict[str, Round] = {}
        for entry in entries:
            if entry.round not in rounds:
                rounds[entry.round] = round_from_dict(json.loads(entry.round))
            one = rounds[entry.round]
            self._apply(one, entry.count, self._sum(one, entry.count))
        self._receipt = end

    def _apply(self, round: Round, count: int, total: tuple[float, float]) -> None:
        self._adjacency = round.adjacency
        self._spent = total
        self._steps += count

    def _required(self, round: Round, count: int) -> tuple[float, float]:
        """Costs of all rounds so far and these, if they are within the limits."""
        total = self._sum_with(round, count)
        if total is None:
            raise BudgetExceeded(
                f"round {self._steps + count} would exceed the filter of epsilon = "
                f"{self.epsilon:g} at delta = {self.delta:g}; {self._steps} recorded"
            )
        return total

    def _sum(self, round: Round, count: int) -> tuple[float, float]:
        """Costs of all rounds so far and these, from above."""
        amount, slack = self._budget.cost(round)
        return (
            (self._spent[0] + count * amount) * (1.0 + ROUNDING),
            (self._spent[1] + count * slack) * (1.0 + ROUNDING),
        )

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
