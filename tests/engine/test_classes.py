"""Many different rounds at once: the lemmas by enumeration, the answers against round by round."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shuffle_accountant as sa
from shuffle_accountant import progress
from shuffle_accountant.engine import ends
from shuffle_accountant.engine.classes import Member, dominates, gathered
from shuffle_accountant.engine.evaluation import evaluate
from shuffle_accountant.engine.question import Answer, Query
from shuffle_accountant.engine.settings import SETTINGS
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.kept import kept
from shuffle_accountant.numerics.rounding import Bound
from shuffle_accountant.rounds import base
from tests.oracles import rational

LIMIT = 2**30
Rounds = list[tuple[sa.ShuffleRound, int]]


def one_by_one(rounds: Rounds, query: Query, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Every round on a grid of its own, every grid with a transform of its own."""
    parts = [(one.reduced(), count) for one, count in sa.Protocol(rounds).in_order]
    with monkeypatch.context() as patch:
        patch.setattr(ends, "SETTINGS", replace(SETTINGS, many_losses=10**9))
        return evaluate(parts, query, 1e-3, LIMIT)


def in_classes(
    rounds: Rounds, query: Query, width: float, monkeypatch: pytest.MonkeyPatch
) -> Answer:
    """Classes, tables and stacked grids, for however few rounds."""
    parts = gathered(list(sa.Protocol(rounds)), width, fewest=2)
    with monkeypatch.context() as patch:
        patch.setattr(ends, "SETTINGS", replace(SETTINGS, many_losses=1))
        return evaluate(parts.above, query, 1e-3, LIMIT, parts.below)


# The lemmas


@pytest.mark.parametrize("ratio", [Fraction(3, 2), Fraction(4)])
def test_one_decoy_more_lowers_every_divergence(ratio: Fraction) -> None:
    for epsilon in (0.0, 0.1, 0.3, 1.0):
        found = [rational.clones(ratio, users).divergence(epsilon) for users in range(1, 14)]
        for fewer, more in itertools.pairwise(found):
            assert Fraction(more.low, more.denominator) <= Fraction(fewer.high, fewer.denominator)


def test_users_at_a_fixed_population_are_not_monotone() -> None:
    """Why the two coordinates of a class move apart."""
    found = [
        rational.clones(Fraction(4), users).sampled(users, 12).divergence(0.05)
        for users in range(1, 12)
    ]
    values = [float(Fraction(one.low, one.denominator)) for one in found]
    assert any(b > a for a, b in itertools.pairwise(values))


def test_a_smaller_share_of_the_population_lowers_every_divergence() -> None:
    inner = rational.clones(Fraction(4), 5)
    for epsilon in (0.0, 0.1, 0.5):
        found = [inner.sampled(5, population).divergence(epsilon) for population in range(5, 20)]
        for larger, smaller in itertools.pairwise(found):
            assert Fraction(smaller.low, smaller.denominator) <= Fraction(
                larger.high, larger.denominator
            )


