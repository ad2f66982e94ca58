"""``E[(X_1 + … + X_n)_+]`` for i.i.d. real X whose law is too uneven for transforms.

Slower than `shuffle_accountant.sums.nodes`, with relative accuracy whatever the tails are.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    Array,
    Bound,
    lowered,
    pairwise_sum,
    raised,
    roundings,
)
from shuffle_accountant.sums.doubling import SumLaw, additions, power, pruned

# Least width of cells, in normal scores.
_LEAST_WIDTH = 0.005
# If the mean positive part is at most this part of the largest size of a value, only trivial bounds
# are given.
_FARTHEST = 1e-100
# The tail that may be left out is at least _NEGLIGIBLE of the answer, which is first computed in
# wide cells (of resolution _ROUGH): values further out would only spread the cells, and rounding
# errors are relative to them.
_NEGLIGIBLE, _ROUGH = 1e-10, 1e-2


def heavy_positive_part(
    value: Array, mass: Array, count: int, side: Bound, *, resolution: float, tail: float
) -> float:
    """Bound of ``E[(X_1 + … + X_n)_+]``, the positive part of a sum of n i.i.d. values.

    Args:
        value: values of X, off by a few units in their last place at most, shape (m,).
        mass: their probabilities, off by nothing that is not allowed for elsewhere, shape (m,).
        count: number n of copies.
        side: whether the result is an upper or a lower bound.
        resolution: relative variance that gathering values may add or remove.
        tail: part of ``E[(sum)_+] / n``, absolute, that may be left out.
    """
    n, order = count, np.argsort(value)
    value, mass = value[order], mass[order]
    scale = float(np.sum(mass * np.maximum(value, 0.0)))
    # each value's positive part on its own: what the positive part of the sum can't exceed
    alone = raised(n * scale, pairwise_sum(own=2))
    reach = float(np.max(np.abs(value)))
    if scale <= max(tail, _FARTHEST * reach):
        return alone if side is Bound.PESSIMISTIC else 0.0
    one, tail = SumLaw(value / scale, mass, 1, 0.0, 0.0, roundings(8), 0.0), tail / scale
    if resolution < _ROUGH:
        rough = _positive_part(one, n, Bound.OPTIMISTIC, _ROUGH, tail)
        tail = max(tail, _NEGLIGIBLE * rough / n)
    found = rounded(scale * _positive_part(one, n, side, resolution, tail), 3)
    if side is Bound.PESSIMISTIC:
        return min(raised(found, roundings(4)), alone)
    return lowered(found, roundings(4))


def _positive_part(one: SumLaw, n: int, side: Bound, resolution: float, tail: float) -> float:
    """`heavy_positive_part` for ascending values whose positive parts have mean 1."""
    one = pruned(one, tail / (additions(n) + 1), n)
    one = replace(one, reach=float(np.max(np.abs(one.value))))
    width = max(math.sqrt(6.0 * resolution / additions(n)), _LEAST_WIDTH)
    law = power(one, n, side, width=width, tail=tail)
    error = law.moved * law.sizes(law.value)
    if side is Bound.PESSIMISTIC:
        part = rounded(float(np.sum(law.mass * np.maximum(law.value + error, 0.0))), 70)
        total = part + n * law.lost_gain
        return raised(total, pairwise_sum(own=6))
    total = rounded(float(np.sum(law.mass * np.maximum(law.value - error, 0.0))), 70)
    return lowered(total, pairwise_sum(own=6))
