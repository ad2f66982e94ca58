"""Random numbers of messages from shared tables, against sums over all multisets of each number."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles.letter_pairs import Truth, closed, exposure, profile_of

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.alphabets import random_users
from shuffle_accountant.losses.alphabets.letters import MessagePair, multisets
from shuffle_accountant.losses.alphabets.profiles import Profile
from shuffle_accountant.losses.alphabets.random_users import (
    MixedProfiles,
    RandomUsersLoss,
    RangeProfiles,
    Sample,
)
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.rounding import Bound

ROUGH = Effort(tail=1e-13, resolution=1e-3)
CACHES = (
    random_users._whole,
    random_users._fewest,
    random_users._mixture,
    random_users._near_points,
)


@dataclass(frozen=True)
class ExactTable:
    """In place of tables: sums over all histograms, and the events where each alpha wins."""

    pairs: tuple[MessagePair, ...]
    users: tuple[int, int]
    losses: bytes
    effort: Effort
    nodes: float = 0.0

    def profile(self, users: int) -> Profile:
        excess = np.expm1(np.frombuffer(self.losses))
        upper, q, d = np.zeros(excess.size), [], []
        for pair in self.pairs:
            table, (p0, p1, _) = multisets(pair, users), pair.scarce
            for i, x in enumerate(excess.tolist()):
                value, error = Truth(pair, users).whole(x)
                upper[i] = max(upper[i], value + error)
                best, alone = table.s0 - (1.0 + x) * table.s1 > 0.0, p0 - (1.0 + x) * p1 > 0.0
                cost = float(np.sum((table.mass * table.s1)[best])) / users + float(p1[alone].sum())
                q.append(cost + error)
                d.append(value - error + x * cost)
        narrow = np.ones(upper.size, dtype=bool)
        return Profile(excess, upper, 0.0 * upper, np.array(q), np.array(d), narrow)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables have tests of their own; here all else is put to the test."""
    monkeypatch.setattr(random_users, "profile_table", ExactTable)
    points = replace(random_users.MIXTURES, fewest=1.0, fewest_unlisted=1.0)
    monkeypatch.setattr(random_users, "MIXTURES", points)
    for cache in CACHES:
        cache.cache_clear()
    yield
    for cache in CACHES:
        cache.cache_clear()


@dataclass(frozen=True)
class Numbers:
    """Three numbers of messages, nobody, and what is left out."""

    some: tuple[Sample, ...]
    missing: float = 0.0625
    expected: float = 20.0

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        return self.some, self.missing


@dataclass(frozen=True)
class Nothing:
    """What must not be asked."""

    largest: float
    deviation: float


SOME = (
    Sample(0.25, 17, 0.5),
    Sample(0.125, 20, 0.5625),
    Sample(0.25, 20, 0.625),
    Sample(0.25, 24, 0.75),
    Sample(0.0625, 0, 1.0),
)
ROWS = {
    "two letters": [[0.7, 0.3], [0.3, 0.7]],
    "an exposed letter": [[0.5, 0.2, 0.3, 0.0], [0.2, 0.4, 0.3, 0.1]],
    "three inputs": [[0.5, 0.3, 0.2], [0.25, 0.45, 0.3], [0.4, 0.2, 0.4]],
}


def truth_of(pairs: list[Any], excess: float, some: tuple[Sample, ...]) -> tuple[float, float]:
    """The mixture at ``alpha = 1 + excess``, and how far off it may be."""
    value = error = 0.0
    for sample in some:
        if sample.users:
            found = [Truth(p, sample.users).whole(excess / sample.fraction) for p in pairs]
            value += sample.weight * sample.fraction * max(v for v, _ in found)
            error += sample.weight * max(e for _, e in found)
    return value, error


