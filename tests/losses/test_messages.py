"""One pair at one alpha by every way, and messages too rare for relative accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from oracles import blanket as exact_blanket
from oracles.precision import MP, exact

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets import profiles
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letters import MessagePair, gains
from shuffle_accountant.losses.alphabets.profiles import OrderedMessages, divergence_bounds
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.sums import lists
from shuffle_accountant.sums.survey import Way, choose

# Masses of at most a few hundred histograms, each with its sum of logarithms.
ROUND_OFF = 1e-11
EFFORT = Effort(tail=1e-30, resolution=1e-5)


def pair_of(p0: list[float], p1: list[float], q: list[float]) -> MessagePair:
    return MessagePair(np.array(p0), np.array(p1), np.array(q))


PAIRS = {
    "two letters": pair_of([0.7, 0.3], [0.4, 0.6], [0.5, 0.5]),
    "blank": pair_of([0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4]),
    "three letters": pair_of([0.5, 0.2, 0.3], [0.2, 0.45, 0.35], [0.3, 0.1, 0.6]),
    "rare letter": pair_of([0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.001, 0.4, 0.599]),
    "four letters": pair_of([0.4, 0.1, 0.2, 0.3], [0.1, 0.4, 0.3, 0.2], [0.1, 0.1, 0.2, 0.6]),
}


# A letter of which a million others are far above, among letters that make the bulk.
UNEVEN = pair_of([0.3, 0.6999, 1e-4], [0.6, 0.3999, 1e-4], [0.3, 0.7 - 1e-13, 1e-13])


SMALL = [0.0, 5e-324, 1e-320, 1e-300, 1e-291, 1e-200, 1e-151]


def small_letters(seed: int) -> MessagePair:
    """Some entries far below all that relative errors are known of."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(3), size=3)
    for row in rows:
        tiny = rng.random(3) < 0.4
        row[tiny] = rng.choice(SMALL, size=int(tiny.sum()))
    rows[2, 0] = 1.0 - rows[2, 1:].sum()
    return MessagePair(*rows)


@pytest.mark.parametrize("seed", range(30))
def test_settled_letters_are_on_their_side(seed: int) -> None:
    """In 50 digits, at every alpha a double can be."""
    pair = small_letters(seed)
    assert pair.settled(Bound.PESSIMISTIC, 4).plain
    for users, excess in itertools.product((1, 4), (0.0, 0.5, 20.0, 1e100, 1e290, 1e305)):
        alpha = 1 + exact(excess)
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, alpha)
        above, below = (
            exact_blanket.lemma(letters.p0, letters.p1, letters.q, users, alpha)
            for letters in (
                pair.settled(side, users) for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
            )
        )
        # 50 digits; the other letters keep their masses: a share of 1e-150
        assert below <= truth * (1 + exact(1e-45))
        assert truth <= above * (1 + exact(1e-45))
        # a few roundings, and (1 + alpha) times four users' 1e-150
        assert above - below <= exact(1e-14) + alpha * exact(1e-148)


@pytest.mark.parametrize("side", list(Bound))
def test_gains_of_rounded_numbers(side: Bound) -> None:
    """Each number was rounded eight times, one way; the other number the other way."""
    unit = 2.0**-34
    p0, p1 = np.array([0.5, 0.25, 3.0]), np.array([0.25, 0.5, 1.0])
    sign = -1.0 if side is Bound.PESSIMISTIC else 1.0
    moved = (1.0 + unit) ** 8
    for epsilon in (0.0, 0.2, 2.0):
        with stress(roundoff=unit):
            found = gains(p0 * moved**sign, p1 / moved**sign, epsilon, side)
        for value, a, b in zip(found.tolist(), p0.tolist(), p1.tolist(), strict=True):
            truth = exact(a) - MP.exp(exact(epsilon)) * exact(b)
            assert exact(value) >= truth if side is Bound.PESSIMISTIC else exact(value) <= truth


def bounds(pair: MessagePair, users: int, epsilon: float) -> tuple[float, float, Way]:
    return divergence_bounds((pair,), users, epsilon, EFFORT)


@pytest.mark.parametrize("users", [1, 2, 3, 6])
@pytest.mark.parametrize("name", PAIRS)
def test_lists_of_few_messages_are_exact(name: str, users: int) -> None:
    pair = PAIRS[name]
    for epsilon in (0.0, 0.1, 0.4, 0.5):
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, exact(math.exp(epsilon)))
        low, high, way = bounds(pair, users, epsilon)
        assert way is Way.LISTS
        # the oracle's alpha is a rounded exponential
        assert exact(low) <= truth * (1 + exact(1e-15))
        assert truth * (1 - exact(1e-15)) <= exact(high)
        assert high - low <= ROUND_OFF


# A message of which a million others are far above, among messages that make the bulk.
UNEVEN = pair_of([0.3, 0.6999, 1e-4], [0.6, 0.3999, 1e-4], [0.3, 0.7 - 1e-13, 1e-13])


