"""Bracket against truth, compared exactly (a float is an exact binary number).

The only thing asked of a bracket is ``.lower`` and ``.upper``; the truth is an mpmath number, a
float or a decimal string.
"""

from __future__ import annotations

import math
from typing import Protocol

from .precision import Real, exact


class Ends(Protocol):
    """Anything with two ends."""

    @property
    def lower(self) -> float: ...

    @property
    def upper(self) -> float: ...


def assert_contains(bracket: Ends, truth: float | str | Real, *, rtol: float = 0.0) -> None:
    """Fail unless lower (1 - rtol) <= truth <= upper (1 + rtol).

    Args:
        bracket: the answer under test.
        truth: the exact value, or one known to a relative error ``rtol``.
        rtol: relative widening of both ends; 0 asks for strict containment.
    """
    value = exact(truth)
    low, high = exact(bracket.lower), exact(bracket.upper)
    widening = exact(rtol)
    said = f"[{bracket.lower!r}, {bracket.upper!r}] widened by {rtol:g}"
    assert low * (1 - widening) <= value, f"lower end of {said} is above the truth {value}"
    assert value <= high * (1 + widening), f"upper end of {said} is below the truth {value}"


def assert_overlaps(bracket: Ends, low: float | Real, high: float | Real) -> None:
    """Fail unless the bracket meets the interval [low, high] that is known to hold the truth."""
    said = f"[{bracket.lower!r}, {bracket.upper!r}]"
    assert exact(bracket.lower) <= exact(high), f"{said} lies above [{low}, {high}]"
    assert exact(bracket.upper) >= exact(low), f"{said} lies below [{low}, {high}]"


def assert_ordered(bracket: Ends) -> None:
    """Fail unless 0 <= lower <= upper < inf (which also excludes NaN)."""
    assert 0.0 <= bracket.lower <= bracket.upper < float("inf"), (bracket.lower, bracket.upper)


def assert_narrow(bracket: Ends, rtol: float) -> None:
    """Fail unless the bracket is ordered and no wider than ``rtol`` of its upper end."""
    assert_ordered(bracket)
    # one part in 1e12 for the subtraction itself
    allowed = rtol * bracket.upper * (1.0 + 1e-12)
    assert bracket.upper - bracket.lower <= allowed, (bracket.lower, bracket.upper)


def assert_narrow_tail(bracket: Ends, rtol: float) -> None:
    """Fail unless a bracket of a probability is positive and narrow, less so if it is tiny.

    Rounding the terms of a sum changes its variance, and so the logarithm of a small tail in
    proportion: below e^-20 the width allowed grows with the logarithm.
    """
    assert bracket.lower > 0.0, (bracket.lower, bracket.upper)
    assert_narrow(bracket, rtol * max(1.0, -0.05 * math.log(bracket.lower)))
