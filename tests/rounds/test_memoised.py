"""Memoised reports: against enumeration of all transcripts in exact arithmetic, and references."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from oracles.enumeration import hockey_stick
from oracles.people import memoised

import shuffle_accountant as sa

REFS = Path(__file__).resolve().parent.parent / "refs"
ENTRIES = json.loads((REFS / "memoised.json").read_text(encoding="utf-8"))


def response(odds: int) -> sa.RandomizedResponse:
    return sa.RandomizedResponse(categories=2, eps0=math.log(odds))


def rows(odds: int) -> list[list[Fraction]]:
    likely, rare = Fraction(odds, odds + 1), Fraction(1, odds + 1)
    return [[likely, rare], [rare, likely]]


@pytest.mark.parametrize(("memo", "copy"), [(3, 3), (9, 2), (2, 7)])
@pytest.mark.parametrize(("users", "rounds"), [(1, 1), (1, 3), (2, 2), (3, 2)])
def test_no_protocol_is_above(memo: int, copy: int, users: int, rounds: int) -> None:
    one = sa.MemoisedRounds(
        permanent=response(memo),
        instantaneous=response(copy),
        users=users,
        rounds=rounds,
        same_participants=True,
    )
    for others in itertools.combinations_with_replacement((0, 1), users - 1):
        p, q = (memoised(rows(memo), rows(copy), (mine, *others), rounds) for mine in (0, 1))
        for alpha in (Fraction(1), Fraction(5, 4), Fraction(2), Fraction(3)):
            truth = hockey_stick(p, q, alpha)
            assert sa.delta(one, epsilon=math.log(alpha)).upper >= float(truth) * (1 - 1e-12)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(e, id=e["id"], marks=[pytest.mark.release] * e["id"].endswith("-010"))
        for e in ENTRIES
        if e["rounds"] <= 100 and e["users"] <= 10_000
    ],
)
def test_references(entry: dict[str, Any]) -> None:
    one = sa.MemoisedRounds(
        permanent=sa.RandomizedResponse(categories=2, eps0=entry["eps_permanent"]),
        instantaneous=sa.RandomizedResponse(categories=2, eps0=entry["eps_instantaneous"]),
        users=entry["users"],
        rounds=entry["rounds"],
        same_participants=True,
    )
    found = sa.epsilon(one, delta=entry["delta"])
    # the envelope of both bounds is at most the smaller one; chords between points are above it
    assert found.lower <= entry["epsilon_upper"] * (1 + 1e-3)
    assert found.upper <= entry["epsilon_upper"] * (1 + 5e-3)


def test_changing_participants_and_values() -> None:
    both = {"permanent": response(9), "instantaneous": response(3), "users": 500, "rounds": 20}
    same = sa.MemoisedRounds(**both, same_participants=True)
    changing = sa.MemoisedRounds(**both, same_participants=False)
    some = sa.MemoisedRounds(**both, same_participants=False, smallest_pattern=100)
    values = [sa.delta(one, epsilon=0.4).upper for one in (same, some, changing)]
    assert values == sorted(values)
    # without public times a memo does not help users whose values change
    moving = sa.MemoisedRounds(**both, same_participants=True, values_per_user=2)
    fresh = sa.delta(sa.ShuffleRound(response(3), users=500), rounds=20, epsilon=0.4)
    found = sa.delta(moving, epsilon=0.4)
    assert (found.lower, found.upper) == (fresh.lower, fresh.upper)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"permanent": sa.RandomizedResponse(categories=3, eps0=1.0)}, "permanent"),
        ({"instantaneous": sa.GeneralRandomizer(eps0=1.0)}, "instantaneous"),
        ({"users": 0}, "users"),
        ({"rounds": 0}, "rounds"),
        ({"colluding": 10}, "colluding"),
        ({"same_participants": 1}, "same_participants"),
        ({"smallest_pattern": 11}, "smallest_pattern"),
        ({"values_per_user": 0}, "values_per_user"),
    ],
)
def test_what_is_not_covered_is_refused(changed: dict[str, Any], named: str) -> None:
    both = {"permanent": response(9), "instantaneous": response(3), "users": 10, "rounds": 5}
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        sa.MemoisedRounds(**{**both, "same_participants": True, **changed})
    assert "\n" not in str(refused.value)
    with pytest.raises(TypeError, match="same_participants"):
        sa.MemoisedRounds(**both)


@pytest.mark.parametrize("eps0", [0.0, 5e-324, 1e-310, 1e-17, 1e-9])
@pytest.mark.parametrize("copies", [0.0, 1.0])
@pytest.mark.parametrize(("users", "rounds"), [(1, 1), (5, 3)])
def test_answers_that_say_next_to_nothing(
    eps0: float, copies: float, users: int, rounds: int
) -> None:
    """All rounds together say no more than the answers that are kept do without a shuffler."""
    one = sa.MemoisedRounds(
        permanent=sa.RandomizedResponse(categories=2, eps0=eps0),
        instantaneous=sa.RandomizedResponse(categories=2, eps0=copies),
        users=users,
        rounds=rounds,
        same_participants=True,
    )
    at_zero = sa.delta(one, epsilon=0.0)
    assert 0.0 <= at_zero.lower <= at_zero.upper <= math.tanh(eps0 / 2) * 1.01 + 1e-300
    assert sa.delta(one, epsilon=1e-8).upper == 0.0
    assert sa.epsilon(one, delta=1e-6).upper <= eps0
