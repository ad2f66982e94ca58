"""A ledger for any training loop: counts rounds, answers with brackets, refuses to overspend."""

from __future__ import annotations

import threading
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded, budget_cache
from shuffle_accountant.training.cohorts import CohortBudget
from shuffle_accountant.training.flower import PrivacyConfig, PrivacySpent

__all__ = ["ShuffleLedger"]

# Limits whose remaining rounds are remembered.
_MOST_BUDGETS = 8

SCHEMA = 2
_FIELDS = ("schema", "round", "steps", "cohorts", "target_delta", "max_epsilon", "tolerance")


class ShuffleLedger:
    """Privacy ledger of a training run whose steps are shuffled rounds of one randomizer.

    All steps are the configured round, unless a step says how many users it had, as in
    ``step(users=812)``. How many there are must not depend on their data.

    A step is recorded in microseconds; brackets are computed when they are asked for, and now and
    then for a budget. All methods may be called from any thread. A ledger can be pickled and
    copied.

    It has the methods of Flower's protocol `flwr.serverapp.PrivacyAccountant`: ``config``,
    ``num_releases``, ``compose(event, count)``, ``get_epsilon(delta)``, ``get_delta(epsilon)``,
    ``get_privacy_spent(delta)``, ``would_exceed(event, max_epsilon, count)``, ``state_dict()`` and
    ``load_state_dict(state)``. The events it composes are shuffled rounds of its own randomizer:
    Flower's Gaussian events are another mechanism and are refused.

    Args:
        randomizer: what each user applies to its contribution.
        users: users in each step that does not say otherwise, >= 1.
        population: if given, each step draws its users from this many, anew, uniformly and without
            replacement. If not, all users take part in each step.
        target_delta: delta in (0, 1) of the budget, and wherever none is given.
        max_epsilon: the budget, nats, >= 0: a step that would go over it at ``target_delta`` raises
            `BudgetExceeded` and is not recorded.
        tolerance: relative width in epsilon of brackets, > 0.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range; a budget without ``target_delta``.
    """

    def __init__(
        self,
        randomizer: LocalRandomizer,
        *,
        users: int,
        population: int | None = None,
        target_delta: float | None = None,
        max_epsilon: float | None = None,
        tolerance: float = 1e-3,
    ) -> None:
        self._round = ShuffleRound(randomizer, users=users, population=population)
        self._tolerance = validate.positive(tolerance=tolerance)
        if target_delta is not None:
            target_delta = validate.open_unit(target_delta=target_delta)
        if max_epsilon is not None:
            max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
            if target_delta is None:
                raise ValueError("max_epsilon needs a target_delta in (0, 1), got None")
        self._target_delta, self._max_epsilon = target_delta, max_epsilon
        self._steps = 0
        self._cohorts = FourierAccountant(tolerance=self._tolerance)  # steps of other sizes
        self._budgets: dict[tuple[float, float], CohortBudget] = {}
        self._lock = threading.RLock()

    @property
    def round(self) -> ShuffleRound:
        """What happens in each step."""
        return self._round

    @property
    def config(self) -> PrivacyConfig:
        """What is accounted for, in Flower's words."""
        return PrivacyConfig(
            target_delta=self._target_delta,
            population_size=self._round.population or self._round.users,
            max_epsilon=self._max_epsilon,
            neighboring_relation=self._round.adjacency.value,
        )

    @property
    def num_releases(self) -> int:
        """Steps recorded so far."""
        return self._steps + len(self._cohorts)

    def __len__(self) -> int:
        """Steps recorded so far."""
        return self.num_releases

    def __bool__(self) -> bool:
        """A ledger is one even when it is empty."""
        return True

    def __repr__(self) -> str:
        return f"ShuffleLedger({self._round!r}, steps={len(self)})"

    def step(
        self, count: int = 1, *, users: int | None = None, population: int | None = None
    ) -> None:
        """Record ``count`` further steps, before their output is used.

        Args:
            count: how many, >= 0.
            users: in each of them; those of ``round`` if left out.
            population: that they are drawn from; that of ``round`` if left out.

        Raises:
            TypeError: an argument is not an integer.
            ValueError: ``count`` is negative, or users or population are outside their range.
            BudgetExceeded: the budget does not allow them; nothing is recorded.
        """
        round = self._round
        if users is not None or population is not None:
            round = ShuffleRound(
                round.randomizer,
                users=round.users if users is None else users,
                population=round.population if population is None else population,
            )
        self._record(round, self._count(count))

    def epsilon(self, *, delta: float | None = None) -> Bracket:
        """Certified bracket of the epsilon (nats) spent; 0 before the first step.

        Args:
            delta: in (0, 1); ``target_delta`` if left out.

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1), or left out without a ``target_delta``.
        """
        return self._accountant().epsilon(delta=self._delta(delta))

    def delta(self, *, epsilon: float) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats).

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        return self._accountant().delta(epsilon=epsilon)

    def would_exceed(
        self,
        event: ShuffleRound | None = None,
        max_epsilon: float | None = None,
        count: int = 1,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> bool:
        """Whether ``count`` further steps would bring the certified upper end above a limit.

        It takes at most two brackets; asked at every step of a loop, most times it is a comparison.

        Args:
            event: a round of this ledger's randomizer; its own ``round`` if left out.
            max_epsilon: Flower's name for ``epsilon``.
            count: further steps, >= 0.
            epsilon: the limit, nats, finite, >= 0; the ledger's budget if left out.
            delta: in (0, 1); ``target_delta`` if left out.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: an argument outside its range, another event, or no limit to compare with.
        """
        event = self._round if event is None else self._own(event)
        if max_epsilon is not None and epsilon is not None:
            raise ValueError(f"give epsilon or max_epsilon, not both: {epsilon!r}, {max_epsilon!r}")
        limit = epsilon if epsilon is not None else max_epsilon
        limit = self._max_epsilon if limit is None else limit
        if limit is None:
            raise ValueError("epsilon must be given to a ledger without max_epsilon, got None")
        limit = validate.finite_nonnegative(epsilon=limit)
        delta, count = self._delta(delta), self._count(count)
        with self._lock:
            self._total(count)
            return self._exceeded_by(event, count, limit, delta)

    def compose(self, event: ShuffleRound, count: int = 1) -> None:
        """Record ``count`` steps of a round of this ledger's randomizer (Flower's name for `step`).

        Raises:
            TypeError: ``event`` is not a round, or ``count`` not an integer.
            ValueError: a round of another randomizer than this ledger's, or a negative count.
            BudgetExceeded: as for `step`.
        """
        self._record(self._own(event), self._count(count))

    def get_epsilon(self, delta: float) -> Bracket:
        """The same as `epsilon`."""
        return self.epsilon(delta=delta)

    def get_delta(self, epsilon: float) -> Bracket:
        """The same as `delta`."""
        return self.delta(epsilon=epsilon)

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Epsilon at delta, the number of steps and the theorem, in one record; see `epsilon`."""
        delta = self._delta(delta)
        with self._lock:
            steps, spent = len(self), self.epsilon(delta=delta)
        return PrivacySpent(
            epsilon=spent,
            delta=delta,
            num_releases=steps,
            accounting_method=f"shuffle ({self._round.reduced().name})",
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types."""
        with self._lock:
            return {
                "schema": SCHEMA,
                "round": self._round.to_dict(),
                "steps": self._steps,
                "cohorts": self._cohorts.protocol.to_dict()["rounds"],
                "target_delta": self._target_delta,
                "max_epsilon": self._max_epsilon,
                "tolerance": self._tolerance,
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same configuration; this ledger's budget stays.

        Raises:
            TypeError: not a dictionary, or a field of the wrong type.
            ValueError: missing or unknown fields, a schema newer than this version knows, or the
                state of another configuration. The ledger is unchanged.
        """
        other = type(self).from_state_dict(state)
        if other._round != self._round:
            raise ValueError(
                f"state is of another configuration, {other._round!r}, got by a ledger of "
                f"{self._round!r}"
            )
        with self._lock:
            self._steps, self._cohorts = other._steps, other._cohorts
            self._budgets = {}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> ShuffleLedger:
        """A new ledger from `state_dict`; a JSON text round trip in between changes nothing.

        Raises:
            TypeError: not a dictionary, or a field of the wrong type.
            ValueError: missing or unknown fields, values outside their range, or a schema newer
                than this version knows.
        """
        state = validate.instance(dict, state=state)
        schema = validate.integer(minimum=1, maximum=SCHEMA, schema=state.get("schema"))
        # schema 1 knew equal steps only
        wanted = set(_FIELDS) - (set() if schema > 1 else {"cohorts"})
        if set(state) != wanted:
            raise ValueError(
                f"state of schema {schema} must have fields {sorted(wanted)}, "
                f"got {sorted(map(str, state))}"
            )
        round = ShuffleRound.from_dict(state["round"])
        ledger = cls(
            round.randomizer,
            users=round.users,
            population=round.population,
            target_delta=state["target_delta"],
            max_epsilon=state["max_epsilon"],
            tolerance=state["tolerance"],
        )
        if ledger._round != round:
            raise ValueError(f"round must be of reduction='auto' in a ledger, got {round!r}")
        ledger._steps = validate.integer(minimum=0, maximum=MAX_ROUNDS, steps=state["steps"])
        for one, count in Protocol.from_list(state.get("cohorts", [])):
            ledger._cohorts.compose(ledger._own(one), count=ledger._total(count) - len(ledger))
        return ledger

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return type(self).from_state_dict, (self.state_dict(),)

    def _accountant(self) -> FourierAccountant:
        with self._lock:
            return FourierAccountant(tolerance=self._tolerance).compose(self._spent())

    def _spent(self) -> Protocol:
        """Everything recorded."""
        return self._cohorts.protocol + Protocol([(self._round, self._steps)])

    def _record(self, round: ShuffleRound, count: int) -> None:
        with self._lock:
            total = self._total(count)
            if self._max_epsilon is not None and count > 0:
                assert self._target_delta is not None
                if self._exceeded_by(round, count, self._max_epsilon, self._target_delta):
                    raise BudgetExceeded(
                        f"step {total} would exceed epsilon = {self._max_epsilon:g} at delta = "
                        f"{self._target_delta:g}; {len(self)} recorded"
                    )
            for budget in self._budgets.values():
                budget.record(round, count)
            if round == self._round:
                self._steps += count
            else:
                self._cohorts.compose(round, count=count)

    def _exceeded_by(self, round: ShuffleRound, count: int, epsilon: float, delta: float) -> bool:
        if count > 0 and (len(self._cohorts) > 0 or round != self._round):
            key = (epsilon, delta)
            if key not in self._budgets:
                # a loop asks about one or two limits; more are not remembered
                if len(self._budgets) >= _MOST_BUDGETS:
                    self._budgets.clear()
                self._budgets[key] = CohortBudget(epsilon, delta, self._tolerance)
            return self._budgets[key].exceeded_by(self._spent, round, count)
        steps = self._steps + count
        return budget_cache(self._round, epsilon, delta, self._tolerance).exceeded_by(steps)

    def _count(self, count: int) -> int:
        return validate.integer(minimum=0, maximum=MAX_ROUNDS, count=count)

    def _total(self, count: int) -> int:
        return len(self) + validate.integer(maximum=MAX_ROUNDS - len(self), count=count)

    def _delta(self, delta: float | None) -> float:
        if delta is None:
            if self._target_delta is None:
                raise ValueError("delta must be given to a ledger without target_delta, got None")
            return self._target_delta
        return validate.open_unit(delta=delta)

    def _own(self, event: object) -> ShuffleRound:
        """The event, if it is a round that this ledger may compose."""
        given = validate.instance(ShuffleRound, event=event)
        if given.randomizer != self._round.randomizer or given.reduction != self._round.reduction:
            raise ValueError(
                f"event must be a round of this ledger's randomizer, {self._round.randomizer!r}, "
                f"got {given!r}"
            )
        return given
