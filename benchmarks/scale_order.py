"""Claim: the order of a million users is protected in seconds, and their data shuffled in tenths.

Nothing grows with the square of the users: the groups of points are lists of near neighbours, those
of a scalar intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.claims import Claim, Note, Outcome, Timing, compact, interleave
from shuffle_accountant import order

USERS = 10**6
QUICK_USERS = 10**5
MEMBERSHIPS = 13.5  # per user, on average
POINTS = 10**5

# Seconds at a million users; fewer users get the same.
MOST_SECONDS = {
    "permutation, kendall": 0.2,
    "permutation, hamming": 0.1,
    "sensitivity": 1.5,
    "radius groups": 5.0,
}


def run(quick: bool, note: Note) -> Outcome:
    """Time a draw of each law, the exact sensitivity, and the groups of points in the plane."""
    users = QUICK_USERS if quick else USERS
    rng = np.random.default_rng(0)
    near = _plane(rng, users, MEMBERSHIPS)
    # 135 near neighbours each: as many memberships as a million users with 13.5
    crowd, crowd_radius = rng.random((POINTS, 2)), _radius(POINTS, 10 * MEMBERSHIPS)
    sigma0 = order.reference_order(near)
    line = order.Groups.from_scalar(rng.random(users), 15 / users)
    with warnings.catch_warnings():
        # Hamming's law keeps next to nothing of the order, and says so
        warnings.simplefilter("ignore", order.OrderWarning)
        shufflers = {
            name: order.DSigmaShuffler(line, 1.0, distance=name) for name in ("kendall", "hamming")
        }
    calls: dict[str, Callable[[], Any]] = {
        "permutation, kendall": lambda: shufflers["kendall"].permutation(rng),
        "permutation, hamming": lambda: shufflers["hamming"].permutation(rng),
        "sensitivity": lambda: order.sensitivity(sigma0, near),
    }
    timings = interleave(calls, 3 if quick else 7, note=note)
    if not quick:
        timings |= interleave(
            {"radius groups": lambda: order.Groups.from_radius(crowd, crowd_radius)}, 1, note=note
        )
    return Outcome(
        [_claim(name, timing, users, near.memberships) for name, timing in timings.items()],
        [{"what": name, "users": users, **timing.as_row()} for name, timing in timings.items()],
    )


def _radius(users: int, memberships: float) -> float:
    """Of the disc in which so many of the points of a unit square are expected."""
    return float(np.sqrt(memberships / (np.pi * users)))


def _plane(rng: np.random.Generator, users: int, memberships: float) -> order.Groups:
    return order.Groups.from_radius(rng.random((users, 2)), _radius(users, memberships))


def _claim(name: str, timing: Timing, users: int, memberships: int) -> Claim:
    what = {
        "permutation, kendall": f"a permutation of {compact(users)} users (Kendall)",
        "permutation, hamming": f"a permutation of {compact(users)} users (Hamming)",
        "sensitivity": f"the exact sensitivity of {memberships / 1e6:.1f} million memberships",
        "radius groups": f"the groups of {compact(POINTS)} points in the plane",
    }[name]
    most = MOST_SECONDS[name]
    return Claim(
        name=name,
        text=f"{what} in under {most:g} s",
        measured=f"{timing.median:.3f} s",
        holds=timing.median < most,
    )
