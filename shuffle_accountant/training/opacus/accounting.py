# mypy: disable-error-code="misc"
# Opacus is optional, so its classes are of unknown type here.
"""What the accountants that Opacus can be given share: brackets, and states in plain JSON types."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from opacus.accountants import IAccountant

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.rounds.base import Round
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.training.budget import budget_cache

__all__ = ["CertifiedAccountant"]

SCHEMA = 1
_FIELDS = ("schema", "mechanism", "history")


class CertifiedAccountant(IAccountant):
    """An accountant of Opacus' shape whose answers are certified brackets.

    Attributes:
        history: what happened, in the order in which it did.
    """

    name: ClassVar[str]
    engine: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []

    @classmethod
    def mechanism(cls) -> str:
        """The name Opacus knows it by."""
        return cls.name

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

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        return FourierAccountant(**options).compose(self.protocol).epsilon(delta=delta)

    def get_delta(self, epsilon: float, **options: Any) -> Bracket:
        """Certified bracket of the delta spent at a finite ``epsilon`` >= 0 (nats).

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        return FourierAccountant(**options).compose(self.protocol).delta(epsilon=epsilon)

    def would_exceed(self, round: Round, *, epsilon: float, delta: float) -> bool:
        """Whether one more round would bring the certified upper end above ``epsilon``.

        Args:
            round: the one more.
            epsilon: nats, finite, >= 0.
            delta: in (0, 1).

        Raises:
            TypeError: an argument of the wrong type.
            ValueError: an argument outside its range.
        """
        round = validate.instance(Round, round=round)  # type: ignore[type-abstract]
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        delta = validate.open_unit(delta=delta)
        after = FourierAccountant().compose(self.protocol).compose(round)
        if len(after.rounds) == 1:
            return budget_cache(round, epsilon, delta, after.tolerance).exceeded_by(len(after))
        return after.epsilon(delta=delta) > epsilon

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """Refused: Opacus' own engine draws its batches in another way.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            f"the accountant {self.name!r} does not account for Poisson sampling with "
            f"sample_rate={sample_rate!r}: use {self.engine}"
        )

    def state_dict(self, destination: Any = None) -> Any:
        """Everything needed to go on elsewhere, in plain JSON types.

        Args:
            destination: a mapping to put it in; a new dictionary if left out.
        """
        destination = {} if destination is None else destination
        destination["schema"] = SCHEMA
        destination["mechanism"] = self.mechanism()
        destination["history"] = [self.written(entry) for entry in self.history]
        return destination

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from `state_dict`; a JSON text round trip in between changes nothing.

        Raises:
            TypeError: a field of the wrong type.
            ValueError: not such a dictionary, another mechanism's, or a schema newer than this
                version knows. The accountant is unchanged.
        """
        if not isinstance(state_dict, dict) or set(state_dict) != set(_FIELDS):
            raise ValueError(
                f"state_dict must have fields {sorted(_FIELDS)}, got {state_dict!r:.80}"
            )
        if state_dict["mechanism"] != self.mechanism():
            raise ValueError(
                f"mechanism must be {self.mechanism()!r}, got {state_dict['mechanism']!r:.40}"
            )
        validate.integer(minimum=1, maximum=SCHEMA, schema=state_dict["schema"])
        entries = validate.instance(list, history=state_dict["history"])
        self.history = [self._entry(entry) for entry in entries]

    def _entry(self, entry: object) -> Any:
        fields = self.fields()
        if not isinstance(entry, dict) or set(entry) != set(fields):
            raise ValueError(
                f"history must hold objects with {', '.join(fields)}, got {entry!r:.80}"
            )
        return self.read(entry)

    @staticmethod
    @abstractmethod
    def fields() -> tuple[str, ...]:
        """Names of an entry's fields."""
