"""A ledger for any training loop: counts rounds, answers with brackets, refuses to overspend."""

from __future__ import annotations

import json
from typing import Any, Self

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.training.budget import BudgetExceeded, CohortBudget, budget_cache
from shuffle_accountant.training.store import Entry, Kept, LedgerStore, Receipt

__all__ = ["ShuffleLedger"]

# Most budgets whose number of remaining rounds is cached.
_MOST_BUDGETS = 8

SCHEMA = 3
_CONFIG = ("round", "target_delta", "max_epsilon", "tolerance")
_EQUAL = ("schema", "steps", *_CONFIG)
# by schema: the first knew equal steps only, and the first two had no digest
_STORED = {1: _EQUAL, 2: (*_EQUAL, "cohorts"), 3: (*_EQUAL, "cohorts", "receipt")}


class ShuffleLedger(Kept[Entry, ShuffleRound]):
    """Privacy ledger of a training run whose steps are shuffled rounds of one randomizer.

    All steps are the configured round, unless a step says how many users it had, as in
    ``step(users=812)``. How many there are must not depend on their data.

    A step is recorded in microseconds; brackets are computed when they are asked for, and now and
    then for a budget. All methods may be called from any thread. A ledger can be pickled and
    copied.

    *What must be fixed beforehand.* Epsilon and budget are those of rounds whose kinds, numbers of
    users and count do not depend on what earlier rounds gave; the randomizer's inputs (gradients at
    the current model) may. Rounds that are chosen by looking at outputs need a `PrivacyFilter`.

    A ledger in memory forgets with its process; `open` keeps it in a database.

    Args:
        randomizer: what each user applies to its contribution.
        users: users in each step that does not say otherwise, >= 1.
        population: if given, each step draws its users from this many, anew, uniformly and without
            replacement. If not, all users take part in each step.
        target_delta: delta in (0, 1) of the budget, and wherever none is given.
        max_epsilon: the budget, nats, >= 0: a step that would go over it at ``target_delta`` raises
            `BudgetExceeded` and is not recorded.
        tolerance: relative width in epsilon of brackets, > 0.

    Attributes:
        receipt: number and digest of the last entry; kept elsewhere it shows that entries were
            lost.
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
        self._begin_log(SCHEMA, json.dumps(self._configuration()))

    @classmethod
    def open(
        cls,
        url: str,
        name: str,
        *,
        randomizer: LocalRandomizer | None = None,
        users: int | None = None,
        population: int | None = None,
        budget: tuple[float, float] | None = None,
        tolerance: float | None = None,
        at_least: Receipt | str | None = None,
    ) -> Self:
        """A ledger that is kept in a database, made there if it is new (extra ``ledger``).

        A step is on disk when `step` returns, and only then may its round be released. Any number
        of processes may have the ledger open, on PostgreSQL of any number of machines: together
        they never exceed the budget. A process that is killed in the middle of a step leaves it
        recorded or not; recorded at the worst, though nothing was released.

        Args:
            url: of the database, as SQLAlchemy has them: ``sqlite:///privacy.db``, a file on a disk
                of this machine, or ``postgresql+psycopg://user@host/database``.
            name: of the ledger, 1 to 200 characters; a database may hold many.
            randomizer: as for the class, and so are ``users`` and ``population``. They and the two
                arguments after them make a new ledger; of one that is there already they must be
                the same, or all be left out.
            budget: (epsilon, delta) that no step goes over, or None.
            tolerance: relative width in epsilon of brackets, > 0; 1e-3 for a new ledger.
            at_least: a receipt of an earlier `step`, or its text. A ledger that does not have that
                entry, as one from an older backup, is refused; no new one is made.

        Raises:
            ValueError: a ledger of another configuration, of a newer schema, cut, altered, or
                behind ``at_least``; no ledger of that name, and no randomizer for a new one.
            StorageError: the database cannot be read or written.
        """
        least = None if at_least is None else Receipt.read(at_least=at_least)
        asked = None
        if randomizer is not None:
            epsilon, delta = (None, None) if budget is None else _budget(budget)
            asked = cls(
                randomizer,
                users=validate.integer(minimum=1, users=users),
                population=population,
                target_delta=delta,
                max_epsilon=epsilon,
                tolerance=1e-3 if tolerance is None else tolerance,
            )
        elif any(given is not None for given in (users, population, budget, tolerance)):
            raise ValueError("users, population, budget and tolerance need a randomizer, got none")

        def agree(ledger: Self) -> None:
            if asked is not None and asked._promise() != ledger._promise():
                raise ValueError(
                    f"ledger {name!r} is of another configuration, {ledger._text()}, got "
                    f"{asked._text()}"
                )

        config = None if asked is None else asked._configuration()
        return cls._opened(LedgerStore(url, name, Entry), config, least, agree)

    @property
    def round(self) -> ShuffleRound:
        """The round of each step."""
        return self._round

    @property
    def num_releases(self) -> int:
        """Steps recorded so far."""
        return len(self)

    def __repr__(self) -> str:
        kept = "" if self._store is None else f", kept in {self._store!r}"
        return f"{type(self).__name__}({self._round!r}, steps={self._recorded}{kept})"

    def step(
        self, count: int = 1, *, users: int | None = None, population: int | None = None
    ) -> Receipt:
        """Record ``count`` further steps, before their output is used; the receipt of them.

        Args:
            count: how many, >= 0.
            users: in each of them; those of ``round`` if left out.
            population: that they are drawn from; that of ``round`` if left out.

        Raises:
            BudgetExceeded: the budget does not allow them; nothing is recorded.
            StorageError: the database of a ledger that has one cannot be written. The steps may
                have been recorded, and must not be released.
        """
        usual = self._round
        round = self._sized(
            usual.plain_users if users is None else users,
            usual.population if population is None else population,
        )
        return self._record(round, _count(count))

    def epsilon(self, *, delta: float | None = None) -> Bracket:
        """Certified bracket of the epsilon (nats) spent; 0 before the first step.

        Args:
            delta: in (0, 1); ``target_delta`` if left out.
        """
        return self._accountant().epsilon(delta=self._delta(delta))

    def delta(self, *, epsilon: float) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats)."""
        return self._accountant().delta(epsilon=epsilon)

    def would_exceed(
        self,
        event: ShuffleRound | None = None,
        *,
        count: int = 1,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> bool:
        """Whether ``count`` further steps would bring the certified upper end above a limit.

        It takes at most two brackets; asked at every step of a loop, most times it is a comparison.

        Args:
            event: a round of this ledger's randomizer; its own ``round`` if left out.
            count: further steps, >= 0.
            epsilon: the limit, nats, finite, >= 0; the ledger's budget if left out.
            delta: in (0, 1); ``target_delta`` if left out.
        """
        event = self._round if event is None else self._own(event)
        limit = self._max_epsilon if epsilon is None else epsilon
        if limit is None:
            raise ValueError("epsilon must be given to a ledger without max_epsilon, got None")
        limit = validate.finite_nonnegative(epsilon=limit)
        delta, count = self._delta(delta), _count(count)
        with self._lock:
            self._refresh()
            self._total(count)
            return self._exceeded_by(event, count, limit, delta)

    def compose(self, event: ShuffleRound, count: int = 1) -> Receipt:
        """Record ``count`` steps of a round of this ledger's randomizer; the receipt of them.

        Raises:
            BudgetExceeded: as for `step`.
        """
        return self._record(self._own(event), _count(count))

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it."""
        with self._lock:
            self._refresh()
            return sealed(
                {
                    "schema": SCHEMA,
                    "steps": self._steps,
                    "cohorts": self._cohorts.protocol.to_dict()["rounds"],
                    "receipt": str(self._receipt),
                    **self._configuration(),
                }
            )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same configuration; this ledger's budget stays.

        Raises:
            ValueError: missing or unknown fields, a schema newer than this version knows, the state
                of another configuration, or a ledger in a database. The ledger is unchanged.
        """
        if self._store is not None:
            raise ValueError(f"a ledger kept in a database goes on from there: {self._store!r}")
        other = type(self).from_state_dict(state)
        if other._round != self._round:
            raise ValueError(
                f"state is of another configuration, {other._round!r}, got by a ledger of "
                f"{self._round!r}"
            )
        with self._lock:
            self._steps, self._cohorts = other._steps, other._cohorts
            self._receipt = other._receipt
            self._budgets = {}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> Self:
        """A new ledger from `state_dict`; a JSON text round trip in between changes nothing.

        States of versions 0.1.0 and 0.2.0 have no digest and are read with a warning.
        """
        state = unsealed(state, _STORED, sealed_since=3)
        ledger = cls._configured(state)
        steps = validate.integer(minimum=0, maximum=MAX_ROUNDS, steps=state["steps"])
        cohorts = Protocol.from_list(state.get("cohorts", []))
        for one, count in ((ledger._round, steps), *cohorts):
            if count > 0:
                ledger._total(count)
                ledger._receipt = ledger._next(ledger._own(one), count)
                ledger._apply(one, count)
        if "receipt" in state:
            ledger._receipt = Receipt.read(receipt=state["receipt"])
        return ledger

    @classmethod
    def _configured(cls, config: dict[str, Any]) -> Self:
        """A ledger without steps from `_configuration`."""
        if not set(config) >= set(_CONFIG):
            raise ValueError(f"configuration must have fields {sorted(_CONFIG)}")
        round = ShuffleRound.from_dict(config["round"])
        ledger = cls(
            round.randomizer,
            users=round.plain_users,
            population=round.population,
            target_delta=config["target_delta"],
            max_epsilon=config["max_epsilon"],
            tolerance=config["tolerance"],
        )
        if ledger._round != round:
            raise ValueError(f"round must be of reduction='auto' in a ledger, got {round!r}")
        return ledger

    @property
    def _recorded(self) -> int:  # type: ignore[override]
        return self._steps + len(self._cohorts)

    def _configuration(self) -> dict[str, Any]:
        """The round, the target delta, the budget and the tolerance, in plain JSON types."""
        return {
            "round": self._round.to_dict(),
            "target_delta": self._target_delta,
            "max_epsilon": self._max_epsilon,
            "tolerance": self._tolerance,
        }

    def _promise(self) -> tuple[Any, ...]:
        """The round, the budget and its delta, on which all users of one ledger must agree."""
        return self._round, self._max_epsilon, self._target_delta

    def _text(self) -> str:
        return f"{self._round!r} with budget {(self._max_epsilon, self._target_delta)}"

    def _accountant(self) -> FourierAccountant:
        with self._lock:
            self._refresh()
            return FourierAccountant(tolerance=self._tolerance).compose(self._spent())

    def _spent(self) -> Protocol:
        """The protocol of everything recorded."""
        return self._cohorts.protocol + Protocol([(self._round, self._steps)])

    def _next(self, round: ShuffleRound, count: int) -> Receipt:
        if round.plain:
            return super()._next(round, count)
        return self._receipt.after("", round.to_dict(), count)

    def _entry_of(self, round: ShuffleRound, count: int) -> Entry:
        return Entry(round.plain_users, round.population, count)

    def _round_of(self, entry: Entry) -> ShuffleRound:
        return self._sized(entry.users, entry.population)

    def _require(self, round: ShuffleRound, count: int) -> None:
        total = self._total(count)
        if self._max_epsilon is not None and count > 0:
            assert self._target_delta is not None
            if self._exceeded_by(round, count, self._max_epsilon, self._target_delta):
                raise BudgetExceeded(
                    f"step {total} would exceed epsilon = {self._max_epsilon:g} at delta = "
                    f"{self._target_delta:g}; {self._recorded} recorded"
                )

    def _apply(self, round: ShuffleRound, count: int) -> None:
        for budget in self._budgets.values():
            budget.record(round, count)
        if round == self._round:
            self._steps += count
        else:
            self._cohorts.compose(round, count=count)

    def _sized(self, users: int, population: int | None) -> ShuffleRound:
        if (users, population) == (self._round.plain_users, self._round.population):
            return self._round
        return ShuffleRound(self._round.randomizer, users=users, population=population)

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

    def _total(self, count: int) -> int:
        return self._recorded + validate.integer(maximum=MAX_ROUNDS - self._recorded, count=count)

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


def _budget(budget: object) -> tuple[float, float]:
    """Epsilon and delta of a pair."""
    if not isinstance(budget, tuple | list) or len(budget) != 2:
        raise TypeError(f"budget must be a pair (epsilon, delta), got {validate.shown(budget)}")
    epsilon, delta = budget
    return validate.finite_nonnegative(epsilon=epsilon), validate.open_unit(delta=delta)


def _count(count: int) -> int:
    return validate.integer(minimum=0, maximum=MAX_ROUNDS, count=count)
