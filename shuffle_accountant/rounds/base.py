"""What the accountant can compose: anything with a dominating pair of laws."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger, LooseBracketWarning
from shuffle_accountant.engine.answer import loose
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.single import single_delta, single_epsilon, what_limits
from shuffle_accountant.reductions.base import DominatingPair

__all__ = ["Round"]

# The accuracy that an accountant aims for unless it is told another.
_TOLERANCE = 1e-3


class Round(ABC):
    """One round of a protocol; implementations are immutable, hashable and compared by value."""

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """What two datasets that the round must not tell apart may differ in."""

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
        return _checked(pair, Query(epsilon=epsilon), single_delta(pair.loss, epsilon))

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
        return _checked(pair, Query(delta=delta), single_epsilon(pair.loss, delta))


def _checked(
    pair: DominatingPair, query: Query, answer: tuple[float, float, ErrorLedger]
) -> Bracket:
    """The answer as a bracket; warns if it is much wider than a finite sum should be."""
    found = Bracket(lower=answer[0], upper=answer[1], ledger=answer[2], reduction=pair.name)
    cause = what_limits(pair.loss, query, answer, _TOLERANCE)
    if cause is not None:
        text = loose(found, _TOLERANCE, cause)
        warnings.warn(text, LooseBracketWarning, stacklevel=3)  # the line that asked the round
    return found