@pytest.mark.parametrize(
    "channel",
    [
        lambda eps0: rational.rappor(2, eps0),
        lambda eps0: rational.hadamard(2, eps0),
        lambda eps0: rational.subset_selection(4, eps0, 2),
        lambda eps0: rational.subset_selection(3, eps0, 1),  # k-ary randomized response
    ],
)
def test_a_smaller_eps0_lowers_every_divergence(channel: Any) -> None:
    pairs = [[*channel(eps0).blanket_pairs(3)] for eps0 in (0.5, 1.0, 1.1, 2.0)]
    for epsilon in (0.0, 0.2, 0.6):
        found = [rational.largest(p.divergence(epsilon) for p in each) for each in pairs]
        for smaller, larger in itertools.pairwise(found):
            assert Fraction(smaller.low, smaller.denominator) <= Fraction(
                larger.high, larger.denominator
            )


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    [
        sa.GeneralRandomizer(1.0),
        sa.GeneralRandomizer(1.0, interactive=True),
        sa.RandomizedResponse(categories=5, eps0=1.0),
        sa.RandomizedResponse.from_gamma(categories=5, gamma=0.3),
        sa.BinaryRandomizedResponse(eps0=0.7),
        sa.RAPPOR(categories=4, eps0=1.0),
        sa.HadamardResponse(categories=4, eps0=1.0),
        sa.SubsetSelection(categories=6, eps0=1.0, size=2),
        sa.LocalHashing(categories=6, eps0=1.0, buckets=3),
    ],
)
def test_ends_of_a_class_lie_on_both_sides_of_its_members(randomizer: Any) -> None:
    rounds = [(sa.ShuffleRound(randomizer, users=n, population=3 * n), 1) for n in (200, 205, 210)]
    other = randomizer.at(randomizer.eps0 * 1.02)
    rounds.append((sa.ShuffleRound(other, users=207, population=640), 2))
    found = gathered(rounds, 0.2, fewest=2)
    assert not found.exact
    assert sum(count for _, count in found.above) == sum(count for _, count in found.below) == 5
    effort = Effort(1e-16, 1e-6)
    for epsilon in (0.01, 0.1):
        worst = max(p.loss.delta(epsilon, Bound.PESSIMISTIC, effort) for p, _ in found.above)
        best = min(p.loss.delta(epsilon, Bound.OPTIMISTIC, effort) for p, _ in found.below)
        for one, _ in rounds:
            loss = one.reduced().loss
            # both are brackets of numbers that differ by a per cent or more
            assert loss.delta(epsilon, Bound.OPTIMISTIC, effort) <= worst
            assert best <= loss.delta(epsilon, Bound.PESSIMISTIC, effort)


# What belongs together


def test_what_has_no_order_stays_as_it_is() -> None:
    def family(one: sa.ShuffleRound) -> object:
        return None if one.member is None else one.member.family

    general = sa.GeneralRandomizer(1.0)
    assert family(sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=1.0), users=50)) is None
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    assert family(sa.ShuffleRound(response, users=50, reduction="strong")) is None
    gaussian = sa.GaussianRandomizer(sigma=2.0)
    assert family(sa.ShuffleRound(gaussian, users=50, reduction="example")) is None
    # sizes that jump with eps0 make families of their own
    hashing = [sa.ShuffleRound(sa.LocalHashing(categories=9, eps0=x), users=50) for x in (1.0, 1.6)]
    assert family(hashing[0]) != family(hashing[1])
    # a sampled round is no member of the others' family, and another theorem neither
    alone = sa.ShuffleRound(general, users=50)
    assert family(alone) != family(sa.ShuffleRound(general, users=50, population=60))
    assert family(sa.ShuffleRound(response, users=50)) != family(
        sa.ShuffleRound(response, users=50, reduction="clones")
    )
    # Laplace noise of another parameter is no kernel's output: its eps0 is no coordinate
    laplace = [sa.ShuffleRound(sa.LaplaceRandomizer(eps0=x), users=50) for x in (1.0, 1.1)]
    assert family(laplace[0]) != family(laplace[1])


def test_one_member_more_leaves_the_other_classes_alone() -> None:
    rounds = [(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1000 + i), 1) for i in range(90)]
    before = gathered(rounds, 0.02, fewest=2)
    after = gathered([*rounds, (sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1055), 1)], 0.02)
    assert {pair for pair, _ in before.above} == {pair for pair, _ in after.above}
    assert len(before.above) < 10


def test_few_rounds_and_no_width_are_exact() -> None:
    rounds = [(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1000 + i), 1) for i in range(30)]
    assert gathered(rounds, 0.1).exact
    assert gathered(rounds, 0.0, fewest=2).exact
    assert gathered(rounds[::-1], 0.1) == gathered(rounds, 0.1)  # whatever the order


