"""A ledger for any training loop: counts rounds, answers with brackets, refuses to overspend."""

from __future__ import annotations

import threading
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.rounds.protocol import MAX_ROUNDS
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded, budget_cache
from shuffle_accountant.training.flower import PrivacyConfig, PrivacySpent

__all__ = ["ShuffleLedger"]

SCHEMA = 1
_FIELDS = ("schema", "round", "steps", "target_delta", "max_epsilon", "tolerance")


class ShuffleLedger:
    """Privacy ledger of a training run whose steps are equal shuffled rounds.

    A step is recorded in microseconds; brackets are computed when they are asked for, and now and
    then for a budget. All methods may be called from any thread. A ledger can be pickled and
    copied.

    It has the methods of Flower's protocol `flwr.serverapp.PrivacyAccountant`: ``config``,
    ``num_releases``, ``compose(event, count)``, ``get_epsilon(delta)``, ``get_delta(epsilon)``,
    ``get_privacy_spent(delta)``, ``would_exceed(event, max_epsilon, count)``, ``state_dict()`` and
    ``load_state_dict(state)``. The one event it composes is its own ``round``: Flower's Gaussian
    events are another mechanism and are refused.

    Args:
        randomizer: what each user applies to its contribution.
        users: users in each step, >= 1.
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
        return self._steps

    def __len__(self) -> int:
        """Steps recorded so far."""
        return self._steps

    def __bool__(self) -> bool:
        """A ledger is one even when it is empty."""
        return True

    def __repr__(self) -> str:
        return f"ShuffleLedger({self._round!r}, steps={self._steps})"

    def step(self, count: int = 1) -> None:
        """Record ``count`` further steps, before their output is used.

        Raises:
            TypeError: ``count`` is not an integer.
            ValueError: ``count`` is negative.
            BudgetExceeded: the budget does not allow them; nothing is recorded.
        """
        count = self._count(count)
        with self._lock:
            total = self._total(count)
            if self._max_epsilon is not None and count > 0:
                assert self._target_delta is not None
                if self._exceeded_by(total, self._max_epsilon, self._target_delta):
                    raise BudgetExceeded(
                        f"step {total} would exceed epsilon = {self._max_epsilon:g} at delta = "
                        f"{self._target_delta:g}; {self._steps} recorded"
                    )
            self._steps = total

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
            event: this ledger's ``round``, which is the only one and may be left out.
            max_epsilon: Flower's name for ``epsilon``.
            count: further steps, >= 0.
            epsilon: the limit, nats, finite, >= 0; the ledger's budget if left out.
            delta: in (0, 1); ``target_delta`` if left out.

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: an argument outside its range, another event, or no limit to compare with.
        """
        if event is not None:
            self._require_own(event)
        if max_epsilon is not None and epsilon is not None:
            raise ValueError(f"give epsilon or max_epsilon, not both: {epsilon!r}, {max_epsilon!r}")
        limit = epsilon if epsilon is not None else max_epsilon
        limit = self._max_epsilon if limit is None else limit
        if limit is None:
            raise ValueError("epsilon must be given to a ledger without max_epsilon, got None")
        limit = validate.finite_nonnegative(epsilon=limit)
        delta, count = self._delta(delta), self._count(count)
        with self._lock:
            return self._exceeded_by(self._total(count), limit, delta)

    def compose(self, event: ShuffleRound, count: int = 1) -> None:
        """Record ``count`` steps of this ledger's ``round`` (Flower's name for `step`).

        Raises:
            TypeError: ``event`` is not a round, or ``count`` not an integer.
            ValueError: another round than this ledger's, or a negative count.
            BudgetExceeded: as for `step`.
        """
        self._require_own(event)
        self.step(count)

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
            steps, spent = self._steps, self.epsilon(delta=delta)
        return PrivacySpent(
            epsilon=spent,
            delta=delta,
            num_releases=steps,
            accounting_method=f"shuffle ({self._round.reduced().name})",
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types."""
        return {
            "schema": SCHEMA,
            "round": self._round.to_dict(),
            "steps": self._steps,
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
            self._steps = other._steps

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
        if set(state) != set(_FIELDS):
            raise ValueError(
                f"state of schema {schema} must have fields {sorted(_FIELDS)}, "
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
        return ledger

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return type(self).from_state_dict, (self.state_dict(),)

    def _accountant(self) -> FourierAccountant:
        return FourierAccountant(tolerance=self._tolerance).compose(self._round, count=self._steps)

    def _exceeded_by(self, steps: int, epsilon: float, delta: float) -> bool:
        return budget_cache(self._round, epsilon, delta, self._tolerance).exceeded_by(steps)

    def _count(self, count: int) -> int:
        return validate.integer(minimum=0, maximum=MAX_ROUNDS, count=count)

    def _total(self, count: int) -> int:
        return self._steps + validate.integer(maximum=MAX_ROUNDS - self._steps, count=count)

    def _delta(self, delta: float | None) -> float:
        if delta is None:
            if self._target_delta is None:
                raise ValueError("delta must be given to a ledger without target_delta, got None")
            return self._target_delta
        return validate.open_unit(delta=delta)

    def _require_own(self, event: object) -> None:
        own = validate.instance(ShuffleRound, event=event)
        if own != self._round:
            raise ValueError(f"event must be this ledger's round, {self._round!r}, got {own!r}")
