"""Loops that NumPy cannot express: compiled by Numba when it is installed, else run by Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

__all__ = ["compiled"]


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled on first use (and cached on disk) if Numba can be imported.

    It runs without Python's global lock, so threads can share the work.

    Numba is imported here and not at the top, because importing it takes longer than most answers.
    """
    try:
        from numba import njit
    except ImportError:
        return function
    fast: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    return fast
