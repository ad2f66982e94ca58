"""A shuffled round as an event of dp_accounting, and an accountant that understands it."""

from __future__ import annotations

import math
from typing import Any

import attr

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.interop.dp_accounting.distribution import to_privacy_loss_distribution
from shuffle_accountant.interop.dp_accounting.library import dp_accounting, pld
from shuffle_accountant.rounds.protocol import Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

__all__ = ["ShuffleDpEvent", "ShufflePLDAccountant"]

_RELATION = dp_accounting.NeighboringRelation
_RELATIONS = (_RELATION.REPLACE_ONE, _RELATION.REPLACE_SPECIAL)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffleDpEvent(dp_accounting.DpEvent):  # type: ignore[misc]
    """One shuffled round.

    Attributes:
        round: what happened. Its adjacency is that one user's value is replaced, or, for
            `REPLACE_SPECIAL` alone, that it is zeroed out. Of the first kind the special record
            must be a value like any other: its user sends a message of the same randomizer.
    """

    round: ShuffleRound

    def __attrs_post_init__(self) -> None:
        """Check the round."""
        validate.instance(ShuffleRound, round=self.round)


class ShufflePLDAccountant(pld.PLDAccountant):  # type: ignore[misc]
    """dp_accounting's accountant of privacy loss distributions, with `ShuffleDpEvent`.

    Shuffled rounds are collected and composed by `to_privacy_loss_distribution` when a question is
    asked, then with all other events by dp_accounting. Under `REPLACE_ONE` a Gaussian event counts
    with twice its sensitivity, because two users' contributions change; Laplace events exist in
    dp_accounting for `REPLACE_SPECIAL` only.

    Args:
        neighboring_relation: `REPLACE_ONE` or `REPLACE_SPECIAL`; under any other, shuffled rounds
            are unsupported events.
        value_discretization_interval: nats, > 0, of all distributions.
    """

    def __init__(
        self,
        neighboring_relation: Any = _RELATION.REPLACE_ONE,
        value_discretization_interval: float = 1e-4,
    ) -> None:
        validate.instance(_RELATION, neighboring_relation=neighboring_relation)
        interval = validate.positive(value_discretization_interval=value_discretization_interval)
        super().__init__(neighboring_relation, interval)
        self._nothing = self._pld = pld.privacy_loss_distribution.identity(interval)
        self._rounds = Protocol()
        self._total: Any = None

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        self._total = None
        if isinstance(event, ShuffleDpEvent):
            if self.neighboring_relation not in _RELATIONS:
                return self.CompositionErrorDetails(
                    invalid_event=event,
                    error_message="neighboring_relation must be `REPLACE_ONE` or "
                    "`REPLACE_SPECIAL` for `ShuffleDpEvent`: a shuffled round hides what one user "
                    f"says, not that there is one. Found {self.neighboring_relation}.",
                )
            zero_out = event.round.adjacency is Adjacency.ZERO_OUT
            if zero_out and self.neighboring_relation is not _RELATION.REPLACE_SPECIAL:
                return self.CompositionErrorDetails(
                    invalid_event=event,
                    error_message="neighboring_relation must be `REPLACE_SPECIAL` for a round of "
                    f"adjacency {Adjacency.ZERO_OUT.named}. Found {self.neighboring_relation}.",
                )
            if do_compose:
                self._rounds += Protocol([(event.round, count)])
            return None
        if isinstance(event, dp_accounting.RandomizedResponseDpEvent) and do_compose and count > 1:
            # the parent class leaves out the count of this event
            before, self._pld = self._pld, self._nothing
            super()._maybe_compose(event, 1, True)
            self._pld = before.compose(self._pld.self_compose(count))
            return None
        return super()._maybe_compose(event, count, do_compose)

    def _composed(self) -> Any:
        """Privacy loss distribution of everything composed so far."""
        if self._total is None:
            total = to_privacy_loss_distribution(
                self._rounds, value_discretization_interval=self._value_discretization_interval
            )
            # composing with nothing would still truncate tails
            self._total = total if self._pld is self._nothing else self._pld.compose(total)
        return self._total

    def get_epsilon(self, target_delta: float) -> float:
        """Upper bound of epsilon (nats) at the delta."""
        if self._contains_non_dp_event:
            return math.inf
        return float(self._composed().get_epsilon_for_delta(target_delta))

    def get_delta(self, target_epsilon: float) -> float:
        """Upper bound of delta at the epsilon (nats)."""
        if self._contains_non_dp_event:
            return 1.0
        return float(self._composed().get_delta_for_epsilon(target_epsilon))
