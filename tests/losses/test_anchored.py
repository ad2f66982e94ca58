"""Anchored laws and the profiles made of them, against sums over all multisets of messages."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import blanket as exact_blanket
from oracles.letter_pairs import (
    Truth,
    closed,
    exposure,
    pair_of,
    profile_of,
    random_rows,
    users_for,
)
from oracles.precision import exact

import shuffle_accountant as sa
from shuffle_accountant.lattice.anchored import AnchoredLaw
from shuffle_accountant.lattice.anchoring import anchored_law
from shuffle_accountant.lattice.grid import Array, Bound
from shuffle_accountant.lattice.inversion import inversion
from shuffle_accountant.lattice.region import symmetric_atoms
from shuffle_accountant.losses.alphabets import anchored_profile, letter_divergence
from shuffle_accountant.losses.alphabets.anchored_profile import (
    OrderedLetters,
    bracket_at,
    profile,
)
from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letter_divergence import LetterDivergence
from shuffle_accountant.losses.alphabets.letter_moments import far_bounds, moment_bounds
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reductions.blanket import InputPair

fixed = settings(derandomize=True, deadline=None, max_examples=100)

EFFORT = Effort(tail=1e-13, resolution=2.5e-4)
# Relative to these, anchors leave room for rounding.
BELOW = 256 * 2.0**-53


def anchor(excess: float) -> float:
    return excess - BELOW * (1.0 + excess)


def check_law(law: AnchoredLaw, truth: Truth, excess: Array) -> None:
    upper, lower = law.upper(excess), law.lower(excess)
    q, d = law.curve(excess)
    for x, high, low in zip(excess.tolist(), upper.tolist(), lower.tolist(), strict=True):
        value, error = truth.decoyed(x)
        assert low <= value + error
        assert high >= value - error
    for x in [0.0, 0.5 * float(excess[0]), *excess.tolist()]:
        value, error = truth.decoyed(x)
        assert q.size == 0 or float(np.max(d - x * q)) <= value + error


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400))
def test_laws_contain_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pair = pair_of(random_rows(rng), float(rng.choice([1.0, rng.random()])))
    users = users_for(rng, pair.decoyed[2].size)
    deviation = pair.deviation(users)
    start = math.expm1(min(float(rng.choice([0.0, 0.3, 1.0, 2.0, 4.0])) * deviation, 8.0))
    law = anchored_law(
        pair.decoyed,
        users,
        anchor(start),
        variance=10.0 ** rng.uniform(-6.0, -3.0),
        steep=bool(rng.random() < 0.3),
    )
    ahead = math.expm1(min(deviation, 5.0)) * np.array([0.0, 1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0])
    if law is None:
        # nothing to be found at the anchor, or numbers out of range
        value, error = Truth(pair, users).decoyed(start)
        assert value <= error or start >= 2e3
        return
    check_law(law, Truth(pair, users), start + ahead * (1.0 + start))


@fixed
@given(
    seed=st.integers(0, 10**6),
    users=st.integers(1, 5),
    z=st.floats(0.0, 3.0),
    ahead=st.floats(0.0, 1.0),
)
def test_strict_containment_in_exact_arithmetic(
    seed: int, users: int, z: float, ahead: float
) -> None:
    """No tolerance: masses are exact binary numbers, the truth has 50 digits."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(3), size=2)
    pair = pair_of(rows)
    start = math.expm1(z * pair.deviation(users))
    law = anchored_law(pair.decoyed, users, anchor(start), variance=1e-6)
    if law is None:
        return
    x = start + ahead
    masses = pair.p0.tolist(), pair.p1.tolist(), pair.q.tolist()
    truth = exact_blanket.lemma(*masses, users, 1 + exact(x))
    assert exact(float(law.lower(np.array([x]))[0])) <= truth
    assert exact(float(law.upper(np.array([x]))[0])) >= truth


THREE = LetterPair(np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.6, 0.1]), np.array([0.3, 0.3, 0.4]))


