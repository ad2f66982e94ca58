"""Profiles that rounds of about as many users share, against sums over all multisets."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.letter_pairs import Truth, closed, exposure, profile_of

import shuffle_accountant as sa
from shuffle_accountant.lattice import spectra
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.lattice.region import symmetric_atoms
from shuffle_accountant.losses.alphabets import blanket
from shuffle_accountant.losses.alphabets import shared_profile as shared
from shuffle_accountant.losses.alphabets.anchored_profile import OrderedLetters
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.shared_profile import (
    MOST_COUNTED,
    closest_profile,
    ranges_of,
    shared_profile,
    users_range,
)
from shuffle_accountant.losses.base import Effort, PrivacyLoss

EFFORT = Effort(tail=1e-13, resolution=2.5e-4, many=True, shared=True)
# Few messages have no smooth law: where smoothing is stronger, fewer frequencies are kept.
ROUGH = Effort(tail=1e-13, resolution=5e-3, many=True, shared=True)


@pytest.mark.parametrize("users", [1, 2, 3, 7, 100, 4096, 10**6, 10**9])
def test_every_number_is_in_its_range(users: int) -> None:
    low, high = users_range(users)
    assert 1 <= low <= users <= high <= 1.25 * low + 1
    assert users_range(low) == users_range(high) == (low, high)


@pytest.mark.parametrize("least", [1, 2, 3, 20, 999, 10**9])
@pytest.mark.parametrize("ratio", [1.0, 1.5, 3.0, 40.0])
@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
def test_ranges_hold_every_number_once(least: int, ratio: float, place: float) -> None:
    most = math.floor(ratio * least)
    usual = least + place * (most - least)
    ranges = ranges_of(least, most, usual)
    around = next(pair for pair in ranges if pair[0] <= round(usual) <= pair[1])
    assert around[0] <= max(0.71 * usual + 1.0, least)
    assert around[1] >= min(1.41 * usual - 1.0, most)
    assert ranges[0][0] == least
    assert ranges[-1][1] == most
    assert all(low <= high <= 2 * low + 1 for low, high in ranges)
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(ranges))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Few messages have no smooth law: all frequencies are kept, for the sake of the test."""
    monkeypatch.setattr(spectra, "_MOST_KEPT", 1 << 15)
    caches = (shared._table, shared._inversion, shared._profile)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_profiles_of_channels() -> None:
    """Both sides, several inputs, exposed letters."""
    answered = 0
    for seed in range(14):
        rng = np.random.default_rng(seed)
        inputs = int(rng.integers(2, 4))
        rows = 0.6 * rng.dirichlet(np.ones(3), size=inputs) + 0.4 / 3.0
        if seed % 2:  # messages that give the target away
            rows = np.hstack([0.99 * rows, 0.01 * rng.dirichlet(np.ones(2), size=inputs)])
            rows[0, 4] = rows[1, 3] = 0.0
        pairs = closed(rows, float(rng.choice([1.0, 0.8])))
        users = int(rng.integers(40, 90))
        deviation = max(pair.deviation(users) for pair in pairs)
        losses = np.linspace(0.0, 4.0, 30) * deviation
        found = shared_profile(tuple(pairs), users, losses, ROUGH)
        if not found.narrow.all():
            continue
        answered += 1
        found = found.profile
        limit = max(exposure(pair, math.inf) for pair in pairs)
        atoms = symmetric_atoms(found.q, found.d, limit * (1.0 - 1e-14))
        for x, high in zip(np.expm1(losses).tolist(), found.upper.tolist(), strict=True):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert high >= min(value - error, 1.0)
            assert profile_of(atoms, x, -1.0) <= value + error
            assert value - profile_of(atoms, x, -1.0) <= 0.1 * value + 1e-3
    assert answered >= 10


