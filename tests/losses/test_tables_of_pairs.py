"""Single steps of profiles of pairs: what is added up, compared, cut off and taken from a side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from oracles import blanket as exact_blanket
from oracles.letter_pairs import Truth
from oracles.precision import MP, exact

from shuffle_accountant.losses.alphabets import blanket, profiles
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.profiles import OrderedMessages, ProfileTable
from shuffle_accountant.losses.alphabets.settings import PROFILES
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import SMALLEST, Bound
from shuffle_accountant.sums.question import Ends

UNIT = 2.0**-30
EFFORT = Effort(tail=1e-6, resolution=1e-5)


def pair_of(*rows: list[float]) -> MessagePair:
    return MessagePair(*map(np.array, rows))


PAIR = pair_of([0.75, 0.25], [0.25, 0.75], [0.5, 0.5])
# The same with a message that no decoy sends.
EXPOSED = pair_of([0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.5, 0.5, 0.0])


def test_how_far_apart_bounds_may_be() -> None:
    """By a share of the tail besides one of the profile."""
    one = OrderedMessages(PAIR, (9, 9), EFFORT)
    places, tail = np.array([0.0, 0.5]), PROFILES.tail_share * EFFORT.tail
    share = PROFILES.width * EFFORT.resolution * (1.0 + (np.log1p(places) / one.deviation) ** 2)
    assert one.allowed(places, np.zeros(2)) == pytest.approx(tail, rel=1e-12)
    assert one.allowed(places, np.ones(2)) == pytest.approx(tail + share, rel=1e-12)


def test_bounds_of_all_pairs_lie_on_raised_chords(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known at few alpha is a bound between them, raised by sixteen roundings."""
    monkeypatch.setattr(profiles, "moment_bounds", lambda pairs, *_: np.full((len(pairs), 24), 0.5))
    monkeypatch.setattr(profiles, "_coarse_bounds", lambda *_: [])
    every = [OrderedMessages(PAIR, (9, 9), EFFORT)] * 2
    table = ProfileTable((PAIR,), (9, 9), np.linspace(0.0, 1.0, 48), EFFORT)
    table._best[:] = 1.0  # no pair is looked at any closer
    with stress(roundoff=UNIT):
        found = table._compared(every)
    assert found.shape == (2, 48)
    assert np.all(found >= 0.5 * (1.0 + 15.9 * UNIT))
    assert np.all(found <= 0.5 * (1.0 + 18.0 * UNIT))


def test_messages_that_decoys_never_send_join_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two roundings of the sum above, four of that below; what is exposed moves by its own."""
    pair = OrderedMessages(EXPOSED, (9, 9), EFFORT)
    exposed = np.array([0.125]), np.array([0.25])
    monkeypatch.setattr(OrderedMessages, "exposed", lambda *_: exposed)
    table = profiles._PairEnds(pair, np.array([0.5]), np.zeros(1, dtype=np.intp))
    table._moments = np.ones(1)
    none = np.zeros(1)
    given = Ends(np.array([0.5]), np.array([0.25]), none, none)
    monkeypatch.setattr(profiles._PairEnds, "_found", lambda *_: given)
    with stress(roundoff=UNIT):
        found = table.ends(9)[0]
    assert 0.75 * (1.0 + 1.9 * UNIT) <= found.upper[0] <= 0.75 * (1.0 + 3.0 * UNIT)
    assert 0.375 * (1.0 - 5.0 * UNIT) <= found.lower[0] <= 0.375 * (1.0 - 3.9 * UNIT)


@pytest.mark.parametrize("roundings", [0, 4, 15])
def test_next_to_the_largest_loss_something_is_left(roundings: int) -> None:
    """An alpha whose sixteen roundings hide that it is below the largest ratio."""
    unit = 2.0**-53
    pair = MessagePair(PAIR.p0, PAIR.p1, PAIR.q, eps0=math.log(3.0))
    excess = 2.0 * (1.0 + roundings * unit)
    alpha = 1 + Fraction(excess) * (1 - 16 * Fraction(unit))
    assert alpha < 3
    found = ProfileTable((pair,), (1, 1), np.array([excess]), EFFORT).profile(1)
    assert Fraction(float(found.upper[0])) >= Fraction(3, 4) - alpha / 4
    beyond = ProfileTable((pair,), (1, 1), np.array([2.0 * (1.0 + 2.0**-38)]), EFFORT).profile(1)
    assert beyond.upper[0] == 0.0


def test_uneven_messages_of_either_side() -> None:
    """Those for upper ends have the larger profile: neither end says what the other's would."""
    users, epsilon = 9, 1.0
    one = OrderedMessages(PAIR, (users, users), Effort(tail=1e-14, resolution=1e-5))
    one.high = pair_of([0.3, 0.5, 0.2], [0.5, 0.4999, 1e-4], [0.6, 0.399, 0.001])
    one.low = pair_of([0.4, 0.5, 0.1], [0.5, 0.4999, 1e-4], [0.6, 0.399, 0.001])
    low, high = (
        profiles._heavy(one, epsilon, side, 0.1, doubled=False)
        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    excess = math.expm1(epsilon)
    (less, off), (more, also) = (Truth(pair, users).whole(excess) for pair in (one.low, one.high))
    assert less < 0.6 * more
    assert 0.5 * less < low <= less + off
    assert more - also <= high < 1.5 * more


def test_sums_below_all_doubles_are_bounded_from_above(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ninth part of the least double is rounded to 0, which is no bound of it."""
    one = OrderedMessages(PAIR, (9, 9), EFFORT)
    monkeypatch.setattr(profiles, "heavy_positive_part", lambda *_, **__: SMALLEST)
    high = profiles._heavy(one, 0.5, Bound.PESSIMISTIC, 0.1, doubled=True)
    low = profiles._heavy(one, 0.5, Bound.OPTIMISTIC, 0.1, doubled=True)
    assert low == 0.0 < high <= 1e-300


def kept_nowhere() -> None:
    for function in (profiles.divergence_bounds, profiles.profile_table, profiles.ways_of):
        function.cache_clear()


def test_the_limit_that_events_begin_at_is_a_lower_bound() -> None:
    """A message that the other input never sends, off by thirty roundings."""
    pair = pair_of([0.5, 0.25, 0.25], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0])
    kept_nowhere()
    with stress(roundoff=UNIT):
        found = blanket._limit((pair, pair.reversed), 9, EFFORT)
    kept_nowhere()
    assert 0.25 * (1.0 - 40.0 * UNIT) <= found <= 0.25 * (1.0 - 30.0 * UNIT)


def test_the_pair_that_is_easiest_to_distinguish_has_a_bracket() -> None:
    """Of two pairs whose bounds are further apart than rounding would put them."""
    pairs, users, epsilon = (EXPOSED, PAIR), 5, 0.25
    kept_nowhere()
    with stress(roundoff=2.0**-20):
        best, low, high = blanket.most_distinguishable(pairs, users, epsilon)
    kept_nowhere()
    truth = exact_blanket.lemma(PAIR.p0, PAIR.p1, PAIR.q, users, MP.exp(exact(epsilon)))
    assert best is PAIR
    assert exact(low) * (1 + exact(2.0**-20)) <= truth <= exact(high) * (1 - exact(2.0**-20))
    assert high <= 1.01 * low