@pytest.mark.slow
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("name", ROWS)
def test_mixtures_contain_the_sum_over_all_multisets(name: str) -> None:
    """At points and between them, of one question and of the whole profile."""
    pairs = closed(np.array(ROWS[name]))
    source = Numbers(SOME)
    largest = max(pair.largest for pair in pairs)
    deviation = 0.6 * max(pair.deviation(20) for pair in pairs)
    listed: Any = Nothing(largest, deviation)
    loss = RandomUsersLoss(tuple(pairs), source, listed, math.inf)
    limit = max(exposure(pair, math.inf) for pair in pairs)
    share = sum(s.weight * s.fraction for s in SOME if s.users)

    def edges(largest: float) -> Array:
        return np.arange(2.0)

    upper, lower = (loss.atoms(side, edges, ROUGH) for side in Bound)
    if upper.side is Bound.OPTIMISTIC:
        upper, lower = lower, upper
    assert upper.infinite >= source.missing
    assert lower.truncated >= source.missing
    for place in np.linspace(0.0, 4.0, 33).tolist():
        epsilon = place * deviation
        if epsilon >= 0.9 * largest:
            break
        x = math.expm1(epsilon)
        value, error = truth_of(pairs, x, SOME)
        high = loss.delta(epsilon, Bound.PESSIMISTIC, ROUGH) - source.missing
        low = loss.delta(epsilon, Bound.OPTIMISTIC, ROUGH)
        assert low - error <= value <= high + error
        assert high - low <= 0.02 * (1.0 + place**2) * (value - limit * share) + 2e-3 * value + 1e-9
        above = profile_of(upper, x, 1.0) - source.missing
        below = profile_of(lower, x, -1.0)
        assert below - error <= value <= above + error
        assert above - below <= 0.03 * (1.0 + place**2) * value + 1e-6


def test_chords_are_above_and_events_below() -> None:
    """Against fractions: a falling polygon, and events, at places that are not points."""
    excess = np.array([0.0, 0.25, 1.0, 3.0])
    upper = np.array([[0.5, 0.375, 0.125, 0.0], [0.4375, 0.3125, 0.0625, 0.0]])
    q, d = np.array([[0.5, 0.125], [0.25, 0.0]]), np.array([[0.5, 0.25], [0.4375, 0.0]])
    weight, fraction, row = np.array([0.3, 0.2, 0.4]), np.array([0.7, 0.9, 0.6]), [0, 0, 1]

    def part(some: slice, which: int) -> RangeProfiles:
        rows, close = np.zeros(len(weight[some]), dtype=int), np.ones((1, 4), dtype=bool)
        one = slice(which, which + 1)
        return RangeProfiles(
            excess, weight[some], fraction[some], rows, upper[one], q[one], d[one], close
        )

    def mixture(side: Bound) -> MixedProfiles:
        return MixedProfiles(side, (part(slice(2), 0), part(slice(2, 3), 1)), missing=0.0625)

    for place in (0.0, 0.1, 0.2, 0.45, 0.9, 1.7, 2.8):
        high = low = Fraction(0)
        for w, x, r in zip(weight.tolist(), fraction.tolist(), row, strict=True):
            at = Fraction(place) / Fraction(x)
            i = max(k for k in range(4) if Fraction(float(excess[k])) <= at)
            value = Fraction(float(upper[r, i]))
            if i < 3:
                left, right = Fraction(float(excess[i])), Fraction(float(excess[i + 1]))
                slope = (Fraction(float(upper[r, i + 1])) - value) / (right - left)
                value += slope * (at - left)
            high += Fraction(w) * Fraction(x) * value
            events = zip(q[r].tolist(), d[r].tolist(), strict=True)
            best = max(Fraction(b) - at * Fraction(a) for a, b in events)
            low += Fraction(w) * Fraction(x) * max(best, Fraction(0))
        above = mixture(Bound.PESSIMISTIC).upper_at(np.array([place]))[0]
        assert 0 <= Fraction(float(above)) - Fraction(1, 16) - high < 1e-13
        a, b = (
            Fraction(float(z[0])) for z in mixture(Bound.OPTIMISTIC).events_at(np.array([place]))
        )
        assert b - Fraction(place) * a <= low
        # an event that is below zero somewhere is taken all the same
        if place <= 0.45:
            assert b - Fraction(place) * a >= low - Fraction(1, 10**13)
        # alpha - 1 is itself a rounded exponential
        assert Fraction(mixture(Bound.PESSIMISTIC).delta(place)) - Fraction(1, 16) >= high
        assert Fraction(mixture(Bound.OPTIMISTIC).delta(place)) <= low


