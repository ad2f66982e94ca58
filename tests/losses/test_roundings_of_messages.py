"""Roundings of rarely sent messages, and of mixtures, each made large enough to see.

Masses are sums of a few powers of two: what is exact is exact in doubles as well.
"""

from __future__ import annotations

import numpy as np

from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.random_users import MixedProfiles, RangeProfiles
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30
# One sample of one number of messages, whose profile falls from 1 to 0, with one event.
PART = RangeProfiles(
    excess=np.array([0.0, 1.0]),
    weight=np.ones(1),
    fraction=np.ones(1),
    row=np.zeros(1, dtype=np.intp),
    upper=np.array([[1.0, 0.0]]),
    q=np.array([[0.25, 0.0]]),
    d=np.array([[0.5, 0.0]]),
    narrow=np.ones((1, 2), dtype=bool),
)


def test_profiles_of_one_number_of_messages() -> None:
    """Twelve roundings of the place on a chord, nine of the sum; five of either sum of events."""
    half = np.array([0.5])
    with stress(roundoff=UNIT):
        high = PART.upper_at(half)[0]
        (q,), (d,) = PART.events_at(half)
        (none,), _ = PART.events_at(np.array([4.0]))
    assert 0.5 * (1.0 + 20.5 * UNIT) <= high <= 0.5 * (1.0 + 30.0 * UNIT)
    assert 0.25 * (1.0 + 4.9 * UNIT) <= q <= 0.25 * (1.0 + 6.0 * UNIT)
    assert 0.5 * (1.0 - 6.0 * UNIT) <= d <= 0.5 * (1.0 - 4.9 * UNIT)
    assert 0.0 < none <= 1e-300  # of no event, which has no probability


def test_mixtures_of_profiles() -> None:
    """An exponential off by twelve roundings, and one more of either sum."""
    with stress(roundoff=UNIT):
        high = MixedProfiles(Bound.PESSIMISTIC, (PART,), 0.125).delta(0.5)
        low = MixedProfiles(Bound.OPTIMISTIC, (PART,), 0.125).delta(0.5)
    assert 0.625 + 16.6 * UNIT <= high <= 0.625 + 20.0 * UNIT
    assert 0.375 - 8.0 * UNIT <= low <= 0.375 - 6.4 * UNIT


def test_messages_that_decoys_all_but_never_send() -> None:
    """One decoy in 4 sends them with a probability of 4e-160 at most, which either end pays."""
    rare, size = 2.0**-530, 3.0
    pair = MessagePair(
        np.array([0.5, 0.5, 16.0 * rare]),
        np.array([0.25, 0.75, 8.0 * rare]),
        np.array([0.5, 0.5, rare]),
    )
    with stress(roundoff=UNIT):
        high, low = (pair.settled(side, 4) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC))
    lost = 4.0 * rare * (1.0 + (size + 3.9) * UNIT)
    assert high.p0[3] >= lost
    assert high.p0[3] <= lost * (1.0 + 4.0 * UNIT)
    assert high.p1[3] == high.q[3] == high.q[2] == low.q[2] == 0.0
    assert low.p0[2] <= (16.0 * rare - lost) * (1.0 - 3.9 * UNIT)
    assert low.p0[2] >= 12.0 * rare * (1.0 - 10.0 * UNIT)
    assert low.p1[2] >= (8.0 * rare + lost) * (1.0 + 3.9 * UNIT)
    assert low.p1[2] <= 12.0 * rare * (1.0 + 10.0 * UNIT)


def test_exposed_messages() -> None:
    """Forty roundings of all that is subtracted, and three of their sum."""
    pair = MessagePair(np.array([0.5, 0.5]), np.array([0.25, 0.75]), np.array([0.0, 1.0]))
    with stress(roundoff=UNIT):
        low, high = (x[0] for x in pair.exposure_bounds(np.array([0.5])))
    least = (40.0 * 0.875 + 2.9 * 0.125) * UNIT
    assert 0.125 + least <= high <= 0.125 + 2.0 * least
    assert 0.125 - 2.0 * least <= low <= 0.125 - least
