"""The result that every way of evaluating a composition returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Two certified ends, where the gap comes from, and whether it is wider than asked for.

    Attributes:
        lower: certified lower end.
        upper: certified upper end.
        ledger: where the gap comes from, in the unit of the ends.
        cause: reason why the gap is wider than the tolerance, in a few words; None if it is not.
    """

    lower: float
    upper: float
    ledger: ErrorLedger = field(default_factory=ErrorLedger)
    cause: str | None = None

    def worse(self, other: Answer) -> Answer:
        """The answer if either may be the case: the larger of both, with the reasons of its end."""
        higher = other if other.upper > self.upper else self
        return Answer(
            lower=max(self.lower, other.lower),
            upper=higher.upper,
            ledger=higher.ledger,
            cause=higher.cause,
        )

    def bracket(
        self,
        *,
        reduction: str,
        adjacency: Adjacency | None,
        conditions: Callable[[], tuple[str, ...]],
    ) -> Bracket:
        """The answer as the `Bracket` that users get.

        Args:
            reduction: the theorems behind them.
            adjacency: what the datasets may differ in; None if there was no round.
            conditions: returns what must hold for the ends, a sentence each.
        """
        return Bracket(
            lower=self.lower,
            upper=self.upper,
            ledger=self.ledger,
            reduction=reduction,
            adjacency=adjacency,
            conditions=conditions,
        )


NOTHING = Answer(lower=0.0, upper=0.0)
EVERYTHING = Answer(lower=math.inf, upper=math.inf)