def test_dominance_allows_for_rounding() -> None:
    family = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=5, population=9).member
    assert family is not None
    one = Member(family.family, 100, 0.5, 1.0)
    assert dominates(one, one)
    assert dominates(one, Member(family.family, 101, 0.4, 0.9))
    assert not dominates(one, Member(family.family, 99, 0.4, 0.9))
    assert not dominates(one, Member(family.family, 101, math.nextafter(0.5, 0.0), 0.9))
    assert not dominates(one, Member(family.family, 101, 0.5, 1.1))


# The answers


@st.composite
def mixtures(draw: st.DrawFn) -> Rounds:
    """Rounds of one or two families, close together or far apart."""
    users = st.integers(20, 4000)
    kind = draw(st.sampled_from(["users", "eps0", "sampled", "two"]))
    eps0 = draw(st.floats(0.2, 3.0))
    rounds: Rounds = []
    for i in range(draw(st.integers(3, 12))):
        own = draw(st.floats(0.2, 3.0)) if kind == "eps0" else eps0
        randomizer: Any = sa.GeneralRandomizer(own)
        if kind == "two" and i % 2:
            randomizer = sa.BinaryRandomizedResponse(eps0=own)
        n = draw(users)
        population = n + draw(st.integers(1, 5 * n)) if kind == "sampled" else None
        one = sa.ShuffleRound(randomizer, users=n, population=population)
        rounds.append((one, draw(st.integers(1, 5))))
    return rounds


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(mixtures(), st.sampled_from([1e-9, 1e-4, 1e-2]), st.sampled_from([1e-3, 0.1]))
def test_answers_meet_those_round_by_round(rounds: Rounds, delta: float, width: float) -> None:
    monkeypatch = pytest.MonkeyPatch()
    query = Query(delta=delta)
    exact = one_by_one(rounds, query, monkeypatch)
    found = in_classes(rounds, query, width, monkeypatch)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    # a class costs its width, in each of up to three coordinates, times at most 1 + eps0
    narrow = 0.5 * (exact.lower + exact.upper) * (2e-3 + 8.0 * width) + 1e-9
    assert found.upper - found.lower <= narrow or found.cause is not None


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_delta_as_well(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=300 + 7 * i), 2) for i in range(40)]
    query = Query(epsilon=epsilon)
    exact = one_by_one(rounds, query, monkeypatch)
    found = in_classes(rounds, query, 1e-3, monkeypatch)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.upper <= 1.02 * found.lower


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    [
        sa.RandomizedResponse(categories=4, eps0=2.0),
        pytest.param(sa.RandomizedResponse(categories=1000, eps0=4.0), marks=pytest.mark.release),
        pytest.param(sa.HadamardResponse(categories=3, eps0=1.0), marks=pytest.mark.release),
        pytest.param(sa.RAPPOR(categories=20, eps0=2.0), marks=pytest.mark.release),
        sa.SubsetSelection(categories=6, eps0=1.0),
        sa.LocalHashing(categories=9, eps0=1.0),
        sa.DiscreteRandomizer([[0.6, 0.3, 0.1], [0.3, 0.3, 0.4], [0.4, 0.2, 0.4]]),
        pytest.param(sa.LaplaceRandomizer(eps0=1.0), marks=pytest.mark.release),
    ],
)
def test_blankets_are_gathered_too(randomizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against every round with a law of its own, composed without classes."""
    rounds = [(sa.ShuffleRound(randomizer, users=3000 + i), 1) for i in range(2)]
    rounds.append((sa.ShuffleRound(randomizer, users=4100), 2))
    query = Query(delta=1e-6)
    exact = one_by_one(rounds, query, monkeypatch)
    found = in_classes(rounds, query, 5e-3, monkeypatch)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.upper <= 1.02 * found.lower


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-40])
def test_blankets_at_any_delta(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    randomizer = sa.RAPPOR(categories=20, eps0=2.0)
    rounds = [(sa.ShuffleRound(randomizer, users=n), 3) for n in (1000, 1700, 10**5)]
    exact = one_by_one(rounds, Query(delta=delta), monkeypatch)
    found = in_classes(rounds, Query(delta=delta), 1e-4, monkeypatch)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.upper <= 1.005 * found.lower


@pytest.mark.slow
def test_three_hundred_rounds_of_an_oracle_are_within_the_tolerance() -> None:
    """And between as many rounds of the most and of the fewest users."""
    oracle = sa.HadamardResponse(categories=20, eps0=2.0)
    accountant = sa.FourierAccountant()
    for i in range(300):
        accountant.compose(sa.ShuffleRound(oracle, users=5000 + 17 * i))
    found = accountant.epsilon(delta=1e-6)
    assert found.width <= 1e-3 * found
    ends = [
        sa.epsilon(sa.ShuffleRound(oracle, users=n), delta=1e-6, rounds=300)
        for n in (5000 + 17 * 299, 5000)
    ]
    assert ends[0].lower <= found.lower
    assert found.upper <= ends[1].upper


@pytest.mark.slow
def test_a_thousand_rounds_are_within_the_tolerance() -> None:
    """And the same in any order, and as a state that is loaded again."""
    rounds = [sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=5000 + i) for i in range(1000)]
    accountant, backwards = sa.FourierAccountant(), sa.FourierAccountant()
    for one, other in zip(rounds, rounds[::-1], strict=True):
        accountant.compose(one)
        backwards.compose(other)
    found = accountant.epsilon(delta=1e-6)
    assert found.width <= 1e-3 * found
    again = sa.FourierAccountant.from_state_dict(backwards.state_dict()).epsilon(delta=1e-6)
    assert (again.lower, again.upper) == (found.lower, found.upper)
    # the same number of rounds of the most and of the fewest users
    ends = [
        sa.epsilon(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=n), delta=1e-6, rounds=1000)
        for n in (5999, 5000)
    ]
    assert ends[0].lower <= found.lower
    assert found.upper <= ends[1].upper


@pytest.mark.slow
def test_wide_classes_are_refined(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first width that is far too wide costs time, not tightness."""
    monkeypatch.setattr(base, "_CLASS_WIDTH", 40.0)
    made = sa.FourierAccountant()
    for i in range(60):
        made.compose(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1000 + 5 * i))
    found = made.epsilon(delta=1e-6)
    assert found.width <= 1e-3 * found


