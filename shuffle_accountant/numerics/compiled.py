"""Loops that NumPy cannot express: compiled by Numba when it is installed, else run by Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

# Most threads that share a loop.
_MOST_THREADS = 8


@cache
def compiled(function: FunctionType, *parts: FunctionType) -> Callable[..., Any]:
    """The function, compiled on first use (and cached on disk) if Numba can be imported.

    It runs without Python's global lock, so threads can share the work. Numba is imported here and
    not at the top, because importing it takes longer than most answers.

    Args:
        function: a loop over arrays and numbers.
        parts: functions of the same module that it calls; they call none of one another.
    """
    try:
        from numba import njit
    except ImportError:
        return function
    fast = njit(cache=True, nogil=True)
    inlined = njit(inline="always")
    scope = function.__globals__ | {part.__name__: inlined(part) for part in parts}
    found: Callable[..., Any] = fast(FunctionType(function.__code__, scope, function.__name__))
    return found


def thread_count(parts: float) -> int:
    """Number of threads to share a loop that is worth sharing among this many."""
    return max(int(min(os.cpu_count() or 1, _MOST_THREADS, parts)), 1)
