"""The comparison's rows are the bounds' own answers, extended by theorems re-derived here."""

from __future__ import annotations

import math
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant import baselines
from shuffle_accountant.reports.comparison import CERTIFIED, ComparisonRow, compare

ANY = [
    ("rdp", "same pair"),
    ("rdp", "same pair, overstated as published"),
    ("girgis", ""),
    ("strong_composition", "certified curve of one round"),
    ("clones_enumeration", ""),
    ("strong_clones_closed_form", ""),
    ("clones_closed_form", ""),
    ("blanket_bennett", "any randomizer"),
    ("blanket_hoeffding", "any randomizer"),
    ("erlingsson", ""),
]


def by_name(rows: list[ComparisonRow]) -> dict[str, ComparisonRow]:
    """The first row of each name."""
    return {row.name: row for row in reversed(rows)}


def test_one_round_of_any_randomizer() -> None:
    setting: dict[str, Any] = {"eps0": 0.4, "users": 4000, "delta": 1e-6}
    rows = compare(**setting)
    certified = sa.epsilon(sa.ShuffleRound(sa.GeneralRandomizer(0.4), users=4000), delta=1e-6)
    assert (rows[0].name, rows[0].form) == (CERTIFIED, "clones")
    assert (rows[0].lower, rows[0].epsilon) == (certified.lower, certified.upper)
    assert [(row.name, row.form) for row in rows[1:]] == ANY
    for row in rows[1:]:
        assert row.condition is None
        assert row.sound
        assert row.lower is None
        assert row.via == ()
        assert row.epsilon is not None
        assert row.epsilon >= certified.lower
    for name in ("strong_clones_closed_form", "clones_closed_form", "erlingsson", "girgis"):
        assert by_name(rows)[name].epsilon == getattr(baselines, name).epsilon(**setting)


def test_rounds_and_sampling_are_named_theorems() -> None:
    eps0, users, population, rounds, delta = 0.3, 5000, 50_000, 2, 1e-6
    rows = by_name(
        compare(eps0=eps0, users=users, population=population, rounds=rounds, delta=delta)
    )
    row = rows["strong_clones_closed_form"]
    assert row.via == ("sampling", "strong composition")
    # two rounds: half of delta each, and nothing better than the sum of their epsilons
    each = -math.expm1(math.log1p(-delta) / 2)
    inner = baselines.strong_clones_closed_form.epsilon(eps0=eps0, users=users, delta=10 * each)
    assert row.epsilon == pytest.approx(2 * math.log1p(0.1 * math.expm1(inner)), rel=1e-9)
    girgis = baselines.girgis.epsilon(
        eps0=eps0, users=users, population=population, rounds=rounds, delta=delta
    )
    assert rows["girgis"].epsilon == girgis
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users, population=population)
    assert rows["rdp"].epsilon == baselines.rdp.epsilon(one, rounds=rounds, delta=delta)


def test_what_does_not_apply_says_why() -> None:
    rows = by_name(compare(eps0=4.0, users=10_000, rounds=4, delta=1e-6))
    assert rows["erlingsson"].epsilon is None
    assert rows["erlingsson"].condition == "eps0 <= 0.5, got 4"
    assert rows["clones_closed_form"].condition is not None
    assert rows["clones_closed_form"].condition.startswith("eps0 <= log(users")
    assert rows["strong_clones_closed_form"].condition is None


@pytest.mark.slow
def test_randomized_response() -> None:
    rows = compare(eps0=1.0, users=200, categories=3, delta=1e-4)
    assert [row.form for row in rows if row.name == CERTIFIED] == ["blanket", "clones"]
    assert rows[0].epsilon is not None
    named = by_name(rows)
    assert named["blanket_bennett"].form == "k = 3"
    assert named["specialised_clones"].sound is False
    assert named["specialised_clones"].epsilon == baselines.specialised_clones.epsilon(
        eps0=1.0, users=200, categories=3, delta=1e-4
    )
    several = by_name(compare(eps0=1.0, users=200, categories=3, delta=1e-4, rounds=2))
    assert several["specialised_clones"].epsilon is None
    assert several["specialised_clones"].condition == (
        "one round (it is no bound to compose), got 2"
    )


@pytest.mark.slow
def test_rounds_and_protocols_are_compared_as_the_numbers_that_describe_them() -> None:
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=200)
    wanted = compare(eps0=1.0, users=200, categories=3, delta=1e-4, rounds=3)
    assert compare(one, delta=1e-4, rounds=3) == wanted
    assert compare([(one, 3)], delta=1e-4) == wanted
    assert compare(sa.Protocol([(one, 1), (one, 2)]), delta=1e-4) == wanted


def test_different_rounds() -> None:
    """What is about equal rounds says so; what composes is what its module says."""
    first = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=1000)
    second = sa.ShuffleRound(sa.HadamardResponse(categories=8, eps0=1.0), users=2000)
    mixed = sa.Protocol([(first, 2), (second, 1)])
    rows = compare(mixed, delta=1e-5)
    accountant = sa.FourierAccountant().compose(first, count=2).compose(second)
    certified = accountant.epsilon(delta=1e-5)
    assert (rows[0].lower, rows[0].epsilon) == (certified.lower, certified.upper)
    # and as if only eps0 were known
    assert [row.form for row in rows if row.name == CERTIFIED][1] == "clones"
    named = by_name(rows)
    assert named["rdp"].epsilon == baselines.rdp.epsilon(list(mixed), delta=1e-5)
    for name in ("girgis", "strong_composition", "erlingsson", "blanket_bennett"):
        assert named[name].condition == "rounds of one kind, got 2"
    assert "specialised_clones" not in named


def test_rounds_of_another_adjacency_have_bounds_that_are_about_any() -> None:
    table = sa.LossTable([-1.0, 1.0], [0.25, 0.75])
    one = sa.PldRound.from_tables(table, adjacency=sa.Adjacency.ZERO_OUT)
    named = by_name(compare(one, delta=0.3, rounds=2))
    assert named[CERTIFIED].epsilon is not None
    split = named["strong_composition"].epsilon
    assert split is not None
    assert split >= named[CERTIFIED].epsilon
    assert named["rdp"].epsilon is not None
    assert named["rdp"].epsilon >= named[CERTIFIED].lower
    assert named["girgis"].condition == "shuffled rounds alone"


def test_no_rounds_cost_nothing() -> None:
    assert {row.epsilon for row in compare(eps0=1.0, users=9, rounds=0, delta=0.1)} == {0.0}


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"eps0": -1.0}, ValueError, "eps0"),
        ({"eps0": math.inf}, ValueError, "eps0"),
        ({"users": 0}, ValueError, "users"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"rounds": 1.5}, TypeError, "rounds"),
        ({"population": 3}, ValueError, "population"),
        ({"categories": 1}, ValueError, "categories"),
        ({"tolerance": 0.0}, ValueError, "tolerance"),
        ({"users": None}, TypeError, "users"),
        ({"eps0": None}, TypeError, "eps0"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], error: type[Exception], named: str) -> None:
    setting: dict[str, Any] = {"eps0": 1.0, "users": 10, "delta": 1e-6} | change
    with pytest.raises(error, match=rf"^{named} must be ") as caught:
        compare(**setting)
    assert "\n" not in str(caught.value)


def test_rounds_are_said_once() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(0.5), users=1000)
    with pytest.raises(ValueError, match="must be None beside rounds that say them"):
        compare(one, users=1000, delta=1e-5)
    with pytest.raises(TypeError, match="rounds must be a round, a Protocol or a list"):
        compare("rounds", delta=1e-5)  # type: ignore[arg-type]
