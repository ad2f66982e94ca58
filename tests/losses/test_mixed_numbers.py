"""Random numbers of messages: single steps, whose roundings are made large enough to see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.lattice.grid import Array
from shuffle_accountant.losses.alphabets import random_users
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.random_users import (
    MixedProfiles,
    RandomUsersLoss,
    RangeProfiles,
    Sample,
)
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.numerics.rounding import Bound

UNIT = 2.0**-30
EFFORT = Effort(tail=1e-9, resolution=1e-3)
PAIR = MessagePair(np.array([0.75, 0.25]), np.array([0.25, 0.75]), np.array([0.5, 0.5]))
SOME = tuple(Sample(0.125, 20 + i, 0.5) for i in range(4))


@dataclass(frozen=True)
class Numbers:
    """The same numbers of messages on either side."""

    missing: float = 0.0625
    expected: float = 20.0

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        return SOME, self.missing


@dataclass(frozen=True)
class Known:
    """A loss of which two numbers are known."""

    largest: float = math.inf
    deviation: float = 0.25

    def spaced_points(self, *given: Any) -> Array:
        return np.array([0.0, 0.5, 1.0])


def loss_of(known: Any, **more: float) -> RandomUsersLoss:
    return RandomUsersLoss((PAIR, PAIR.reversed), Numbers(**more), known, math.inf)


@pytest.fixture
def fresh() -> Iterator[None]:
    """No whole profile is remembered."""
    random_users._whole.cache_clear()
    yield
    random_users._whole.cache_clear()


@pytest.mark.parametrize("largest", [1.0, math.inf])
def test_the_limit_of_a_mixture(largest: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages together are as certain as one; shares add up to a quarter of a half.

    Nine roundings: one for each of four samples, four of its product and one of the whole.
    """
    monkeypatch.setattr(random_users, "largest_divergence", lambda *_: 0.5)
    with stress(roundoff=UNIT):
        low, high = (
            random_users._limit(loss_of(Known(largest)), side, EFFORT)
            for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
        )
    assert low is not None
    assert high is not None
    truth, missing = 0.125, 0.0625 if largest == math.inf else 0.0
    assert truth * (1.0 - 9.0 * UNIT) <= low <= truth * (1.0 - 7.9 * UNIT)
    assert truth * (1.0 + 7.9 * UNIT) <= high - missing <= truth * (1.0 + 9.0 * UNIT)


def part_of(upper: float, gain: float, *, narrow: bool) -> RangeProfiles:
    """One sample, always among the messages: a constant bound, and an event without a cost."""
    return RangeProfiles(
        excess=np.array([0.0, 1.0]),
        weight=np.ones(1),
        fraction=np.ones(1),
        row=np.zeros(1, dtype=np.intp),
        upper=np.full((1, 2), upper),
        q=np.zeros((1, 2)),
        d=np.array([[gain, 0.0]]),
        narrow=np.full((1, 2), narrow),
    )


@pytest.mark.parametrize(
    ("upper", "gain", "wide"),
    [
        (0.5, 0.49, False),
        (0.5, 0.4, True),
        # far below the tail it does not matter
        (900.0 * EFFORT.tail, 0.0, False),
        (2000.0 * EFFORT.tail, 0.0, True),
    ],
)
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_bounds_that_are_too_far_apart(
    upper: float, gain: float, wide: bool, missing: float
) -> None:
    """By more than a few resolutions of the profile and a thousand tails; nothing else counts."""
    for narrow in (False, True):
        mixture = MixedProfiles(
            Bound.PESSIMISTIC, (part_of(upper, gain, narrow=narrow),), missing=missing
        )
        assert mixture.too_wide(EFFORT, (0.0, 1.0)) == (wide and not narrow)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("side", list(Bound))
def test_the_whole_profile_of_a_mixture(side: Bound, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower end's infinite loss is a limit times shares that were added up, and rounded, too."""
    part = RangeProfiles(
        excess=np.array([0.0, 4.0]),
        weight=np.full(4, 0.125),
        fraction=np.full(4, 0.5),
        row=np.zeros(4, dtype=np.intp),
        upper=np.array([[1.0, 0.75]]),
        q=np.array([[0.125, 0.0]]),
        d=np.array([[0.75, 0.5]]),
        narrow=np.ones((1, 2), dtype=bool),
    )
    mixture = MixedProfiles(side, (part,), missing=0.0625)
    monkeypatch.setattr(random_users, "_fewest", lambda *_: Known())
    monkeypatch.setattr(random_users, "number_ranges", lambda *_: ())
    monkeypatch.setattr(random_users, "_mixture", lambda *_: mixture)
    monkeypatch.setattr(random_users, "largest_divergence", lambda *_: 0.5)
    with stress(roundoff=UNIT):
        atoms = random_users._whole(loss_of(Known()), side, EFFORT)
    assert atoms is not None
    shares, limit = 0.25, 0.5
    if side is Bound.PESSIMISTIC:
        assert atoms.infinite >= shares * 0.75 + 0.0625
    else:
        assert shares * limit * (1.0 - 5.0 * UNIT) <= atoms.infinite
        assert atoms.infinite <= shares * limit * (1.0 - 3.9 * UNIT)
        assert atoms.truncated == 0.0625


def test_a_bracket_names_the_way_of_its_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that say nothing of upper ends are not what answers."""
    loss = loss_of(Known(largest=5.0))
    for known in Bound:

        def near(one: Any, part: int, side: Bound, effort: Effort, known: Bound = known) -> Any:
            return "a table" if side is known else None

        monkeypatch.setattr(random_users, "_near", near)
        expected = "nodes" if known is Bound.PESSIMISTIC else "sum"
        assert loss.way(0.5, EFFORT) == expected
