"""``E[(X_1 + … + X_n)_+]`` for i.i.d. real X whose law is too uneven for transforms.

Slower than `shuffle_accountant.sums.nodes`. Two ways, the first where it applies:

* *One large value.* Let the sum's mean be far below 0, so that hardly any sum is positive without a
  value larger than some b, and hardly any has two of these. With q the probabilities and S' the sum
  of n - 1 values up to b (on the event that all are),

      E[S_+] = n sum_(v > b) q(v) E[(v + S')_+] + E[S_+; none above b] + E[S_+; several above b].

  ``E[(v + S')_+]`` is convex in v, so its values at the ends of a cell bound it from above, and
  that at the mean value of the cell from below; S' has no heavy tail upwards, and nodes give it.
  The second term is bounded by Chernoff, as is what values up to b add to the third; large ones
  add at most ``n sum q v`` times the probability that there is another one.
* *Doubling* has relative accuracy whatever the law is, but cells of a limited number.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.numerics.budget import rounded
from shuffle_accountant.numerics.rounding import (
    LIMITS,
    Array,
    Bound,
    lowered,
    outwards,
    pairwise_sum,
    raised,
    roundings,
)
from shuffle_accountant.sums.doubling import SumLaw, additions, merged, power, pruned
from shuffle_accountant.sums.nodes import node_table
from shuffle_accountant.sums.question import MessageRows
from shuffle_accountant.sums.settings import HEAVY

# Exponents of Chernoff's bounds, in inverse largest values.
_EXPONENTS = 2.0 ** np.arange(-4.0, 9.0, 0.5)


def one_large(value: Array, mass: Array, count: int, side: Bound, *, width: float) -> float | None:
    """Bound of ``E[(X_1 + … + X_n)_+]`` where one large value decides; None if it does not.

    Args:
        value: values of X, bounds in the direction of ``side``, shape (m,).
        mass: their probabilities, off by nothing that is not allowed for elsewhere, shape (m,).
        count: number n of copies.
        side: whether the result is an upper or a lower bound.
        width: width of the bounds aimed for, relative to the result.
    """
    n = count
    away = -n * float(np.sum(mass * value))
    # a value less the others' mean, or where none of the others is negative
    kept = float(np.sum(mass[value >= 0.0])) ** (n - 1.0)
    rough = n * float(np.sum(mass * np.maximum(value - away, kept * np.maximum(value, 0.0))))
    if n == 1 or not away > 0.0 or not rough > 0.0:
        return None
    for share in HEAVY.large:
        large = value > share * away
        chance, gain = float(np.sum(mass[large])), float(np.sum((mass * value)[large]))
        small = _without_large(value[~large], mass[~large], n, chance)
        if small <= HEAVY.small * width * rough:
            break
    else:
        return None
    several = (n * gain) * ((n - 1.0) * chance)
    if several > HEAVY.small * width * rough:
        return None
    v, p = value[large], mass[large]
    if share > 0.0:
        # a convex function bends next to the size of the sum's mean, without the large values
        bend = away + n * gain
        at, weight = _gathered(v, p, v - bend, HEAVY.nearest * bend, HEAVY.growth, side)
    else:
        at, weight = _gathered(v, p, v, LIMITS.underflow, HEAVY.growth, side)
    v, p = value[~large], mass[~large]
    rest, q = _gathered(v, p, v, LIMITS.underflow, HEAVY.growth, side)
    # ratios are moved by more than they, and their differences, are rounded
    up = roundings(8) if side is Bound.PESSIMISTIC else -roundings(8)
    r0 = (np.maximum(rest, 0.0) + at[:, None] / (n - 1.0)) * (1.0 + up)
    r1 = np.maximum(-rest, 0.0) * (1.0 - up)
    spaces = np.stack(np.broadcast_arrays(r0, r1, q))
    rows = MessageRows(spaces, np.zeros(at.size), np.arange(at.size))
    ends = node_table(rows, (n - 1, n - 1), np.full(at.size, width)).ends(n - 1)
    if np.isnan(ends.upper).any():
        return None
    each, slack = n * (n - 1.0) * weight, pairwise_sum(own=128)
    if side is Bound.OPTIMISTIC:
        return lowered(rounded(float(np.sum(each * ends.lower)), 128), slack)
    total = rounded(float(np.sum(each * ends.upper)), 128)
    return raised(total + (small + several) * (1.0 + 1e-9), slack)


def _without_large(value: Array, mass: Array, count: int, chance: float) -> float:
    """Bound of what sums of up to n of these values have in their positive part (Chernoff).

    Large values, of probability ``chance``, take the place of any number of these.
    """
    top = float(value.max(initial=0.0))
    if top <= 0.0:
        return 0.0
    best = math.inf
    for s in (_EXPONENTS / top).tolist():
        terms = mass * np.expm1(s * value)
        log = math.log1p(max(float(np.sum(terms)) + (float(np.sum(mass)) - 1.0), -0.5))
        size = 1.0 + float(np.sum(np.abs(terms)))
        power = count * (log + chance * math.exp(-log))
        power += count * roundings(value.size + 256.0) * size
        if power < 600.0:
            best = min(best, math.exp(power) / (math.e * s))
    return best * (1.0 + 1e-9)


def _gathered(
    value: Array, mass: Array, apart: Array, least: float, factor: float, side: Bound
) -> tuple[Array, Array]:
    """The law in fewer atoms, above or below it in convex order; see `merged`.

    ``apart`` are distances that grow with the values, shape (m,): neighbours on one side of 0 are
    gathered whose distances are below ``least``, or in one cell of ends whose quotient is
    ``factor``.
    """
    order = np.argsort(value, kind="stable")
    cell = np.floor(np.log(np.maximum(np.abs(apart), least)) / math.log(factor))
    cell = (2.0 * cell + (apart > 0.0))[order]
    starts = np.flatnonzero(np.append(True, np.diff(cell) != 0.0))
    value, mass = value[order], mass[order]
    if starts.size == value.size:
        return value, mass
    value, mass, slack = merged(value, mass, starts, side)
    moved = (2.0 * slack + roundings(8)) * np.abs(value)
    return value + (moved if side is Bound.PESSIMISTIC else -moved), mass


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
    if scale <= max(tail, math.sqrt(LIMITS.underflow) * reach):
        return alone if side is Bound.PESSIMISTIC else 0.0
    one, tail = SumLaw(value / scale, mass, 1, 0.0, 0.0, roundings(8), 0.0), tail / scale
    found = rounded(scale * _positive_part(one, n, side, resolution, tail), 3)
    return min(outwards(found, roundings(4), upper=side is Bound.PESSIMISTIC), alone)


def _positive_part(one: SumLaw, n: int, side: Bound, resolution: float, tail: float) -> float:
    """`heavy_positive_part` for ascending values whose positive parts have mean 1."""
    one = pruned(one, tail / (additions(n) + 1), n)
    one = replace(one, reach=float(np.max(np.abs(one.value))))
    width = max(math.sqrt(6.0 * resolution / additions(n)), HEAVY.least_width)
    law = power(one, n, side, width=width, tail=tail)
    upper = side is Bound.PESSIMISTIC
    error = law.moved * law.sizes(law.value) * (1.0 if upper else -1.0)
    total = rounded(float(np.sum(law.mass * np.maximum(law.value + error, 0.0))), 70)
    total += n * law.lost_gain if upper else 0.0
    return outwards(total, pairwise_sum(own=6), upper=upper)