@pytest.mark.parametrize("side", list(Bound))
def test_what_alpha_to_infinity_leaves(side: Bound) -> None:
    """A letter that gives the target away does so in every number; what is left out counts."""
    pairs = closed(np.array(ROWS["an exposed letter"]))
    exposed = max(exposure(pair, math.inf) for pair in pairs)
    share = sum(s.weight * s.fraction for s in SOME if s.users)
    loss = RandomUsersLoss(tuple(pairs), Numbers(SOME), Nothing(math.inf, 1.0), math.inf)  # type: ignore[arg-type]
    found = loss.delta(math.inf, side, ROUGH)
    assert exposed > 0.0
    if side is Bound.OPTIMISTIC:
        assert share * exposed * (1.0 - 1e-11) <= found <= share * exposed
    else:
        found -= Numbers(SOME).missing
        assert share * exposed <= found <= share * exposed * (1.0 + 1e-11)


def test_numbers_that_differ_at_infinity_are_asked_one_by_one() -> None:
    """Where all messages are the one letter that the second value never sends, all is known."""
    pair = MessagePair(np.array([0.6, 0.4]), np.array([0.0, 1.0]), np.array([0.3, 0.7]))
    nothing: Any = Nothing(math.inf, 1.0)
    pairs = (pair, pair.reversed)
    few = tuple(Sample(0.5, users, 0.5) for users in (3, 4))
    loss = RandomUsersLoss(pairs, Numbers(few), nothing, 1.0)
    assert random_users._limit(loss, Bound.PESSIMISTIC, ROUGH) is None
    many = tuple(Sample(0.5, users, 0.5) for users in (60, 61))
    loss = RandomUsersLoss(pairs, Numbers(many), nothing, 1.0)
    found = random_users._limit(loss, Bound.PESSIMISTIC, ROUGH)
    assert found is not None
    assert 0.0625 + 0.25 * 0.6 * 0.3**59 <= found <= 0.0625 + 1e-13


