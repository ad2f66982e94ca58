"""The distribution of decoys that hides a message best."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant.leakage.laws import law, two_laws
from shuffle_accountant.numerics.rounding import Array

__all__ = ["leading_constant", "optimal_decoy"]


def optimal_decoy(p: ArrayLike) -> Array:
    """The distribution of decoys that, for many users, reveals least about the target's message.

    It is proportional to ``sqrt(p (1 - p))``: by the inequality of Cauchy and Schwarz that
    minimises the leading constant ``sum_y P(1 - P)/Q / 2`` of ``n I(Y1; Z)``, to ``(sum_y sqrt(P(1
    - P)))^2 / 2``. It is neither p nor proportional to ``sqrt(p)``. For two letters it is uniform.
    A message that is always the same has nothing to hide, and its decoys are copies.

    'Mutual Information Bounds in the Shuffle Model', Theorem 6 and Corollary 1.

    Args:
        p: law of the target's message, shape (letters,).

    Returns:
        Probabilities, shape (letters,).
    """
    target = law(p=p)
    others = math.fsum(target.tolist()) - target
    spread = np.sqrt(target * np.maximum(others, 0.0))
    total = math.fsum(spread.tolist())
    return target if total == 0.0 else np.asarray(spread / total)


def leading_constant(p: ArrayLike, q: ArrayLike | None = None) -> float:
    """The limit of ``n I(Y1; Z)``: ``sum_y P(1 - P)/Q / 2``, nats; infinite unless P << Q.

    Args:
        p: law of the target's message, shape (letters,).
        q: law of every other message, same shape; by default the optimal one.
    """
    target, decoys = two_laws(p, optimal_decoy(p) if q is None else q)
    spread = target * (1.0 - target)
    if np.any((spread > 0.0) & (decoys <= 0.0)):
        return math.inf
    kept = spread > 0.0
    with np.errstate(over="ignore"):  # beyond a double it is infinite
        return 0.5 * float(np.sum(spread[kept] / decoys[kept]))
