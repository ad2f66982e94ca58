"""The ends of a class of rounds: beyond all its members, and no further than its width."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shuffle_accountant.engine.classes import Member, _Spread, dominates


class Noted:
    """A family that only notes which pairs it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float, float]] = []

    def __hash__(self) -> int:
        return 1

    def pair(self, users: int, fraction: float, eps0: float) -> object:
        self.asked.append((users, fraction, eps0))
        return self.asked[-1]


def test_ends_of_a_class_are_beyond_all_its_members() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        family, width = Noted(), float(rng.choice([1e-3, 0.1, 1.0]))
        start = rng.uniform(5.0, 500.0)
        members = [
            Member(
                family,  # type: ignore[arg-type]
                int(start * math.exp(rng.uniform(0.0, width))) + 1,
                float(0.2 * math.exp(rng.uniform(0.0, width))),
                float(1.5 * math.exp(rng.uniform(0.0, width))),
            )
            for _ in range(4)
        ]
        some = [m for m in members if m.key(width) == members[0].key(width)]
        same = float(rng.choice([0.0, 1.0])) == 1.0
        if same:
            some = [replace(m, fraction=some[0].fraction, eps0=some[0].eps0) for m in some]
        spread = _Spread.of(some, width)
        spread.pair(some, worst=True)
        spread.pair(some, worst=False)
        (few, often, loud), (many, rare, quiet) = family.asked
        assert few <= min(m.users for m in some) <= max(m.users for m in some) <= many
        assert rare < min(m.fraction for m in some)
        assert often > max(m.fraction for m in some) or often == 1.0
        assert quiet < min(m.eps0 for m in some)
        assert loud > max(m.eps0 for m in some)
        # no wider than a class and a nudge
        assert often <= min(m.fraction for m in some) * (1.0 + width) * (1.0 + 1e-9)
        assert loud <= min(m.eps0 for m in some) * (1.0 + width) * (1.0 + 1e-9)
        # one member more of the same class changes neither end's fraction and eps0
        spread.pair(some[:1], worst=True)
        spread.pair(some[:1], worst=False)
        assert [asked[1:] for asked in family.asked[2:]] == [(often, loud), (rare, quiet)]


def test_what_dominates() -> None:
    family = Noted()
    one = Member(family, 10, 0.5, 1.0)  # type: ignore[arg-type]
    for change, worse in (({"users": 9}, True), ({"fraction": 0.6}, True), ({"eps0": 1.1}, True)):
        other = replace(one, **change)  # type: ignore[arg-type]
        assert dominates(other, one) is worse
        assert dominates(one, other) is not worse
    assert not dominates(replace(one, users=9, eps0=0.9), one)
