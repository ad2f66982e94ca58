"""The root search, on functions that secants do not suit."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from shuffle_accountant.numerics.roots import find_crossing


@pytest.mark.parametrize(
    ("falling", "root"),
    [
        (lambda x: 1.0 - x, 1.0),
        (lambda x: math.exp(-x) - 1e-6, math.log(1e6)),
        # flat for the most part: nothing but rounding on one side
        (lambda x: 2e-16 if x < 26.81 else -1e-12 * math.expm1(x - 26.81) - 1e-16, 26.81),
    ],
)
def test_an_end_is_on_either_side_after_few_turns(
    falling: Callable[[float], float], root: float
) -> None:
    asked = []

    def counted(x: float) -> float:
        asked.append(x)
        return falling(x)

    found = find_crossing(counted, 3e4, 95.0, 6.9, 1e-6)
    assert found.left <= root <= found.right
    assert found.right - found.left <= 1e-6 * found.right
    # halving alone takes 35 from such an interval to that width
    assert len(asked) <= 50
