"""The arithmetic of the oracles: 50 decimal digits in a context of its own.

A private mpmath context is used, so the global precision of ``mpmath.mp`` is neither read nor
changed, and two test modules cannot disturb one another. Numbers made by ``MP`` carry the context
with them: sums and products of them in a test body are done at 50 digits too.
"""

from __future__ import annotations

from typing import Any

import mpmath

DIGITS = 50
"""Decimal digits of every oracle value, before cancellation (at most a few digits here)."""

MP: Any = mpmath.mp.clone()
MP.dps = DIGITS

Real = Any
"""An ``MP.mpf``. mpmath makes the class at run time, so it has no static name."""


def exact(value: float | int | str) -> Real:
    """The number itself: floats are taken at their binary value, strings at their decimal one."""
    return MP.mpf(value)
