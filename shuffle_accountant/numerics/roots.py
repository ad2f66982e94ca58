"""Root searches: by secants, which single and composed rounds use, and by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

# Most evaluations of the function.
_MOST_TURNS = 300
# Turns in a row that may not halve the interval before it is halved, and how often that may happen
# before secants are given up: functions that are flat for the most part would be crept along.
_PATIENCE, _MOST_HALVED = 2, 4


class Crossing(NamedTuple):
    """Neighbouring points on both sides of the sign change.

    Attributes:
        left: the function is positive here, or this is 0.
        right: the function is not positive here, or this is the end of the interval.
        slope: slope of the function near them, < 0; nan if it is not known.
    """

    left: float
    right: float
    slope: float


def find_crossing(
    falling: Callable[[float], float],
    high: float,
    guess: float,
    step: float,
    rtol: float = 1e-13,
    slope: float = math.nan,
) -> Crossing:
    """Find the sign change of a falling function in [0, high], by secants from both sides.

    Args:
        falling: non-increasing function, which may be infinite.
        high: right end, not positive there; may be inf, where the function is then asked.
        guess: where to look first.
        step: distance of the next point while no slope is known.
        rtol: relative distance between both ends that is allowed.
        slope: slope of the function near the root; nan if it is not known.
    """
    left, right = 0.0, high
    asked_left = asked_right = False
    place, value_before, place_before = min(max(guess, 0.0), high), math.nan, math.nan
    outwards, since_halved, halved, width = 1.0, 0, 0, math.inf
    for _ in range(_MOST_TURNS):
        value = falling(place)
        if value > 0:
            left, asked_left = place, True
        else:
            right, asked_right = place, True
        if left >= right or (right < math.inf and right - left <= rtol * right):
            break
        if math.isfinite(value) and math.isfinite(value_before) and value != value_before:
            slope = (value - value_before) / (place - place_before)
        place_before, value_before = place, value
        # where a straight line ends, or unknown
        root = place - value / slope if slope < 0.0 and math.isfinite(value) else math.nan
        far = abs(root - place)
        margin = far * min(1e-2, 4.0 * far / max(abs(root), 1e-300)) + 0.3 * rtol * abs(root)
        if not (asked_left and asked_right):
            ahead = far + margin * outwards if math.isfinite(root) else 0.1 * step * outwards
            outwards *= 4.0
            place = place + ahead if value > 0 else max(place - ahead, 0.0)
            if place < high or high == math.inf:
                continue
            place = 0.5 * (left + high)
        else:
            since_halved = since_halved + 1 if right - left > 0.5 * width else 0
            width = right - left if since_halved == 0 else width
            # aim beside the root, so that the end further away moves
            place = root - margin if root - left > right - root else root + margin
            if since_halved > _PATIENCE:
                halved += 1
            if halved >= _MOST_HALVED or since_halved > _PATIENCE or not left < place < right:
                place, since_halved = 0.5 * (left + right), 0
        if not left < place < right:
            break
    return Crossing(left, right, slope)


def bisected(
    holds: Callable[[float], bool],
    start: tuple[float, float],
    accuracy: float,
    *,
    least: float = 0.0,
    most: float = math.inf,
) -> tuple[float, float]:
    """Neighbours between which a condition ceases to hold, by doubling and bisection.

    Args:
        holds: the condition, on small arguments.
        start: first guesses on both sides.
        accuracy: relative distance of the neighbours.
        least: below it 0 is the left one.
        most: above it both are infinite.
    """
    low, high = start
    while holds(high):
        low, high = high, 2.0 * high
        if high > most:
            return math.inf, math.inf
    while high - low > accuracy * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high < least:
            return 0.0, high
    return low, high
