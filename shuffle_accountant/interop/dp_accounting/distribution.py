"""Composed rounds as a `PrivacyLossDistribution`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import attr

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.engine.composed_law import composed_law
from shuffle_accountant.lattice.grid import PldGrid
from shuffle_accountant.losses.base import HOCKEY_STICK, PrivacyLoss, factors
from shuffle_accountant.rounds.protocol import Protocol, Rounds, as_protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

__all__ = [
    "ShuffleDpEvent",
    "ShufflePLDAccountant",
    "dp_accounting",
    "pld",
    "to_privacy_loss_distribution",
]

try:
    import dp_accounting
    from dp_accounting import pld
except ImportError:
    raise ImportError(
        "this bridge needs dp_accounting: pip install '.[dp-accounting]' in a clone"
    ) from None


_RELATION = dp_accounting.NeighboringRelation


def to_privacy_loss_distribution(
    rounds: Rounds,
    *,
    value_discretization_interval: float = 1e-4,
    tolerance: float = 1e-3,
) -> PrivacyLossDistribution:
    """A pessimistic distribution of the composed rounds, for dp_accounting to compose further.

    The rounds are composed here, on a grid as fine as ``tolerance`` asks for, with all truncated
    mass and all round-off on the safe side; then the loss is put on multiples of the interval. The
    pmfs have a total of 1, whatever could not be followed being infinity mass: losses above 700 or
    above a million intervals, and tails of 1e-30. So epsilon is finite for delta down to about
    1e-30 in the distribution itself; composing it in dp_accounting truncates tails of 1e-15 and
    transforms without a bound on round-off, so answers there are good for delta above 1e-12 or so.

    Adjacency: that of the rounds. Where one user's value is replaced that is
    `NeighboringRelation.REPLACE_ONE`, where it is replaced by a null record `REPLACE_SPECIAL`;
    compose it with distributions of that relation. Bound: upper. A pair that is not symmetric gives
    two pmfs: "remove" is the order in which P holds the target's value.

    Args:
        rounds: a round, a `Protocol`, or a list of pairs (round, count).
        value_discretization_interval: nats, > 0: the grid of the other distributions.
        tolerance: relative accuracy in epsilon to aim for besides the interval's, > 0.

    Raises:
        ImportError: dp_accounting is not installed.
        ValueError: a round with variant="tail", which has no privacy loss distribution, or an
            interval too small for how far the losses reach.
    """
    interval = validate.positive(value_discretization_interval=value_discretization_interval)
    tolerance = validate.positive(tolerance=tolerance)
    parts = _parts(as_protocol(rounds))

    library = pld.privacy_loss_distribution
    if not parts:
        return library.identity(interval)
    create = library.PrivacyLossDistribution.create_from_rounded_probability
    orders = [parts, tuple((loss.reversed, count) for loss, count in parts)]
    if all(back is loss for (loss, _), (back, _) in zip(*orders, strict=True)):
        del orders[1]
    pmfs = [_pmf(composed_law(order, interval, tolerance)) for order in orders]
    if len(pmfs) == 1:
        return create(*pmfs[0], interval)
    return create(
        *pmfs[0],
        interval,
        rounded_probability_mass_function_add=pmfs[1][0],
        infinity_mass_add=pmfs[1][1],
        symmetric=False,
    )


def _pmf(law: PldGrid) -> tuple[dict[int, float], float]:
    """Masses by grid index, and the infinity mass."""
    indexed = enumerate(law.mass.tolist(), start=law.offset)
    return {index: mass for index, mass in indexed if mass > 0.0} or {0: 0.0}, law.infinite


def _parts(protocol: Protocol) -> tuple[tuple[PrivacyLoss, int], ...]:
    """The losses that are not 0, in an order of their own."""
    parts = []
    for one, count in protocol.in_order:
        for loss, number in factors(one.reduced().loss, alone=False):
            if loss.divergence is not HOCKEY_STICK:
                raise ValueError(
                    "rounds must be read by the hockey-stick divergence to have a privacy loss "
                    f"distribution, got {one!r:.200}"
                )
            if loss.largest > 0.0:
                parts.append((loss, count * number))
    return tuple(parts)


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
            wrong, found = None, self.neighboring_relation
            if found not in (_RELATION.REPLACE_ONE, _RELATION.REPLACE_SPECIAL):
                wrong = (
                    "`REPLACE_ONE` or `REPLACE_SPECIAL` for `ShuffleDpEvent`: a shuffled round "
                    "hides what one user says, not that there is one"
                )
            elif found is _RELATION.REPLACE_ONE and event.round.adjacency is Adjacency.ZERO_OUT:
                wrong = f"`REPLACE_SPECIAL` for a round of adjacency {Adjacency.ZERO_OUT.named}"
            if wrong is not None:
                return self.CompositionErrorDetails(
                    invalid_event=event,
                    error_message=f"neighboring_relation must be {wrong}. Found {found}.",
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
