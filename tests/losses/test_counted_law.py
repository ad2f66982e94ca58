"""Profiles by counts of rare letters, against sums over all multisets of messages."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from oracles.letter_pairs import Truth, pair_of, random_rows, users_for

from shuffle_accountant.losses.alphabets import counted_law as counted
from shuffle_accountant.losses.alphabets.counted_law import counted_law
from shuffle_accountant.losses.alphabets.letters import LetterPair
from shuffle_accountant.numerics.rounding import Array

TAIL = 1e-15


def checked(pair: LetterPair, users: int, excess: Array, tail: float = TAIL) -> None:
    """Bounds contain the truth, each event at every alpha, and are as close as the tail."""
    law = counted_law(pair, users, tail)
    assert law is not None
    found = law.bounds(excess)
    every = list(zip(excess.tolist(), found.upper.tolist(), strict=True))
    for i, (x, upper) in enumerate(every):
        value, error = Truth(pair, users).decoyed(x)
        # what both are off, relative to the masses that they are made of
        close = 1e-10 * (1.0 + x) + 3.0 * tail + error
        assert value - error <= upper <= value + close
        low = found.d - x * found.q
        assert np.all(low <= value + error)
        assert low[i] >= value - close


@pytest.mark.parametrize("seed", range(60))
def test_random_letters(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pair = pair_of(random_rows(rng), float(rng.choice([1.0, 0.7])))
    users = users_for(rng, pair.decoyed[2].size)
    if pair.decoyed[2].size < 2:
        assert counted_law(pair, users, TAIL) is None
        return
    losses = np.append(0.0, np.sort(rng.exponential(pair.deviation(users), 6)))
    checked(pair, users, np.expm1(losses))


def letters(q: list[float], r0: list[float], r1: list[float]) -> LetterPair:
    """A pair of those ratios, the common letters first."""
    mass = np.array(q) / math.fsum(q)
    p0, p1 = (np.array(r) * mass for r in (r0, r1))
    return LetterPair(p0 / math.fsum(p0), p1 / math.fsum(p1), mass)


@pytest.mark.parametrize("users", [1, 2, 9, 150])
@pytest.mark.parametrize(
    "pair",
    [
        letters([0.6, 0.3, 0.1], [1.0, 0.2, 3.0], [1.0, 1.4, 0.1]),
        letters([0.6, 0.3, 0.1], [1.0, 1.4, 0.1], [1.0, 0.2, 3.0]),
        # neither common letter says anything at alpha = 1
        letters([0.5, 0.4, 0.1], [0.5, 1.5, 2.0], [0.5, 1.5, 2.0]),
        letters([0.5, 0.5], [1.5, 0.5], [0.5, 1.5]),
    ],
    ids=["falling", "rising", "level", "two letters"],
)
def test_the_second_letter_may_raise_or_lower_the_sum(pair: LetterPair, users: int) -> None:
    checked(pair, users, np.expm1(np.array([0.0, 1e-9, 0.01, 0.1, 0.4, 1.0])))


@pytest.mark.parametrize("users", [2, 12])
def test_where_multisets_are_neither_for_nor_against(users: int) -> None:
    """At alpha of whole multisets sums are 0: rounding decides on which side they are."""
    pair = letters([0.55, 0.3, 0.15], [1.0, 0.5, 2.0], [0.5, 1.0, 0.25])
    r0, r1, _ = (row.tolist() for row in pair.decoyed)
    ratios = set()
    for counts in itertools.combinations_with_replacement(range(3), users):
        s0, s1 = (sum(Fraction(r[i]) for i in counts) for r in (r0, r1))
        ratios.add(float(s0 / s1 - 1))
    excess = np.array(sorted(x for x in ratios if x >= 0.0))
    around = (excess[:, None] * (1.0 + 2.0**-50 * np.array([-1.0, 0.0, 1.0]))).ravel()
    checked(pair, users, around)


@pytest.mark.parametrize("tail", [1e-4, 1e-2])
def test_what_is_left_out_is_counted(tail: float) -> None:
    pair = letters([0.7, 0.25, 0.04, 0.01], [1.0, 0.9, 0.1, 9.0], [1.0, 0.9, 9.0, 0.1])
    users = 30
    law = counted_law(pair, users, tail)
    assert law is not None
    excess = np.expm1(np.linspace(0.0, 2.0, 9))
    found = law.bounds(excess)
    truth = np.array([Truth(pair, users).decoyed(x)[0] for x in excess.tolist()])
    rest = np.where(found.d > 0.0, found.d - excess * found.q, 0.0)
    # there is something left out, and it is part of the upper end
    assert np.all(found.upper >= truth)
    assert np.any(truth > rest + 1e-9)
    assert np.all(found.upper <= truth + 2.0 * tail)


def test_windows_that_do_not_start_at_none() -> None:
    """Of 200 messages 40 are the rarest letter."""
    pair = letters([0.5, 0.3, 0.2], [1.0, 0.5, 2.0], [0.8, 1.2, 0.6])
    checked(pair, 200, np.expm1(np.array([0.0, 0.1, 0.3])), 1e-10)


def test_hundreds_of_messages_against_plain_sums() -> None:
    """Three letters, so that all multisets can be listed; deep in the tail."""
    pair = letters([0.96, 0.02, 0.02], [1.0, 8.0, 0.05], [1.0, 0.05, 8.0])
    losses = np.array([0.0, 0.02, 0.3, 0.8, 1.2])
    checked(pair, 200, np.expm1(losses), 1e-30)


@pytest.mark.parametrize(
    ("size", "users"), [(2, 10**9), (6, 10**4), (40, 10)], ids=["tails", "combinations", "letters"]
)
def test_too_many_are_not_listed(size: int, users: int) -> None:
    rows = np.random.default_rng(1).dirichlet(np.full(size, 5.0), size=2)
    assert counted_law(pair_of(rows, 0.9), users, TAIL) is None


def test_what_has_no_counts_or_no_doubles() -> None:
    one = LetterPair(np.ones(1), np.ones(1), np.ones(1))
    assert counted_law(one, 5, TAIL) is None
    scarce = LetterPair(np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.array([1.0, 1e-140]))
    assert counted_law(scarce, 5, 1e-15) is not None
    assert counted_law(scarce, 5, 1e-130) is None


def test_combinations_that_are_left_out_are_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without windows, what is kept and what is left out add up to one."""
    monkeypatch.setattr(counted, "likely_counts", lambda *_: (0, 12))
    rare = np.array([0.02, 0.01, 0.01])
    found = counted._combinations(12, rare, 1.0 - float(rare.sum()), math.log(1e-6))
    assert found is not None
    counts, weight, slack, left_out = found
    assert np.all(counts.sum(axis=0) <= 12)
    assert len(set(map(tuple, counts.T.tolist()))) == weight.size
    missing = 1.0 - math.fsum(weight.tolist())
    assert 1e-9 < missing <= left_out + slack
    assert left_out <= 4e-6
