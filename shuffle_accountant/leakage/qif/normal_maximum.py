"""Moments of the largest of k independent standard normal variables."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

__all__ = ["maximum_moments"]

# The density is analytic and vanishes at both ends, where the trapezoidal rule converges
# geometrically: at this step to the last place, for k up to 2^53.
_STEP = 1.0 / 64.0
_REACH = 40.0


@cache
def maximum_moments(count: int) -> tuple[float, float]:
    """``(E[M], E[M^2])`` for the maximum M of ``count`` independent N(0, 1) variables.

    Args:
        count: k >= 1; E[M] is 0 for one variable, 1/sqrt(pi) for two.
    """
    from scipy.special import log_ndtr

    x = np.arange(-_REACH, _REACH + _STEP, _STEP)
    exponent = math.log(count) - 0.5 * math.log(2.0 * math.pi) - 0.5 * x * x
    density = np.exp(exponent + (count - 1) * log_ndtr(x))
    return _STEP * math.fsum(x * density), _STEP * math.fsum(x * x * density)
