"""Profiles that rounds of about as many users share, against sums over all multisets."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from oracles.letter_pairs import Truth, closed, exposure, profile_of

import shuffle_accountant as sa
from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.lattice.profile import symmetric_atoms
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss, users_range
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.profiles import Profile, profile_table
from shuffle_accountant.losses.alphabets.random_users import ranges_of
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.numerics.rounding import Bound

EFFORT = Effort(tail=1e-13, resolution=2.5e-4, many=True, shared=True)
# Few messages have no smooth law: where smoothing is stronger, fewer frequencies are kept.
ROUGH = Effort(tail=1e-13, resolution=5e-3, many=True, shared=True)


def shared_profile(
    pairs: tuple[MessagePair, ...], users: int, losses: Array, effort: Effort
) -> Profile:
    """From the table of all numbers of messages in the range."""
    return profile_table(pairs, users_range(users), losses.tobytes(), effort).profile(users)


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


@pytest.mark.slow
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
        found = shared_profile(tuple(pairs), users, losses, ROUGH)
        atoms = symmetric_atoms(found.q, found.d, limit * (1.0 - 1e-14))
        for x, high in zip(np.expm1(losses).tolist(), found.upper.tolist(), strict=True):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert value - error <= high <= 1.2 * value + 1e-3
            low = profile_of(atoms, x, -1.0)
            assert 0.8 * value - 2e-4 <= low <= value + error


def test_all_pairs_left_out_are_bounded_all_the_same() -> None:
    """Far out no pair is above what may be given away: bounds are close, and no event is needed."""
    pairs = closed(np.array(ROWS["three inputs"]))
    users = 5000
    losses = np.linspace(0.9, 0.95, 6) * max(pair.largest for pair in pairs)
    found = shared_profile(tuple(pairs), users, losses, ROUGH)
    assert found.narrow.all()
    assert (found.upper <= ROUGH.tail).all()


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


def test_lower_ends_use_what_bounds_from_below() -> None:
    """Letters of continuous messages differ between the two ends."""
    loss = sa.ShuffleRound(sa.LaplaceRandomizer(eps0=1.0), users=500).reduced().loss
    assert isinstance(loss, BlanketLoss)
    losses = np.linspace(0.0, 3.0, 20) * loss.deviation
    found = shared_profile(loss.pairs, 500, losses, EFFORT)
    for epsilon, high in zip(losses.tolist(), found.upper.tolist(), strict=True):
        effort = Effort(1e-14, 2.5e-5)
        low = loss.delta(epsilon, Bound.OPTIMISTIC, effort)
        assert high >= low
        best = float(np.max(found.d - math.expm1(epsilon) * found.q))
        assert best <= loss.delta(epsilon, Bound.PESSIMISTIC, effort)


@pytest.mark.parametrize("name", ROWS)
def test_pairs_that_are_nowhere_the_largest_bound_all_the_same(name: str) -> None:
    """A table of all pairs has the bounds of the best one, and events of true ones alone."""
    pairs = tuple(closed(np.array(ROWS[name])))
    numbers = users_range(45)
    losses = np.linspace(0.0, 3.0, 25) * max(pair.deviation(numbers[0]) for pair in pairs)
    whole = profile_table(pairs, numbers, losses.tobytes(), ROUGH)
    assert 0 < len(whole.pairs) < len(pairs)
    for users in {numbers[0], 45, numbers[1]}:
        found = whole.profile(users)
        for i, x in enumerate(np.expm1(losses).tolist()):
            values = [Truth(pair, users).whole(x) for pair in pairs]
            value, error = max(v for v, _ in values), max(e for _, e in values)
            assert value - error <= found.upper[i] <= 1.2 * value + 1e-3
            assert found.lower[i] <= value + error
            assert np.max(found.d - x * found.q, initial=0.0) <= value + error
