"""Cosines and sines of many angles, both from one tangent, which NumPy has in vector instructions.

``cos x = 2 d - 1`` and ``sin x = 2 t d`` with ``t = tan(x / 2)`` and ``d = 1 / (1 + t^2)``. NumPy's
tangent is off by at most eight units of round-off of itself: the square by 17, d by ``17 sin^2(x/2)
+ 2`` of itself. So the sine is off by at most 28 units of itself, and the cosine, as ``2 d`` is ``2
cos^2(x/2)``, by ``34 sin^2(x/2) cos^2(x/2) + 5 <= 14`` units.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.numerics.rounding import Array

# Units of round-off that a cosine is off by at most, and a sine, in units of itself; see above.
TURN = 28


def cos_sin(angle: Array) -> tuple[Array, Array]:
    """Return the cosines and the sines of angles, each off by at most `TURN` units of round-off."""
    tangent = np.tan(0.5 * angle)
    double = 2.0 / (1.0 + tangent * tangent)
    return double - 1.0, tangent * double
