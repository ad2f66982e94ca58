"""What the accountant can compose: anything with a dominating pair of laws."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.reductions.base import DominatingPair
from shuffle_accountant.single import single_delta, single_epsilon

__all__ = ["Round"]


class Round(ABC):
    """One round of a protocol; implementations are immutable, hashable and compared by value."""

    @abstractmethod
    def reduced(self) -> DominatingPair:
        """The dominating pair of this round, with where it comes from."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which an equal round can be made."""

    def delta(self, *, epsilon: float) -> Bracket:
        """Bracket of delta at epsilon for this round alone: a finite sum, exact to round-off.

        Args:
            epsilon: nats, finite, >= 0.

        Raises:
            TypeError: ``epsilon`` is not a number.
            ValueError: ``epsilon`` is negative, NaN or infinite.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        pair = self.reduced()
        lower, upper, ledger = single_delta(pair.loss, epsilon)
        return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=pair.name)

    def epsilon(self, *, delta: float) -> Bracket:
        """Bracket of epsilon (nats) at delta for this round alone.

        Args:
            delta: in (0, 1).

        Raises:
            TypeError: ``delta`` is not a number.
            ValueError: ``delta`` is outside (0, 1) or NaN.
        """
        delta = validate.open_unit(delta=delta)
        pair = self.reduced()
        lower, upper, ledger = single_epsilon(pair.loss, delta)
        return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=pair.name)
