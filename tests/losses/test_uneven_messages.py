"""Bounds of one pair of uneven messages, and the limit of its profile, against all multisets."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.letter_pairs import Truth, exposure

from shuffle_accountant.losses.alphabets import profiles
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.profiles import (
    OrderedMessages,
    certain_loss,
    with_exposed,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums.survey import Way

USERS, UNIT = 9, 2.0**-30
EFFORT = Effort(tail=1e-14, resolution=1e-5)
# One message far likelier under the first input, and one that decoys never send.
PAIR = MessagePair(
    np.array([0.3, 0.2, 0.4375, 0.0625]),
    np.array([0.5, 0.4375, 1e-4, 0.0624]),
    np.array([0.6, 0.39, 0.01, 0.0]),
)

# One of its messages decides every positive sum: decoys hardly ever send it.
LARGE = MessagePair(
    np.array([0.5, 0.25, 0.1875, 0.0625]),
    np.array([0.6, 0.3374, 1e-4, 0.0625]),
    np.array([0.6, 0.399999, 1e-6, 0.0]),
)


@pytest.mark.parametrize(("pair", "doubled"), [(PAIR, True), (LARGE, True), (LARGE, False)])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_uneven_messages(pair: MessagePair, epsilon: float, doubled: bool) -> None:
    """Both ends on their own sides, near one another, each with what decoys never send."""
    one = OrderedMessages(pair, (USERS, USERS), EFFORT)
    low, high = (
        profiles._heavy(one, epsilon, side, 0.1, doubled=doubled)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    truth, error = Truth(pair, USERS).whole(math.expm1(epsilon))
    assert 0.5 * truth < low <= truth + error
    assert truth - error <= high < 2.0 * truth
    assert low < high


def test_sums_that_no_single_message_decides() -> None:
    """Without doubling nothing is known of them."""
    one = OrderedMessages(PAIR, (USERS, USERS), EFFORT)
    found = [profiles._heavy(one, 0.5, side, 0.1, doubled=False) for side in Bound]
    assert sorted(found) == [0.0, 1.0]
    assert profiles._heavy(one, 0.5, Bound.PESSIMISTIC, 0.1, doubled=False) == 1.0


def test_the_last_resort_bounds_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knows nothing takes nothing from the bounds that there are."""
    effort = Effort(tail=1e-12, resolution=1e-9)
    users = 5000  # too many histograms to list
    before = profiles.divergence_bounds((LARGE,), users, 0.1, effort)
    monkeypatch.setattr(OrderedMessages, "way", lambda *_, **__: Way.HEAVY)
    monkeypatch.setattr(
        profiles, "_heavy", lambda *given, **_: float(given[2] is Bound.PESSIMISTIC)
    )
    profiles.divergence_bounds.cache_clear()
    after = profiles.divergence_bounds((LARGE,), users, 0.1, effort)
    profiles.divergence_bounds.cache_clear()
    assert 0.0 < after[0] <= before[1]
    assert before[0] <= after[1] < 1.0
    assert after[0] < after[1]


@pytest.mark.parametrize("doubled", [False, True])
def test_no_message_is_uneven_enough(doubled: bool) -> None:
    """Where no sum of decoys' messages is positive, what they never send is all."""
    one = OrderedMessages(PAIR, (USERS, USERS), EFFORT)
    low, high = (
        profiles._heavy(one, 30.0, side, 0.1, doubled=doubled)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    assert low == exposure(PAIR, math.expm1(30.0)) == 0.0
    assert 0.0 < high <= 1e-300


def test_roundings_of_uneven_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that is known moves by ten roundings, and a product of its size."""
    found: dict[float, dict[Bound, float]] = {}
    monkeypatch.setattr(profiles, "one_large", lambda *_, **__: 0.25)
    for size in (2.0**-53, UNIT):
        with stress(roundoff=size):
            one = OrderedMessages(PAIR, (USERS, USERS), EFFORT)
            monkeypatch.setattr(one, "exposed", lambda excess: (np.zeros(1), np.zeros(1)))
            monkeypatch.setattr(profiles, "gains", lambda *_: np.array([1.0, -1.0, 2.0]))
            found[size] = {s: profiles._heavy(one, 1.0, s, 0.1, doubled=False) for s in Bound}
    exact = 0.5 / USERS
    assert found[UNIT][Bound.PESSIMISTIC] >= exact * (1.0 + 9.0 * UNIT)
    assert found[UNIT][Bound.OPTIMISTIC] <= exact * (1.0 - 9.0 * UNIT)


@pytest.mark.parametrize("alone", [0.0, 0.125])
@pytest.mark.parametrize("users", [1, 2, 40])
def test_the_limit_of_a_profile(users: int, alone: float) -> None:
    """All messages are impossible under the other input: one product of fractions."""
    pair = MessagePair(
        np.array([0.25, 0.5, 0.25 - alone, alone]),
        np.array([0.0, 0.75, 0.25, 0.0]),
        np.array([0.5, 0.25, 0.25, 0.0]),
    )
    truth = Fraction(alone) + Fraction(1, 4) * Fraction(1, 2) ** (users - 1)
    for size in (2.0**-53, UNIT):
        with stress(roundoff=size):
            low, high = (
                certain_loss(pair, users, s) for s in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
            )
        own = Fraction(30.0 * size)
        assert Fraction(low) <= truth * (1 - own)
        assert Fraction(high) >= truth * (1 + own)
        # a share of a half is a power, whose logarithm and base may be off for every message
        power = Fraction(1, 4) * Fraction(1, 2) ** (users - 1)
        moved = Fraction((14.0 * users + 5.0 * (users - 1)) * size)
        assert Fraction(high) - Fraction(low) >= 2 * (own * truth + moved * power)
        assert Fraction(high) - Fraction(low) <= Fraction(1000 * users * size)


def test_events_joined_with_messages_that_decoys_never_send() -> None:
    """Each is dearer than what it joins by all roundings, and worth as much less."""
    pair = MessagePair(
        np.array([0.5, 0.25, 0.125, 0.125]),
        np.array([0.875, 0.0625, 0.0625, 0.0]),
        np.array([1.0, 0.0, 0.0, 0.0]),
    )
    q, d = np.array([0.25, 0.5]), np.array([0.5, 0.5625])
    with stress(roundoff=UNIT):
        dear, worth = with_exposed(pair, q, d)
    # ratios: infinite, 4 and 2; the first event adds (0.25, 0.5), the second a ratio of 1.25
    events = [
        (0.0, 0.0, (0.125, 0.25), (0.0, 0.0625)),
        (0.25, 0.5, (0.125, 0.25, 0.125), (0.0, 0.0625, 0.0625)),
        (0.5, 0.5625, (0.125, 0.25, 0.125), (0.0, 0.0625, 0.0625)),
    ]
    assert dear.size == worth.size == len(events)
    for found, gain, (cost, value, p0, p1) in zip(dear, worth, events, strict=True):
        slack, rest = 69.0 * UNIT, 3.9 * UNIT
        assert found >= (cost + sum(p1) * (1.0 + slack)) * (1.0 + rest)
        assert found <= (cost + sum(p1)) * (1.0 + 100.0 * UNIT)
        joined = sum(p0) - sum(p1)
        most = value + joined - slack * (sum(p0) + sum(p1)) - rest * (value + joined)
        assert most - 40.0 * UNIT <= gain <= most