ROWS = {
    "three inputs": [[0.5, 0.3, 0.2], [0.25, 0.45, 0.3], [0.4, 0.2, 0.4]],
    "a weak pair, an exposed letter": [
        [0.5, 0.2, 0.3, 0.0],
        [0.2, 0.5, 0.3, 0.0],
        [0.205, 0.493, 0.3, 0.002],
    ],
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("name", ROWS)
def test_tables_of_pairs_contain_the_truth_for_all_numbers(name: str) -> None:
    """One table, asked for the least, a middle and the largest of its numbers; up to all losses."""
    pairs = closed(np.array(ROWS[name]))
    middle = 45 if name != "three inputs" else 90
    least, most = users_range(middle)
    assert most >= 1.15 * least
    deviation = max(pair.deviation(least) for pair in pairs)
    limit = max(exposure(pair, math.inf) for pair in pairs)
    largest = max(pair.largest for pair in pairs)
    end = min(6.0 * deviation, 1.2 * largest)
    losses = np.append(np.linspace(0.0, end, 25), [0.6 * largest, 0.9 * largest])
    losses = np.unique(losses[losses < 10.0])
    for users in (least, middle, most):
        found = shared_profile(tuple(pairs), users, losses, ROUGH).profile
        atoms = symmetric_atoms(found.q, found.d, limit * (1.0 - 1e-14))
        for x, high in zip(np.expm1(losses).tolist(), found.upper.tolist(), strict=True):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert value - error <= high <= 1.2 * value + 1e-3
            low = profile_of(atoms, x, -1.0)
            assert 0.8 * value - 2e-4 <= low <= value + error


@pytest.mark.usefixtures("patient")
def test_what_is_known_of_left_out_pairs_bounds_each_number() -> None:
    pairs = closed(np.array(ROWS["a weak pair, an exposed letter"]))
    numbers = users_range(45)
    losses = np.linspace(0.0, 3.0, 25) * max(pair.deviation(numbers[0]) for pair in pairs)
    letters = [OrderedLetters(pair, numbers[0], ROUGH) for pair in pairs]
    kept, others = shared._candidates(letters, numbers, np.expm1(losses))
    left = [pair for pair in letters if pair not in kept]
    assert kept
    assert left
    assert others is not None
    for users in {numbers[0], 45, numbers[1]}:
        upper, lower = others.ends(users)
        for one, high, low in zip(left, upper, lower, strict=True):
            for i, x in enumerate(np.expm1(losses).tolist()):
                value, error = Truth(one.low, users).whole(x)
                assert low[i] <= value + error
                assert high[i] >= value - error
                assert high[i] <= 1.2 * value + 1e-3
    # they join the final maximum
    table = shared._table(tuple(pairs), numbers, losses.tobytes(), ROUGH, 0.25)
    everywhere = replace(others, exposed=(others.exposed[0], np.full(upper.shape, 0.75)))
    found = replace(table, others=everywhere, largest=math.inf).profile(45)
    assert (found.profile.upper >= 0.75).all()
    assert not found.narrow.any()


@pytest.mark.usefixtures("patient")
def test_all_pairs_left_out_are_bounded_all_the_same() -> None:
    """Far out no pair is above what may be given away: bounds are close, and no event is needed."""
    pairs = closed(np.array(ROWS["three inputs"]))
    users = 5000
    losses = np.linspace(0.9, 0.95, 6) * max(pair.largest for pair in pairs)
    found = shared_profile(tuple(pairs), users, losses, ROUGH)
    assert found.narrow.all()
    assert (found.profile.upper <= ROUGH.tail).all()


def _edges(step: float, end: float) -> Array:
    return np.asarray(np.arange(math.ceil(end / step) + 2) * step)


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    [
        sa.RAPPOR(categories=4, eps0=2.0),
        sa.HadamardResponse(categories=3, eps0=1.0),
        sa.SubsetSelection(categories=6, eps0=1.0),
        sa.RandomizedResponse(categories=3, eps0=1.0),
        sa.RandomizedResponse(categories=7, eps0=0.01),
        sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.4, 0.2, 0.4]]),
        sa.LaplaceRandomizer(eps0=1.0),
    ],
)
@pytest.mark.parametrize("users", [300, 2000])
def test_atoms_agree_with_those_of_a_round_alone(randomizer: Any, users: int) -> None:
    """Two brackets of one profile; the round alone goes another way."""
    loss: PrivacyLoss = sa.ShuffleRound(randomizer, users=users).reduced().loss
    step = 0.02 * loss.deviation
    upper, lower = (
        loss.atoms(side, functools.partial(_edges, size), EFFORT)
        for side, size in ((Bound.PESSIMISTIC, step), (Bound.OPTIMISTIC, 0.25 * step))
    )
    for place in range(0, 250, 11):
        # an edge of both: atoms that were gathered in cells are as good there
        epsilon, z = place * step, 0.02 * place
        if epsilon >= 0.95 * loss.largest:
            break
        x = math.expm1(epsilon)
        exact = Effort(tail=1e-14, resolution=1e-5)
        low = loss.delta(epsilon, Bound.OPTIMISTIC, exact)
        high = loss.delta(epsilon, Bound.PESSIMISTIC, exact)
        above, below = profile_of(upper, x, 1.0), profile_of(lower, x, -1.0)
        assert above >= low
        assert below <= high
        # where the profile is a few hundred tails, its points are further apart
        assert above - below <= 6e-3 * (1.0 + z**2) * high + 1e2 * EFFORT.tail


