# mypy: disable-error-code="misc"
# Opacus is optional, so its classes are of unknown type here.
"""Base class of the accountants for Opacus: brackets of epsilon, and states in plain JSON types."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from typing import Any, ClassVar

from opacus.accountants import IAccountant

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.registry import sealed, unsealed
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.training.budget import BudgetExceeded, budget_cache
from shuffle_accountant.training.store import Receipt

SCHEMA = 2
_FIELDS = ("schema", "mechanism", "history")
# by schema: the first knew no names of runs, and had no digest
_STORED = {1: _FIELDS, 2: (*_FIELDS, "run")}


class CertifiedAccountant(IAccountant):
    """An accountant of Opacus' shape whose answers are certified brackets.

    Attributes:
        history: what happened, in the order in which it did.
        run: name of the run that this is the accounting of, 64 random hexadecimal digits; a state
            that is loaded brings its own.
    """

    name: ClassVar[str]
    engine: ClassVar[str]
    # names of the fields of an entry that is written, and of those that it may have besides
    fields: ClassVar[tuple[str, ...]]
    optional: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []
        self.run = secrets.token_hex(32)

    @classmethod
    def mechanism(cls) -> str:
        """The name Opacus knows it by."""
        return cls.name

    @property
    def receipt(self) -> Receipt:
        """Number of steps recorded so far, with the name of the run in the place of a digest."""
        return Receipt(len(self), self.run)

    def has(self, receipt: Receipt) -> bool:
        """Whether the steps of a receipt are among those recorded here."""
        return receipt.digest == self.run and receipt.number <= len(self)

    def go_on_from(self, other: CertifiedAccountant) -> None:
        """Take over the history of another accountant, and its run."""
        self.history, self.run = other.history, other.run

    @property
    @abstractmethod
    def protocol(self) -> Protocol:
        """Everything recorded so far."""

    @staticmethod
    @abstractmethod
    def written(entry: Any) -> dict[str, Any]:
        """An entry of the history in plain JSON types."""

    @staticmethod
    @abstractmethod
    def read(entry: dict[str, Any]) -> Any:
        """Inverse of `written`; raises `KeyError`, `TypeError` or `ValueError` if it is none."""

    def get_epsilon(self, delta: float, **options: Any) -> Bracket:
        """Certified bracket of the epsilon (nats) spent; 0 before the first step.

        Args:
            delta: in (0, 1).
            **options: of `shuffle_accountant.FourierAccountant`.
        """
        return FourierAccountant(**options).compose(self.protocol).epsilon(delta=delta)

    def get_delta(self, epsilon: float, **options: Any) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats)."""
        return FourierAccountant(**options).compose(self.protocol).delta(epsilon=epsilon)

    def would_exceed(self, round: Round, *, epsilon: float, delta: float) -> bool:
        """Whether one more round would bring the certified upper end above ``epsilon`` (nats)."""
        round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        delta = validate.open_unit(delta=delta)
        after = FourierAccountant().compose(self.protocol).compose(round)
        if len(after.rounds) == 1:
            return budget_cache(round, epsilon, delta, after.tolerance).exceeded_by(len(after))
        return after.epsilon(delta=delta) > epsilon

    def exceeded(self, epsilon: float, delta: float | None) -> BudgetExceeded:
        """The error of one more step, which would exceed a budget."""
        made = len(self)
        return BudgetExceeded(
            f"step {made + 1} would exceed epsilon = {epsilon:g} at delta = {delta:g}; {made} "
            "recorded"
        )

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """Refused: Opacus' own engine draws its batches in another way."""
        raise ValueError(
            f"the accountant {self.name!r} does not account for Poisson sampling with "
            f"sample_rate={sample_rate!r}: use {self.engine}"
        )

    def state_dict(self, destination: Any = None) -> Any:
        """Everything needed to go on elsewhere, in plain JSON types, with a digest of it.

        It is put in ``destination``, a mapping, or in a new dictionary.
        """
        destination = {} if destination is None else destination
        history = [self.written(entry) for entry in self.history]
        held = {"schema": SCHEMA, "mechanism": self.mechanism(), "history": history}
        destination.update(sealed({**held, "run": self.run}))
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from `state_dict`; a JSON text round trip in between changes nothing.

        States of version 0.2.0 have no digest and are read with a warning.

        Raises:
            ValueError: missing or unknown fields, another digest, another mechanism's, or a schema
                newer than this version knows. The accountant is unchanged.
        """
        state = unsealed(state_dict, _STORED, sealed_since=2)
        if state["mechanism"] != self.mechanism():
            raise ValueError(
                f"mechanism must be {self.mechanism()!r}, got {state['mechanism']!r:.40}"
            )
        entries = validate.instance(list, history=state["history"])
        history = [self._entry(entry) for entry in entries]
        run = state.get("run", secrets.token_hex(32))
        self.history, self.run = history, Receipt.read(run=f"0:{run}").digest

    def _entry(self, entry: object) -> Any:
        if not isinstance(entry, dict) or set(entry) - self.optional != set(self.fields):
            raise ValueError(
                f"history must hold objects with {', '.join(self.fields)}, got {entry!r:.80}"
            )
        return self.read(entry)
