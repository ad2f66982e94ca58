"""Bracket against truth, compared exactly (a float is an exact binary number).

The only thing asked of a bracket is ``.lower`` and ``.upper``; the truth is an mpmath number, a
float or a decimal string.
"""

from __future__ import annotations

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
