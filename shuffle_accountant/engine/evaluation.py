"""From a composition and a question to two ends: answers without a grid first, then by grids."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from shuffle_accountant.bracket import ErrorLedger
from shuffle_accountant.engine.question import EVERYTHING, NOTHING, Answer, Query
from shuffle_accountant.engine.refinement import refine
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.engine.single import blocks_of, single_answer
from shuffle_accountant.losses.base import (
    HOCKEY_STICK,
    DominatingPair,
    Effort,
    PrivacyLoss,
    factors,
    way_of,
)
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    LIMITS,
    Bound,
    lowered,
    raised,
    roundings,
    sequential_sum,
)

# Accuracy of one round alone.
_EFFORT = Effort(tail=1e-16, resolution=1e-4)


def theorems(parts: Sequence[tuple[DominatingPair, int]]) -> str:
    """Names of the theorems that the pairs come from, as brackets report them."""
    return ", ".join(dict.fromkeys(pair.name for pair, _ in parts)) or "no rounds"


def evaluate(
    parts: Sequence[tuple[DominatingPair, int]],
    query: Query,
    tolerance: float,
    memory_limit: int,
    below: Sequence[tuple[DominatingPair, int]] | None = None,
) -> Answer:
    """Certified ends of the composition's answer; never warns.

    Args:
        parts: pairs that dominate the distinct rounds, with their counts.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        memory_limit: bytes.
        below: pairs for the lower end, if they are others.

    Raises:
        ValueError: rounds with and without variant="tail".
    """
    losses = _losses(parts)
    lower = losses if below is None else _losses(below)
    if len({loss.divergence for loss, _ in losses}) > 1:
        raise ValueError(
            "rounds with variant='tail' compose with one another only: a tail probability is no "
            "hockey-stick divergence"
        )
    rounds = sum(count for _, count in losses)
    largest = math.fsum(count * loss.largest for loss, count in losses)
    if rounds > 1:
        largest = raised(largest, roundings(4))  # products and an exact sum of them
    # the composition is purely `largest`-private, so its total variation is at most
    # tanh(largest/2), or 1 - e^-largest if only ``P <= e^largest Q`` is known
    two_sided = all(pair.two_sided for pair, _ in parts)
    distance = math.tanh(0.5 * largest) if two_sided else -math.expm1(-largest)
    distance = raised(distance, roundings(ELEMENTARY))
    if rounds == 0 or (
        query.delta >= distance if query.delta is not None else query.required >= largest
    ):
        return NOTHING
    if query.delta is not None and _disclosed(lower, query.delta) > query.delta:
        return EVERYTHING
    if query.delta is None and (disclosed := _disclosed(lower, 1.0)) > 1.0 - 1e-6 * tolerance:
        # hardly any mass is left to compose
        return Answer(lower=disclosed, upper=1.0, ledger=ErrorLedger(round_off=1.0 - disclosed))
    tiny = largest < LIMITS.underflow ** (1.0 / 3.0)  # cubes would underflow
    # one round is summed exactly; of several questions about it, a law of binomials serves all
    law = rounds == 1 and query.laws is not None
    law = law and way_of(losses[0][0], 0.0, _EFFORT) == "binomial"
    if not tiny and (rounds > 1 or law):
        found = refine(losses, query, tolerance, memory_limit, largest, lower)
        if any(loss.reversed is not loss for loss, _ in (*losses, *lower)):
            # neighbours may be either way round: the larger answer counts
            backward, back_lower = _reversed(losses), _reversed(lower)
            other = refine(backward, query, tolerance, memory_limit, largest, back_lower)
            found = found.worse(other)
        if rounds > 1 or found.cause is None:
            return found
    if rounds == 1:
        return single_answer(losses[0][0], query, tolerance, blocks_of(tolerance))
    upper = largest if query.delta is not None else min(distance, 1.0)
    ledger = ErrorLedger(round_off=upper)
    return Answer(lower=0.0, upper=upper, ledger=ledger, cause="the range of double precision")


def largest_loss(parts: Sequence[tuple[DominatingPair, int]]) -> float:
    """Upper bound of the finite losses of the composition, in the worse order, nats."""
    both = [
        math.fsum(count * loss.largest for loss, count in losses)
        for losses in (_losses(parts), _reversed(_losses(parts)))
    ]
    return raised(max(both), roundings(4))


def _losses(
    parts: Sequence[tuple[DominatingPair, int]], *, swapped: bool = False
) -> list[tuple[PrivacyLoss, int]]:
    """The losses of all pairs (exchanged, if swapped) that are not always 0, with their counts."""
    alone = sum(count for _, count in parts) == 1
    return [
        (loss, count * number)
        for pair, count in parts
        for loss, number in factors(pair.loss.reversed if swapped else pair.loss, alone=alone)
        if loss.largest > 0
    ]


def _reversed(losses: Sequence[tuple[PrivacyLoss, int]]) -> list[tuple[PrivacyLoss, int]]:
    """The losses of the exchanged pairs."""
    return [(loss.reversed, count) for loss, count in losses]


def _disclosed(losses: Sequence[tuple[PrivacyLoss, int]], delta: float) -> float:
    """Lower bound of the probability of an infinite loss, resolved well below delta."""
    rounds = sum(count for _, count in losses)
    effort = Effort(tail=max(1e-6 * delta / rounds, 1e-300), resolution=1e-5)
    none = 0.0  # log-probability that no round's loss is infinite
    for loss, count in losses:
        if loss.largest == math.inf:
            chance = loss.delta(math.inf, Bound.OPTIMISTIC, effort)
            none += count * math.log1p(-min(chance, BELOW_ONE))
    return lowered(-math.expm1(none), sequential_sum(len(losses), own=2 * ELEMENTARY + 1))


def order_ends(
    parts: Sequence[tuple[DominatingPair, int]],
    epsilon: float,
    *,
    swapped: bool,
    tolerance: float = 1e-3,
    laws: dict[Hashable, Any] | None = None,
) -> tuple[float, float]:
    """Lower and upper end of ``H_alpha(P‖Q)``, alpha = e^epsilon, of the composed pairs.

    Args:
        parts: pairs that dominate the distinct rounds, with their counts, one round at least.
        epsilon: nats, >= 0.
        swapped: whether ``H_alpha(Q‖P)`` is asked about.
        tolerance: relative width in epsilon to aim for.
        laws: what earlier questions about these rounds have made, as in `Query`.

    Raises:
        ValueError: a round with variant="tail".
    """
    if any(pair.loss.divergence is not HOCKEY_STICK for pair, _ in parts):
        raise ValueError("rounds must not have variant='tail', which has no privacy profile")
    losses = _losses(parts, swapped=swapped)
    if not losses:
        return 0.0, 0.0
    if sum(count for _, count in losses) == 1:
        low, high = (losses[0][0].delta(epsilon, side, _EFFORT) for side in Bound)
        return min(low, high), max(low, high)
    largest = largest_loss(parts)
    if epsilon >= largest:
        return 0.0, 0.0
    asked = Query(epsilon=epsilon, laws=laws)
    found = refine(losses, asked, tolerance, SETTINGS.memory_limit, largest)
    return max(found.lower, 0.0), found.upper


def symmetric(parts: Sequence[tuple[DominatingPair, int]]) -> bool:
    """Whether both orders of the composed pairs are the same."""
    return all(pair.loss.reversed is pair.loss for pair, _ in parts)
