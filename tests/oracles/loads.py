"""Expected largest and smallest counts of balls in bins, by counting in rational arithmetic.

With weights theta_j the number of ways to put j balls into the first b bins, none beyond its
limits, weighted by the product of the weights, obeys

    ways_b(j) = sum_i C(j, i) theta_b^i ways_(b-1)(j - i).

No transform, no Poisson law, no floating point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def chance(users: int, theta: Sequence[Fraction], least: int, most: int) -> Fraction:
    """P(every bin holds between ``least`` and ``most`` of the balls)."""
    ways = [Fraction(1)] + [Fraction(0)] * users
    for weight in theta:
        powers = [weight**i for i in range(users + 1)]
        ways = [
            sum(
                (math.comb(j, i) * powers[i] * ways[j - i] for i in range(least, min(most, j) + 1)),
                Fraction(0),
            )
            for j in range(users + 1)
        ]
    return ways[users]


def expected_maximum(users: int, theta: Sequence[Fraction]) -> Fraction:
    """``E[max_j N_j]``."""
    return sum((1 - chance(users, theta, 0, m) for m in range(users)), Fraction(0))


def expected_minimum(users: int, theta: Sequence[Fraction]) -> Fraction:
    """``E[min_j N_j]``."""
    return sum((chance(users, theta, m, users) for m in range(1, users + 1)), Fraction(0))
