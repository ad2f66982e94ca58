"""Laws of the likely multisets of messages, against all of them in exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.sums.lists import ListedProfile, likely_histograms, listable


def pair_of(rare: float, telling: float) -> tuple[MessagePair, list[list[Fraction]]]:
    """Three letters of which two are seldom sent by decoys; all numbers are doubles."""
    q = [1.0 - 2.0 * rare, rare, rare]
    rows = [[1.0 - telling - rare, telling, rare], [1.0 - telling - rare, rare, telling]]
    pair = MessagePair(np.array(rows[0]), np.array(rows[1]), np.array(q), math.inf)
    return pair, [[Fraction(x) for x in row] for row in (*rows, q)]


def truth_of(rows: list[list[Fraction]], users: int, alpha: Fraction) -> Fraction:
    """E(S0 - alpha S1)_+ / n over all counts of the two rare letters."""
    p0, p1, q = rows
    total = Fraction(0)
    for a in range(users + 1):
        for b in range(users + 1 - a):
            c = users - a - b
            counts = (c, a, b)
            s0 = sum(x * p / y for x, p, y in zip(counts, p0, q, strict=True))
            s1 = sum(x * p / y for x, p, y in zip(counts, p1, q, strict=True))
            if s0 > alpha * s1:
                ways = math.comb(users, a) * math.comb(users - a, b)
                total += ways * q[0] ** c * q[1] ** a * q[2] ** b * (s0 - alpha * s1)
    return total / users


@pytest.mark.parametrize(("rare", "telling"), [(2.0**-10, 0.25), (2.0**-7, 0.5), (2.0**-30, 0.75)])
def test_both_ends(rare: float, telling: float) -> None:
    pair, rows = pair_of(rare, telling)
    users, tail = 24, 1e-9
    listed = likely_histograms(*pair.decoyed, users, tail)
    law = ListedProfile.of(listed, users)
    for alpha in (Fraction(9, 8), Fraction(5), Fraction(1000)):
        truth = truth_of(rows, users, alpha)
        excess = np.array([float(alpha - 1)])
        low, high = Fraction(law.lower(excess)[0]), Fraction(law.upper(excess)[0])
        assert low <= truth <= high
        # what is left out, and the roundings of some hundred messages
        assert high - low <= Fraction(2 * tail) + truth / 10**9


@pytest.mark.parametrize(("rare", "telling"), [(2.0**-10, 0.25), (2.0**-7, 0.5), (2.0**-30, 0.75)])
@pytest.mark.parametrize("tail", [1e-3, 1e-12])
def test_windows_against_all_counts(rare: float, telling: float, tail: float) -> None:
    from scipy.stats import multinomial

    pair, rows = pair_of(rare, telling)
    users = 600
    listed = likely_histograms(*pair.decoyed, users, tail)
    assert listed.mass.size < math.comb(users + 2, 2)
    law = ListedProfile.of(listed, users)
    a, b = np.meshgrid(np.arange(users + 1), np.arange(users + 1))
    counts = np.stack([users - a - b, a, b])[:, a + b <= users]
    p0, p1, q = (np.array([float(x) for x in row]) for row in rows)
    mass = multinomial(users, q).pmf(counts.T)
    for alpha in (9 / 8, 5.0, 1000.0):
        truth = math.fsum(mass * np.maximum((p0 / q - alpha * (p1 / q)) @ counts, 0.0)) / users
        excess = np.array([alpha - 1])
        # logarithms of factorials in the oracle are good to 1e-12, and there are few of them
        assert law.lower(excess)[0] <= truth * (1 + 1e-9)
        # some hundred logarithms make up a mass, each counted at its worst
        assert truth * (1 - 1e-9) <= law.upper(excess)[0] <= truth * (1 + 1e-8) + 2 * tail


@pytest.mark.parametrize("users", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("share", [1e-3, 1.0, 40.0])
def test_windows_hold_all_but_the_tail(users: int, share: float) -> None:
    """Binomial tails outside the listed counts of the rare letters, by another library."""
    from scipy.stats import binom

    pair, _ = pair_of(share / users, 0.5)
    tail = 1e-12
    listed = likely_histograms(*pair.decoyed, users, tail)
    assert listed.missing <= tail
    rare = binom(users - 1, share / users)
    # all masses together are within the tails and their rounding of 1
    total = math.fsum(listed.mass.tolist())
    assert 1 - total <= listed.missing + listed.slack
    assert total - 1 <= listed.slack
    assert rare.sf(3 * share + 60) < tail


def test_too_many_are_not_listed() -> None:
    pair, _ = pair_of(0.25, 0.5)
    assert not listable(pair.decoyed[2], 10**6, 1e-12)


@pytest.mark.parametrize("users", [24, 10**9])
def test_one_letter_alone(users: int) -> None:
    """Decoys send nothing but a blank, which says little about the target: delta in fractions."""
    p0, p1 = 0.625, 0.375
    pair = MessagePair(
        np.array([p0, 1 - p0]), np.array([p1, 1 - p1]), np.array([0.0, 1.0]), math.inf
    )
    listed = likely_histograms(*pair.decoyed, users, 1e-12)
    assert listed.missing <= 1e-12
    law = ListedProfile.of(listed, users)
    for alpha in (Fraction(9, 8), Fraction(5, 4)):
        # of what decoys send: all messages are blanks, which the target sends too at times
        truth = max(Fraction(1 - p0) - alpha * Fraction(1 - p1), Fraction(0))
        excess = np.array([float(alpha - 1)])
        assert Fraction(law.lower(excess)[0]) <= truth <= Fraction(law.upper(excess)[0])


def test_oracles_that_hide_next_to_nothing() -> None:
    """One round: with probability 1 - 2e-3 the target is alone with its telling message."""
    one = sa.ShuffleRound(sa.RAPPOR(categories=100, eps0=20.0), users=10**6)
    many = sa.epsilon(one, delta=1e-6, rounds=10)
    assert many.upper - many.lower <= 1e-3 * many.upper
    assert many.upper <= 10 * one.epsilon(delta=1e-7).upper


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::shuffle_accountant.WeakPrivacyWarning")
def test_ratios_beyond_the_range_of_doubles_are_infinite() -> None:
    """Of two messages, both of whose ratios are nearly the largest double."""
    rows = [
        [1.0, 1.0242328013353992e-250, 2.2389755672478095e-82],
        [5.333787163628974e-287, 1.0, 5e-324],
        [0.1611883198349241, 0.8388116801650759, 4.5986259094391344e-30],
        [0.8508239666184565, 0.1491760333815435, 9.885593928307225e-52],
    ]
    one = sa.ShuffleRound(sa.DiscreteRandomizer(rows), users=2)
    found = one.delta(epsilon=676.0)
    assert found.lower <= one.attained(epsilon=676.0) <= found.upper