def test_a_loss_without_a_close_table_goes_round_by_round() -> None:
    """A few rare letters among many messages have no smooth law."""
    response = sa.RandomizedResponse(categories=1000, eps0=4.0)
    loss: PrivacyLoss = sa.ShuffleRound(response, users=3000).reduced().loss
    for side in Bound:
        edges = functools.partial(_edges, 0.01 * loss.deviation)
        shared, alone = (
            loss.atoms(side, edges, Effort(1e-12, 1e-3, many=many, shared=many))
            for many in (True, False)
        )
        assert np.array_equal(shared.mass, alone.mass)


def test_lower_ends_use_what_bounds_from_below() -> None:
    """Letters of continuous messages differ between the two ends."""
    loss = sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=500).reduced().loss
    assert isinstance(loss, BlanketLoss)
    losses = np.linspace(0.0, 3.0, 20) * loss.deviation
    found = shared_profile(loss.pairs, 500, losses, EFFORT).profile
    for epsilon, high in zip(losses.tolist(), found.upper.tolist(), strict=True):
        effort = Effort(1e-14, 2.5e-5)
        low = loss.delta(epsilon, Bound.OPTIMISTIC, effort)
        assert high >= low
        best = float(np.max(found.d - math.expm1(epsilon) * found.q))
        assert best <= loss.delta(epsilon, Bound.PESSIMISTIC, effort)


def table_of(users: int) -> shared._Table:
    pairs = tuple(closed(np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]])))
    losses = np.linspace(0.0, 0.4, 9)
    return shared._table(pairs, (users, users), losses.tobytes(), EFFORT, 0.25)


@pytest.mark.parametrize("wide", [[3], [2, 5], [0, 4], [4, 8], [1, 2]])
def test_wide_bounds_between_close_ones_are_bridged(wide: list[int]) -> None:
    """By chords; what is at an end has no neighbour, and no chord is lower than the profile."""
    found = table_of(400).profile(400)
    assert found.narrow.all()
    assert found.bridged() is found
    upper, narrow = found.profile.upper.copy(), found.narrow.copy()
    upper[wide], narrow[wide] = 1.0, False
    rough = replace(found, profile=replace(found.profile, upper=upper), narrow=narrow)
    bridged = rough.bridged()
    inside, ends = [i for i in wide if 0 < i < 8], [i for i in wide if i in {0, 8}]
    assert np.all(bridged.profile.upper >= found.profile.upper)
    assert np.all(bridged.profile.upper[inside] < 1.0)
    assert np.all(bridged.profile.upper[ends] == 1.0)
    assert not bridged.narrow[ends].any()
    # chords are above what is allowed there, or say so
    allowed = found.part * bridged.profile.upper
    gap = bridged.profile.upper - found.profile.upper
    assert np.all(gap[bridged.narrow] <= allowed[bridged.narrow])


@pytest.mark.parametrize("name", ROWS)
def test_counts_of_each_number_are_as_close_as_tables(name: str) -> None:
    """And closer: nothing is smoothed. Where there are too many, tables answer."""
    pairs = tuple(closed(np.array(ROWS[name])))
    losses = np.linspace(0.0, 1.5, 12)
    limit = max(exposure(pair, math.inf) for pair in pairs)
    for users in (1, 4, 30):
        found = shared_profile(pairs, users, losses, EFFORT, (1, 30), 0, MOST_COUNTED)
        assert found.narrow.all()
        atoms = symmetric_atoms(found.profile.q, found.profile.d, limit * (1.0 - 1e-14))
        for x, high in zip(np.expm1(losses).tolist(), found.profile.upper.tolist(), strict=True):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert min(value - error, 1.0) <= high <= value + 1e-9
            assert value - 1e-9 <= profile_of(atoms, x, -1.0) <= value + error
    none = shared_profile(pairs, 30, losses, ROUGH, (20, 30), 0, 1).profile
    table = shared_profile(pairs, 30, losses, ROUGH, (20, 30)).profile
    assert np.array_equal(none.upper, table.upper)