def test_memory_bounds_what_is_kept() -> None:
    calls = []

    @kept(1000, len)
    def made(n: int) -> bytes:
        calls.append(n)
        return bytes(n)

    for n in (400, 400, 500, 300, 400, 5000, 5000):
        assert len(made(n)) == n
    # 300 pushes out 400, which pushes out 500; one value is kept however large it is
    assert calls == [400, 500, 300, 400, 5000]
    made.cache_clear()
    made(5000)
    assert calls[-2:] == [5000, 5000]


def test_a_bar_that_is_shown_moves_with_the_classes() -> None:
    accountant = sa.FourierAccountant()
    for i in range(100):
        accountant.compose(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=700 + 9 * i))
    seen: list[float] = []
    token = progress._free.set(seen.append)
    try:
        accountant.epsilon(delta=1e-6)
    finally:
        progress._free.reset(token)
    assert len(seen) >= 40
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert 0.9 < seen[-1] < 1.0


def test_one_more_of_many_different_rounds_makes_few_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next answer asks for the same grids: a class and its two sides are new, and no others."""
    made: list[Any] = []
    law = ends.loss_grid.__wrapped__

    def counted(*given: Any) -> Any:
        made.append(given)
        return law(*given)

    monkeypatch.setattr(ends, "loss_grid", kept(1 << 26, lambda grid: grid.mass.nbytes)(counted))
    accountant = sa.FourierAccountant()
    for i in range(100):
        one = sa.RAPPOR(categories=20, eps0=0.5 + 0.015 * i)
        accountant.compose(sa.ShuffleRound(one, users=10**4))
    accountant.epsilon(delta=1e-6)
    first = len(made)
    accountant.compose(sa.ShuffleRound(sa.RAPPOR(categories=20, eps0=1.2345), users=10**4))
    accountant.epsilon(delta=1e-6)
    assert first >= 200
    assert len(made) - first <= 20