@pytest.mark.parametrize("z", [0.0, 1.0, 4.0, 8.0, 15.0, 20.0])
def test_far_tails_are_relatively_accurate(z: float) -> None:
    """Down to 1e-90; the sum over counts is good to 1e-10."""
    users = 900
    truth = Truth(THREE, users)
    start = math.expm1(z * THREE.deviation(users))
    law = anchored_law(THREE.decoyed, users, anchor(start), variance=1e-5)
    assert law is not None
    x = np.array([start])
    low, high = float(law.lower(x)[0]), float(law.upper(x)[0])
    value, error = truth.decoyed(start)
    assert low <= value + error
    assert value - error <= high
    # rounding may change the variance by 1e-5 on either side
    assert high - low <= 4e-5 * (1.0 + z**2) * high
    assert z < 20.0 or high < 1e-85


@pytest.mark.parametrize("users", [10**3, 10**5, 10**7, 10**9])
@pytest.mark.parametrize("z", [0.0, 2.0, 6.0])
def test_against_single_questions(users: int, z: float) -> None:
    """Sums in stages, whatever the number of messages; the other way shares no lattice with it."""
    rng = np.random.default_rng(users)
    for _ in range(3):
        pair = pair_of(rng.dirichlet(np.full(5, 3.0), size=2))
        start = math.expm1(z * pair.deviation(users))
        law = anchored_law(pair.decoyed, users, anchor(start), variance=1e-4)
        assert law is not None
        x = np.array([start])
        low, high = float(law.lower(x)[0]), float(law.upper(x)[0])
        other = inversion(pair.decoyed, (users, users), x, 1e-4).ends(users)
        assert low <= other.upper[0]
        assert high >= other.lower[0]
        # about 2e-4 in variance, and what transforms of 1e9 messages lose
        assert high - low <= (2e-4 * (1.0 + z**2) + 1e-12 * users) * high


@pytest.mark.parametrize("seed", range(60))
def test_bounds_from_moments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [pair_of(random_rows(rng)) for _ in range(3)]
    users = min(users_for(rng, pair.decoyed[2].size) for pair in pairs)
    z = np.array([0.0, 0.5, 2.0, 5.0])
    excess = np.expm1(np.minimum(z * pairs[0].deviation(users), 8.0))
    for bounds, pair in zip(moment_bounds(pairs, users, excess), pairs, strict=True):
        for bound, x in zip(bounds.tolist(), excess.tolist(), strict=True):
            value, error = Truth(pair, users).whole(x)
            assert bound >= min(value - error, 1.0)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_where_few_messages_tell_more_than_all_others(seed: int) -> None:
    """Letters that decoys hardly send, far above all others."""
    rng = np.random.default_rng(seed)
    rare = np.array([1e-3, 1e-5, 1e-7])
    rows = np.stack([np.append(0.5 - 60.0 * rare.sum(), 60.0 * rare), np.append(0.5, rare)])
    rest = rng.dirichlet(np.ones(1), size=2) * (1.0 - rows.sum(axis=1, keepdims=True))
    p0, p1 = np.hstack([rows, rest])
    pair, users = LetterPair(p0, p1, np.append(np.minimum(p0, p1)[:-1], 0.4)), 12
    excess = np.expm1(np.array([0.0, 0.3, 1.0, 3.0, 10.0]) * pair.deviation(users))
    found = far_bounds([pair], users, excess)
    assert np.all(found <= moment_bounds([pair], users, excess)[0])
    for bound, x in zip(found.tolist(), excess.tolist(), strict=True):
        value, error = Truth(pair, users).whole(x)
        assert bound >= min(value - error, 1.0)