def _edges(step: float, end: float) -> Array:
    return np.asarray(np.arange(math.ceil(end / step) + 2) * step)


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    [
        sa.GeneralRandomizer(eps0=1.0),
        pytest.param(sa.RandomizedResponse(categories=3, eps0=0.5), marks=pytest.mark.release),
    ],
)
def test_tables_agree_with_laws_of_each_number(randomizer: Any) -> None:
    """Two brackets of one profile, by two ways, one question at a time."""
    one = sa.ShuffleRound(randomizer, users=sa.Binomial(trials=10**6, probability=0.05))
    loss: PrivacyLoss = one.reduced().loss
    assert isinstance(loss, RandomUsersLoss)
    # as many rounds are asked: one by itself is asked by single questions
    effort = Effort(tail=1e-12, resolution=2.5e-4, rounds=4.0)
    assert random_users._fewest(loss, effort) is not None
    step = 0.05 * loss.deviation
    upper, lower = (
        loss.atoms(side, functools.partial(_edges, step), effort)
        for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
    )
    for place in (0.0, 2.0, 4.0):
        epsilon = place * loss.deviation
        low, high = (
            loss.listed.delta(epsilon, side, effort)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
        x = math.expm1(epsilon)
        above, below = profile_of(upper, x, 1.0), profile_of(lower, x, -1.0)
        assert above >= low
        assert below <= high
        assert above - below <= 2.5e-3 * (1.0 + place**2) * high
        assert loss.delta(epsilon, Bound.PESSIMISTIC, effort) >= low
        assert loss.delta(epsilon, Bound.OPTIMISTIC, effort) <= high


@pytest.mark.parametrize("rounds", [1, 2])
def test_answers_agree_with_laws_of_each_number(rounds: int) -> None:
    """At both ends of one round's; more rounds lose more."""
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    one = sa.ShuffleRound(response, users=sa.Binomial(trials=10**5, probability=0.1))
    found = sa.epsilon(one, delta=1e-6, rounds=rounds)
    assert found.upper - found.lower <= 1e-3 * found.upper
    loss: Any = one.reduced().loss
    effort = Effort(tail=1e-12, resolution=4e-3)
    assert loss.listed.delta(found.upper, Bound.OPTIMISTIC, effort) <= 1e-6
    if rounds == 1:
        assert loss.listed.delta(found.lower, Bound.PESSIMISTIC, effort) >= 1e-6


@pytest.mark.parametrize(
    ("randomizer", "trials", "probability", "rounds", "delta", "truth"),
    [
        # by laws of each number of messages, within 2e-6
        pytest.param(
            *(sa.RAPPOR(categories=50, eps0=6.0), 277, 0.3, 10, 1e-10, 39.42625),
            marks=pytest.mark.release,
        ),
        # the same, within 1e-10: a few of the messages are all there is to see
        pytest.param(
            *(sa.RAPPOR(categories=2, eps0=5.0), 208, 0.3, 1, 1e-12, 4.13510006),
            marks=pytest.mark.release,
        ),
        # within 2e-5: where numbers are few, frequencies are of no use and counts are
        (sa.RandomizedResponse(categories=3, eps0=1.5), 521, 0.1, 100, 1e-8, 1.59233),
    ],
    ids=["up to the largest loss", "few single losses", "few messages"],
)
def test_single_losses_are_followed_wherever_they_are(
    randomizer: Any, trials: int, probability: float, rounds: int, delta: float, truth: float
) -> None:
    """Bends between points, and losses that only many messages have, cost no width."""
    crowd = sa.Binomial(trials=trials, probability=probability)
    one = sa.ShuffleRound(randomizer, users=crowd)
    found = sa.epsilon(one, delta=delta, rounds=rounds, tolerance=1e-3)
    assert found.lower - 1e-4 <= truth <= found.upper + 1e-4
    assert found.upper - found.lower <= 1e-3 * found.upper


def test_events_of_rare_messages_are_as_close_as_profiles() -> None:
    """One message in 1e9 tells more than all others hide: windows of S1 count, too."""
    noise = sa.GaussianRandomizer(sigma=0.8)
    one = sa.ShuffleRound(noise, users=sa.Binomial(trials=249_838, probability=0.9))
    found = sa.epsilon(one, delta=1e-8, tolerance=1e-3)
    assert found.upper - found.lower <= 1e-3 * found.upper
    # what less exact windows said
    assert found.lower <= 0.02132261
    assert found.upper >= 0.02100607


def test_doing_nothing_is_an_event() -> None:
    """Where all events of a number cost more than they gain, there is one that does neither."""
    excess, narrow = np.array([0.0, 1.0]), np.ones(2, dtype=bool)
    upper = np.array([0.5, 0.1])
    table = Profile(excess, upper, 0.0 * upper, np.array([0.4]), np.array([0.5]), narrow)
    part = RangeProfiles.of([Sample(1.0, 5, 1.0)], excess, {5: table})
    q, d = part.events_at(np.array([0.1, 9.0]))
    assert d[0] - 0.1 * q[0] == pytest.approx(0.46, rel=1e-12)
    assert 0.0 >= d[1] - 9.0 * q[1] >= -1e-290


@pytest.mark.parametrize(
    "randomizer",
    [
        pytest.param(sa.RAPPOR(categories=2, eps0=5.0), marks=pytest.mark.release),
        sa.RandomizedResponse(categories=50, eps0=8.0),
        sa.SubsetSelection(categories=3, eps0=2.0),
        sa.HadamardResponse(categories=2, eps0=3.0),
    ],
    ids=["RAPPOR", "randomized response", "subset selection", "Hadamard response"],
)
def test_random_participation_against_every_multiset_of_every_number(randomizer: Any) -> None:
    """No table is replaced: thirty people, of whom each takes part with chance 0.7."""
    people, chance = 30, 0.7
    crowd = sa.Binomial(trials=people, probability=chance)
    loss: Any = sa.ShuffleRound(randomizer, users=crowd).reduced().loss
    assert isinstance(loss, RandomUsersLoss)
    (pair,) = loss.pairs
    effort = Effort(tail=1e-14, resolution=2.5e-4)
    upper, lower = (
        loss.atoms(side, functools.partial(_edges, 0.01), effort)
        for side in (Bound.PESSIMISTIC, Bound.OPTIMISTIC)
    )
    for epsilon in (0.0, 0.2, 0.7, 1.5, 2.5, 4.0):
        if epsilon >= loss.largest:
            break
        x, value, error = math.expm1(epsilon), 0.0, 0.0
        for users in range(1, people + 1):
            weight = math.comb(people, users) * chance**users * (1.0 - chance) ** (people - users)
            share = users / people
            own, off = Truth(pair, users).whole(x / share)
            value, error = value + weight * share * own, error + weight * share * off
        error += 1e-12 * value
        assert loss.delta(epsilon, Bound.OPTIMISTIC, effort) - error <= value
        assert loss.delta(epsilon, Bound.PESSIMISTIC, effort) + error >= value
        assert profile_of(lower, x, -1.0) - error <= value <= profile_of(upper, x, 1.0) + error
