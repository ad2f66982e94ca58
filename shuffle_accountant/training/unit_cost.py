"""How many rounds of one kind a round is no worse than, up to an additive delta.

Fix a round r, the unit, and let K units be (epsilon, delta - D)-private. If every round's profile,
in both orders, is at most that of k units plus d, and the rounds' k and d sum to no more than K and
D however the rounds are chosen, all of them together are (epsilon, delta)-private: each is a kernel
of k draws of the unit's pair but for an event of probability d.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from shuffle_accountant.engine.evaluation import order_ends
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.rounds.base import Round

__all__ = ["unit_cost"]

# Number of epsilons at which profiles are compared, at most, and by how many a look is taken first.
_POINTS, _FIRST = 90, 6
_TOLERANCE = 2e-3


@lru_cache(maxsize=1 << 14)
def _ends(one: Round, count: int, swapped: bool, epsilon: float) -> tuple[float, float]:
    """Both ends of delta of some draws of a round's pair, in one order."""
    return order_ends([(one.reduced(), count)], epsilon, swapped=swapped, tolerance=_TOLERANCE)


def _covered(
    one: Round, unit: Round, count: int, slack: float, epsilons: Array, swapped: bool
) -> bool:
    """Whether a round's profile is at most that of some units plus the slack, for alpha >= 1.

    Between two points the round's is below its chord, and the units' above the lines through their
    neighbouring points, as both are convex in alpha.
    """
    alpha = np.exp(epsilons)
    above = np.asarray([_ends(one, 1, swapped, epsilon)[1] for epsilon in epsilons.tolist()])
    low, high = np.asarray([_ends(unit, count, swapped, x) for x in epsilons.tolist()]).T
    if np.any(above > low + slack) or above[-1] > slack:
        return False
    for i in range(epsilons.size - 1):
        run = alpha[i + 1] - alpha[i]
        lines = [(low[i + 1], 0.0)]  # profiles fall
        if i > 0:  # through the points before, going on
            slope = (low[i] - high[i - 1]) / (alpha[i] - alpha[i - 1])
            lines.append((low[i] + slope * run, -slope))
        if i + 2 < epsilons.size:  # through the points after, coming from them
            slope = (high[i + 2] - low[i + 1]) / (alpha[i + 2] - alpha[i + 1])
            lines.append((low[i + 1], -slope))
        # the largest of some lines less a chord is least at an end, or where two of them meet
        falls = [(end + steep * run, steep * run) for end, steep in lines]  # at the left, per run
        places = [0.0, 1.0]
        for (a, b), (c, d) in combinations(falls, 2):
            if b != d and 0.0 < (a - c) / (b - d) < 1.0:
                places.append((a - c) / (b - d))
        for place in places:
            chord = above[i] + place * (above[i + 1] - above[i])
            if max(a - b * place for a, b in falls) * (1.0 - 1e-12) + slack < chord:
                return False
    return True


@lru_cache(maxsize=1024)
def unit_cost(one: Round, unit: Round, most: int, slack: float) -> int | None:
    """The fewest units that a round is no worse than up to an additive delta; None if above most.

    Args:
        one: the round.
        unit: the round it is paid in, of the same adjacency.
        most: largest number of units of interest, >= 1.
        slack: the additive delta, > 0.
    """
    if one == unit:
        return 1
    end = 1e-3
    while _ends(one, 1, False, end)[1] > 0.5 * slack or _ends(one, 1, True, end)[1] > 0.5 * slack:
        end *= 1.25
        if end > 100.0:
            return None
    epsilons = end * np.linspace(0.0, 1.0, _POINTS) ** 1.5
    few = epsilons[:: max(_POINTS // _FIRST, 1)]

    def enough(count: int) -> bool:
        return all(
            all(
                _ends(one, 1, swapped, x)[1] <= _ends(unit, count, swapped, x)[0] + slack
                for x in few.tolist()
            )
            for swapped in (False, True)
        )

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    while high <= most:
        if all(_covered(one, unit, high, slack, epsilons, swapped) for swapped in (False, True)):
            return high
        high += max(high // 50, 1)
    return None