@pytest.mark.parametrize("seed", range(12))
def test_alpha_of_one_depends_on_letters_that_differ(seed: int) -> None:
    """Letters that both inputs send alike are one; the profile at 1 is that of all of them."""
    rng = np.random.default_rng(seed)
    own = 0.3 * rng.dirichlet(np.ones(2), size=2)
    alike = 0.7 * rng.dirichlet(np.ones(3))
    p0, p1 = (np.append(row, alike) for row in own)
    q = rng.dirichlet(np.ones(5))
    for pair in (LetterPair(p0, p1, q), LetterPair(np.append(p0, 0.0), np.append(p1, 0.0), q[:6])):
        if pair.p0.size > pair.q.size:
            pair = LetterPair(pair.p0, pair.p1, np.append(0.9 * pair.q, 0.1))
        assert pair.told_apart.q.size == 3
        letters = OrderedLetters(pair, 15, EFFORT)
        for users in (7, 15):
            value, error = Truth(pair, users).decoyed(0.0)
            found = letters.at_one(users)
            assert value - error <= found <= value * (1.0 + 1e-7) + error + 1e-13


# Profiles


@pytest.mark.parametrize("listed", [False, True], ids=["laws", "listed"])
@pytest.mark.parametrize("seed", range(40))
def test_profiles_of_channels(seed: int, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides, several inputs, exposed letters; by laws even where all can be listed."""
    if not listed:
        monkeypatch.setattr(anchored_profile, "_EXACT", 0)
    anchored_profile._listed.cache_clear()
    rng = np.random.default_rng(seed)
    pairs = closed(random_rows(rng, int(rng.integers(2, 4))), float(rng.choice([1.0, 0.5])))
    users = min(users_for(rng, pair.decoyed[2].size) for pair in pairs)
    deviation = max(pair.deviation(users) for pair in pairs)
    sources = tuple(pairs)
    z = np.linspace(0.0, 4.0, 30)
    excess = np.unique(np.expm1(np.minimum(z * deviation, 9.0)))
    found = profile(sources, users, excess, EFFORT)
    if found is None:
        assert not listed  # too uneven for laws; listing never is
        return
    limit = max(exposure(pair, math.inf) for pair in pairs)
    atoms = symmetric_atoms(found.q, found.d, limit * (1.0 - 1e-14))
    for x, high in zip(excess.tolist(), found.upper.tolist(), strict=True):
        values = [Truth(pair, users).whole(x) for pair in pairs]
        value, error = max(v for v, _ in values), max(e for _, e in values)
        assert high >= min(value - error, 1.0)
        assert profile_of(atoms, x, -1.0) <= value + error
        assert value - profile_of(atoms, x, -1.0) <= 0.05 * value + 1e-4


@pytest.mark.parametrize("seed", range(12))
def test_atoms_on_both_sides(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchored_profile, "_EXACT", 0)
    rng = np.random.default_rng(100 + seed)
    pairs = closed(0.8 * rng.dirichlet(np.ones(3), size=2) + 0.2 / 3)
    users = 12 + seed
    sources = tuple(pairs)
    deviation = pairs[0].deviation(users)
    loss = BlanketLoss(sources, users, deviation, max(p.largest for p in pairs))

    def edges(step: float, end: float) -> Array:
        return np.arange(math.ceil(end / step) + 2) * step

    upper = loss.atoms(Bound.PESSIMISTIC, functools.partial(edges, 0.01 * deviation), EFFORT)
    lower = loss.atoms(Bound.OPTIMISTIC, functools.partial(edges, 0.0025 * deviation), EFFORT)
    for z in np.linspace(0.0, 5.0, 41).tolist():
        x = math.expm1(z * deviation)
        value, error = map(max, zip(*(Truth(p, users).whole(x) for p in pairs), strict=True))
        assert profile_of(upper, x, 1.0) >= value - error
        assert profile_of(lower, x, -1.0) <= value + error
        # the mirror image: H_(1/alpha) = 1 - 1/alpha + H_alpha / alpha
        inverse = math.expm1(-z * deviation)
        mirrored = -inverse + value * (1.0 + inverse)
        assert profile_of(upper, inverse, 1.0) >= mirrored - error
        assert profile_of(lower, inverse, -1.0) <= mirrored + error


@pytest.mark.parametrize("eps0", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("users", [1, 2, 30])
def test_continuous_pairs(eps0: float, users: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters differ between the two ends; sums of positive numbers go another way."""
    monkeypatch.setattr(letter_divergence, "far_positive_part", lambda *_, **__: None)
    source = InputPair(sa.LaplaceRandomizer(eps0=eps0), (0, 1))
    deviation = source.letters(Bound.OPTIMISTIC, EFFORT).deviation(users)
    for z in (0.0, 1.0, 3.0):
        epsilon = min(z * deviation, 0.9 * eps0)
        found = bracket_at(source, users, epsilon, EFFORT)
        assert found is not None
        sides = [
            LetterDivergence(source.letters(side, EFFORT), users, epsilon, side).bound(EFFORT)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        ]
        assert found[0] <= sides[1]
        assert sides[0] <= found[1]
        assert found[1] - found[0] <= 0.02 * found[1]


# Far letters of chance e^-20 among a million messages are no case for these laws.
@pytest.mark.slow
@pytest.mark.parametrize("categories", [2, 1000, 10**5])
@pytest.mark.parametrize(
    ("eps0", "users"),
    [*itertools.product([1e-3, 20.0], [1, 3, 20]), (1e-3, 10**6), (6.0, 10**6)],
)
def test_limits_of_oracles(categories: int, eps0: float, users: int) -> None:
    one = sa.ShuffleRound(
        sa.RAPPOR(categories=categories, eps0=eps0), users=users, reduction="blanket"
    )
    single = one.epsilon(delta=1e-6)
    assert 0.0 <= single.lower <= single.upper <= eps0 * (1.0 + 1e-12)
    both = sa.FourierAccountant().compose(one, count=2).epsilon(delta=1e-6)
    assert both.lower <= 2.0 * eps0 * (1.0 + 1e-12)
    assert both.upper >= single.lower
    # basic composition, and the tolerance of either
    assert both.lower <= 2.0 * one.epsilon(delta=5e-7).upper * (1.0 + 1e-9)


# Regions


@fixed
@given(
    points=st.lists(st.tuples(st.floats(1e-6, 0.6), st.floats(1e-6, 0.4)), min_size=1, max_size=12),
    infinite=st.sampled_from([0.0, 1e-3]),
)
def test_hull_of_events(points: list[tuple[float, float]], infinite: float) -> None:
    """The polygon's profile is that of the best event."""
    q = np.array([p[0] for p in points])
    d = np.minimum(np.array([p[1] for p in points]), 1.0 - q)
    atoms = symmetric_atoms(q, d, infinite)
    assert float(atoms.mass.sum()) + infinite <= 1.0 + 1e-12
    assert math.fsum(atoms.mass * np.exp(-atoms.loss)) <= 1.0 + 1e-12
    for x in (0.0, 0.1, 0.7, 3.0, 40.0, 1e4):
        # with an event beyond the axis of symmetry, the mixture with its mirror image
        lines = d - x * np.minimum(q, 0.5 * (1.0 - d))
        best = max(float(lines.max()), infinite)
        assert profile_of(atoms, x, 0.0) == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("randomizer", "users"),
    [
        (sa.GaussianRandomizer(sigma=2.0), 100_003),
        (sa.HadamardResponse(categories=1000, eps0=6.0), 3001),
    ],
)
def test_a_law_answers_for_several_points(
    randomizer: LocalRandomizer, users: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Composed rounds ask at hundreds of points: with a law for each, minutes would pass."""
    made = []

    def counted(*args: Any, **options: Any) -> Any:
        made.append(args)
        return anchored_law(*args, **options)

    monkeypatch.setattr(anchored_profile, "anchored_law", counted)
    one = sa.ShuffleRound(randomizer, users=users, reduction="blanket")
    found = sa.epsilon(one, delta=1e-6, rounds=10)
    assert found.width <= 1e-3 * found.upper
    assert 0 < len(made) <= 150