@pytest.mark.parametrize("name", [*PAIRS, "uneven"])
@pytest.mark.parametrize("users", [20, 60])
def test_every_way_meets_the_truth_and_every_other(
    name: str, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way is forced on each pair; all brackets hold the sum over all histograms."""
    pair = PAIRS.get(name, UNEVEN)
    for epsilon in (0.0, 0.2, 1.0):
        if epsilon >= pair.largest:
            continue
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, exact(math.exp(epsilon)))
        found = {}
        for way in Way:
            with monkeypatch.context() as patch:
                patch.setattr(profiles, "choose", lambda *_, way=way, **__: way)
                profiles.profile_table.cache_clear()
                if way is Way.HEAVY:
                    one = OrderedMessages(pair, (users, users), EFFORT)
                    found[way] = tuple(
                        profiles._heavy(one, epsilon, side, 0.01, doubled=True)
                        for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
                    )
                    continue
                if way is Way.MOMENTS:
                    found[way] = profiles._by_moments((pair,), users, epsilon, EFFORT)
                    continue
                losses = np.array([epsilon]).tobytes()
                table = profiles.profile_table((pair,), (users, users), losses, EFFORT)
                assert table.ways == {way}
                profile = table.profile(users)
                found[way] = float(profile.lower[0]), float(profile.upper[0])
        profiles.profile_table.cache_clear()
        for way, (low, high) in found.items():
            assert exact(low) <= truth * (1 + exact(1e-15)), way
            assert truth * (1 - exact(1e-15)) <= exact(high), way
            # atoms of a few messages are what smoothing is worst at; moments only say how small a
            # divergence is
            assert high - low <= 0.02 * high + 1e-12 or way is Way.MOMENTS, way


def test_the_way_that_answers_is_chosen_by_one_rule() -> None:
    """Each line of the rule's table, just inside its condition and just outside."""
    pair, many = PAIRS["three letters"], (10**6, 10**6)
    few, most = OrderedMessages(pair, (30, 30), EFFORT), OrderedMessages(pair, many, EFFORT)
    assert few.way() is few.way((1e-53, 1e-51), wide=True) is Way.LISTS
    assert OrderedMessages(pair, (30, 31), EFFORT).way() is most.way() is Way.NODES
    assert most.way((1e-53, 1e-50)) is most.way((1e-54, 1e-51), wide=True) is Way.MOMENTS
    for known in ((1e-53, 1.1e-50), (0.9e-54, 1e-51)):
        assert most.way(known) is Way.NODES
        assert most.way(known, wide=True) is Way.HEAVY
    doubled = np.full(1 << 13, 2.0**-13)
    assert choose(doubled, many, 1e-9, wide=True) is Way.HEAVY
    assert choose(np.append(doubled, 0.0), many, 1e-9, wide=True) is Way.NODES
    assert choose(doubled, (2**49, 2**49), 1e-9, wide=True) is Way.HEAVY
    assert choose(doubled, (2**50, 2**50), 1e-9, wide=True) is Way.NODES
    assert choose(doubled, many, 1e-308, wide=True) is Way.NODES
    most = lists.histogram_count(3, 10**6, 1 << 17)
    assert math.comb(most + 2, 2) <= 1 << 17 < math.comb(most + 3, 2)


@pytest.mark.parametrize("seed", range(30))
def test_bounds_with_messages_that_are_too_rare(seed: int) -> None:
    pair = small_letters(seed)
    for users, epsilon in itertools.product((1, 4, 7), (0.0, 0.4, 3.0)):
        low, high, _ = bounds(pair, users, epsilon)
        truth = exact_blanket.lemma(pair.p0, pair.p1, pair.q, users, 1 + exact(math.expm1(epsilon)))
        assert exact(low) <= truth
        assert truth <= exact(high) * (1 + exact(1e-14)) or truth <= 1e-300


@pytest.mark.parametrize("users", [1, 3, 30])
def test_the_limit_for_alpha_to_infinity(users: int) -> None:
    """Messages impossible under X', of decoys or not; against fractions."""
    pair = pair_of([0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.0, 0.5], [0.5, 0.25, 0.0, 0.25])
    truth = Fraction(1, 4) + Fraction(1, 2) * Fraction(1, 2) ** (users - 1)
    low, high, _ = bounds(pair, users, math.inf)
    assert Fraction(low) <= truth <= Fraction(high)
    assert high - low <= 1e-13
    # a finite alpha has no less
    low, high, _ = bounds(pair, users, 1e300)
    assert Fraction(low) <= truth <= Fraction(high)


def test_a_whole_epsilon_is_the_same_number_as_a_double() -> None:
    """Tables are looked up by the bytes of doubles."""
    blanket = sa.ShuffleRound(sa.GaussianRandomizer(sigma=1.0), users=5000).reduced().loss
    assert isinstance(blanket, BlanketLoss)
    effort = Effort(tail=1e-12, resolution=1e-3)
    asked = blanket.pairs, blanket.users
    at_0, at_1 = (divergence_bounds(*asked, epsilon, effort) for epsilon in (0.0, 1.0))
    divergence_bounds.cache_clear()  # which takes 1 for 1.0
    assert divergence_bounds(*asked, 1, effort) == at_1
    assert at_1[1] < at_0[0]
