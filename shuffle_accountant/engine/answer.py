"""From a composition and a question to a bracket: what needs no grid first, then what does."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

from shuffle_accountant.bracket import Bracket, ErrorLedger, LooseBracketWarning
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.refinement import Refinement
from shuffle_accountant.engine.single import single_delta, single_epsilon, what_limits
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    ELEMENTARY,
    lowered,
    raised,
    roundings,
    sequential_sum,
)
from shuffle_accountant.reductions.base import DominatingPair

__all__ = ["answer", "bracket"]

# Compositions with losses below this are answered by pure privacy alone: squares would underflow.
_SMALLEST_LOSS = 1e-120

# If nothing is kept secret with at least this probability, there is no law left to compose.
_HOPELESS = 1.0 - 1e-9


def bracket(
    parts: Sequence[tuple[DominatingPair, int]], query: Query, tolerance: float, memory_limit: int
) -> Bracket:
    """Certified bracket of the composition's answer; warns if it is wider than the tolerance.

    The arguments are those of `answer`.
    """
    found, cause = answer(parts, query, tolerance, memory_limit)
    if cause is not None:
        warnings.warn(
            loose(found, tolerance, cause),
            LooseBracketWarning,
            stacklevel=4,  # the line that asked the accountant
        )
    return found


def loose(found: Bracket, tolerance: float, cause: str) -> str:
    """What a warning about a wide bracket says."""
    return (
        f"bracket [{found.lower!r}, {found.upper!r}] is wider than tolerance {tolerance!r}: "
        f"limited by {cause}"
    )


def answer(
    parts: Sequence[tuple[DominatingPair, int]], query: Query, tolerance: float, memory_limit: int
) -> tuple[Bracket, str | None]:
    """Certified bracket, and what kept it wider than the tolerance if it is; never warns.

    Args:
        parts: pairs that dominate the distinct rounds, with their counts.
        query: the question.
        tolerance: relative width in epsilon to aim for.
        memory_limit: bytes.
    """
    losses = [(reduction.loss, count) for reduction, count in parts if reduction.loss.largest > 0]
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
    two_sided = all(reduction.two_sided for reduction, _ in parts)
    distance = math.tanh(0.5 * largest) if two_sided else -math.expm1(-largest)
    distance = raised(distance, roundings(ELEMENTARY))
    cause: str | None = None
    if rounds == 0 or (
        query.delta >= distance if query.delta is not None else query.required >= largest
    ):
        lower, upper, ledger = 0.0, 0.0, ErrorLedger()
    elif query.delta is not None and _disclosed(losses, query.delta) > query.delta:
        lower, upper, ledger = math.inf, math.inf, ErrorLedger()
    elif query.delta is None and _disclosed(losses, 1.0) > _HOPELESS:
        lower, upper = _disclosed(losses, 1.0), 1.0
        ledger = ErrorLedger(round_off=upper - lower)
    elif rounds == 1:
        # half the width of a block is its share of the bracket; the rest is exact
        resolution = max(1e-5, 0.025 * tolerance) if tolerance > 1e-5 else 0.1 * tolerance
        if query.delta is not None:
            lower, upper, ledger = single_epsilon(losses[0][0], query.delta, resolution)
        else:
            lower, upper, ledger = single_delta(losses[0][0], query.required, resolution)
        cause = what_limits(losses[0][0], query, (lower, upper, ledger), tolerance)
    elif largest < _SMALLEST_LOSS:
        lower, upper = 0.0, largest if query.delta is not None else min(distance, 1.0)
        ledger, cause = ErrorLedger(round_off=upper), "the range of double precision"
    else:
        lower, upper, ledger, cause = Refinement(losses, query, tolerance, memory_limit).run(
            largest
        )
        backward = [(loss.reversed, count) for loss, count in losses]
        if any(back is not loss for (back, _), (loss, _) in zip(backward, losses, strict=True)):
            other = Refinement(backward, query, tolerance, memory_limit).run(largest)
            # neighbours may be either way round: the larger answer counts
            if other[1] > upper:
                ledger, cause = other[2:]
            lower, upper = max(lower, other[0]), max(upper, other[1])
    names = ", ".join(dict.fromkeys(reduction.name for reduction, _ in parts)) or "no rounds"
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=names), cause


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
