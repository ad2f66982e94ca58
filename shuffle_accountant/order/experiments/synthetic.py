"""Points in the plane whose labels can be learnt at three granularities."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.order.arguments import RandomSource, random_source, renamed

__all__ = ["Crescents", "crescents"]


# Largest noise and gap: above, coordinates may be no doubles.
_FARTHEST = 1e300


class Crescents(NamedTuple):
    """Points and their labels.

    Attributes:
        points: public places, shape (n, 2).
        labels: private values, 0 … 7, shape (n,): 4 cluster + 2 crescent + half. Shifted right by
            one bit they name the crescent (4 values), by two bits the cluster (2 values).
    """

    points: NDArray[np.float64]
    labels: NDArray[np.int64]


@renamed(n="users")
def crescents(
    users: int,
    *,
    noise: float = 0.1,
    gap: float = 4.5,
    rng: RandomSource = None,
) -> Crescents:
    """Two clusters of two interleaved half-moons of two halves, as in Meehan et al., figure 1.

    Args:
        users: points n, in [1, 10^8].
        noise: standard deviation around the half-moons, in [0, 1e300]; their radius is 1.
        gap: from one cluster to the next, in [0, 1e300].
        rng: generator or seed.
    """
    n = validate.integer(minimum=1, maximum=10**8, users=users)
    noise, gap = validate.finite_nonnegative(noise=noise), validate.finite_nonnegative(gap=gap)
    if max(noise, gap) > _FARTHEST:
        name, value = ("noise", noise) if noise > _FARTHEST else ("gap", gap)
        raise ValueError(f"{name} must be a number in [0, {_FARTHEST:g}], got {value!r}")
    generator = random_source(rng)
    cluster, moon = generator.integers(2, size=(2, n))
    angle = math.pi * generator.random(n)
    half = (angle > 0.5 * math.pi).astype(np.int64)
    x = np.where(moon == 0, np.cos(angle), 1.0 - np.cos(angle)) + gap * cluster
    y = np.where(moon == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + noise * generator.standard_normal((n, 2))
    return Crescents(points, 4 * cluster + 2 * moon + half)
