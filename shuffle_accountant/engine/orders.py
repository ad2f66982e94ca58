"""Both ends of delta of composed rounds, in one order of the neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from shuffle_accountant.engine.evaluation import MEMORY_LIMIT, largest_loss
from shuffle_accountant.engine.question import Query
from shuffle_accountant.engine.refinement import refine
from shuffle_accountant.lattice.grid import Bound
from shuffle_accountant.losses.base import Effort, factors
from shuffle_accountant.losses.divergence import HOCKEY_STICK
from shuffle_accountant.reductions.base import DominatingPair

# Accuracy of one round alone.
_EFFORT = Effort(tail=1e-16, resolution=1e-4)


def order_ends(
    parts: Sequence[tuple[DominatingPair, int]],
    epsilon: float,
    *,
    swapped: bool,
    tolerance: float = 1e-3,
) -> tuple[float, float]:
    """Lower and upper end of ``H_alpha(P‖Q)``, alpha = e^epsilon, of the composed pairs.

    Args:
        parts: pairs that dominate the distinct rounds, with their counts, one round at least.
        epsilon: nats, >= 0.
        swapped: whether ``H_alpha(Q‖P)`` is asked about.
        tolerance: relative width in epsilon to aim for.

    Raises:
        ValueError: a round with variant="tail".
    """
    losses = []
    for pair, count in parts:
        loss = pair.loss.reversed if swapped else pair.loss
        if loss.divergence is not HOCKEY_STICK:
            raise ValueError("rounds must not have variant='tail', which has no privacy profile")
        for part, number in factors(loss, alone=len(parts) == 1 and count == 1):
            if part.largest > 0.0:
                losses.append((part, number * count))
    if not losses:
        return 0.0, 0.0
    if sum(count for _, count in losses) == 1:
        low, high = (losses[0][0].delta(epsilon, side, _EFFORT) for side in Bound)
        return min(low, high), max(low, high)
    largest = largest_loss(parts)
    if epsilon >= largest:
        return 0.0, 0.0
    found = refine(losses, Query(epsilon=epsilon), tolerance, MEMORY_LIMIT, largest)
    return max(found.lower, 0.0), found.upper


def symmetric(parts: Sequence[tuple[DominatingPair, int]]) -> bool:
    """Whether both orders of the composed pairs are the same."""
    return all(pair.loss.reversed is pair.loss for pair, _ in parts)