@pytest.mark.parametrize("name", ROWS)
def test_tables_of_one_number_are_smoothed_ever_less(name: str) -> None:
    """Against sums over all multisets; wherever they are not close, they say so."""
    pairs = tuple(closed(np.array(ROWS[name])))
    losses = np.linspace(0.0, 1.2, 9)
    for users, effort in ((40, EFFORT), (41, replace(EFFORT, resolution=1e-5))):
        plain = shared_profile(pairs, users, losses, effort, (users, users))
        found = closest_profile(pairs, users, losses, effort)
        assert np.all(found.profile.upper <= plain.profile.upper * (1.0 + 1e-12))
        assert found.narrow.sum() >= plain.narrow.sum()
        for i, x in enumerate(np.expm1(losses).tolist()):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            low = np.max(found.profile.d - x * found.profile.q)
            assert low - error <= value <= found.profile.upper[i] + error
            if found.narrow[i]:
                assert found.profile.upper[i] <= value * (1.0 + 40.0 * effort.resolution) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_a_few_numbers_tell_all_of_a_range(name: str) -> None:
    """Each of them against sums over all multisets, and against a table of its own."""
    pairs = tuple(closed(np.array(ROWS[name])))
    losses, numbers = np.linspace(0.0, 1.2, 9), (30, 60)
    costs = shared.shared_costs(pairs, 40, losses[:5], EFFORT, 0.0, 1000)
    assert (
        costs.frequencies
        < 0.5 * shared.shared_costs(pairs, 40, losses[:5], EFFORT, 0.0, 10).frequencies
    )
    for users in range(30, 61, 6):
        alone = shared_profile(pairs, users, losses, EFFORT, numbers)
        found = shared_profile(pairs, users, losses, EFFORT, numbers, many=True)
        assert found is not alone
        assert np.array_equal(found.narrow, alone.narrow)
        assert found.profile.upper == pytest.approx(alone.profile.upper, rel=1e-7)
        for i, x in enumerate(np.expm1(losses).tolist()):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert found.profile.upper[i] >= value - error
            assert np.max(found.profile.d - x * found.profile.q) <= value + error


@pytest.mark.parametrize("wide", [[], [3], list(range(9))])
def test_a_closer_table_joins_where_it_was_asked(wide: list[int]) -> None:
    found, at = table_of(400).profile(400), np.array([1, 3, 4])
    upper, narrow = found.profile.upper.copy(), found.narrow.copy()
    upper[wide], narrow[wide] = 1.0, False
    rough = replace(found, profile=replace(found.profile, upper=upper), narrow=narrow)
    some = replace(
        found,
        profile=replace(found.profile, upper=found.profile.upper[at]),
        narrow=found.narrow[at],
    )
    joined = rough.joined(some, at)
    assert np.all(joined.profile.upper[at] == found.profile.upper[at])
    assert np.all(joined.narrow == (narrow | np.isin(np.arange(9), at)))
    assert joined.profile.q.size == 2 * found.profile.q.size


@pytest.mark.slow
@pytest.mark.parametrize(("users", "rounds", "delta"), [(3000, 1, 1e-5), (39_982, 1, 1e-4)])
def test_tables_agree_with_laws_of_single_messages(
    users: int, rounds: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that one message in many hides less than all others: two ways, two brackets."""
    one = sa.ShuffleRound(sa.GaussianRandomizer(sigma=0.8), users=users)
    found = sa.epsilon(one, delta=delta, rounds=rounds)
    blanket.largest_divergence.cache_clear()
    monkeypatch.setattr(blanket, "_by_table", lambda *_: None)
    other = sa.epsilon(one, delta=delta, rounds=rounds, tolerance=1.001e-3)
    blanket.largest_divergence.cache_clear()
    for bracket in (found, other):
        assert bracket.upper - bracket.lower <= 1e-3 * bracket.upper
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
